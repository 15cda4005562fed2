//! `read`, `write`, `edit` and `apply_patch`.

use bezel_api_tui::{ToolCard, ToolOutcome, ToolRenderContext, ToolRenderer, ToolStatus};
use bezel_presentation::StyledLine;
use bezel_presentation::highlight::Highlighter;
use bezel_presentation::text::Role;
use bezel_tools_contract::{
    ChangesDetails, FileAction, FileDiff, ReadContent, ReadDetails, ToolDetails,
};
use serde_json::{Value, json};

use super::support::{Ended, WIDTH, created, edited, paths};
use crate::changes::ChangesRenderer;
use crate::read::ReadRenderer;

#[test]
fn read_tells_which_part_of_which_file() {
    let text = |first, last, total| ReadContent::Text {
        first_line: first,
        last_line: last,
        total_lines: total,
        cut_lines: 0,
        encoding: "utf-8".into(),
    };
    let read = |path: &str, content| {
        ToolDetails::Read(ReadDetails {
            path: path.into(),
            content,
            bytes: 100,
        })
    };
    let renderer = ReadRenderer::new(paths());
    let title = |details: ToolDetails| {
        Ended::well(json!({}), details, "").lines(&renderer, false)[0].to_text()
    };
    assert_eq!(
        title(read("/project/src/a.rs", text(1, 120, Some(120)))),
        "Read src/a.rs  120 lines"
    );
    assert_eq!(
        title(read("/project/src/a.rs", text(40, 80, Some(400)))),
        "Read src/a.rs  40–80 of 400"
    );
    assert_eq!(
        title(read("/home/me/x", text(0, 0, Some(0)))),
        "Read ~/x  empty"
    );
    let picture = ReadContent::Image {
        media_type: "image/png".into(),
        width: 640,
        height: 480,
        sent: None,
    };
    assert_eq!(
        title(read("/tmp/a.png", picture)),
        "Read /tmp/a.png  picture, 640×480"
    );
    let open = Ended::well(
        json!({}),
        read("/project/a", text(1, 2, Some(2))),
        "     1\tone\n     2\ttwo",
    );
    insta::assert_snapshot!(open.shown(&renderer));
}

#[test]
fn a_failed_read_says_why() {
    let renderer = ReadRenderer::new(paths());
    let failed = Ended::badly(
        json!({"path": "/project/gone.rs"}),
        "There is no file /project/gone.rs.\nDid you mean\n  /project/gone.py\n  /project/going.rs?",
    );
    insta::assert_snapshot!(failed.shown(&renderer));
    assert_eq!(
        failed.lines(&renderer, false)[1].spans[0].style.role,
        Role::Error
    );
}

#[test]
fn an_edit_is_a_diff() {
    let renderer = ChangesRenderer::new("Edit", paths());
    let details = ToolDetails::Changes(ChangesDetails {
        files: vec![edited("/project/src/parse.rs")],
    });
    let call = Ended::well(json!({"path": "src/parse.rs"}), details, "ok");
    insta::assert_snapshot!(call.shown(&renderer));
    let lines = call.lines(&renderer, false);
    let changed = lines
        .iter()
        .find(|line| line.to_text().contains("lex(input)?"))
        .expect("the added line");
    assert_eq!(changed.background, Some(Role::DiffAdded));
    let emphasised = changed
        .spans
        .iter()
        .filter(|span| span.style.background == Some(Role::DiffAddedEmphasis));
    assert_eq!(
        emphasised
            .map(|span| span.text.as_ref())
            .collect::<String>(),
        "?"
    );
}

#[test]
fn code_in_a_diff_is_highlighted_once_that_is_ready() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let highlighter = Highlighter::new(move || {
        sender.send(()).ok();
    });
    let renderer = ChangesRenderer::new("Edit", paths());
    let details = ToolDetails::Changes(ChangesDetails {
        files: vec![edited("/project/src/parse.rs")],
    })
    .to_value();
    let card = ToolCard {
        name: "edit",
        arguments: &Value::Null,
        status: ToolStatus::Succeeded,
        output: "",
        progress: &Value::Null,
        outcome: Some(ToolOutcome {
            text: "",
            details: &details,
            is_error: false,
        }),
        elapsed: None,
    };
    let cx = ToolRenderContext {
        width: WIDTH,
        expanded: true,
        highlighter: &highlighter,
    };
    let keyword = |lines: &[StyledLine]| {
        lines
            .iter()
            .flat_map(|line| &line.spans)
            .any(|span| span.style.role == Role::Keyword)
    };
    while !keyword(&renderer.body(&card, &cx)) {
        receiver
            .recv_timeout(std::time::Duration::from_secs(60))
            .expect("highlighting goes on");
    }
}

#[test]
fn a_long_new_file_is_short_while_closed() {
    let renderer = ChangesRenderer::new("Write", paths());
    let details = ToolDetails::Changes(ChangesDetails {
        files: vec![created("/project/notes.txt", 30)],
    });
    insta::assert_snapshot!(Ended::well(json!({}), details, "ok").shown(&renderer));
}

#[test]
fn a_patch_of_several_files_names_each() {
    let renderer = ChangesRenderer::new("Patch", paths());
    let moved = FileDiff {
        moved_from: Some("/project/old.rs".into()),
        added: 0,
        removed: 0,
        hunks: Vec::new(),
        ..edited("/project/new.rs")
    };
    let deleted = FileDiff {
        action: FileAction::Deleted,
        added: 0,
        removed: 30,
        hunks: Vec::new(),
        ..edited("/project/dead.rs")
    };
    let details = ToolDetails::Changes(ChangesDetails {
        files: vec![edited("/project/a.rs"), moved, deleted],
    });
    insta::assert_snapshot!(Ended::well(json!({}), details, "ok").shown(&renderer));
    let nothing = Ended::well(
        json!({}),
        ToolDetails::Changes(ChangesDetails::default()),
        "ok",
    );
    assert_eq!(
        nothing.lines(&renderer, false)[0].to_text(),
        "Patch nothing changed"
    );
}

#[test]
fn a_missing_newline_is_told() {
    let mut file = edited("/project/a.rs");
    file.hunks[0].lines[3].no_newline = true;
    let details = ToolDetails::Changes(ChangesDetails { files: vec![file] });
    let shown = Ended::well(json!({}), details, "ok").shown(&ChangesRenderer::new("Edit", paths()));
    assert!(
        shown.contains("check(&tokens)?;  ← no newline at the end"),
        "{shown}"
    );
}
