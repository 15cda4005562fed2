//! How a subagent's call looks in the transcript: what it is to do, how far it is, what it answered.

use bezel_api_tui::{ToolCard, ToolRenderContext, ToolRenderer};
use bezel_presentation::markdown::MarkdownText;
use bezel_presentation::text::{Role, TextStyle, sanitize};
use bezel_presentation::wrap::{truncate, wrap};
use bezel_presentation::{StyledLine, StyledSpan};
use bezel_subagent_contract::{SubagentDetails, SubagentStatus};
use serde::Deserialize;

/// Rows of an answer that a closed card shows.
const CLOSED_ROWS: usize = 4;

/// Draws calls of the subagent tool.
pub(crate) struct SubagentCard;

impl ToolRenderer for SubagentCard {
    fn title(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> StyledLine {
        let word = |name: &str| card.arguments.get(name).and_then(|text| text.as_str());
        let mut line = StyledLine::new("Subagent", Role::ToolName);
        if let Some(agent) = word("agent").filter(|agent| !agent.is_empty()) {
            line.push(StyledSpan::new(
                format!(" {}", one_line(agent)),
                Role::Accent,
            ));
        }
        if let Some(description) = word("description") {
            line.push(StyledSpan::new(
                format!("  {}", one_line(description)),
                Role::Text,
            ));
        }
        truncate(&line, usize::from(cx.width))
    }

    fn body(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> Vec<StyledLine> {
        let width = usize::from(cx.width);
        let shown = match card.outcome {
            Some(outcome) => outcome.details,
            None => card.progress,
        };
        let details = SubagentDetails::deserialize(shown).ok();
        let mut rows = Vec::new();
        if cx.expanded
            && let Some(prompt) = card.arguments.get("prompt").and_then(|text| text.as_str())
        {
            let prompt = StyledLine::new(one_line(prompt), Role::Muted);
            rows.extend(wrap(&prompt, width));
        }
        // The result of a call that nobody waits for is written when the child begins, and stays as it is.
        let begun = card.outcome.is_some()
            && (details.as_ref()).is_some_and(|details| details.status == SubagentStatus::Running);
        if begun {
            rows.extend(wrap(&in_background(), width));
            return rows;
        }
        if let Some(details) = &details {
            rows.extend(wrap(&how_far(details), width));
        }
        let Some(outcome) = card.outcome else {
            return rows;
        };
        if outcome.is_error {
            let error = StyledLine::new(one_line(outcome.text), Role::Error);
            rows.extend(wrap(&error, width));
            return rows;
        }
        let mut answer = MarkdownText::from(sanitize(without_id(outcome.text), 4).as_ref());
        let answer = answer.lines(width, cx.highlighter);
        match cx.expanded || answer.len() <= CLOSED_ROWS {
            true => rows.extend(answer.iter().cloned()),
            false => {
                rows.extend(answer.iter().take(CLOSED_ROWS).cloned());
                rows.push(StyledLine::new("…", Role::Faint));
            }
        }
        rows
    }
}

/// `● working · 12 tool calls, last grep · ctrl+x c looks in`
fn how_far(details: &SubagentDetails) -> StyledLine {
    let (mark, word, role) = match details.status {
        SubagentStatus::Waiting => ("◌ ", "waits for others to end", Role::Muted),
        SubagentStatus::Running if details.background => {
            ("● ", "works in the background", Role::Accent)
        }
        SubagentStatus::Running => ("● ", "works", Role::Accent),
        SubagentStatus::Completed => ("✓ ", "done", Role::Success),
        SubagentStatus::Interrupted => ("⊘ ", "interrupted", Role::Warning),
        SubagentStatus::Failed => ("✗ ", "failed", Role::Error),
    };
    let mut line = StyledLine::new(mark, role);
    line.push(StyledSpan::new(word, TextStyle::role(Role::Text)));
    let calls = match details.tool_calls {
        0 => String::new(),
        1 => " · 1 tool call".to_owned(),
        count => format!(" · {count} tool calls"),
    };
    let last = details
        .last_tool
        .as_deref()
        .filter(|_| details.status == SubagentStatus::Running);
    let last = last
        .map(|tool| format!(", last {}", one_line(tool)))
        .unwrap_or_default();
    let hint = match details.status {
        SubagentStatus::Running => " · ctrl+x c looks in",
        _ => "",
    };
    line.push(StyledSpan::new(format!("{calls}{last}{hint}"), Role::Faint));
    line
}

/// What is left of a call whose child was begun in the background: a later message tells of its end.
fn in_background() -> StyledLine {
    let mut line = StyledLine::new("◌ ", Role::Muted);
    line.push(StyledSpan::new(
        "begun in the background, a message says when it ends",
        TextStyle::role(Role::Text),
    ));
    line.push(StyledSpan::new(" · ctrl+x c looks in", Role::Faint));
    line
}

/// The answer without the line that is for the model.
fn without_id(text: &str) -> &str {
    match text.rsplit_once("\n\nsession_id: ") {
        Some((answer, _)) => answer,
        None => text,
    }
}

fn one_line(text: &str) -> String {
    let text = sanitize(text, 4);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
