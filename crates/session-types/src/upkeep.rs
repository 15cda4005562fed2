//! What is said of a session's files: whether they are whole, how large they are, what came of taking one in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SessionId;

/// Who wrote a session that is taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SourceFormat {
    /// This program.
    Bezel,
    /// pi: JSON lines of version 2 or 3.
    Pi,
    /// Claude Code: JSON lines.
    ClaudeCode,
    /// Codex: a rollout.
    Codex,
}

impl SourceFormat {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            SourceFormat::Bezel => "Bezel",
            SourceFormat::Pi => "pi",
            SourceFormat::ClaudeCode => "Claude Code",
            SourceFormat::Codex => "Codex",
        }
    }
}

/// What a session is written out as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExportFormat {
    /// All of it in one file that can be taken in again.
    #[default]
    Bezel,
    /// Its tree for programs: a line about the session, then a line for each entry.
    Jsonl,
    /// What was said and done on the path that the session is on, for people.
    Markdown,
}

/// What came of taking a session in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportSummary {
    /// Who wrote it.
    pub format: SourceFormat,
    /// The id that it had there.
    pub origin: Option<String>,
    /// Its title; empty where it had none.
    pub title: String,
    /// Where it worked.
    pub directory: Option<PathBuf>,
    /// Entries of the tree that came of it.
    pub entries: u64,
    /// What was left out, by kind, and how often.
    pub left_out: BTreeMap<String, u64>,
    /// When its newest entry was written: milliseconds since 1970.
    pub updated_at: Option<i64>,
}

/// Something that is wrong with a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckProblem {
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckSummary {
    /// Entries of the tree, as far as they could be read.
    pub entries: u64,
    /// What is wrong; nothing where the session is whole.
    pub problems: Vec<CheckProblem>,
}

/// What a session takes of the disk, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSize {
    /// Which.
    pub session_id: SessionId,
    /// The database.
    pub database: u64,
    /// Its log and what else SQLite keeps beside it.
    pub log: u64,
    /// Saved output and everything else in the session's folder.
    pub output: u64,
}

impl SessionSize {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.database + self.log + self.output
    }
}
