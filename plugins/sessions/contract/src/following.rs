//! Following one session's life without its process.

use bezel_session_types::{EntryId, JournalFact};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SessionSummary;

/// What followed a cursor, in the order in which it is to be taken up: `snapshot`, `session`, `facts`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionNews {
    /// The session as it is now, for who had no cursor, or one that is no place in this session's life: what followed
    /// such a cursor cannot be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SessionSnapshot>,
    /// The session's record, where its title, its agent, its model or whether it is archived is another than at the
    /// cursor: the latest of each, however often it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionSummary>,
    /// What happened in the session, in order: nothing is left out and nothing comes twice.
    pub facts: Vec<JournalFact>,
    /// The cursor that goes on after all this; opaque.
    pub next: String,
    /// The session was deleted: nothing follows, and whoever asks again is told that there is no such session.
    #[serde(default)]
    pub deleted: bool,
}

/// A session at one moment. What follows [`SessionNews::next`] happened after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSnapshot {
    /// Its record.
    pub session: SessionSummary,
    /// Where the conversation stands; none in an empty session. `session-directory` has what was said up to there:
    /// `history` and `context`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<EntryId>,
    /// The sequence number of the newest fact.
    pub seq: u64,
}

/// A place in a session's life, as [`SessionNews::next`] writes it: `SEQ`, or `SEQ.RECORD`. Without the second part
/// nothing is known of the record, so `0` is the place before everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionCursor {
    /// The newest fact that is known.
    pub seq: u64,
    /// Stands for the record that is known; empty where none is.
    pub record: String,
}

impl SessionCursor {
    /// Reads a cursor; nothing where it is none.
    pub fn read(text: &str) -> Option<Self> {
        let (seq, record) = text.split_once('.').unwrap_or((text, ""));
        let digits = !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit());
        let plain = record.bytes().all(|byte| byte.is_ascii_alphanumeric());
        Some(SessionCursor {
            seq: seq.parse().ok().filter(|_| digits && plain)?,
            record: record.to_owned(),
        })
    }
}

impl std::fmt::Display for SessionCursor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.record {
            "" => write!(formatter, "{}", self.seq),
            record => write!(formatter, "{}.{record}", self.seq),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is_one() {
        for text in ["0", "17", "17.a9f0"] {
            let cursor = SessionCursor::read(text).expect("a cursor");
            assert_eq!(cursor.to_string(), text);
        }
        for wrong in [
            "",
            ".",
            ".a",
            "+1",
            "-1",
            "1.a b",
            "x",
            "1.2.3",
            "99999999999999999999",
        ] {
            assert_eq!(SessionCursor::read(wrong), None, "{wrong}");
        }
    }
}
