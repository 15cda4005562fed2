//! Marking text with the mouse: what a terminal does itself when a program does not use the mouse.

use bezel_api_tui::ratatui::buffer::{Buffer, CellWidth};
use bezel_api_tui::ratatui::layout::{Position, Rect};
use bezel_api_tui::ratatui::style::Style;

/// Text between two positions, in reading order, within the area where the mouse went down.
#[derive(Debug, Default)]
pub(super) struct Marking {
    region: Rect,
    from: Position,
    to: Position,
    phase: Phase,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Nothing,
    /// The button is down and the mouse has not moved.
    Armed,
    Marking,
    /// The button was released: the text is to be copied when it is drawn next.
    Copying,
    Copied,
}

impl Marking {
    pub(super) fn begin(&mut self, region: Rect, at: Position) {
        *self = Marking {
            region,
            from: at,
            to: at,
            phase: Phase::Armed,
        };
    }

    /// Follows the mouse. True where something is being marked.
    pub(super) fn drag(&mut self, at: Position) -> bool {
        if !matches!(self.phase, Phase::Armed | Phase::Marking) || self.region.is_empty() {
            return false;
        }
        let inside =
            |value: u16, start: u16, end: u16| value.clamp(start, end.saturating_sub(1).max(start));
        self.to = Position {
            x: inside(at.x, self.region.left(), self.region.right()),
            y: inside(at.y, self.region.top(), self.region.bottom()),
        };
        self.phase = Phase::Marking;
        true
    }

    pub(super) fn release(&mut self) {
        self.phase = if self.phase == Phase::Marking {
            Phase::Copying
        } else {
            Phase::Nothing
        };
    }

    pub(super) fn clear(&mut self) {
        self.phase = Phase::Nothing;
    }

    /// Shows what is marked, and gives its text once after the button was released.
    pub(super) fn draw(&mut self, buffer: &mut Buffer, style: Style) -> Option<String> {
        if matches!(self.phase, Phase::Nothing | Phase::Armed) {
            return None;
        }
        let region = self.region.intersection(*buffer.area());
        let key = |position: Position| (position.y, position.x);
        let (from, to) = if key(self.from) <= key(self.to) {
            (self.from, self.to)
        } else {
            (self.to, self.from)
        };
        let mut lines = Vec::new();
        for y in from.y.max(region.top())..=to.y.min(region.bottom().saturating_sub(1)) {
            let left = if y == from.y {
                from.x.max(region.left())
            } else {
                region.left()
            };
            let right = if y == to.y {
                (to.x + 1).min(region.right())
            } else {
                region.right()
            };
            let mut line = String::new();
            let mut x = left;
            while x < right {
                let cell = &mut buffer[(x, y)];
                line.push_str(cell.symbol());
                x += cell.symbol().cell_width().max(1);
            }
            buffer.set_style(
                Rect {
                    x: left,
                    y,
                    width: right.saturating_sub(left),
                    height: 1,
                },
                style,
            );
            lines.push(line.trim_end().to_owned());
        }
        if self.phase != Phase::Copying {
            return None;
        }
        self.phase = Phase::Copied;
        Some(lines.join("\n")).filter(|text| !text.trim().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_marked_in_reading_order_and_copied_once() {
        let mut buffer = Buffer::with_lines(["hello wörld ", "漢字 second ", "third       "]);
        let mut marking = Marking::default();
        marking.begin(Rect::new(0, 0, 12, 3), Position::new(4, 2));
        assert_eq!(marking.draw(&mut buffer, Style::new()), None);
        assert!(marking.drag(Position::new(6, 0)));
        assert_eq!(marking.draw(&mut buffer, Style::new()), None);
        marking.release();
        assert_eq!(
            marking.draw(&mut buffer, Style::new()).as_deref(),
            Some("wörld\n漢字 second\nthird")
        );
        assert_eq!(marking.draw(&mut buffer, Style::new()), None);
    }

    #[test]
    fn a_click_marks_nothing() {
        let mut buffer = Buffer::with_lines(["hello"]);
        let mut marking = Marking::default();
        marking.begin(Rect::new(0, 0, 5, 1), Position::new(1, 0));
        marking.release();
        assert_eq!(marking.draw(&mut buffer, Style::new()), None);
        assert!(!marking.drag(Position::new(3, 0)));
    }
}
