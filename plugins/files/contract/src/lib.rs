//! File completion inside the session's location.

use bezel_rpc::{Context, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Finds files of the session's location.
#[service("files", version = "1.0")]
pub trait Files {
    /// The best matches for `query`, best first; `limit` is at most 100. Ignored files are left out.
    #[scope(read)]
    async fn search(&self, cx: &Context, query: String, limit: u32) -> Vec<FileMatch>;
}

/// A file or directory that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileMatch {
    /// Relative to the location, with `/` between parts.
    pub path: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Which characters of `path` matched, from 0.
    pub indices: Vec<u32>,
}
