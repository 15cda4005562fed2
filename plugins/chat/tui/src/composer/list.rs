//! The list of candidates above the composer.

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::{Position, Rect};
use bezel_api_tui::{
    EventContext, Handled, InputEvent, MouseButton, MouseEventKind, RenderContext, View,
};
use bezel_presentation::text::{Role, TextStyle};
use bezel_presentation::wrap::truncate;
use bezel_presentation::{StyledLine, StyledSpan};

use super::completion::Candidate;
use super::{Composer, LIST_ROWS};

/// Shows the open list.
pub(super) struct ListView {
    composer: Composer,
    /// The first candidate that is shown.
    first: usize,
}

impl ListView {
    pub(super) fn new(composer: Composer) -> Self {
        ListView { composer, first: 0 }
    }
}

impl View for ListView {
    fn height(&mut self, _width: u16, _cx: &RenderContext<'_>) -> u16 {
        let core = self.composer.lock();
        let count = core.list.as_ref().map_or(0, |list| list.candidates.len());
        u16::try_from(count).unwrap_or(LIST_ROWS).min(LIST_ROWS)
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let core = self.composer.lock();
        let Some(list) = &core.list else { return };
        let visible = usize::from(area.height).max(1);
        self.first = self
            .first
            .clamp((list.selected + 1).saturating_sub(visible), list.selected);
        self.first = self
            .first
            .min(list.candidates.len().saturating_sub(visible));
        let widest = list
            .candidates
            .iter()
            .map(|candidate| bezel_presentation::text::width(&candidate.label))
            .max();
        let label = widest.unwrap_or(0).min(usize::from(area.width) * 3 / 5);
        for (position, row) in area.rows().enumerate() {
            let index = self.first + position;
            let Some(candidate) = list.candidates.get(index) else {
                break;
            };
            let line = line(candidate, index == list.selected, label);
            let hidden = match position {
                0 if self.first > 0 => Some(("↑", self.first)),
                _ if position + 1 == visible => {
                    Some(("↓", list.candidates.len().saturating_sub(index + 1)))
                }
                _ => None,
            };
            let line = with_more(&line, hidden, usize::from(area.width));
            cx.paint().draw_line(buffer, row, &line);
        }
    }

    fn handle(&mut self, event: &InputEvent, cx: &mut EventContext) -> Handled {
        let InputEvent::Mouse(mouse) = event else {
            return Handled::No;
        };
        let area = cx.area();
        if !area.contains(Position {
            x: mouse.column,
            y: mouse.row,
        }) {
            return Handled::No;
        }
        let mut core = self.composer.lock();
        let index = self.first + usize::from(mouse.row - area.y);
        let Some(list) = &mut core.list else {
            return Handled::No;
        };
        match mouse.kind {
            MouseEventKind::ScrollUp => list.step(-1),
            MouseEventKind::ScrollDown => list.step(1),
            MouseEventKind::Down(MouseButton::Left) if index < list.candidates.len() => {
                (list.selected, list.by_hand) = (index, true);
                self.composer.accept(&mut core, true);
            }
            _ => return Handled::No,
        }
        Handled::Yes
    }
}

/// A row, and how many candidates are hidden beyond it.
fn with_more(line: &StyledLine, hidden: Option<(&str, usize)>, width: usize) -> StyledLine {
    let Some((arrow, count)) = hidden.filter(|(_, count)| *count > 0) else {
        return truncate(line, width);
    };
    let more = format!("  {arrow} {count} more");
    let room = width.saturating_sub(bezel_presentation::text::width(&more));
    let mut shown = truncate(line, room);
    let ground = line.background.unwrap_or(Role::Surface);
    let gap = room.saturating_sub(shown.width());
    let faint = TextStyle::role(Role::Faint).on(ground);
    shown.push(StyledSpan::new(" ".repeat(gap) + &more, faint));
    shown
}

fn line(candidate: &Candidate, selected: bool, label: usize) -> StyledLine {
    let ground = if selected {
        Role::Selection
    } else {
        Role::Surface
    };
    let on = |role: Role| TextStyle::role(role).on(ground);
    let mut line = StyledLine {
        spans: Vec::new(),
        background: Some(ground),
    };
    line.push(StyledSpan::new(
        if selected { "› " } else { "  " },
        on(Role::Accent),
    ));
    let mut marked = StyledLine::default();
    for (at, letter) in candidate.label.chars().enumerate() {
        let hit = u32::try_from(at).is_ok_and(|at| candidate.positions.binary_search(&at).is_ok());
        marked.push(StyledSpan::new(
            letter.to_string(),
            on(if hit { Role::Match } else { Role::Text }),
        ));
    }
    let marked = truncate(&marked, label);
    let gap = label.saturating_sub(marked.width()) + 2;
    marked.spans.into_iter().for_each(|span| line.push(span));
    if !candidate.detail.is_empty() {
        line.push(StyledSpan::new(" ".repeat(gap), on(Role::Text)));
        line.push(StyledSpan::new(candidate.detail.clone(), on(Role::Muted)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(hidden: Option<(&str, usize)>) -> String {
        let row = StyledLine::new("› /compact  Compact the conversation", Role::Text);
        let line = with_more(&row, hidden, 30);
        line.spans.iter().map(|span| span.text.as_ref()).collect()
    }

    #[test]
    fn the_last_row_says_how_many_follow_and_the_first_how_many_precede() {
        assert!(
            shown(Some(("↓", 12))).ends_with("  ↓ 12 more"),
            "{}",
            shown(Some(("↓", 12)))
        );
        assert!(shown(Some(("↑", 2))).ends_with("  ↑ 2 more"));
        assert!(!shown(Some(("↓", 0))).contains("more"));
        assert!(!shown(None).contains("more"));
    }
}
