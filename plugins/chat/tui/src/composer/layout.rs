//! Where the text of a draft stands on the screen: rows of a width, broken between words.

use std::ops::Range;

use bezel_presentation::text::{grapheme_width, width};
use unicode_segmentation::UnicodeSegmentation;

use crate::draft::{Draft, Piece};

/// Columns of a tab.
pub(crate) const TAB: usize = 4;

/// The rows of a draft at one width, each a range of its text without the newline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layout {
    /// At least one.
    pub(crate) rows: Vec<Range<usize>>,
}

impl Layout {
    pub(crate) fn new(draft: &Draft, columns: usize) -> Self {
        let columns = columns.max(1);
        let mut rows = Vec::new();
        let mut start = 0;
        for line in draft.text.split('\n') {
            push_rows(draft, start..start + line.len(), columns, &mut rows);
            start += line.len() + 1;
        }
        Layout { rows }
    }

    /// The row and column of a place in the text. A place between two rows of one line is in the later one.
    pub(crate) fn position(&self, draft: &Draft, at: usize) -> (usize, usize) {
        let row = self
            .rows
            .iter()
            .rposition(|row| row.start <= at)
            .unwrap_or(0);
        let until = at.min(self.rows[row].end);
        (row, columns_of(draft, self.rows[row].start..until))
    }

    /// The place in the text that is nearest to a row and column.
    pub(crate) fn place(&self, draft: &Draft, row: usize, column: usize) -> usize {
        let row = row.min(self.rows.len() - 1);
        let range = self.rows[row].clone();
        let mut columns = 0;
        let mut place = range.start;
        for grapheme in draft.text[range.clone()].graphemes(true) {
            let next = columns + grapheme_columns(draft, grapheme);
            if column < next {
                return place;
            }
            columns = next;
            place += grapheme.len();
        }
        // Behind the last character of a row that goes on lies the next row.
        let goes_on = self
            .rows
            .get(row + 1)
            .is_some_and(|next| next.start == range.end);
        match draft.text[range.clone()].graphemes(true).next_back() {
            Some(last) if goes_on => range.end - last.len(),
            _ => range.end,
        }
    }
}

fn push_rows(draft: &Draft, line: Range<usize>, columns: usize, rows: &mut Vec<Range<usize>>) {
    let text = &draft.text[line.clone()];
    let mut start = line.start;
    let mut used = 0;
    // Where the current word began, and the columns from there.
    let mut word = start;
    let mut word_used = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        let at = line.start + at;
        let wide = grapheme_columns(draft, grapheme);
        let space = grapheme.chars().all(char::is_whitespace);
        // A space may hang over the edge: it is not seen there.
        if used + wide > columns && !space && at > start {
            let cut = if word > start { word } else { at };
            rows.push(start..cut);
            start = cut;
            used = if cut == word { word_used } else { 0 };
            if cut == at {
                word = at;
                word_used = 0;
            }
        }
        used += wide;
        word_used += wide;
        if space {
            word = at + grapheme.len();
            word_used = 0;
        }
    }
    rows.push(start..line.end);
}

fn columns_of(draft: &Draft, range: Range<usize>) -> usize {
    draft.text[range]
        .graphemes(true)
        .map(|grapheme| grapheme_columns(draft, grapheme))
        .sum()
}

fn grapheme_columns(draft: &Draft, grapheme: &str) -> usize {
    match grapheme.chars().next() {
        Some('\t') => TAB,
        Some(letter) => match draft.chip(letter) {
            Some(chip) => width(&chip.label()),
            None => grapheme_width(grapheme),
        },
        None => 0,
    }
}

/// What a row shows: text with its tabs spread, and chips by their labels.
pub(crate) fn shown(draft: &Draft, row: Range<usize>) -> Vec<(String, bool)> {
    let pieces = draft.pieces(row).into_iter();
    pieces
        .map(|piece| match piece {
            Piece::Text(text) => (text.replace('\t', &" ".repeat(TAB)), false),
            Piece::Chip(chip) => (chip.label(), true),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, columns: usize) -> Vec<String> {
        let draft = Draft::plain(text);
        Layout::new(&draft, columns)
            .rows
            .into_iter()
            .map(|row| draft.text[row].to_owned())
            .collect()
    }

    #[test]
    fn words_stay_whole_where_they_fit() {
        assert_eq!(rows("the quick brown fox", 10), ["the quick ", "brown fox"]);
        assert_eq!(rows("abcdefghijkl", 5), ["abcde", "fghij", "kl"]);
        assert_eq!(rows("a\n\nb", 5), ["a", "", "b"]);
        assert_eq!(rows("", 5), [""]);
        assert_eq!(rows("漢字漢字", 5), ["漢字", "漢字"]);
        assert_eq!(rows("hello     x", 5), ["hello     ", "x"]);
    }

    #[test]
    fn every_place_comes_back_from_its_position() {
        let draft = Draft::plain("the quick brown fox\njumps\tover\n\nüber 漢字 the lazy dog");
        for columns in [1, 3, 7, 12, 80] {
            let layout = Layout::new(&draft, columns);
            for (at, _) in draft.text.grapheme_indices(true) {
                let (row, column) = layout.position(&draft, at);
                assert_eq!(
                    layout.place(&draft, row, column),
                    at,
                    "at {at} of {columns} columns"
                );
            }
            let joined: usize = layout.rows.iter().map(|row| row.len()).sum();
            assert_eq!(joined + 3, draft.text.len(), "{columns} columns");
        }
    }

    #[test]
    fn beyond_the_end_of_a_row_is_its_end() {
        let draft = Draft::plain("ab cd\nx");
        let layout = Layout::new(&draft, 3);
        assert_eq!(layout.rows, [0..3, 3..5, 6..7]);
        assert_eq!(layout.place(&draft, 0, 99), 2);
        assert_eq!(layout.place(&draft, 1, 99), 5);
        assert_eq!(layout.place(&draft, 9, 99), 7);
    }
}
