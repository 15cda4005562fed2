//! Details of grep, glob and ls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `grep` found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrepDetails {
    /// The pattern.
    pub pattern: String,
    /// Absolute file or directory that was searched.
    pub path: String,
    /// What was asked for.
    pub mode: GrepMode,
    /// Matching lines found; a lower bound when `truncated`.
    pub matches: u64,
    /// Files with a match; a lower bound when `truncated`.
    pub files: u64,
    /// True when the model did not get everything.
    pub truncated: bool,
}

/// What a search lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrepMode {
    /// Matching lines with their numbers.
    #[default]
    Content,
    /// Names of the files that match.
    Files,
    /// The number of matching lines of each file.
    Count,
}

/// What `glob` found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GlobDetails {
    /// The pattern.
    pub pattern: String,
    /// Absolute directory that was searched.
    pub path: String,
    /// Files found; a lower bound when the search itself was cut short.
    pub files: u64,
    /// True when the model did not get everything.
    pub truncated: bool,
}

/// What `ls` listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LsDetails {
    /// Absolute directory.
    pub path: String,
    /// Files found down to the depth asked for.
    pub files: u64,
    /// Directories found, likewise.
    pub directories: u64,
    /// True when the model did not get everything.
    pub truncated: bool,
}
