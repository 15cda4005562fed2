//! Lines that may be more than fit: scrolling, and how far one is.

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::{Handled, InputEvent, KeyCode, KeyStroke, MouseEventKind, RenderContext};
use bezel_presentation::text::Role;

/// Rows that a notch of the wheel moves.
const WHEEL: usize = 3;

/// Where in a long text one is.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Scroll {
    top: usize,
    /// Rows of the last drawing.
    page: usize,
    total: usize,
}

impl Scroll {
    /// Fits the position to what there is; gives the first row to draw.
    pub(super) fn fit(&mut self, total: usize, page: usize) -> usize {
        (self.total, self.page) = (total, page);
        self.top = self.top.min(total.saturating_sub(page));
        self.top
    }

    /// Moves so that a row can be seen.
    pub(super) fn reveal(&mut self, row: usize, page: usize) {
        if row < self.top {
            self.top = row;
        } else if row >= self.top + page {
            self.top = row + 1 - page;
        }
    }

    pub(super) fn rewind(&mut self) {
        self.top = 0;
    }

    pub(super) fn wheel(&mut self, event: &InputEvent) -> Handled {
        let InputEvent::Mouse(mouse) = event else {
            return Handled::No;
        };
        match mouse.kind {
            MouseEventKind::ScrollUp => self.top = self.top.saturating_sub(WHEEL),
            MouseEventKind::ScrollDown => self.top = (self.top + WHEEL).min(self.most()),
            _ => return Handled::No,
        }
        Handled::Yes
    }

    pub(super) fn keys(&mut self, event: &InputEvent) -> Handled {
        let InputEvent::Key(event) = event else {
            return self.wheel(event);
        };
        let stroke = KeyStroke::from(event);
        if !stroke.modifiers.is_empty() {
            return Handled::No;
        }
        match stroke.code {
            KeyCode::Up => self.top = self.top.saturating_sub(1),
            KeyCode::Down => self.top = (self.top + 1).min(self.most()),
            KeyCode::PageUp => self.top = self.top.saturating_sub(self.page.max(2) - 1),
            KeyCode::PageDown => self.page_down(),
            KeyCode::Home => self.top = 0,
            KeyCode::End => self.top = self.most(),
            _ => return Handled::No,
        }
        Handled::Yes
    }

    pub(super) fn page_down(&mut self) {
        self.top = (self.top + self.page.max(2) - 1).min(self.most());
    }

    fn most(&self) -> usize {
        self.total.saturating_sub(self.page)
    }

    /// A thin bar in the last column of `area`, where there is more than fits.
    pub(super) fn draw_bar(&self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let page = usize::from(area.height);
        if self.total <= page || area.width == 0 || page == 0 {
            return;
        }
        let length = (page * page / self.total).clamp(1, page);
        let start = if self.most() == 0 {
            0
        } else {
            self.top * (page - length) / self.most()
        };
        for (row, y) in (area.top()..area.bottom()).enumerate() {
            let inside = (start..start + length).contains(&row);
            let cell = &mut buffer[(area.right() - 1, y)];
            cell.set_symbol(if inside { "┃" } else { "│" });
            cell.set_style(cx.style(if inside { Role::Muted } else { Role::Border }));
        }
    }
}
