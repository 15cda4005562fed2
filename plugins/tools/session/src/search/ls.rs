//! `ls`: shows a directory as a tree.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use bezel_context::Context;
use bezel_session_types::{
    Access, ExecutionMode, Replay, Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec,
};
use bezel_tools_contract::{LsDetails, ToolDetails};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Filters, SearchError, root, walk};
use crate::blocking::reading;
use crate::bound::{MAX_BYTES, MAX_LINES, NOTES_BYTES, NOTES_LINES, counted};
use crate::{ToolShared, paths, schema};

const DESCRIPTION: &str = r#"
Lists a directory as a tree, directories first.

- `depth` says how many levels to open; a directory that stays closed shows how many entries it has.
- What ignore files exclude and hidden files are passed over; see `ignored` and `hidden`.
- Use it to learn the shape of a project. To find files by name use `glob`, to find text `grep`.
"#;

/// Levels opened when the model does not say how many.
const DEFAULT_DEPTH: u64 = 2;
/// Levels opened at most.
const MOST_LEVELS: u64 = 20;
/// Entries listed when the model does not say how many.
const DEFAULT_LIMIT: u64 = 500;
/// Entries listed at most.
const MOST_LISTED: u64 = 2_000;
/// Entries after which the walk stops.
const MOST_WALKED: u64 = 100_000;

/// Arguments of `ls`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The directory: absolute, relative to the session's directory, or under `~`. Default: the session's directory.
    path: Option<String>,
    /// Levels to open: 1 lists the directory alone. Default: 2.
    #[schemars(range(min = 1, max = 20))]
    depth: Option<u64>,
    /// Also list hidden files and directories. Default: false.
    hidden: Option<bool>,
    /// Also list what ignore files exclude. Default: false.
    ignored: Option<bool>,
    /// Most entries to list; upper levels come first. Default: 500.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

/// The tool.
pub(crate) struct Ls {
    spec: ToolSpec,
    shared: ToolShared,
}

impl Ls {
    pub(crate) fn new(shared: ToolShared) -> Self {
        let spec =
            schema::spec::<Arguments>("List", DESCRIPTION, ExecutionMode::Parallel, Replay::Safe);
        Ls { spec, shared }
    }
}

impl Tool for Ls {
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
                Ok(ls(&cx, &shared, &directory, &arguments)?)
            })
            .await
        })
    }

    fn accesses(&self, arguments: &Value, directory: &Path) -> Option<Vec<Access>> {
        let arguments = Arguments::deserialize(arguments).ok()?;
        let path = arguments.path.as_deref().unwrap_or(".");
        let path = paths::resolve(path, directory, &self.shared.environment).ok()?;
        Some(vec![Access::read(path)])
    }
}

fn ls(
    cx: &Context,
    shared: &ToolShared,
    directory: &Path,
    arguments: &Arguments,
) -> Result<ToolOutput, SearchError> {
    let path = paths::resolve(
        arguments.path.as_deref().unwrap_or("."),
        directory,
        &shared.environment,
    )?;
    if !root(cx, &path, directory, "list")?.is_dir() {
        let advice = "Look at it with read.";
        return Err(SearchError::File {
            path: paths::shown(&path, directory),
            advice,
        });
    }
    let depth = arguments
        .depth
        .unwrap_or(DEFAULT_DEPTH)
        .clamp(1, MOST_LEVELS);
    let filters = Filters {
        hidden: arguments.hidden.unwrap_or(false),
        ignored: arguments.ignored.unwrap_or(false),
    };
    let mut tree = Tree::read(cx, &path, depth, filters)?;
    let limit = arguments
        .limit
        .unwrap_or(DEFAULT_LIMIT)
        .clamp(1, MOST_LISTED);
    let closed = tree.root.close(limit);
    let mut text = format!("{}/\n", path.display().to_string().trim_end_matches('/'));
    let mut room = MAX_LINES - NOTES_LINES;
    let complete = tree.root.render(&mut text, &mut room, 1);
    let truncated = closed || !complete || tree.stopped;
    if tree.root.entries.is_empty() {
        text += "(empty)\n";
    }
    text += &format!(
        "\n{}, {}",
        counted(tree.directories, "directory"),
        counted(tree.files, "file")
    );
    if tree.stopped {
        text += ", and more that were not looked at";
    }
    if closed || !complete {
        text += ". Not everything is shown: list a subdirectory, or find files with glob.";
    }
    let details = LsDetails {
        path: path.display().to_string(),
        files: tree.files,
        directories: tree.directories,
        truncated,
    };
    Ok(ToolOutput::text(text).with_details(ToolDetails::Ls(details).to_value()))
}

/// What was found, down to one level below the opened ones, which is only counted.
#[derive(Default)]
struct Tree {
    root: Node,
    /// Files and directories on the opened levels.
    files: u64,
    directories: u64,
    stopped: bool,
}

#[derive(Default)]
struct Node {
    /// Directories first, then by name.
    entries: BTreeMap<(Kind, OsString), Node>,
    /// Entries that are not in `entries`.
    closed: u64,
    link: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Directory,
    #[default]
    Other,
}

impl Tree {
    fn read(cx: &Context, path: &Path, depth: u64, filters: Filters) -> Result<Self, SearchError> {
        let levels = usize::try_from(depth).unwrap_or(1);
        let mut tree = Tree::default();
        let mut walked = 0;
        for entry in walk(path, filters).max_depth(Some(levels + 1)).build() {
            if cx.is_cancelled() {
                return Err(SearchError::Cancelled);
            }
            let Ok(entry) = entry else { continue };
            let Ok(inside) = entry.path().strip_prefix(path) else {
                continue;
            };
            if entry.depth() == 0 {
                continue;
            }
            walked += 1;
            if walked > MOST_WALKED {
                tree.stopped = true;
                break;
            }
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            let parent = inside.parent().unwrap_or(Path::new(""));
            let parent = parent.iter().fold(&mut tree.root, |node, name| {
                node.entries
                    .entry((Kind::Directory, name.into()))
                    .or_default()
            });
            if entry.depth() > levels {
                parent.closed += 1;
                continue;
            }
            let kind = if is_directory {
                Kind::Directory
            } else {
                Kind::Other
            };
            let link = entry
                .path_is_symlink()
                .then(|| std::fs::read_link(entry.path()).ok())
                .flatten();
            let node = Node {
                link: link.map(|target| target.display().to_string()),
                ..Node::default()
            };
            parent
                .entries
                .insert((kind, entry.file_name().into()), node);
            if is_directory {
                tree.directories += 1
            } else {
                tree.files += 1
            }
        }
        Ok(tree)
    }
}

impl Node {
    /// Closes directories, the deepest levels first, until at most `limit` entries are left; true when one was closed.
    fn close(&mut self, limit: u64) -> bool {
        let mut room = limit;
        let mut level: Vec<&mut Node> = vec![self];
        let mut closed = false;
        while !level.is_empty() {
            let mut next = Vec::new();
            for node in level {
                let entries = node.entries.len() as u64;
                let keep = if room >= entries {
                    entries
                } else if closed {
                    0
                } else {
                    room
                };
                if keep < entries {
                    closed = true;
                    let mut index = 0;
                    node.entries.retain(|_, _| {
                        index += 1;
                        index <= keep
                    });
                    node.closed += entries - keep;
                }
                room -= keep;
                next.extend(node.entries.values_mut());
            }
            level = next;
        }
        closed
    }

    /// Appends the tree; false when the text became too long. `room` is how many lines there may still be.
    fn render(&self, text: &mut String, room: &mut usize, level: usize) -> bool {
        let indent = "  ".repeat(level);
        for ((kind, name), node) in &self.entries {
            // One line for the entry, one for what follows it and is left out.
            if text.len() > MAX_BYTES - NOTES_BYTES || *room < 2 {
                return false;
            }
            *room -= 1;
            let name = name.to_string_lossy();
            let slash = if *kind == Kind::Directory { "/" } else { "" };
            let link = node
                .link
                .as_ref()
                .map(|target| format!(" -> {target}"))
                .unwrap_or_default();
            let closed = match (node.closed, node.entries.is_empty()) {
                (0, _) => String::new(),
                (closed, true) => format!(" ({})", counted(closed, "entry")),
                (_, false) => String::new(),
            };
            *text += &format!("{indent}{name}{slash}{link}{closed}\n");
            if !node.render(text, room, level + 1) {
                return false;
            }
        }
        if self.closed > 0 && !self.entries.is_empty() {
            *room -= 1;
            *text += &format!("{indent}… and {} more\n", counted(self.closed, "entry"));
        }
        true
    }
}
