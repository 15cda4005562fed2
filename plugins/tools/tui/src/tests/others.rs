//! Searches, tasks, and details of other kinds.

use bezel_tools_contract::{
    CommandStatus, GlobDetails, GrepDetails, GrepMode, LsDetails, TodoDetails, TodoItem,
    TodoStatus, ToolDetails,
};
use serde_json::json;

use super::support::{Ended, bash, paths};
use crate::bash::BashRenderer;
use crate::changes::ChangesRenderer;
use crate::search::SearchRenderer;
use crate::todo::TodoRenderer;

#[test]
fn searches_tell_what_was_found() {
    let grep = |matches, files, mode, truncated| {
        ToolDetails::Grep(GrepDetails {
            pattern: "fn \\w+".into(),
            path: "/project/src".into(),
            mode,
            matches,
            files,
            truncated,
        })
    };
    let title = |renderer: &SearchRenderer, details| {
        Ended::well(json!({}), details, "").lines(renderer, false)[0].to_text()
    };
    let renderer = SearchRenderer::new("Grep", paths());
    assert_eq!(
        title(&renderer, grep(12, 3, GrepMode::Content, false)),
        "Grep fn \\w+ in src  12 matches in 3 files"
    );
    assert_eq!(
        title(&renderer, grep(900, 80, GrepMode::Content, true)),
        "Grep fn \\w+ in src  at least 900 matches in 80 files"
    );
    assert_eq!(
        title(&renderer, grep(1, 1, GrepMode::Files, false)),
        "Grep fn \\w+ in src  1 file"
    );
    assert_eq!(
        title(&renderer, grep(0, 0, GrepMode::Content, false)),
        "Grep fn \\w+ in src  no matches"
    );
    let renderer = SearchRenderer::new("Glob", paths());
    let glob = |files| {
        ToolDetails::Glob(GlobDetails {
            pattern: "**/*.rs".into(),
            path: "/project".into(),
            files,
            truncated: false,
        })
    };
    assert_eq!(title(&renderer, glob(34)), "Glob **/*.rs  34 files");
    assert_eq!(title(&renderer, glob(0)), "Glob **/*.rs  no files");
    let renderer = SearchRenderer::new("List", paths());
    let ls = ToolDetails::Ls(LsDetails {
        path: "/project".into(),
        files: 9,
        directories: 1,
        truncated: false,
    });
    assert_eq!(title(&renderer, ls), "List .  1 folder, 9 files");
}

#[test]
fn a_list_of_tasks_shows_what_is_being_done() {
    let item = |number: u32, status| TodoItem {
        content: format!("Do step {number}"),
        status,
    };
    let items = (1..=12).map(|number| {
        item(
            number,
            match number {
                1..=4 => TodoStatus::Completed,
                5 => TodoStatus::InProgress,
                _ => TodoStatus::Pending,
            },
        )
    });
    let details = ToolDetails::Todo(TodoDetails {
        items: items.collect(),
    });
    insta::assert_snapshot!(Ended::well(json!({}), details, "ok").shown(&TodoRenderer));
}

#[test]
fn details_of_another_kind_and_none_at_all_are_survived() {
    let other = Ended::well(
        json!({"path": "a.rs"}),
        bash("x", CommandStatus::Killed),
        "text",
    );
    let renderer = ChangesRenderer::new("Edit", paths());
    assert_eq!(other.lines(&renderer, true)[0].to_text(), "Edit a.rs");
    let none = Ended {
        details: None,
        ..Ended::well(json!(null), bash("x", CommandStatus::Killed), "text")
    };
    assert_eq!(none.lines(&TodoRenderer, true)[0].to_text(), "Tasks");
    assert_eq!(none.lines(&BashRenderer::default(), true).len(), 2);
}
