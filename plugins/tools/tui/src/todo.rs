//! `todo`: the list of tasks.

use bezel_api_tui::{ToolCard, ToolRenderContext, ToolRenderer};
use bezel_presentation::text::{Role, TextStyle, sanitize};
use bezel_presentation::wrap::{truncate, wrap};
use bezel_presentation::{StyledLine, StyledSpan};
use bezel_tools_contract::{TodoItem, TodoStatus, ToolDetails};

use crate::output;
use crate::read::{details, error_body};

/// Tasks that a closed card shows.
const CLOSED_ITEMS: usize = 6;

/// Draws calls of `todo`.
pub(crate) struct TodoRenderer;

impl ToolRenderer for TodoRenderer {
    fn title(&self, card: &ToolCard<'_>, _cx: &ToolRenderContext<'_>) -> StyledLine {
        let mut line = StyledLine::new("Tasks", Role::ToolName);
        if let Some(ToolDetails::Todo(list)) = details(card) {
            let done = list
                .items
                .iter()
                .filter(|item| item.status == TodoStatus::Completed)
                .count();
            let note = if list.items.is_empty() {
                "none".to_owned()
            } else {
                format!("{done} of {} done", list.items.len())
            };
            line.push(StyledSpan::new(format!("  {note}"), Role::Faint));
        }
        line
    }

    fn body(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> Vec<StyledLine> {
        if let Some(outcome) = card.outcome.filter(|outcome| outcome.is_error) {
            return error_body(outcome.text, cx);
        }
        let Some(ToolDetails::Todo(list)) = details(card) else {
            return Vec::new();
        };
        let width = usize::from(cx.width);
        if cx.expanded {
            return list
                .items
                .iter()
                .flat_map(|item| whole(item, width))
                .collect();
        }
        // What is being done matters most, with what was done last above it.
        let current = list
            .items
            .iter()
            .position(|item| item.status != TodoStatus::Completed);
        let last = list.items.len().saturating_sub(CLOSED_ITEMS);
        let first = current
            .unwrap_or(list.items.len())
            .saturating_sub(1)
            .min(last);
        let shown = list.items.iter().skip(first).take(CLOSED_ITEMS);
        let mut rows: Vec<StyledLine> = shown.map(|item| truncate(&line(item), width)).collect();
        let below = list.items.len() - first - rows.len();
        if below > 0 {
            rows.push(output::more(below));
        }
        rows
    }
}

fn mark(status: TodoStatus) -> (&'static str, Role, TextStyle) {
    match status {
        TodoStatus::Completed => ("☑ ", Role::TaskDone, TextStyle::role(Role::Struck)),
        TodoStatus::InProgress => ("▶ ", Role::Accent, TextStyle::role(Role::Text).bold()),
        TodoStatus::Pending => ("☐ ", Role::TaskOpen, TextStyle::role(Role::Text)),
    }
}

fn line(item: &TodoItem) -> StyledLine {
    let (sign, role, style) = mark(item.status);
    let mut line = StyledLine::new(sign, role);
    line.push(StyledSpan::new(
        sanitize(&item.content, 4).replace('\n', " "),
        style,
    ));
    line
}

fn whole(item: &TodoItem, width: usize) -> Vec<StyledLine> {
    let (sign, role, style) = mark(item.status);
    let text = StyledLine::new(sanitize(&item.content, 4).replace('\n', " "), style);
    let rows = wrap(&text, width.saturating_sub(2)).into_iter().enumerate();
    let row = |(position, row): (usize, StyledLine)| {
        let mut line = if position == 0 {
            StyledLine::new(sign, role)
        } else {
            StyledLine::new("  ", Role::Text)
        };
        row.spans.into_iter().for_each(|span| line.push(span));
        line
    };
    rows.map(row).collect()
}
