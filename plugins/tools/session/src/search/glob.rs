//! `glob`: finds files by name.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bezel_context::Context;
use bezel_session_types::{
    Access, ExecutionMode, Replay, Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec,
};
use bezel_tools_contract::{GlobDetails, ToolDetails};
use futures::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkState;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Filters, SearchError, listed, root, walk};
use crate::blocking::reading;
use crate::bound::{MAX_BYTES, MAX_LINES, NOTES_BYTES, NOTES_LINES, count, counted};
use crate::{ToolShared, paths, schema};

const DESCRIPTION: &str = r#"
Finds files by their name and lists them, the most recently changed first.

- `pattern` is a glob: `*` matches within a name, `**` any directories, `?` one character, `{a,b}` either. Without a slash it matches names at any depth: "*.rs" finds all Rust files, "Cargo.toml" all files of that name. With one it is relative to `path`: "src/**/*.ts".
- What ignore files exclude and hidden files are passed over; see `ignored` and `hidden`.
- To search what is inside files use `grep`, to see the shape of a directory `ls`.
"#;

/// Files listed when the model does not say how many.
const DEFAULT_LIMIT: u64 = 100;
/// Files listed at most.
const MOST_LISTED: u64 = (MAX_LINES - NOTES_LINES) as u64;
/// Files after which the walk stops.
const MOST_FOUND: usize = 200_000;

/// Arguments of `glob`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The glob, such as "*.rs", "src/**/*.test.ts" or "**/{Makefile,justfile}".
    pattern: String,
    /// Directory to search: absolute, relative to the session's directory, or under `~`. Default: the session's directory.
    path: Option<String>,
    /// Also find hidden files and look into hidden directories. Default: false.
    hidden: Option<bool>,
    /// Also find what ignore files exclude. Default: false.
    ignored: Option<bool>,
    /// Most files to list. Default: 100.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

/// The tool.
pub(crate) struct GlobTool {
    spec: ToolSpec,
    shared: ToolShared,
}

impl GlobTool {
    pub(crate) fn new(shared: ToolShared) -> Self {
        let spec =
            schema::spec::<Arguments>("Glob", DESCRIPTION, ExecutionMode::Parallel, Replay::Safe);
        GlobTool { spec, shared }
    }
}

impl Tool for GlobTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute(
        &self,
        cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments: Arguments = schema::arguments(&invocation)?;
            let directory: Arc<Path> = invocation.host.directory().into();
            let shared = self.shared.clone();
            reading(&cx.clone(), move || {
                Ok(glob(&cx, &shared, &directory, &arguments)?)
            })
            .await
        })
    }

    fn accesses(&self, arguments: &Value, directory: &Path) -> Option<Vec<Access>> {
        let arguments = Arguments::deserialize(arguments).ok()?;
        let path = arguments.path.as_deref().unwrap_or(".");
        let path = paths::resolve(path, directory, &self.shared.environment).ok()?;
        // The pattern can lead elsewhere.
        let (base, _) = split(path, &arguments.pattern, &self.shared).ok()?;
        Some(vec![Access::read(base)])
    }
}

fn glob(
    cx: &Context,
    shared: &ToolShared,
    directory: &Path,
    arguments: &Arguments,
) -> Result<ToolOutput, SearchError> {
    let base = paths::resolve(
        arguments.path.as_deref().unwrap_or("."),
        directory,
        &shared.environment,
    )?;
    let (base, pattern) = split(base, &arguments.pattern, shared)?;
    if !root(cx, &base, directory, "search")?.is_dir() {
        let advice = "Name a directory in `path`, or read the file.";
        return Err(SearchError::File {
            path: paths::shown(&base, directory),
            advice,
        });
    }
    let filters = Filters {
        hidden: arguments.hidden.unwrap_or(false),
        ignored: arguments.ignored.unwrap_or(false),
    };
    let mut found = find(cx, &base, &matcher(&pattern)?, filters)?;
    let total = found.len() as u64;
    let walked_all = found.len() < MOST_FOUND;
    found.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    let limit = arguments
        .limit
        .unwrap_or(DEFAULT_LIMIT)
        .clamp(1, MOST_LISTED);
    let (mut text, mut shown) = (String::new(), 0);
    for (_, path) in found {
        let line = listed(path, directory);
        if shown == limit || text.len() + line.len() > MAX_BYTES - NOTES_BYTES {
            break;
        }
        shown += 1;
        text += &line;
        text.push('\n');
    }
    let truncated = shown < total || !walked_all;
    let at_least = if walked_all { "" } else { "at least " };
    let text = match total {
        0 => "No files found.".into(),
        _ if !truncated => format!("{}:\n{text}", counted(total, "file")),
        _ => format!(
            "{} of {at_least}{}, most recently changed first:\n{text}\n(The rest is left out. Narrow the pattern.)",
            count(shown),
            counted(total, "file")
        ),
    };
    let details = GlobDetails {
        pattern: arguments.pattern.clone(),
        path: base.display().to_string(),
        files: total,
        truncated,
    };
    Ok(ToolOutput::text(text).with_details(ToolDetails::Glob(details).to_value()))
}

/// Moves the leading directories of the pattern that hold no wildcard into the directory to search, so that
/// absolute patterns and `../x/*` work and no more is walked than needed.
fn split(
    base: PathBuf,
    pattern: &str,
    shared: &ToolShared,
) -> Result<(PathBuf, String), SearchError> {
    let wild = |part: &str| part.contains(['*', '?', '[', '{', '\\']);
    let literal: Vec<&str> = pattern.split('/').take_while(|part| !wild(part)).collect();
    let parts = pattern.split('/').count();
    let leading = literal.len().min(parts - 1);
    if leading == 0 {
        return Ok((base, pattern.into()));
    }
    let prefix = pattern
        .split('/')
        .take(leading)
        .collect::<Vec<_>>()
        .join("/");
    let rest = pattern
        .split('/')
        .skip(leading)
        .collect::<Vec<_>>()
        .join("/");
    let base = match prefix.as_str() {
        "" => PathBuf::from("/"),
        prefix => paths::resolve(prefix, &base, &shared.environment)?,
    };
    // The rest of a pattern with a slash stays anchored.
    Ok((base, format!("/{rest}")))
}

fn matcher(pattern: &str) -> Result<GlobMatcher, SearchError> {
    let anywhere = match pattern.strip_prefix('/') {
        Some(anchored) => anchored.to_owned(),
        None if pattern.contains('/') => pattern.to_owned(),
        None => format!("**/{pattern}"),
    };
    let glob = GlobBuilder::new(&anywhere).literal_separator(true).build();
    let glob = glob.map_err(|error| SearchError::Glob {
        glob: pattern.into(),
        reason: error.kind().to_string(),
    })?;
    Ok(glob.compile_matcher())
}

fn find(
    cx: &Context,
    base: &Path,
    matcher: &GlobMatcher,
    filters: Filters,
) -> Result<Vec<(SystemTime, PathBuf)>, SearchError> {
    let found: Mutex<Vec<(SystemTime, PathBuf)>> = Mutex::default();
    walk(base, filters).build_parallel().run(|| {
        Box::new(|entry| {
            if cx.is_cancelled() {
                return WalkState::Quit;
            }
            let Ok(entry) = entry else {
                return WalkState::Continue;
            };
            let is_directory = entry.file_type().is_none_or(|kind| kind.is_dir());
            let inside = entry.path().strip_prefix(base).unwrap_or(entry.path());
            if is_directory || !matcher.is_match(inside) {
                return WalkState::Continue;
            }
            let changed = entry
                .metadata()
                .ok()
                .and_then(|metadata| metadata.modified().ok());
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.push((changed.unwrap_or(SystemTime::UNIX_EPOCH), entry.into_path()));
            if found.len() >= MOST_FOUND {
                WalkState::Quit
            } else {
                WalkState::Continue
            }
        })
    });
    if cx.is_cancelled() {
        return Err(SearchError::Cancelled);
    }
    Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
}
