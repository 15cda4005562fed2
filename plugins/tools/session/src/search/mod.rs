//! Finding files and text: one way to walk a directory for grep, glob and ls.

pub(crate) mod glob;
pub(crate) mod grep;
mod limits;
pub(crate) mod ls;
mod matches;

use std::io;
use std::path::{Path, PathBuf};

use bezel_context::Context;
use bezel_session_types::ToolError;
use ignore::WalkBuilder;
use ignore::overrides::{Override, OverrideBuilder};

pub use self::limits::SearchLimits;
use crate::{failure, paths};

/// Threads of a parallel walk. They live only while it runs.
const MOST_THREADS: usize = 8;

/// What a walk passes over.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Filters {
    /// Also names that begin with a dot, `.git` apart.
    pub(crate) hidden: bool,
    /// Also what ignore files exclude.
    pub(crate) ignored: bool,
}

/// What can go wrong before a search starts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SearchError {
    #[error("{described}{suggestion}")]
    Io {
        described: String,
        suggestion: String,
    },
    #[error("{path} is {kind} and no file or directory; reading it could wait for ever.")]
    Special { path: String, kind: &'static str },
    #[error("{path} is a file. {advice}")]
    File { path: String, advice: &'static str },
    #[error(
        "The glob {glob:?} is not valid: {reason}. Correct it; a literal bracket or brace is written as [[] or [{{]."
    )]
    Glob { glob: String, reason: String },
    #[error(
        "The regular expression {pattern:?} is not valid: {reason}. Escape special characters with a backslash, or set `literal` to search for the text as it is."
    )]
    Pattern { pattern: String, reason: String },
    #[error(
        "The pattern {pattern:?} matches line breaks, which needs `multiline`. Set it to true."
    )]
    LineBreak { pattern: String },
    #[error("The file type {name:?} is unknown.{suggestion} Use `glob` for other names.")]
    Type { name: String, suggestion: String },
    #[error(transparent)]
    Path(#[from] paths::PathError),
    #[error("cancelled")]
    Cancelled,
}

impl From<SearchError> for ToolError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Cancelled => ToolError::Interrupted,
            error => ToolError::failed(error.to_string()),
        }
    }
}

/// The file or directory to search, which must exist.
pub(crate) fn root(
    cx: &Context,
    path: &Path,
    directory: &Path,
    attempt: &'static str,
) -> Result<std::fs::Metadata, SearchError> {
    let readable = path.metadata().and_then(|metadata| {
        if metadata.is_dir() {
            std::fs::read_dir(path)?;
        }
        Ok(metadata)
    });
    let metadata = readable.map_err(|error| {
        let missing = error.kind() == io::ErrorKind::NotFound && !path.is_symlink();
        SearchError::Io {
            described: failure::describe(attempt, path, &error),
            suggestion: if missing {
                paths::suggestion(cx, path, directory)
            } else {
                String::new()
            },
        }
    })?;
    match failure::special_kind(&metadata) {
        Some(kind) => Err(SearchError::Special {
            path: paths::shown(path, directory),
            kind,
        }),
        None => Ok(metadata),
    }
}

/// A walk below `root`. Ignore files count, also outside a repository and above `root`.
pub(crate) fn walk(root: &Path, filters: Filters) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    builder
        .standard_filters(!filters.ignored)
        .hidden(!filters.hidden)
        .require_git(false)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
        .threads(
            std::thread::available_parallelism().map_or(2, |cores| cores.get().min(MOST_THREADS)),
        );
    builder
}

/// File name globs as ripgrep takes them; `!` in front excludes.
pub(crate) fn overrides(root: &Path, globs: &[String]) -> Result<Override, SearchError> {
    let mut builder = OverrideBuilder::new(root);
    for glob in globs {
        builder.add(glob).map_err(|error| SearchError::Glob {
            glob: glob.clone(),
            reason: error.to_string(),
        })?;
    }
    builder.build().map_err(|error| SearchError::Glob {
        glob: globs.join(", "),
        reason: error.to_string(),
    })
}

/// A path below `root` as it is listed: relative to the session's directory where it is inside.
pub(crate) fn listed(path: PathBuf, directory: &Path) -> String {
    paths::shown(&path, directory)
}
