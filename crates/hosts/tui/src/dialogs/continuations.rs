//! What may follow in a chord that has begun.

use std::sync::Arc;

use bezel_api_tui::CommandEntry;
use bezel_api_tui::backend::Frame;
use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::ratatui::widgets::{Clear, Widget};
use bezel_presentation::text::Role;
use bezel_presentation::{StyledLine, StyledSpan};

use crate::stage::draw_frame;

/// Draws the box in the lower right corner.
pub(crate) fn draw(
    typed: &str,
    continuations: &[(String, Arc<str>)],
    commands: &[CommandEntry],
    screen: Rect,
    buffer: &mut Buffer,
    frame: &Frame,
) {
    let cx = frame.context(false);
    let widest = continuations
        .iter()
        .map(|(keys, _)| keys.chars().count())
        .max()
        .unwrap_or(0);
    let lines: Vec<StyledLine> = continuations
        .iter()
        .map(|(keys, id)| {
            let title = commands
                .iter()
                .find(|command| command.id == *id)
                .map_or(&**id, |command| &*command.title);
            let mut line = StyledLine::new(format!("{keys:<widest$}  "), Role::Key);
            line.push(StyledSpan::new(title.to_owned(), Role::Text));
            line
        })
        .collect();
    let width = lines
        .iter()
        .map(StyledLine::width)
        .max()
        .unwrap_or(0)
        .max(typed.len() + 4)
        + 4;
    let (width, height) = (
        u16::try_from(width).unwrap_or(u16::MAX),
        u16::try_from(lines.len() + 2).unwrap_or(u16::MAX),
    );
    let (width, height) = (
        width.min(screen.width),
        height.min(screen.height.saturating_sub(1)),
    );
    let area = Rect {
        x: screen.right() - width,
        y: screen.bottom().saturating_sub(height + 1),
        width,
        height,
    };
    if area.width < 6 || area.height < 3 {
        return;
    }
    Clear.render(area, buffer);
    buffer.set_style(area, cx.paint().ground(Role::Surface));
    draw_frame(buffer, area, Some(&format!("{typed} …")), Role::Border, &cx);
    let inner = Rect {
        x: area.x + 2,
        y: area.y + 1,
        width: area.width - 4,
        height: area.height - 2,
    };
    cx.paint().draw_lines(buffer, inner, &lines);
}
