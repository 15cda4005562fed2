//! Taking a session in: recognised by what the file holds, written as a new database that is idle.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use bezel_session_types::{
    Entry, EntryId, ImportSummary, InvocationId, LaneName, Message, SourceFormat, ToolCall,
};
use bezel_store::{CommitError, OpenError, Package, PackageError, ReadError, Store, Transaction};
use serde_json::json;

use super::draft::Draft;
use super::lines::{Line, Lines};
use super::{claude, codex, pi};
use crate::operation::PENDING_PREFIXES;
use crate::tools::{Interruption, interrupted};
use crate::tree::label_key;

/// The value that says where a session comes from.
pub(super) const ORIGIN: &str = "origin";

/// Where a session that is taken in is written. Nothing is there yet, and the folder exists.
#[derive(Debug, Clone)]
pub struct ImportPlace {
    /// The new database.
    pub database: PathBuf,
    /// Where its saved output is written.
    pub outputs: PathBuf,
    /// Where the saved output will be once the session has its place: what the tree names.
    pub outputs_later: PathBuf,
}

/// A file that was not taken in. It is left as it was, and what was begun belongs to whoever asked.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}; check the name and that you may read it")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is nothing that is known here.
    #[error(
        "{path} is no session that Bezel knows: it takes its own `.bezel` files (a jsonl or Markdown export is for reading), and session files of pi, Claude Code and Codex"
    )]
    Unrecognised {
        /// The file.
        path: PathBuf,
    },
    /// It was written by a later version of a known program.
    #[error(
        "{path} is a session of {program} in format {found}, and formats up to {known} are known here: update Bezel"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Whose.
        program: &'static str,
        /// Its format.
        found: u64,
        /// The newest one that is known.
        known: u64,
    },
    /// Nothing of it is a conversation.
    #[error(
        "{path} is a session of {program} without a single message; there is nothing to take in"
    )]
    Empty {
        /// The file.
        path: PathBuf,
        /// Whose.
        program: &'static str,
    },
    /// A packed session is not whole.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// The new database cannot be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The new database cannot be written.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// What was just written cannot be read.
    #[error(transparent)]
    Stored(#[from] ReadError),
}

/// Takes the session in `file` in. The new session has no open operation and no waiting message, so that
/// nothing runs by itself. Blocks for as long as the disk takes.
pub fn import(file: &Path, place: &ImportPlace) -> Result<ImportSummary, ImportError> {
    let wrong = |source| ImportError::Read {
        path: file.to_owned(),
        source,
    };
    let mut opened = File::open(file).map_err(wrong)?;
    if opened.metadata().map_err(wrong)?.is_dir() {
        return Err(wrong(io::ErrorKind::IsADirectory.into()));
    }
    let mut begin = [0; 16];
    let length = read_begin(&mut opened, &mut begin).map_err(wrong)?;
    if begin[..length].starts_with(b"SQLite format 3\0") {
        return unpack(file, place);
    }
    opened.rewind().map_err(wrong)?;
    let format = recognise(file, &mut Lines::new(BufReader::new(&mut opened)))?;
    opened.rewind().map_err(wrong)?;
    let mut lines = Lines::new(BufReader::new(opened));
    let mut draft = match format {
        SourceFormat::Pi => pi::read(&mut lines),
        SourceFormat::ClaudeCode => claude::read(&mut lines),
        _ => codex::read(&mut lines),
    }
    .map_err(wrong)?;
    draft.settle();
    if draft.nodes.is_empty() {
        return Err(ImportError::Empty {
            path: file.to_owned(),
            program: format.name(),
        });
    }
    write(draft, format, place)
}

/// A short file may come in pieces.
fn read_begin(file: &mut File, begin: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < begin.len() {
        match file.read(&mut begin[length..])? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}

/// Lines that are looked at before a file counts as unknown: one that was torn at its beginning still has
/// what names it further down.
const LOOKED_AT: usize = 64;

fn recognise(
    file: &Path,
    lines: &mut Lines<impl io::BufRead>,
) -> Result<SourceFormat, ImportError> {
    for _ in 0..LOOKED_AT {
        let line = lines.next().map_err(|source| ImportError::Read {
            path: file.to_owned(),
            source,
        })?;
        let line = match line {
            Some(Line::Object(line)) => line,
            Some(Line::Unreadable) => continue,
            None => break,
        };
        if let Some(version) = pi::version(&line) {
            if version > pi::NEWEST {
                return Err(ImportError::Newer {
                    path: file.to_owned(),
                    program: SourceFormat::Pi.name(),
                    found: version,
                    known: pi::NEWEST,
                });
            }
            return Ok(SourceFormat::Pi);
        }
        if codex::is_line(&line) {
            return Ok(SourceFormat::Codex);
        }
        if claude::is_line(&line) {
            return Ok(SourceFormat::ClaudeCode);
        }
    }
    Err(ImportError::Unrecognised {
        path: file.to_owned(),
    })
}

/// Entries that are written in one go.
const BATCH: usize = 256;

fn write(
    draft: Draft,
    format: SourceFormat,
    place: &ImportPlace,
) -> Result<ImportSummary, ImportError> {
    let mut summary = ImportSummary {
        format,
        origin: draft.origin.clone().filter(|origin| !origin.is_empty()),
        title: draft.title.clone(),
        directory: draft.directory.clone().filter(|path| path.is_absolute()),
        entries: draft.nodes.len() as u64,
        left_out: draft.left_out.clone(),
        updated_at: draft.nodes.iter().map(|node| node.at).max(),
    };
    if summary.title.is_empty() {
        summary.title = first_words(&draft);
    }
    let store = Store::open(&place.database)?;
    let entries = draft.into_entries();
    let mut left = entries.entries.into_iter().peekable();
    while left.peek().is_some() {
        let mut transaction = Transaction::new();
        for (id, parent, at, body) in left.by_ref().take(BATCH) {
            transaction.append_at(id, parent, at, body);
        }
        store.commit(transaction)?;
    }
    let mut transaction = Transaction::new();
    transaction.set_tip(&LaneName::main(), entries.tip.as_ref());
    for (entry, label) in &entries.labels {
        transaction.set_value(label_key(entry), label);
    }
    note_origin(&mut transaction, &summary);
    store.commit(transaction)?;
    Ok(summary)
}

fn unpack(file: &Path, place: &ImportPlace) -> Result<ImportSummary, ImportError> {
    let package = Package::open(file)?;
    package.unpack(&place.database, &place.outputs, &place.outputs_later)?;
    let store = Store::open(&place.database)?;
    let mut transaction = Transaction::new();
    transaction.clear_pending();
    PENDING_PREFIXES
        .iter()
        .for_each(|prefix| transaction.delete_values(*prefix));
    for lane in store.read(|queries| queries.lanes())? {
        settle_lane(&store, &lane, &mut transaction)?;
    }
    let (entries, updated_at) = store.read(|queries| {
        let newest = queries.newest()?;
        Ok((queries.count()?, newest.map(|entry| entry.created_at)))
    })?;
    let facts = package.facts();
    let summary = ImportSummary {
        format: SourceFormat::Bezel,
        origin: facts.map(|facts| facts.session_id.to_string()),
        title: facts.map(|facts| facts.title.clone()).unwrap_or_default(),
        directory: facts.map(|facts| facts.directory.clone()),
        entries,
        left_out: BTreeMap::new(),
        updated_at,
    };
    note_origin(&mut transaction, &summary);
    store.commit(transaction)?;
    Ok(summary)
}

fn note_origin(transaction: &mut Transaction, summary: &ImportSummary) {
    let origin = json!({ "format": summary.format, "session": summary.origin });
    transaction.set_value(ORIGIN, &origin);
    transaction.journal("session_imported", origin);
}

/// Ends what a lane had open when it was packed: its calls get results, as an abort gives them.
fn settle_lane(
    store: &Store,
    lane: &LaneName,
    transaction: &mut Transaction,
) -> Result<(), ReadError> {
    let Some(tip) = store.read(|queries| queries.tip(lane))? else {
        return Ok(());
    };
    let open = open_calls(store, &tip)?;
    let mut last = tip;
    for call in open {
        let id = EntryId::generate();
        let invocation = InvocationId::new(id.as_str());
        let result = interrupted(&call.id, &invocation, &call.name, Interruption::ByCrash);
        let parent = std::mem::replace(&mut last, id.clone());
        transaction.append(id, Some(parent), Message::ToolResult(result));
    }
    transaction.set_tip(lane, Some(&last));
    Ok(())
}

/// The calls of the last answer before `tip` that have no result yet.
fn open_calls(store: &Store, tip: &EntryId) -> Result<Vec<ToolCall>, ReadError> {
    let mut settled: Vec<String> = Vec::new();
    let mut from = Some(tip.clone());
    while let Some(tip) = from {
        let page = store.read(|queries| queries.path(&tip, 64))?;
        from = page.entries.first().and_then(|entry| entry.parent.clone());
        for message in page.entries.iter().rev().map(Entry::message) {
            match message {
                Some(Message::ToolResult(result)) => settled.push(result.call_id.clone()),
                Some(Message::Assistant(answer)) => {
                    let open = answer
                        .tool_calls()
                        .filter(|call| !settled.contains(&call.id));
                    return Ok(open.cloned().collect());
                }
                Some(Message::User(_)) => return Ok(Vec::new()),
                None => {}
            }
        }
    }
    Ok(Vec::new())
}

/// The beginning of what the person said first.
fn first_words(draft: &Draft) -> String {
    let said = draft.nodes.iter().filter_map(|node| match &node.body {
        super::draft::NodeBody::Message(Message::User(user)) if !user.synthetic => {
            Some(user.to_text())
        }
        _ => None,
    });
    said.map(|text| text.trim().to_owned())
        .find(|text| !text.is_empty() && !text.starts_with('<'))
        .unwrap_or_default()
}
