//! What cards of the built-in tools look like.

use bezel_api_tui::{ToolCard, ToolOutcome, ToolRenderContext, ToolRenderer, ToolStatus};
use bezel_presentation::StyledLine;
use bezel_presentation::highlight::Highlighter;
use bezel_presentation::text::Role;
use bezel_tools_contract::{
    BackgroundDetails, BashDetails, ChangesDetails, CommandStatus, DiffHunk, DiffLine, DiffLineKind, FileAction, FileDiff,
    GlobDetails, GrepDetails, GrepMode, LsDetails, ReadContent, ReadDetails, TodoDetails, TodoItem, TodoStatus, ToolDetails,
};
use serde_json::{Value, json};

use crate::bash::{BackgroundRenderer, BashRenderer};
use crate::changes::ChangesRenderer;
use crate::paths::Paths;
use crate::read::ReadRenderer;
use crate::search::SearchRenderer;
use crate::todo::TodoRenderer;

const WIDTH: u16 = 64;

fn paths() -> Paths {
    Paths::new(std::path::Path::new("/work"), Some("/home/me"))
}

/// A call that has ended.
struct Ended {
    arguments: Value,
    details: Option<ToolDetails>,
    text: &'static str,
    is_error: bool,
}

impl Ended {
    fn well(arguments: Value, details: ToolDetails, text: &'static str) -> Self {
        Ended { arguments, details: Some(details), text, is_error: false }
    }

    fn badly(arguments: Value, text: &'static str) -> Self {
        Ended { arguments, details: None, text, is_error: true }
    }

    fn lines(&self, renderer: &impl ToolRenderer, expanded: bool) -> Vec<StyledLine> {
        let details = self.details.as_ref().map_or(Value::Null, ToolDetails::to_value);
        let card = ToolCard {
            name: "tool",
            arguments: &self.arguments,
            status: if self.is_error { ToolStatus::Failed } else { ToolStatus::Succeeded },
            output: "",
            progress: &Value::Null,
            outcome: Some(ToolOutcome { text: self.text, details: &details, is_error: self.is_error }),
            elapsed: None,
        };
        draw(renderer, &card, expanded)
    }

    /// Closed, then open.
    fn shown(&self, renderer: &impl ToolRenderer) -> String {
        let text = |expanded| self.lines(renderer, expanded).iter().map(StyledLine::to_text).collect::<Vec<_>>().join("\n");
        format!("{}\n---- open\n{}", text(false), text(true))
    }
}

fn draw(renderer: &impl ToolRenderer, card: &ToolCard<'_>, expanded: bool) -> Vec<StyledLine> {
    let highlighter = Highlighter::plain();
    let cx = ToolRenderContext { width: WIDTH, expanded, highlighter: &highlighter };
    let mut lines = vec![renderer.title(card, &cx)];
    lines.extend(renderer.body(card, &cx));
    for line in &lines[1..] {
        assert!(line.width() <= usize::from(WIDTH), "too wide: {}", line.to_text());
    }
    lines
}

fn running(name: &'static str, arguments: &Value, output: &str, renderer: &impl ToolRenderer) -> String {
    let card = ToolCard {
        name,
        arguments,
        status: ToolStatus::Running,
        output,
        progress: &Value::Null,
        outcome: None,
        elapsed: None,
    };
    draw(renderer, &card, false).iter().map(StyledLine::to_text).collect::<Vec<_>>().join("\n")
}

fn line(kind: DiffLineKind, old: u64, new: u64, text: &str) -> DiffLine {
    let (old_line, new_line) = match kind {
        DiffLineKind::Context => (Some(old), Some(new)),
        DiffLineKind::Added => (None, Some(new)),
        DiffLineKind::Removed => (Some(old), None),
    };
    DiffLine { kind, old_line, new_line, text: text.into(), no_newline: false }
}

fn edited(path: &str) -> FileDiff {
    use DiffLineKind::{Added, Context, Removed};
    let lines = vec![
        line(Context, 8, 8, "fn parse(input: &str) -> Result<Tree, Error> {"),
        line(Removed, 9, 9, "    let tokens = lex(input);"),
        line(Added, 10, 9, "    let tokens = lex(input)?;"),
        line(Added, 10, 10, "    check(&tokens)?;"),
        line(Context, 10, 11, "    build(tokens)"),
    ];
    FileDiff {
        path: path.into(),
        action: FileAction::Updated,
        moved_from: None,
        added: 2,
        removed: 1,
        hunks: vec![DiffHunk { old_start: 8, old_lines: 3, new_start: 8, new_lines: 4, lines }],
        truncated: false,
    }
}

fn created(path: &str, count: u64) -> FileDiff {
    let lines = (1..=count).map(|number| line(DiffLineKind::Added, 0, number, &format!("line {number}"))).collect();
    FileDiff {
        path: path.into(),
        action: FileAction::Added,
        moved_from: None,
        added: count,
        removed: 0,
        hunks: vec![DiffHunk { old_start: 0, old_lines: 0, new_start: 1, new_lines: count, lines }],
        truncated: false,
    }
}

fn bash(command: &str, status: CommandStatus) -> ToolDetails {
    ToolDetails::Bash(BashDetails {
        command: command.into(),
        directory: "/work".into(),
        status,
        duration_ms: 1200,
        output_bytes: 70_000,
        saved_file: None,
        background_id: None,
    })
}

#[test]
fn read_tells_which_part_of_which_file() {
    let text = |first, last, total| ReadContent::Text {
        first_line: first,
        last_line: last,
        total_lines: total,
        cut_lines: 0,
        encoding: "utf-8".into(),
    };
    let read = |path: &str, content| ToolDetails::Read(ReadDetails { path: path.into(), content, bytes: 100 });
    let renderer = ReadRenderer::new(paths());
    let title = |details: ToolDetails| Ended::well(json!({}), details, "").lines(&renderer, false)[0].to_text();
    assert_eq!(title(read("/work/src/a.rs", text(1, 120, Some(120)))), "Read src/a.rs  120 lines");
    assert_eq!(title(read("/work/src/a.rs", text(40, 80, Some(400)))), "Read src/a.rs  40–80 of 400");
    assert_eq!(title(read("/home/me/x", text(0, 0, Some(0)))), "Read ~/x  empty");
    let picture = ReadContent::Image { media_type: "image/png".into(), width: 640, height: 480, sent: None };
    assert_eq!(title(read("/tmp/a.png", picture)), "Read /tmp/a.png  picture, 640×480");
    let open = Ended::well(json!({}), read("/work/a", text(1, 2, Some(2))), "     1\tone\n     2\ttwo");
    insta::assert_snapshot!(open.shown(&renderer));
}

#[test]
fn a_failed_read_says_why() {
    let renderer = ReadRenderer::new(paths());
    let failed = Ended::badly(json!({"path": "/work/gone.rs"}), "There is no file /work/gone.rs.\nDid you mean\n  /work/gone.py\n  /work/going.rs?");
    insta::assert_snapshot!(failed.shown(&renderer));
    assert_eq!(failed.lines(&renderer, false)[1].spans[0].style.role, Role::Error);
}

#[test]
fn an_edit_is_a_diff() {
    let renderer = ChangesRenderer::new("Edit", paths());
    let details = ToolDetails::Changes(ChangesDetails { files: vec![edited("/work/src/parse.rs")] });
    let call = Ended::well(json!({"path": "src/parse.rs"}), details, "ok");
    insta::assert_snapshot!(call.shown(&renderer));
    let lines = call.lines(&renderer, false);
    let changed = lines.iter().find(|line| line.to_text().contains("lex(input)?")).expect("the added line");
    assert_eq!(changed.background, Some(Role::DiffAdded));
    let emphasised = changed.spans.iter().filter(|span| span.style.background == Some(Role::DiffAddedEmphasis));
    assert_eq!(emphasised.map(|span| span.text.as_ref()).collect::<String>(), "?");
}

#[test]
fn code_in_a_diff_is_highlighted_once_that_is_ready() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let highlighter = Highlighter::new(move || {
        sender.send(()).ok();
    });
    let renderer = ChangesRenderer::new("Edit", paths());
    let details = ToolDetails::Changes(ChangesDetails { files: vec![edited("/work/src/parse.rs")] }).to_value();
    let card = ToolCard {
        name: "edit",
        arguments: &Value::Null,
        status: ToolStatus::Succeeded,
        output: "",
        progress: &Value::Null,
        outcome: Some(ToolOutcome { text: "", details: &details, is_error: false }),
        elapsed: None,
    };
    let cx = ToolRenderContext { width: WIDTH, expanded: true, highlighter: &highlighter };
    let keyword = |lines: &[StyledLine]| lines.iter().flat_map(|line| &line.spans).any(|span| span.style.role == Role::Keyword);
    assert!(!keyword(&renderer.body(&card, &cx)));
    while !keyword(&renderer.body(&card, &cx)) {
        receiver.recv_timeout(std::time::Duration::from_secs(60)).expect("highlighting goes on");
    }
}

#[test]
fn a_long_new_file_is_short_while_closed() {
    let renderer = ChangesRenderer::new("Write", paths());
    let details = ToolDetails::Changes(ChangesDetails { files: vec![created("/work/notes.txt", 14)] });
    insta::assert_snapshot!(Ended::well(json!({}), details, "ok").shown(&renderer));
}

#[test]
fn a_patch_of_several_files_names_each() {
    let renderer = ChangesRenderer::new("Patch", paths());
    let moved = FileDiff {
        moved_from: Some("/work/old.rs".into()),
        added: 0,
        removed: 0,
        hunks: Vec::new(),
        ..edited("/work/new.rs")
    };
    let deleted = FileDiff { action: FileAction::Deleted, added: 0, removed: 30, hunks: Vec::new(), ..edited("/work/dead.rs") };
    let details = ToolDetails::Changes(ChangesDetails { files: vec![edited("/work/a.rs"), moved, deleted] });
    insta::assert_snapshot!(Ended::well(json!({}), details, "ok").shown(&renderer));
    let nothing = Ended::well(json!({}), ToolDetails::Changes(ChangesDetails::default()), "ok");
    assert_eq!(nothing.lines(&renderer, false)[0].to_text(), "Patch nothing changed");
}

#[test]
fn a_missing_newline_is_told() {
    let mut file = edited("/work/a.rs");
    file.hunks[0].lines[3].no_newline = true;
    let details = ToolDetails::Changes(ChangesDetails { files: vec![file] });
    let shown = Ended::well(json!({}), details, "ok").shown(&ChangesRenderer::new("Edit", paths()));
    assert!(shown.contains("check(&tokens)?;  ← no newline at the end"), "{shown}");
}

#[test]
fn bash_shows_the_end_of_its_output_and_how_it_ended() {
    let output = "   Compiling a\n   Compiling b\nrunning 3 tests\ntest one ... ok\ntest two ... FAILED\ntest three ... ok\n\nfailures:\n    two\n";
    let failed = Ended { details: Some(bash("cargo test", CommandStatus::Exited { code: 101 })), ..Ended::badly(json!({"command": "cargo test"}), output) };
    insta::assert_snapshot!(failed.shown(&BashRenderer::default()));
}

#[test]
fn a_script_is_told_by_its_description_until_it_is_opened() {
    let command = "set -e\nfor f in *.rs; do\n  rustfmt \"$f\"\ndone";
    let arguments = json!({"command": command, "description": "Format all sources"});
    let call = Ended::well(arguments, bash(command, CommandStatus::Exited { code: 0 }), "");
    insta::assert_snapshot!(call.shown(&BashRenderer::default()));
}

#[test]
fn every_way_to_end_has_a_word() {
    let last = |status| {
        let call = Ended::well(json!({}), bash("x", status), "");
        call.lines(&BashRenderer::default(), false).last().map(StyledLine::to_text).unwrap_or_default()
    };
    assert_eq!(last(CommandStatus::Exited { code: 0 }), "$ x");
    assert_eq!(last(CommandStatus::Exited { code: 2 }), "exit 2");
    assert_eq!(last(CommandStatus::Signalled { signal: 9 }), "ended by signal 9");
    assert_eq!(last(CommandStatus::TimedOut { after_ms: 120_000 }), "stopped after 2m 00s");
    assert_eq!(last(CommandStatus::Killed), "ended");
    assert_eq!(last(CommandStatus::OutputLimit { limit_bytes: 1 << 30 }), "stopped after 1.0 GiB of output");
    let ToolDetails::Bash(mut details) = bash("npm start", CommandStatus::Running) else { panic!("bash") };
    details.background_id = Some("bg-1".into());
    let call = Ended::well(json!({}), ToolDetails::Bash(details.clone()), "");
    assert_eq!(call.lines(&BashRenderer::default(), false)[1].to_text(), "runs in the background as bg-1");
    let looked = ToolDetails::Background(BackgroundDetails { id: "bg-1".into(), command: details, new_bytes: 9 });
    let call = Ended::well(json!({"id": "bg-1"}), looked, "listening\n");
    insta::assert_snapshot!(call.shown(&BackgroundRenderer::new("Output of")));
}

#[test]
fn long_output_says_where_the_whole_is() {
    let ToolDetails::Bash(mut details) = bash("make", CommandStatus::Exited { code: 1 }) else { panic!("bash") };
    details.saved_file = Some("/work/.out/1.txt".into());
    let call = Ended::well(json!({}), ToolDetails::Bash(details), "x");
    assert_eq!(call.lines(&BashRenderer::default(), false)[2].to_text(), "exit 1 · 68 KiB in /work/.out/1.txt");
}

#[test]
fn what_runs_shows_what_is_known_of_it() {
    let unfinished = json!("{\"path\":\"src/new.rs\",\"content\":\"fn ma");
    assert_eq!(running("write", &unfinished, "", &ChangesRenderer::new("Write", paths())), "Write src/new.rs");
    let arguments = json!({"command": "make all"});
    let output = "1\n2\n3\n4\n5\n6\n7";
    assert_eq!(running("bash", &arguments, output, &BashRenderer::default()), "$ make all\n… 2 more lines\n3\n4\n5\n6\n7");
}

#[test]
fn searches_tell_what_was_found() {
    let grep = |matches, files, mode, truncated| {
        ToolDetails::Grep(GrepDetails { pattern: "fn \\w+".into(), path: "/work/src".into(), mode, matches, files, truncated })
    };
    let title = |renderer: &SearchRenderer, details| Ended::well(json!({}), details, "").lines(renderer, false)[0].to_text();
    let renderer = SearchRenderer::new("Grep", paths());
    assert_eq!(title(&renderer, grep(12, 3, GrepMode::Content, false)), "Grep fn \\w+ in src  12 matches in 3 files");
    assert_eq!(title(&renderer, grep(900, 80, GrepMode::Content, true)), "Grep fn \\w+ in src  at least 900 matches in 80 files");
    assert_eq!(title(&renderer, grep(1, 1, GrepMode::Files, false)), "Grep fn \\w+ in src  1 file");
    assert_eq!(title(&renderer, grep(0, 0, GrepMode::Content, false)), "Grep fn \\w+ in src  no matches");
    let renderer = SearchRenderer::new("Glob", paths());
    let glob = |files| ToolDetails::Glob(GlobDetails { pattern: "**/*.rs".into(), path: "/work".into(), files, truncated: false });
    assert_eq!(title(&renderer, glob(34)), "Glob **/*.rs  34 files");
    assert_eq!(title(&renderer, glob(0)), "Glob **/*.rs  no files");
    let renderer = SearchRenderer::new("List", paths());
    let ls = ToolDetails::Ls(LsDetails { path: "/work".into(), files: 9, directories: 1, truncated: false });
    assert_eq!(title(&renderer, ls), "List .  1 folder, 9 files");
}

#[test]
fn a_list_of_tasks_shows_what_is_being_done() {
    let item = |number: u32, status| TodoItem { content: format!("Do step {number}"), status };
    let items = (1..=12).map(|number| {
        item(number, match number {
            1..=4 => TodoStatus::Completed,
            5 => TodoStatus::InProgress,
            _ => TodoStatus::Pending,
        })
    });
    let details = ToolDetails::Todo(TodoDetails { items: items.collect() });
    insta::assert_snapshot!(Ended::well(json!({}), details, "ok").shown(&TodoRenderer));
}

#[test]
fn details_of_another_kind_and_none_at_all_are_survived() {
    for renderer in [ChangesRenderer::new("Edit", paths())] {
        let other = Ended::well(json!({"path": "a.rs"}), bash("x", CommandStatus::Killed), "text");
        assert_eq!(other.lines(&renderer, true)[0].to_text(), "Edit a.rs");
    }
    let none = Ended { details: None, ..Ended::well(json!(null), bash("x", CommandStatus::Killed), "text") };
    assert_eq!(none.lines(&TodoRenderer, true)[0].to_text(), "Tasks");
    assert_eq!(none.lines(&BashRenderer::default(), true).len(), 2);
}
