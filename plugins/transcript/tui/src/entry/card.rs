//! Tool calls as cards that open and close.

use bezel_api_tui::{ToolCard, ToolOutcome, ToolRenderContext, ToolStatus as CardStatus};
use bezel_presentation::StyledLine;
use bezel_presentation::text::Role;
use bezel_presentation::wrap::truncate;
use bezel_transcript_contract::{ToolItem, ToolStatus};
use serde_json::Value;

use super::rows::{Mark, Rows};
use super::{GUTTER, Layout, Whole, result_text};

/// The body begins below the title, right of the mark.
const INDENT: u16 = 2;

/// Columns that are kept free for the time.
const TIME: usize = 9;

pub(super) fn build(tool: &ToolItem, whole: &Whole, open: bool, cx: &Layout<'_>) -> Rows {
    let width = cx.width.saturating_sub(GUTTER + INDENT + 1).max(1);
    let text = match whole {
        Whole::Known(result) => result_text(result),
        _ => String::new(),
    };
    let output = if matches!(whole, Whole::Known(_)) {
        &text
    } else {
        &tool.output
    };
    let details = match whole {
        Whole::Known(result) if !result.details.is_null() => &result.details,
        _ => &tool.details,
    };
    let unfinished = Value::String(tool.arguments_text.clone());
    let arguments = if tool.arguments.is_null() && !tool.arguments_text.is_empty() {
        &unfinished
    } else {
        &tool.arguments
    };
    let ended = matches!(tool.status, ToolStatus::Done | ToolStatus::Failed);
    let card = ToolCard {
        name: &tool.tool,
        arguments,
        status: status(tool.status),
        output: if ended { "" } else { output },
        progress: if ended { &Value::Null } else { details },
        outcome: ended.then_some(ToolOutcome {
            text: output,
            details,
            is_error: tool.status == ToolStatus::Failed,
        }),
        // Time goes on by itself: it is drawn beside the title, not into it.
        elapsed: None,
    };
    let context = ToolRenderContext {
        width,
        expanded: open,
        highlighter: cx.highlighter,
    };
    let renderer = cx.renderers.get(&tool.tool);
    let mut rows = Rows::default();
    let title = renderer.title(&card, &context);
    let room = usize::from(width).saturating_sub(TIME).max(8);
    let sign = match mark(tool.status) {
        Mark::Done if renderer.came_to_failure(&card) => Mark::Failed,
        sign => sign,
    };
    rows.took = renderer.took(&card);
    rows.push_head(truncate(&title, room), sign);
    for line in renderer.body(&card, &context) {
        rows.push_indented(line, INDENT);
    }
    let note = match whole {
        Whole::Loading if open => Some(StyledLine::new(
            "fetching the rest of the output…",
            Role::Faint,
        )),
        Whole::Failed(reason) if open => Some(StyledLine::new(
            format!("the rest of the output could not be fetched: {reason}"),
            Role::Error,
        )),
        _ => None,
    };
    if let Some(note) = note {
        rows.push_indented(truncate(&note, usize::from(width)), INDENT);
    }
    rows
}

fn status(status: ToolStatus) -> CardStatus {
    match status {
        ToolStatus::Streaming => CardStatus::Preparing,
        ToolStatus::Pending => CardStatus::Waiting,
        ToolStatus::Running => CardStatus::Running,
        ToolStatus::Done => CardStatus::Succeeded,
        ToolStatus::Failed => CardStatus::Failed,
        ToolStatus::Interrupted => CardStatus::Interrupted,
    }
}

fn mark(status: ToolStatus) -> Mark {
    match status {
        ToolStatus::Pending => Mark::Waiting,
        ToolStatus::Streaming | ToolStatus::Running => Mark::Running,
        ToolStatus::Done => Mark::Done,
        ToolStatus::Failed => Mark::Failed,
        ToolStatus::Interrupted => Mark::Interrupted,
    }
}
