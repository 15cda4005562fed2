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
            cx.paint()
                .draw_line(buffer, row, &truncate(&line, usize::from(area.width)));
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
                list.selected = index;
                self.composer.accept(&mut core, true);
            }
            _ => return Handled::No,
        }
        Handled::Yes
    }
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
