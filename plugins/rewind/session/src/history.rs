//! The messages of the conversation, as places to go back to.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::{MutexGuard, PoisonError};

use bezel_api_session::{LaneError, SessionTree};
use bezel_session_types::{Entry, EntryId, Message, UserContent, UserMessage};

/// Messages that are offered.
pub(crate) const MOST_POINTS: usize = 100;
/// Entries that are looked through for them.
const MOST_ENTRIES: usize = 2_000;
/// Entries that are read at once, and at first: seldom is much new.
const PAGE: usize = 64;
const FIRST_PAGE: usize = 8;
/// Characters of a message that are shown.
const TEXT: usize = 120;

/// A message of the person, or of a plugin in their place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    pub(crate) id: EntryId,
    pub(crate) text: String,
    /// Milliseconds since 1970.
    pub(crate) at: i64,
}

/// A message to go back to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Since {
    pub(crate) message: EntryId,
    /// What it continues; none for the first entry.
    pub(crate) before: Option<EntryId>,
    /// The beginning of its text.
    pub(crate) beginning: String,
    /// All of its text.
    pub(crate) whole: String,
    /// It and all messages that came after it.
    pub(crate) ids: BTreeSet<EntryId>,
    /// When it was said, milliseconds since 1970.
    pub(crate) at: i64,
}

/// Reads the conversation, and remembers what it has read: only what is new is read again.
pub(crate) struct History {
    tree: SessionTree,
    // A plain mutex: held to look or to replace, never across an await.
    read: Mutex<Read>,
}

#[derive(Default, Clone)]
struct Read {
    tip: Option<EntryId>,
    said: Vec<Said>,
}

impl History {
    pub(crate) fn new(tree: SessionTree) -> Self {
        History {
            tree,
            read: Mutex::default(),
        }
    }

    /// The newest messages, oldest first.
    pub(crate) async fn newest(&self) -> Result<Vec<Said>, LaneError> {
        let known = self.lock().clone();
        let (mut newer, mut tip, mut before, mut looked) = (Vec::new(), None, None, 0);
        let mut older = Vec::new();
        'pages: loop {
            let page = if looked == 0 { FIRST_PAGE } else { PAGE };
            let (entries, more) = self.tree.recent(before.as_ref(), page).await?;
            looked += entries.len();
            for entry in entries.iter().rev() {
                if known.tip.as_ref() == Some(&entry.id) {
                    older.clone_from(&known.said);
                    tip.get_or_insert_with(|| entry.id.clone());
                    break 'pages;
                }
                tip.get_or_insert_with(|| entry.id.clone());
                newer.extend(said(entry));
            }
            before = entries.first().map(|entry| entry.id.clone());
            if !more || before.is_none() || looked >= MOST_ENTRIES || newer.len() >= MOST_POINTS {
                break;
            }
        }
        older.extend(newer.into_iter().rev());
        let surplus = older.len().saturating_sub(MOST_POINTS);
        older.drain(..surplus);
        *self.lock() = Read {
            tip,
            said: older.clone(),
        };
        Ok(older)
    }

    /// The newest message: the one whose turn this is.
    pub(crate) async fn current(&self) -> Result<Option<EntryId>, LaneError> {
        Ok(self.newest().await?.pop().map(|said| said.id))
    }

    /// A message of the conversation; `None` where that has no such message.
    pub(crate) async fn since(&self, message: &EntryId) -> Result<Option<Since>, LaneError> {
        let (mut ids, mut before) = (BTreeSet::new(), None);
        loop {
            let (entries, more) = self.tree.recent(before.as_ref(), PAGE).await?;
            for entry in entries.iter().rev() {
                let Some(Message::User(user)) = entry.message() else {
                    continue;
                };
                ids.insert(entry.id.clone());
                if entry.id == *message {
                    return Ok(Some(Since {
                        message: entry.id.clone(),
                        before: entry.parent.clone(),
                        beginning: beginning(user),
                        whole: user.to_text(),
                        ids,
                        at: entry.created_at,
                    }));
                }
            }
            before = entries.first().map(|entry| entry.id.clone());
            if !more || before.is_none() {
                return Ok(None);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn said(entry: &Entry) -> Option<Said> {
    match entry.message() {
        Some(Message::User(message)) => Some(Said {
            id: entry.id.clone(),
            text: beginning(message),
            at: entry.created_at,
        }),
        _ => None,
    }
}

fn beginning(message: &UserMessage) -> String {
    let text = message.content.iter().find_map(|part| match part {
        UserContent::Text { text } => Some(text),
        UserContent::Image(_) => None,
    });
    let Some(text) = text else {
        return "(a picture)".into();
    };
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}
