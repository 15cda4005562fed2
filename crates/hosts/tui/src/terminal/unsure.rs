//! Rows with characters whose width terminals disagree about.
//!
//! Flags, families and other pictures of several code points are two columns here, and anything from one to
//! eight in a terminal that draws their parts side by side. What such a terminal put beside the place would
//! stay for ever, because a frame writes only cells that changed. So a row that holds one, or held one in the
//! frame before, is erased and written as a whole whenever it changes.

use std::hash::{DefaultHasher, Hash, Hasher};

use bezel_api_tui::ratatui::buffer::{Buffer, Cell, CellDiffOption};

/// The rows of the last frame that held such characters, and what each showed.
#[derive(Default)]
pub(super) struct UnsureRows(Vec<(u16, u64)>);

impl UnsureRows {
    /// Marks the rows of a finished frame that must be written as a whole.
    pub(super) fn mark(&mut self, buffer: &mut Buffer) {
        let width = usize::from(buffer.area.width);
        if width == 0 {
            return self.0.clear();
        }
        let mut now = Vec::new();
        for (row, cells) in (buffer.area.y..).zip(buffer.content.chunks_mut(width)) {
            let before = self.0.iter().find(|(before, _)| *before == row);
            let unsure = cells.iter().any(is_unsure);
            if !unsure && before.is_none() {
                continue;
            }
            let shown = fingerprint(cells);
            if before.is_none_or(|(_, before)| *before != shown) {
                cells.iter_mut().for_each(|cell| {
                    cell.set_diff_option(CellDiffOption::AlwaysUpdate);
                });
            }
            if unsure {
                now.push((row, shown));
            }
        }
        self.0 = now;
    }
}

/// Whether a cell is the first of a row that is written as a whole.
pub(super) fn begins_whole_row(x: u16, cell: &Cell) -> bool {
    x == 0 && cell.diff_option == CellDiffOption::AlwaysUpdate
}

/// Several code points in one character.
fn is_unsure(cell: &Cell) -> bool {
    let symbol = cell.symbol();
    // One code point takes at most four bytes; most cells are done with here.
    symbol.len() > 1 && symbol.chars().nth(1).is_some()
}

fn fingerprint(cells: &[Cell]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for cell in cells {
        (cell.symbol(), cell.fg, cell.bg, cell.modifier).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use bezel_api_tui::ratatui::layout::Rect;
    use bezel_api_tui::ratatui::style::Style;

    use super::*;

    /// Rows that are written as a whole after each of the frames.
    fn whole(frames: &[[&str; 2]]) -> Vec<Vec<u16>> {
        let mut rows = UnsureRows::default();
        let marked = |frame: &[&str; 2]| {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 2));
            for (y, text) in (0..).zip(frame) {
                buffer.set_string(0, y, text, Style::new());
            }
            rows.mark(&mut buffer);
            (0..2)
                .filter(|y| begins_whole_row(0, &buffer[(0, *y)]))
                .collect()
        };
        frames.iter().map(marked).collect()
    }

    #[test]
    fn a_row_with_a_flag_is_written_whole_when_it_changes_and_when_the_flag_goes() {
        let frames = [
            ["plain", "a 🇩🇪 b"],
            ["plain", "a 🇩🇪 b"],
            ["plain", "a 🇩🇪 c"],
            ["a 🇩🇪 c", "plain"],
            ["plain", "plain"],
            ["other", "宽 é"],
        ];
        assert_eq!(
            whole(&frames),
            [vec![1], vec![], vec![1], vec![0, 1], vec![0], vec![]]
        );
    }
}
