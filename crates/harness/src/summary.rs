//! What a summary is made of: where the conversation is cut, and what the model reads to summarise.

use std::fmt::Write;
use std::sync::Arc;

use bezel_session_types::{
    AssistantContent, CompactionReason, Entry, EntryBody, EntryId, Message, ModelSpec,
    ResultContent,
};

use crate::context::{estimate, project};
use crate::summary_request::SUMMARY_TOKENS;

/// Bytes that one tool result takes in the text to summarise.
const RESULT_LIMIT: usize = 2_000;
/// Bytes that the arguments of one call take in it.
const ARGUMENTS_LIMIT: usize = 500;
/// What is summarised and what stays.
pub(crate) struct Plan {
    /// The older summary that this one takes in.
    pub(crate) previous: Option<String>,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) first_kept: Option<EntryId>,
    pub(crate) tokens_before: u64,
}

/// The size of the context: what the provider counted last, and an estimate of what came since.
pub(crate) fn context_tokens(view: &[Arc<Entry>]) -> u64 {
    let since = view
        .iter()
        .rposition(|entry| matches!(entry.body, EntryBody::Compaction(_)));
    let start = since.map_or(0, |at| at + 1);
    let counted = view[start..]
        .iter()
        .enumerate()
        .rev()
        .find_map(|(index, entry)| match entry.message() {
            Some(Message::Assistant(answer)) if answer.usage.total_input() > 0 => Some((
                start + index,
                answer.usage.total_input() + answer.usage.output,
            )),
            _ => None,
        });
    let (from, counted) = match counted {
        Some((at, tokens)) => (at + 1, tokens),
        None => (0, 0),
    };
    let estimated = view[from..].iter().map(|entry| match &entry.body {
        EntryBody::Compaction(compaction) => compaction.summary.len() as u64 / 4,
        _ => project(entry).map_or(0, |message| estimate(&message)),
    });
    counted + estimated.sum::<u64>()
}

/// Cuts so that about `keep_recent` tokens stay. No call is cut from its result.
pub(crate) fn plan(
    view: &[Arc<Entry>],
    reason: CompactionReason,
    keep_recent: u64,
    window: u64,
) -> Option<Plan> {
    let previous = view.iter().rev().find_map(|entry| match &entry.body {
        EntryBody::Compaction(compaction) => Some(compaction.summary.clone()),
        _ => None,
    });
    let visible: Vec<(&EntryId, Arc<Message>)> = view
        .iter()
        .filter_map(|entry| Some((&entry.id, project(entry)?)))
        .collect();
    let total: u64 = visible.iter().map(|(_, message)| estimate(message)).sum();
    let mut keep = if window > 0 {
        keep_recent.min(window / 4)
    } else {
        keep_recent
    };
    if reason == CompactionReason::Overflow {
        keep = keep.min(total / 4);
    }
    let mut cut = visible.len();
    let mut kept = 0;
    while cut > 0 {
        kept += estimate(&visible[cut - 1].1);
        if kept > keep && cut < visible.len() {
            break;
        }
        cut -= 1;
    }
    while cut > 0 && cut < visible.len() && matches!(*visible[cut].1, Message::ToolResult(_)) {
        cut -= 1;
    }
    // Asked for by a person, it is done even where all of it would have been kept.
    if cut == 0 && reason == CompactionReason::Manual {
        cut = visible.len();
    }
    if cut == 0 || visible.len() < 2 {
        return None;
    }
    Some(Plan {
        previous,
        first_kept: visible.get(cut).map(|(id, _)| (*id).clone()),
        tokens_before: context_tokens(view),
        messages: visible
            .into_iter()
            .take(cut)
            .map(|(_, message)| message)
            .collect(),
    })
}

/// Bytes of text that fit the model beside its answer; three bytes a token, to be careful.
pub(crate) fn text_limit(spec: &ModelSpec) -> usize {
    match spec.context {
        0 => usize::MAX,
        window => usize::try_from(window.saturating_sub(SUMMARY_TOKENS).max(window / 2) * 3)
            .unwrap_or(usize::MAX),
    }
}

/// The conversation as one text; of a longer one than `limit` the beginning and the end.
pub(crate) fn transcript(plan: &Plan, limit: usize) -> String {
    let mut text = String::new();
    if let Some(previous) = &plan.previous {
        write!(text, "[Summary of what was before]\n{previous}\n\n").expect("text takes text");
    }
    for message in &plan.messages {
        write_message(&mut text, message).expect("text takes text");
    }
    if text.len() <= limit {
        return text;
    }
    let head = cut_at(&text, limit / 3);
    let mut from = text.len() - limit / 3 * 2;
    while !text.is_char_boundary(from) {
        from += 1;
    }
    format!(
        "{}\n\n[... left out ...]\n\n{}",
        &text[..head],
        &text[from..]
    )
}

fn write_message(text: &mut String, message: &Message) -> std::fmt::Result {
    match message {
        Message::User(user) => write!(text, "[User]\n{}\n\n", user.to_text()),
        Message::Assistant(answer) => {
            for part in &answer.content {
                match part {
                    AssistantContent::Text { text: said } => write!(text, "[Agent]\n{said}\n\n")?,
                    AssistantContent::Thinking { .. } => {}
                    AssistantContent::ToolCall(call) => {
                        let arguments = call.arguments.to_string();
                        let shown = &arguments[..cut_at(&arguments, ARGUMENTS_LIMIT)];
                        write!(text, "[Agent calls {}] {shown}\n\n", call.name)?;
                    }
                }
            }
            Ok(())
        }
        Message::ToolResult(result) => {
            let failed = if result.is_error { " failed" } else { "" };
            writeln!(text, "[Result of {}{failed}]", result.tool)?;
            for part in &result.content {
                match part {
                    ResultContent::Text { text: said } => {
                        let end = cut_at(said, RESULT_LIMIT);
                        let more = if end < said.len() { " [...]" } else { "" };
                        writeln!(text, "{}{more}", &said[..end])?;
                    }
                    ResultContent::Image(_) => writeln!(text, "[picture]")?,
                }
            }
            writeln!(text)
        }
    }
}

fn cut_at(text: &str, limit: usize) -> usize {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}
