//! Whether a session is whole: its file, its rows, its tree, what its operations left, its saved output.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use bezel_session_types::{CheckProblem, CheckSummary, Entry, EntryBody, EntryId, Message};
use bezel_store::{OpenError, Queries, ReadError, Reader};

use crate::operation::{Operation, PENDING_PREFIXES};

const RESTORE: &str =
    "restore the session from an export, or export what can be read and import that";
const REPORT: &str = "the session can be used; report this, it should not happen";

/// Problems that are told one by one.
const MOST: usize = 200;

/// Checks the database of a session, whether somebody works in it or not, and the saved output beside it.
/// Writes nothing. A file that cannot even be opened is what is wrong then.
pub fn check(database: &Path, outputs: &Path) -> CheckSummary {
    let mut summary = CheckSummary::default();
    let reader = match Reader::open(database) {
        Ok(reader) => reader,
        // Recorded and never worked in: there is nothing that could be wrong.
        Err(OpenError::Missing { .. }) => return summary,
        Err(error) => {
            summary.problem(error.to_string(), RESTORE);
            return summary;
        }
    };
    match reader.read(|queries| queries.check()) {
        Ok(found) => found
            .into_iter()
            .for_each(|what| summary.problem(what, RESTORE)),
        Err(error) => summary.problem(error.to_string(), RESTORE),
    }
    if !summary.problems.is_empty() {
        return summary;
    }
    let read = reader.read(|queries| {
        tree(queries, outputs, &mut summary)?;
        operations(queries, &mut summary)
    });
    if let Err(error) = read {
        summary.problem(error.to_string(), RESTORE);
    }
    summary
}

/// Reads the tree once, in order. What an entry must fit to lies before it.
fn tree(
    queries: &Queries<'_>,
    outputs: &Path,
    summary: &mut CheckSummary,
) -> Result<(), ReadError> {
    let named = outputs.to_str().map(|path| format!("{path}/"));
    let mut calls: HashMap<EntryId, Open> = HashMap::new();
    let (mut after, mut continued) = (0, HashSet::new());
    loop {
        let entries = queries.entries_after(after, 256)?;
        let Some(last) = entries.last() else { break };
        after = last.seq;
        for entry in &entries {
            summary.entries += 1;
            let open = entry.parent.as_ref().and_then(|parent| calls.get(parent));
            let open = open.cloned().unwrap_or_default();
            continued.extend(entry.parent.clone());
            if let Some(open) = follow(entry, open, summary) {
                calls.insert(entry.id.clone(), open);
            }
            missing_outputs(entry, named.as_deref(), summary);
        }
    }
    // A path that ends with open calls is one on which something runs.
    let mut running = HashSet::new();
    for key in queries.keys("operation/")? {
        let lane = bezel_session_types::LaneName::new(&key["operation/".len()..]);
        running.extend(queries.tip(&lane)?);
    }
    let mut ends: Vec<_> = calls
        .into_iter()
        .filter(|(id, _)| !continued.contains(id) && !running.contains(id))
        .collect();
    ends.sort_by(|one, other| one.0.cmp(&other.0));
    for (id, open) in ends {
        for call in open.0 {
            summary.problem(
                format!("the call {call} before the end {id} of a branch has no result"),
                "the session can be used: the model is told that the result is not known",
            );
        }
    }
    Ok(())
}

/// The ids of calls that have no result yet.
#[derive(Debug, Clone, Default)]
struct Open(Vec<String>);

/// What is open behind an entry; nothing where all is settled.
fn follow(entry: &Entry, mut open: Open, summary: &mut CheckSummary) -> Option<Open> {
    let message = match &entry.body {
        EntryBody::Message { message } => message,
        // Facts and summaries may come between a call and its result.
        _ => return (!open.0.is_empty()).then_some(open),
    };
    match &**message {
        Message::ToolResult(result) => {
            match open.0.iter().position(|call| *call == result.call_id) {
                Some(at) => drop(open.0.remove(at)),
                None => summary.problem(
                    format!("the result {} answers no call before it", entry.id),
                    "the session can be used: the model does not see it",
                ),
            }
        }
        Message::Assistant(answer) => {
            unanswered(entry, &open, summary);
            open.0.clear();
            for call in answer.tool_calls() {
                if !open.0.contains(&call.id) {
                    open.0.push(call.id.clone());
                }
            }
        }
        Message::User(_) => {
            unanswered(entry, &open, summary);
            open.0.clear();
        }
    }
    (!open.0.is_empty()).then_some(open)
}

fn unanswered(entry: &Entry, open: &Open, summary: &mut CheckSummary) {
    for call in &open.0 {
        summary.problem(
            format!("the call {call} before entry {} has no result", entry.id),
            "the session can be used: the model is told that the result is not known",
        );
    }
}

/// Files of the output directory that a result names and that are not there.
fn missing_outputs(entry: &Entry, named: Option<&str>, summary: &mut CheckSummary) {
    let (Some(Message::ToolResult(result)), Some(named)) = (entry.message(), named) else {
        return;
    };
    for part in &result.content {
        let bezel_session_types::ResultContent::Text { text } = part else {
            continue;
        };
        for (at, _) in text.match_indices(named) {
            let name = &text[at + named.len()..];
            let is_name = |character: char| {
                character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.')
            };
            let name = &name[..name.find(|c| !is_name(c)).unwrap_or(name.len())];
            let name = name.trim_end_matches('.');
            if name.ends_with(".txt") && !Path::new(named).join(name).exists() {
                summary.problem(
                    format!(
                        "entry {} names the saved output {name}, which is gone",
                        entry.id
                    ),
                    "nothing: the rest of that output is lost, the session can be used",
                );
            }
        }
    }
}

/// Operations that can be taken up, and nothing that belongs to none.
fn operations(queries: &Queries<'_>, summary: &mut CheckSummary) -> Result<(), ReadError> {
    let open = queries.keys("operation/")?;
    for key in &open {
        if let Err(error) = queries.value::<Operation>(key) {
            summary.problem(
                format!("what lane {} does cannot be read: {error}", &key["operation/".len()..]),
                "a newer version may have begun it: update Bezel; or export the session and import it, which ends it",
            );
        }
    }
    if !open.is_empty() {
        // What belongs to it is there because it is.
        return Ok(());
    }
    for prefix in PENDING_PREFIXES
        .iter()
        .filter(|prefix| **prefix != "operation/")
    {
        for key in queries.keys(prefix)? {
            summary.problem(
                format!("the value {key} belongs to no open operation"),
                REPORT,
            );
        }
    }
    Ok(())
}

trait Problems {
    fn problem(&mut self, what: String, remedy: &str);
}

impl Problems for CheckSummary {
    fn problem(&mut self, what: String, remedy: &str) {
        if self.problems.len() < MOST {
            let remedy = remedy.to_owned();
            self.problems.push(CheckProblem { what, remedy });
        }
    }
}
