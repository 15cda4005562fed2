//! `grep`: searches the text of files, with ripgrep's own engine.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bezel_context::Context;
use bezel_permissions_contract::MayRead;
use bezel_session_types::{
    Access, ExecutionMode, Replay, Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec,
};
use bezel_tools_contract::{GrepDetails, GrepMode, ToolDetails};
use futures::future::BoxFuture;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::types::{Types, TypesBuilder};
use ignore::{DirEntry, WalkState};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::matches::{Cancellable, Collector, FileMatches, FoundLine};
use super::{Filters, SearchError, listed, overrides, root, walk};
use crate::blocking::reading;
use crate::bound::{MAX_BYTES, MAX_LINES, NOTES_BYTES, NOTES_LINES, counted};
use crate::{ToolShared, paths, schema};

const DESCRIPTION: &str = r#"
Searches the text of files with a regular expression. Fast also in large projects: use it, and not `grep` or `rg` through bash.

- `pattern` is a regular expression in Rust's syntax, much like Perl's but without look-around and back-references. Set `literal` to search for a text with special characters as it is.
- `mode` says what you get: "content" (default) the matching lines with their numbers, "files" only the names of files with a match, "count" the number of matching lines of each file.
- Narrow a search with `path`, `glob` ("*.rs", "src/**/*.ts", "!*.min.js") or `type` ("rust", "py", "js").
- What ignore files exclude, hidden files and binary files are passed over; see `ignored` and `hidden`.
- A search that matches too much says so: narrow it then instead of raising `limit`.
"#;

/// Files named of those that may not be looked into.
const MOST_NAMED: usize = 5;
/// Results when the model does not say how many.
const DEFAULT_LIMIT: u64 = 200;
/// Results at most.
const MOST_RESULTS: u64 = 2_000;
/// Matching lines after which the walk stops: the model gets a small part of them anyway.
const MOST_MATCHES: u64 = 20_000;
/// Matching lines looked for in one file.
const MOST_IN_FILE: u64 = 2_000;
/// Lines of context at most.
const MOST_CONTEXT: u64 = 50;
/// Memory for one file: a longer line, or a larger file in a multi-line search, is passed over.
const HEAP_BYTES: usize = 64 * 1024 * 1024;

/// Arguments of `grep`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The regular expression to search for.
    pattern: String,
    /// File or directory to search: absolute, relative to the session's directory, or under `~`. Default: the session's directory.
    path: Option<String>,
    /// Only files whose path matches this glob, such as "*.rs" or "src/**/*.ts"; with "!" in front, all but those.
    glob: Option<String>,
    /// Only files of this type, such as "rust", "py", "js", "ts", "go", "java", "md".
    #[serde(rename = "type")]
    kind: Option<String>,
    /// What to list: "content", "files" or "count". Default: "content".
    mode: Option<GrepMode>,
    /// Lines to show before and after each match, in mode "content". Default: 0.
    context: Option<u64>,
    /// Take upper and lower case as the same. Default: false.
    ignore_case: Option<bool>,
    /// Take `pattern` as plain text and not as a regular expression. Default: false.
    literal: Option<bool>,
    /// Let matches span lines: `.` matches line breaks too. Default: false.
    multiline: Option<bool>,
    /// Also search hidden files and directories. Default: false.
    hidden: Option<bool>,
    /// Also search what ignore files exclude. Default: false.
    ignored: Option<bool>,
    /// Most results to list: lines in mode "content", files otherwise. Default: 200.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

/// The tool.
pub(crate) struct Grep {
    spec: ToolSpec,
    shared: ToolShared,
}

impl Grep {
    pub(crate) fn new(shared: ToolShared) -> Self {
        let spec =
            schema::spec::<Arguments>("Grep", DESCRIPTION, ExecutionMode::Parallel, Replay::Safe);
        Grep { spec, shared }
    }
}

impl Tool for Grep {
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
                Ok(grep(&cx, &shared, &directory, &arguments)?)
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

fn grep(
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
    let metadata = root(cx, &path, directory, "search")?;
    let search = Search::new(cx, arguments)?;
    let mut files = if metadata.is_dir() {
        search.directory(&path, arguments, shared.search.below(&path))?
    } else {
        let found = search.file(&mut search.searcher(), &path);
        found
            .into_iter()
            .map(|found| (path.clone(), found))
            .collect()
    };
    if cx.is_cancelled() {
        return Err(SearchError::Cancelled);
    }
    files.sort_by(|left, right| left.0.cmp(&right.0));
    let binary = files.iter().filter(|(_, found)| found.binary).count() as u64;
    let stopped = search.total.load(Ordering::Relaxed) >= MOST_MATCHES;
    let report = Report {
        directory,
        mode: search.mode,
        limit: arguments
            .limit
            .unwrap_or(DEFAULT_LIMIT)
            .clamp(1, MOST_RESULTS),
        body: String::new(),
        used: 0,
        room: MAX_LINES - NOTES_LINES,
    };
    let (text, truncated) = report.render(&files, stopped);
    let details = GrepDetails {
        pattern: arguments.pattern.clone(),
        path: path.display().to_string(),
        mode: search.mode,
        matches: files.iter().map(|(_, found)| found.matches).sum(),
        files: files.len() as u64,
        truncated,
    };
    let note = match binary {
        0 => String::new(),
        _ => format!(
            "\n({} matched before binary data began; the rest of such a file was not searched.)",
            counted(binary, "file")
        ),
    };
    let left_out = search.left_out(directory);
    Ok(ToolOutput::text(text + &note + &left_out)
        .with_details(ToolDetails::Grep(details).to_value()))
}

struct Search<'a> {
    cx: &'a Context,
    matcher: RegexMatcher,
    mode: GrepMode,
    context: usize,
    multiline: bool,
    /// Matching lines in all files so far.
    total: AtomicU64,
    /// Files that may not be looked into unasked.
    left_out: Mutex<Vec<PathBuf>>,
}

impl<'a> Search<'a> {
    fn new(cx: &'a Context, arguments: &Arguments) -> Result<Self, SearchError> {
        let multiline = arguments.multiline.unwrap_or(false);
        let mode = arguments.mode.unwrap_or_default();
        let context = arguments
            .context
            .filter(|_| mode == GrepMode::Content)
            .unwrap_or(0)
            .min(MOST_CONTEXT);
        Ok(Search {
            cx,
            matcher: matcher(arguments, multiline)?,
            mode,
            context: usize::try_from(context).unwrap_or_default(),
            multiline,
            total: AtomicU64::new(0),
            left_out: Mutex::default(),
        })
    }

    /// A note of the files that were not looked into; empty where there are none.
    fn left_out(&self, directory: &Path) -> String {
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        left_out.sort();
        let count = left_out.len();
        if count == 0 {
            return String::new();
        }
        let named = left_out.drain(..count.min(MOST_NAMED));
        let mut names = named
            .map(|path| listed(path, directory))
            .collect::<Vec<_>>()
            .join(", ");
        if count > MOST_NAMED {
            names += ", …";
        }
        let (files, them) = match count {
            1 => ("1 file was".to_owned(), "it"),
            _ => (format!("{} were", counted(count as u64, "file")), "one"),
        };
        format!(
            "\n({files} not searched, as the session's permissions have it: {names}. Name {them} in `path` to ask for it.)"
        )
    }

    fn searcher(&self) -> Searcher {
        let mut builder = SearcherBuilder::new();
        builder
            .line_number(self.mode == GrepMode::Content)
            .before_context(self.context)
            .after_context(self.context)
            .multi_line(self.multiline)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP_BYTES));
        builder.build()
    }

    fn directory(
        &self,
        path: &Path,
        arguments: &Arguments,
        may_read: Option<Arc<MayRead>>,
    ) -> Result<Vec<(PathBuf, FileMatches)>, SearchError> {
        let filters = Filters {
            hidden: arguments.hidden.unwrap_or(false),
            ignored: arguments.ignored.unwrap_or(false),
        };
        let mut walk = walk(path, filters);
        if let Some(glob) = &arguments.glob {
            walk.overrides(overrides(path, std::slice::from_ref(glob))?);
        }
        if let Some(kind) = &arguments.kind {
            walk.types(types(kind)?);
        }
        let found: Mutex<Vec<(PathBuf, FileMatches)>> = Mutex::default();
        walk.build_parallel().run(|| {
            let mut searcher = self.searcher();
            let (found, may_read) = (&found, may_read.as_deref());
            Box::new(move |entry| {
                if self.cx.is_cancelled() || self.total.load(Ordering::Relaxed) >= MOST_MATCHES {
                    return WalkState::Quit;
                }
                let Some(path) = entry.ok().filter(is_file).map(DirEntry::into_path) else {
                    return WalkState::Continue;
                };
                if may_read.is_some_and(|may_read| !may_read(&path)) {
                    self.left_out
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(path);
                } else if let Some(matches) = self.file(&mut searcher, &path) {
                    found
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((path, matches));
                }
                WalkState::Continue
            })
        });
        Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// The matches of one file; `None` without any. A file that cannot be read is passed over like one that is ignored.
    fn file(&self, searcher: &mut Searcher, path: &Path) -> Option<FileMatches> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) => {
                tracing::debug!(%error, path = %path.display(), "not searched");
                return None;
            }
        };
        let mut collector = Collector {
            matcher: &self.matcher,
            keep_lines: self.mode == GrepMode::Content,
            limit: match self.mode {
                GrepMode::Files => 1,
                GrepMode::Content => MOST_IN_FILE,
                GrepMode::Count => u64::MAX,
            },
            found: FileMatches::default(),
        };
        let reader = Cancellable {
            cx: self.cx,
            inner: file,
        };
        if let Err(error) = searcher.search_reader(&self.matcher, reader, &mut collector) {
            tracing::debug!(%error, path = %path.display(), "search ended early");
        }
        let found = collector.found;
        if self.mode == GrepMode::Content {
            self.total.fetch_add(found.matches, Ordering::Relaxed);
        } else {
            self.total
                .fetch_add(u64::from(found.matches > 0), Ordering::Relaxed);
        }
        (found.matches > 0).then_some(found)
    }
}

fn is_file(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_file())
}

fn matcher(arguments: &Arguments, multiline: bool) -> Result<RegexMatcher, SearchError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(arguments.ignore_case.unwrap_or(false))
        .fixed_strings(arguments.literal.unwrap_or(false))
        .multi_line(true);
    if multiline {
        builder.dot_matches_new_line(true);
    } else {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&arguments.pattern).map_err(|error| {
        let pattern = arguments.pattern.clone();
        match error.kind() {
            grep_regex::ErrorKind::NotAllowed(_) => SearchError::LineBreak { pattern },
            _ => SearchError::Pattern {
                pattern,
                reason: error.to_string(),
            },
        }
    })
}

fn types(name: &str) -> Result<Types, SearchError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    let known = builder.definitions();
    builder.select(name).build().map_err(|_| {
        let close = known
            .iter()
            .map(|known| (strsim::jaro_winkler(known.name(), name), known.name()));
        let best = close
            .max_by(|left, right| left.0.total_cmp(&right.0))
            .filter(|(score, _)| *score > 0.8);
        let suggestion = best
            .map(|(_, best)| format!(" Did you mean {best:?}?"))
            .unwrap_or_default();
        SearchError::Type {
            name: name.into(),
            suggestion,
        }
    })
}

struct Report<'a> {
    directory: &'a Path,
    mode: GrepMode,
    limit: u64,
    body: String,
    /// Results listed so far.
    used: u64,
    /// Lines that there may still be.
    room: usize,
}

impl Report<'_> {
    /// The text for the model, and whether it leaves something out.
    fn render(mut self, files: &[(PathBuf, FileMatches)], stopped: bool) -> (String, bool) {
        if files.is_empty() {
            return ("No matches.".into(), false);
        }
        let counted_all = !stopped && !files.iter().any(|(_, found)| found.cut);
        let listed_all = files.iter().all(|(path, found)| self.file(path, found));
        let matches: u64 = files.iter().map(|(_, found)| found.matches).sum();
        let files = counted(files.len() as u64, "file");
        let at_least = if counted_all { "" } else { "At least " };
        let head = match self.mode {
            GrepMode::Files => format!("{at_least}{files}"),
            _ => format!("{at_least}{} in {files}", counted(matches, "matching line")),
        };
        let complete = counted_all && listed_all;
        let tail = match complete {
            true => "",
            false => {
                "\n(The rest is left out. Narrow the search with a stricter pattern, path, glob or type.)"
            }
        };
        (format!("{head}:\n{}{tail}", self.body), !complete)
    }

    /// Lists one file; false when it does not fit any more.
    fn file(&mut self, path: &Path, found: &FileMatches) -> bool {
        let path = listed(path.into(), self.directory);
        match self.mode {
            GrepMode::Files => self.result(&path),
            GrepMode::Count => self.result(&format!("{path}: {}", found.matches)),
            GrepMode::Content => {
                let fits = self.used < self.limit && self.line("") && self.line(&path);
                fits && found.lines.iter().all(|line| match line {
                    FoundLine::Match { number, text } => self.result(&format!("{number}: {text}")),
                    FoundLine::Context { number, text } => {
                        self.result(&format!("{number}- {text}"))
                    }
                    FoundLine::Break => self.line("--"),
                })
            }
        }
    }

    fn result(&mut self, line: &str) -> bool {
        let fits = self.used < self.limit && self.line(line);
        self.used += u64::from(fits);
        fits
    }

    fn line(&mut self, line: &str) -> bool {
        if self.room == 0 || self.body.len() + line.len() > MAX_BYTES - NOTES_BYTES {
            return false;
        }
        self.room -= 1;
        self.body.push_str(line);
        self.body.push('\n');
        true
    }
}
