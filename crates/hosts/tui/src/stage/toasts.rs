//! Short notes in the upper right corner.

use std::time::Duration;

use bezel_api_tui::backend::Frame;
use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::ratatui::widgets::{Clear, Widget};
use bezel_api_tui::{Level, Toast};
use bezel_presentation::text::{Role, TextStyle, sanitize};
use bezel_presentation::{StyledLine, StyledSpan, wrap};
use tokio::time::Instant;

const WIDTH: u16 = 56;

/// More than this at once and the oldest goes.
const MOST: usize = 4;

/// Longer notes are cut.
const ROWS: usize = 6;

#[derive(Default)]
pub(super) struct Toasts(Vec<(Toast, Instant)>);

impl Toasts {
    pub(super) fn show(&mut self, toast: Toast, now: Instant) {
        let stays = if toast.level == Level::Error {
            Duration::from_secs(10)
        } else {
            Duration::from_secs(4)
        };
        self.0.retain(|(known, _)| *known != toast);
        self.0.push((toast, now + stays));
        if self.0.len() > MOST {
            self.0.remove(0);
        }
    }

    pub(super) fn draw(&mut self, screen: Rect, buffer: &mut Buffer, frame: &Frame) {
        self.0.retain(|(_, until)| *until > frame.now);
        let cx = frame.context(false);
        let width = WIDTH.min(screen.width.saturating_sub(2));
        if width < 8 {
            return;
        }
        let mut y = screen.y + 1;
        for (toast, until) in &self.0 {
            cx.redraw_at(*until);
            let role = match toast.level {
                Level::Info => Role::Notice,
                Level::Success => Role::Success,
                Level::Warning => Role::Warning,
                Level::Error => Role::Error,
            };
            let text = sanitize(toast.text.trim(), 4);
            let inner = usize::from(width) - 4;
            let lines = text.lines().map(|line| {
                StyledLine::new(
                    line.to_owned(),
                    TextStyle::role(Role::Text).on(Role::Surface),
                )
            });
            let mut rows: Vec<StyledLine> =
                lines.flat_map(|line| wrap::wrap(&line, inner)).collect();
            if rows.len() > ROWS {
                rows.truncate(ROWS);
                rows[ROWS - 1].push(StyledSpan::new(
                    " …",
                    TextStyle::role(Role::Faint).on(Role::Surface),
                ));
            }
            let widest = rows.iter().map(StyledLine::width).max().unwrap_or(0);
            let width = u16::try_from(widest + 4).unwrap_or(width).min(width);
            let height = u16::try_from(rows.len()).unwrap_or(1);
            let area = Rect {
                x: screen.right() - 1 - width,
                y,
                width,
                height,
            }
            .intersection(screen);
            if area.is_empty() {
                return;
            }
            Clear.render(area, buffer);
            buffer.set_style(area, cx.paint().ground(Role::Surface));
            for (row, line) in area.rows().zip(&rows) {
                let bar = StyledLine::new("▌", TextStyle::role(role).on(Role::Surface));
                cx.paint().draw_line(buffer, row, &bar);
                let text = Rect {
                    x: row.x + 2,
                    width: row.width.saturating_sub(2),
                    ..row
                };
                cx.paint().draw_line(buffer, text, line);
            }
            y += height + 1;
        }
    }
}
