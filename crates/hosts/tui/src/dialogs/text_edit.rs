//! Text of several lines that is being edited, wrapped to a width.

use std::ops::Range;

use bezel_api_tui::{Handled, InputEvent, KeyCode, KeyModifiers, KeyStroke};
use bezel_presentation::text::{grapheme_width, sanitize, width};
use unicode_segmentation::UnicodeSegmentation;

use super::line_edit::LineEdit;

/// Columns of a tab in what is pasted.
const TAB: usize = 4;

/// The text, the cursor in it, and how wide it was last shown.
#[derive(Debug)]
pub(super) struct TextEdit {
    edit: LineEdit,
    columns: usize,
}

impl Default for TextEdit {
    fn default() -> Self {
        TextEdit {
            edit: LineEdit::default(),
            columns: usize::MAX,
        }
    }
}

impl TextEdit {
    pub(super) fn text(&self) -> &str {
        self.edit.text()
    }

    /// Wraps to so many columns from now on.
    pub(super) fn fit(&mut self, columns: usize) {
        self.columns = columns.max(1);
    }

    /// The rows of the text, at least one; a row's newline is not part of it.
    pub(super) fn rows(&self) -> Vec<Range<usize>> {
        let mut rows = Vec::new();
        let mut start = 0;
        for line in self.text().split('\n') {
            wrap(
                self.text(),
                start..start + line.len(),
                self.columns,
                &mut rows,
            );
            start += line.len() + 1;
        }
        rows
    }

    /// The row and column of the cursor; between two rows of one line it stands in the later one.
    pub(super) fn cursor(&self) -> (usize, usize) {
        let (rows, at) = (self.rows(), self.edit.cursor());
        let row = rows.iter().rposition(|row| row.start <= at).unwrap_or(0);
        let before = rows[row].start..at.min(rows[row].end);
        (row, width(&self.text()[before]))
    }

    /// A newline where a backslash stands before the cursor, in its place: for terminals that tell enter with a
    /// modifier from enter alone by nothing else. False where none stands there.
    pub(super) fn continues(&mut self) -> bool {
        let at = self.edit.cursor();
        let escaped = self.text()[..at].ends_with('\\');
        if escaped {
            self.edit.delete(at - 1, at);
            self.edit.insert("\n");
        }
        escaped
    }

    /// Takes typed text and the usual keys. Enter alone and esc are left to others, as are up and down at the first
    /// and last row.
    pub(super) fn handle(&mut self, event: &InputEvent) -> Handled {
        match event {
            InputEvent::Paste(text) => {
                let text = text.replace("\r\n", "\n").replace('\r', "\n");
                self.edit.insert(sanitize(&text, TAB).as_ref());
                Handled::Yes
            }
            InputEvent::Key(key) => self.handle_key(KeyStroke::from(key), event),
            _ => Handled::No,
        }
    }

    fn handle_key(&mut self, stroke: KeyStroke, event: &InputEvent) -> Handled {
        if is_newline(stroke) {
            self.edit.insert("\n");
            return Handled::Yes;
        }
        let control = stroke.modifiers == KeyModifiers::CONTROL;
        let line = self.line();
        match stroke.code {
            KeyCode::Up => return self.go_rows(-1),
            KeyCode::Down => return self.go_rows(1),
            KeyCode::Home => self.edit.place(line.start),
            KeyCode::End => self.edit.place(line.end),
            KeyCode::Char('a') if control => self.edit.place(line.start),
            KeyCode::Char('e') if control => self.edit.place(line.end),
            KeyCode::Char('u') if control => self.edit.delete(line.start, self.edit.cursor()),
            KeyCode::Char('k') if control => self.edit.delete(self.edit.cursor(), line.end),
            _ => return self.edit.handle(event),
        }
        Handled::Yes
    }

    fn line(&self) -> Range<usize> {
        let (before, after) = self.text().split_at(self.edit.cursor());
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let end = after.find('\n').unwrap_or(after.len());
        start..before.len() + end
    }

    fn go_rows(&mut self, by: isize) -> Handled {
        let (row, column) = self.cursor();
        let rows = self.rows();
        let Some(row) = row.checked_add_signed(by).and_then(|row| rows.get(row)) else {
            return Handled::No;
        };
        let (mut place, mut columns) = (row.start, 0);
        for grapheme in self.text()[row.clone()].graphemes(true) {
            columns += grapheme_width(grapheme);
            if columns > column {
                break;
            }
            place += grapheme.len();
        }
        self.edit.place(place);
        Handled::Yes
    }
}

/// As in the composer: shift+enter, alt+enter, ctrl+j.
fn is_newline(stroke: KeyStroke) -> bool {
    let modified = KeyModifiers::SHIFT | KeyModifiers::ALT;
    match stroke.code {
        KeyCode::Enter => stroke.modifiers.intersects(modified),
        KeyCode::Char('j') => stroke.modifiers == KeyModifiers::CONTROL,
        _ => false,
    }
}

/// Breaks a line after a space where there is one.
fn wrap(text: &str, line: Range<usize>, columns: usize, rows: &mut Vec<Range<usize>>) {
    let (mut start, mut used) = (line.start, 0);
    // Behind the last space of the row, and how wide the row was there.
    let mut word = (line.start, 0);
    for (at, grapheme) in text[line.clone()].grapheme_indices(true) {
        let (at, wide) = (line.start + at, grapheme_width(grapheme));
        let space = grapheme.chars().all(char::is_whitespace);
        while used + wide > columns && !space && at > start {
            let cut = if word.0 > start { word } else { (at, used) };
            rows.push(start..cut.0);
            (start, used) = (cut.0, used - cut.1);
            word = (start, 0);
        }
        used += wide;
        if space {
            word = (at + grapheme.len(), used);
        }
    }
    rows.push(start..line.end);
}

#[cfg(test)]
mod tests {
    use bezel_api_tui::{Chord, KeyEvent};
    use proptest::prelude::*;

    use super::*;

    fn press(edit: &mut TextEdit, keys: &str) {
        for key in keys.split(' ') {
            let stroke = key.parse::<Chord>().unwrap().strokes()[0];
            edit.handle(&InputEvent::Key(KeyEvent::new(
                stroke.code,
                stroke.modifiers,
            )));
        }
    }

    fn paste(text: &str, columns: usize) -> TextEdit {
        let mut edit = TextEdit::default();
        edit.fit(columns);
        edit.handle(&InputEvent::Paste(text.into()));
        edit
    }

    fn shown(edit: &TextEdit) -> Vec<&str> {
        edit.rows()
            .into_iter()
            .map(|row| &edit.text()[row])
            .collect()
    }

    #[test]
    fn lines_are_begun_as_in_the_composer() {
        let mut edit = TextEdit::default();
        press(&mut edit, "a shift+enter b alt+enter c ctrl+j d");
        assert_eq!(edit.text(), "a\nb\nc\nd");
        assert!(!edit.continues());
        press(&mut edit, "\\");
        assert!(edit.continues());
        assert_eq!(edit.text(), "a\nb\nc\nd\n");
        assert_eq!(paste("one\r\n\ttwo\u{1b}", 80).text(), "one\n    two");
    }

    #[test]
    fn the_cursor_goes_by_rows_and_lines() {
        let mut edit = paste("one two three\nfour", 8);
        assert_eq!(shown(&edit), ["one two ", "three", "four"]);
        assert_eq!(edit.cursor(), (2, 4));
        press(&mut edit, "up");
        assert_eq!(edit.cursor(), (1, 4));
        press(&mut edit, "home");
        assert_eq!(edit.cursor(), (0, 0));
        assert_eq!(edit.go_rows(-1), Handled::No);
        press(&mut edit, "ctrl+k down");
        assert_eq!(edit.text(), "\nfour");
        assert_eq!(edit.go_rows(1), Handled::No);
        press(&mut edit, "end ctrl+u backspace");
        assert_eq!(edit.text(), "");
        assert_eq!(edit.cursor(), (0, 0));
    }

    proptest! {
        #[test]
        fn rows_hold_all_of_the_text_in_order_and_fit(text in "[a-z é語\n]{0,60}", columns in 2usize..12) {
            let edit = paste(&text, columns);
            let rows = edit.rows();
            let mut at = 0;
            for row in &rows {
                prop_assert!(row.start == at || (row.start == at + 1 && text.as_bytes()[at] == b'\n'));
                prop_assert!(width(text[row.clone()].trim_end()) <= columns);
                at = row.end;
            }
            prop_assert_eq!(at, text.len());
            let (row, _) = edit.cursor();
            prop_assert_eq!(row, rows.len() - 1);
        }
    }
}
