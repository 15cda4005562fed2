//! The keys that an overlay names in the lower edge of its frame, over several rows where one is too short.

use bezel_api_tui::RenderContext;
use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_presentation::text::{self, Role, TextStyle};
use bezel_presentation::{StyledLine, wrap};

/// What stands between two hints.
const BETWEEN: &str = " · ";

/// A screen has so many rows for each row of hints above the edge: the rest is for what the overlay shows.
const SCREEN_ROWS: u16 = 8;

/// The hints as rows for a frame of this width, broken between two hints. Where the screen is too low for all of
/// them, the last row is cut.
pub(super) fn rows(hints: &str, width: u16, screen_rows: u16) -> Vec<String> {
    let room = room(width);
    let most = 1 + usize::from(screen_rows / SCREEN_ROWS);
    let mut rows: Vec<String> = Vec::new();
    for hint in hints.split(BETWEEN).filter(|hint| !hint.is_empty()) {
        let full = rows.len() >= most;
        match rows.last_mut() {
            Some(row)
                if full || text::width(row) + text::width(BETWEEN) + text::width(hint) <= room =>
            {
                row.push_str(BETWEEN);
                row.push_str(hint);
            }
            _ => rows.push(hint.to_owned()),
        }
    }
    rows
}

/// Draws them within the frame `outer`.
pub(super) fn draw(buffer: &mut Buffer, outer: Rect, rows: &[String], cx: &RenderContext<'_>) {
    if outer.width < 2 || outer.height < 2 {
        return;
    }
    let right = outer.right() - 1;
    for (above, row) in (0_u16..)
        .zip(rows.iter().rev())
        .take_while(|(above, _)| above + 1 < outer.height)
    {
        let text = format!(" {} ", wrap::truncate_text(row, room(outer.width)));
        let width = u16::try_from(text::width(&text)).unwrap_or(0);
        let at = Rect {
            x: right.saturating_sub(1 + width),
            y: outer.bottom() - 1 - above,
            width,
            height: 1,
        };
        let style = TextStyle::role(Role::Faint).on(Role::Surface);
        cx.paint()
            .draw_line(buffer, at, &StyledLine::new(text, style));
    }
}

/// Columns for text between the corners.
fn room(width: u16) -> usize {
    usize::from(width).saturating_sub(6)
}
