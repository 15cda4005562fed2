//! Unified diffs with line numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happened to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDiff {
    /// Absolute; for a move, where the file is now.
    pub path: String,
    /// What was done.
    pub action: FileAction,
    /// Where the file was, for a move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<String>,
    /// Lines added, all of them, also those that `hunks` leaves out.
    pub added: u64,
    /// Lines removed, likewise.
    pub removed: u64,
    /// Changed regions with three lines of context, in order.
    pub hunks: Vec<DiffHunk>,
    /// True when `hunks` leaves out regions because there are too many.
    #[serde(default)]
    pub truncated: bool,
}

/// What was done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    /// It did not exist before.
    Added,
    /// Its text changed; it may have moved too.
    Updated,
    /// It is gone.
    Deleted,
}

/// One changed region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffHunk {
    /// First line in the old text, from 1; the line before the region when `old_lines` is 0.
    pub old_start: u64,
    /// Lines of the old text.
    pub old_lines: u64,
    /// First line in the new text, likewise.
    pub new_start: u64,
    /// Lines of the new text.
    pub new_lines: u64,
    /// The lines.
    pub lines: Vec<DiffLine>,
}

/// One line of a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffLine {
    /// Which side it is on.
    pub kind: DiffLineKind,
    /// Its number in the old text, from 1; absent for an added line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_line: Option<u64>,
    /// Its number in the new text; absent for a removed line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_line: Option<u64>,
    /// Without its line ending; a very long line is cut.
    pub text: String,
    /// True when the text ends here without a final newline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_newline: bool,
}

/// Which side a line is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffLineKind {
    /// On both.
    Context,
    /// Only in the new text.
    Added,
    /// Only in the old text.
    Removed,
}
