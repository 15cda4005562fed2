//! How a question looks in the transcript: what was asked, and what was answered.

use bezel_api_tui::{ToolCard, ToolRenderContext, ToolRenderer};
use bezel_presentation::markdown::MarkdownText;
use bezel_presentation::text::{Role, TextStyle, sanitize};
use bezel_presentation::wrap::{truncate, wrap};
use bezel_presentation::{StyledLine, StyledSpan};
use bezel_question_contract::{QuestionDetails, QuestionRequest};
use serde::Deserialize;

/// Rows of a written answer that a closed card shows.
const CLOSED_ROWS: usize = 3;

/// Draws calls of the question tool.
pub(crate) struct QuestionCard;

impl ToolRenderer for QuestionCard {
    fn title(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> StyledLine {
        let mut line = StyledLine::new("Question", Role::ToolName);
        let asked = card
            .arguments
            .get("question")
            .and_then(|text| text.as_str());
        if let Some(asked) = asked {
            // The rest of a long one stands below, where the card is open.
            let room = usize::from(cx.width).saturating_sub(line.width() + 2);
            line.push(StyledSpan::new("  ", Role::Text));
            let asked = truncate(&first_line(asked, cx), room);
            asked.spans.into_iter().for_each(|span| line.push(span));
        }
        line
    }

    fn body(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> Vec<StyledLine> {
        let width = usize::from(cx.width);
        let Some(outcome) = card.outcome else {
            return match cx.expanded {
                true => options(card, None, width),
                false => Vec::new(),
            };
        };
        let details = QuestionDetails::deserialize(outcome.details).ok();
        let (false, Some(details)) = (outcome.is_error, details) else {
            let role = if outcome.is_error {
                Role::Error
            } else {
                Role::Muted
            };
            return wrap(&StyledLine::new(one_line(outcome.text), role), width);
        };
        let mut rows = answer(&details, width);
        if cx.expanded {
            let mut question = MarkdownText::from(sanitize(&details.question, 4).as_ref());
            let mut whole = question.lines(width, cx.highlighter).to_vec();
            whole.extend(options(card, Some(&details), width));
            if details.answer.is_none() || details.was_custom {
                whole.append(&mut rows);
            }
            return whole;
        }
        if rows.len() > CLOSED_ROWS {
            rows.truncate(CLOSED_ROWS);
            rows.push(StyledLine::new("…", Role::Faint));
        }
        rows
    }
}

fn answer(details: &QuestionDetails, width: usize) -> Vec<StyledLine> {
    if let (Some(text), true) = (&details.answer, details.was_custom) {
        return written(text, width);
    }
    let (mark, text, style) = match &details.answer {
        None if details.options.is_empty() => (
            "⊘ ",
            "not asked: it had no options".to_owned(),
            TextStyle::role(Role::Muted),
        ),
        None => (
            "⊘ ",
            "not answered".to_owned(),
            TextStyle::role(Role::Muted),
        ),
        Some(text) => ("❯ ", one_line(text), TextStyle::role(Role::Text).bold()),
    };
    hanging(mark, Role::Accent, &StyledLine::new(text, style), width)
}

/// What a person wrote, line by line.
fn written(text: &str, width: usize) -> Vec<StyledLine> {
    let text = sanitize(text, 4);
    let lines = text.lines().enumerate();
    let rows = lines.flat_map(|(place, line)| {
        let mark = if place == 0 { "✎ " } else { "  " };
        let line = StyledLine::new(line.to_owned(), TextStyle::role(Role::Text));
        hanging(mark, Role::Accent, &line, width)
    });
    rows.collect()
}

/// All options, the selected one marked.
fn options(
    card: &ToolCard<'_>,
    details: Option<&QuestionDetails>,
    width: usize,
) -> Vec<StyledLine> {
    let Ok(request) = QuestionRequest::deserialize(card.arguments) else {
        return Vec::new();
    };
    let answer = details.filter(|details| !details.was_custom);
    let answer = answer.and_then(|details| details.answer.as_deref());
    let mut rows = Vec::new();
    for option in &request.options {
        let chosen = answer == Some(option.label.as_str());
        let style = match chosen {
            true => TextStyle::role(Role::Text).bold(),
            false => TextStyle::role(Role::Muted),
        };
        let mut line = StyledLine::new(one_line(&option.label), style);
        if let Some(description) = &option.description {
            line.push(StyledSpan::new(
                format!("  {}", one_line(description)),
                Role::Faint,
            ));
        }
        rows.extend(hanging(
            if chosen { "❯ " } else { "  " },
            Role::Accent,
            &line,
            width,
        ));
    }
    rows
}

/// A line behind a mark of two columns, its further rows indented as far.
fn hanging(mark: &'static str, role: Role, line: &StyledLine, width: usize) -> Vec<StyledLine> {
    let rows = wrap(line, width.saturating_sub(2).max(1)).into_iter();
    let row = |(place, mut row): (usize, StyledLine)| {
        let mut whole = StyledLine::new(if place == 0 { mark } else { "  " }, role);
        whole.spans.append(&mut row.spans);
        whole
    };
    rows.enumerate().map(row).collect()
}

/// The beginning of a Markdown text, without its marks.
fn first_line(text: &str, cx: &ToolRenderContext<'_>) -> StyledLine {
    let mut text = MarkdownText::from(sanitize(text, 4).as_ref());
    let lines = text.lines(usize::from(u16::MAX), cx.highlighter);
    lines.first().cloned().unwrap_or_default()
}

fn one_line(text: &str) -> String {
    sanitize(text, 4).replace('\n', " ")
}
