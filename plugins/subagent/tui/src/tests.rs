//! Subagents' calls as a person sees them.

use bezel_api_tui::{ToolCard, ToolOutcome, ToolRenderContext, ToolRenderer, ToolStatus};
use bezel_presentation::highlight::Highlighter;
use bezel_session_types::SessionId;
use bezel_subagent_contract::{SubagentDetails, SubagentStatus};
use serde_json::{Value, json};

use crate::card::SubagentCard;

fn details(status: SubagentStatus) -> Value {
    let details = SubagentDetails {
        session_id: SessionId::new("child"),
        description: "find the parser".into(),
        agent: Some("explore".into()),
        status,
        background: false,
        operation_id: None,
        tool_calls: 12,
        last_tool: Some("grep".into()),
    };
    serde_json::to_value(details).unwrap()
}

fn drawn(progress: &Value, outcome: Option<ToolOutcome<'_>>, expanded: bool) -> Vec<String> {
    let arguments = json!({
        "agent": "explore",
        "description": "find the\nparser",
        "prompt": "Where is the parser?\nAnswer with a path.",
    });
    let card = ToolCard {
        name: "subagent",
        arguments: &arguments,
        status: ToolStatus::Running,
        output: "",
        progress,
        outcome,
        elapsed: None,
    };
    let highlighter = Highlighter::new(|| ());
    let cx = ToolRenderContext {
        width: 60,
        expanded,
        highlighter: &highlighter,
    };
    let mut rows = vec![SubagentCard.title(&card, &cx)];
    rows.extend(SubagentCard.body(&card, &cx));
    rows.iter()
        .map(|row| row.to_text().trim_end().to_owned())
        .collect()
}

#[test]
fn a_running_subagent_shows_what_it_is_to_do_how_far_it_is_and_the_way_in() {
    let rows = drawn(&details(SubagentStatus::Running), None, false);
    assert_eq!(
        rows,
        [
            "Subagent explore  find the parser",
            "● works · 12 tool calls, last grep · ctrl+x c looks in",
        ]
    );
    let waiting = drawn(&details(SubagentStatus::Waiting), None, false);
    assert_eq!(waiting[1], "◌ waits for others to end · 12 tool calls");
}

#[test]
fn an_answer_is_shown_without_what_is_for_the_model_and_cut_in_a_closed_card() {
    let details = details(SubagentStatus::Completed);
    let text = "one\n\ntwo\n\nthree\n\nfour\n\nsession_id: child";
    let outcome = || ToolOutcome {
        text,
        details: &details,
        is_error: false,
    };
    let closed = drawn(&Value::Null, Some(outcome()), false);
    assert_eq!(
        closed[1..],
        ["✓ done · 12 tool calls", "one", "", "two", "", "…"]
    );
    let open = drawn(&Value::Null, Some(outcome()), true);
    assert_eq!(open[1], "Where is the parser? Answer with a path.");
    assert!(
        open.contains(&"four".to_owned()) && !open.join("\n").contains("session_id"),
        "{open:?}"
    );
}

#[test]
fn a_call_that_nobody_waits_for_never_says_that_its_child_still_works() {
    let details = details(SubagentStatus::Running);
    let outcome = ToolOutcome {
        text: "The subagent works in the background. A message says when it has ended.",
        details: &details,
        is_error: false,
    };
    let rows = drawn(&Value::Null, Some(outcome), false);
    assert_eq!(
        rows[1..].join(" "),
        "◌ begun in the background, a message says when it ends · ctrl+x c looks in"
    );
}

#[test]
fn a_failure_says_what_happened() {
    let details = details(SubagentStatus::Failed);
    let text = "The subagent could not go on: no key";
    let failed = drawn(
        &Value::Null,
        Some(ToolOutcome {
            text,
            details: &details,
            is_error: true,
        }),
        false,
    );
    assert_eq!(failed[1..], ["✗ failed · 12 tool calls", text]);
}
