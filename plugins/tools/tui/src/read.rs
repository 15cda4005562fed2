//! `read`: which part of which file.

use bezel_api_tui::{ToolCard, ToolRenderContext, ToolRenderer};
use bezel_presentation::text::{Role, sanitize};
use bezel_presentation::wrap::wrap;
use bezel_presentation::{StyledLine, StyledSpan, format};
use bezel_tools_contract::{ReadContent, ToolDetails};

use crate::arguments;
use crate::output::{self, Part};
use crate::paths::{Paths, TIME};

/// Rows of an error that a closed card shows.
pub(crate) const ERROR_LINES: usize = 3;

/// Draws calls of `read`.
pub(crate) struct ReadRenderer {
    paths: Paths,
}

impl ReadRenderer {
    pub(crate) fn new(paths: Paths) -> Self {
        ReadRenderer { paths }
    }
}

impl ToolRenderer for ReadRenderer {
    fn title(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> StyledLine {
        let mut line = StyledLine::new("Read ", Role::ToolName);
        let details = match details(card) {
            Some(ToolDetails::Read(details)) => Some(details),
            _ => None,
        };
        let path = details.as_ref().map(|details| details.path.clone());
        let path = path.or_else(|| arguments::text(card, "path").map(|path| path.into_owned()));
        let note = details.map(|details| match details.content {
            ReadContent::Text { last_line: 0, .. } => "empty".to_owned(),
            ReadContent::Text {
                first_line,
                last_line,
                total_lines,
                ..
            } => match total_lines {
                Some(total) if first_line == 1 && last_line >= total => format::count(
                    usize::try_from(total).unwrap_or(usize::MAX),
                    "line",
                    "lines",
                ),
                Some(total) => format!("{first_line}–{last_line} of {total}"),
                None => format!("{first_line}–{last_line}"),
            },
            ReadContent::Image { width, height, .. } => format!("picture, {width}×{height}"),
        });
        let note = note.map(|note| StyledSpan::new(format!("  {note}"), Role::Faint));
        let taken = line.width() + note.as_ref().map_or(0, StyledSpan::width) + TIME;
        let room = usize::from(cx.width).saturating_sub(taken);
        line.push(StyledSpan::new(
            self.paths.fitted(&path.unwrap_or_default(), room),
            Role::Text,
        ));
        note.into_iter().for_each(|note| line.push(note));
        line
    }

    fn body(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> Vec<StyledLine> {
        text_body(card, cx)
    }
}

/// What a tool says for renderers: of its result, or while it runs.
pub(crate) fn details(card: &ToolCard<'_>) -> Option<ToolDetails> {
    let details = card
        .outcome
        .map_or(card.progress, |outcome| outcome.details);
    ToolDetails::from_value(details)
}

/// The text of the result where the card is open, the beginning of an error where it is closed.
pub(crate) fn text_body(card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> Vec<StyledLine> {
    match card.outcome {
        Some(outcome) if outcome.is_error => error_body(outcome.text, cx),
        Some(outcome) if cx.expanded => {
            output::lines(outcome.text, Role::Muted, cx.width, Part::All)
        }
        None if cx.expanded => output::lines(card.output, Role::Muted, cx.width, Part::All),
        _ => Vec::new(),
    }
}

/// What went wrong: whole sentences, as far as a closed card has room.
pub(crate) fn error_body(text: &str, cx: &ToolRenderContext<'_>) -> Vec<StyledLine> {
    let line = |line: &str| StyledLine::new(sanitize(line, 4).into_owned(), Role::Error);
    let lines = text.trim_end().lines();
    let mut rows: Vec<StyledLine> = lines
        .flat_map(|text| wrap(&line(text), usize::from(cx.width)))
        .collect();
    // A note in place of one row would save nothing.
    if !cx.expanded && rows.len() > ERROR_LINES + 1 {
        let hidden = rows.len() - ERROR_LINES;
        rows.truncate(ERROR_LINES);
        rows.push(output::more(hidden));
    }
    rows
}
