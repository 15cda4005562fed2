//! One line of text that is being edited.

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::{Position, Rect};
use bezel_api_tui::{Handled, InputEvent, KeyCode, KeyModifiers, KeyStroke, RenderContext};
use bezel_presentation::StyledLine;
use bezel_presentation::text::{self, Role, grapheme_width};
use unicode_segmentation::UnicodeSegmentation;

/// The text, and where in it the cursor stands.
#[derive(Debug, Default, Clone)]
pub(super) struct LineEdit {
    text: String,
    /// A byte position between two graphemes.
    cursor: usize,
    /// Columns scrolled out on the left.
    scroll: usize,
    secret: bool,
}

impl LineEdit {
    pub(super) fn new(text: String, secret: bool) -> Self {
        LineEdit {
            cursor: text.len(),
            text,
            scroll: 0,
            secret,
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Takes typed text and the usual keys of a line. Up, down, enter and esc are left to others.
    pub(super) fn handle(&mut self, event: &InputEvent) -> Handled {
        match event {
            InputEvent::Key(event) => self.handle_key(KeyStroke::from(event)),
            InputEvent::Paste(text) => {
                let line = text
                    .split(['\n', '\t'])
                    .map(str::trim)
                    .filter(|part| !part.is_empty())
                    .collect::<Vec<_>>()
                    .join(" ");
                let clean: String = line.chars().filter(|letter| !letter.is_control()).collect();
                self.insert(&clean);
                Handled::Yes
            }
            _ => Handled::No,
        }
    }

    fn handle_key(&mut self, stroke: KeyStroke) -> Handled {
        if let Some(letter) = stroke.typed() {
            self.insert(letter.encode_utf8(&mut [0; 4]));
            return Handled::Yes;
        }
        let control = stroke.modifiers.contains(KeyModifiers::CONTROL);
        let by_word = control || stroke.modifiers.contains(KeyModifiers::ALT);
        match stroke.code {
            KeyCode::Left if by_word => self.cursor = self.word_before(),
            KeyCode::Right if by_word => self.cursor = self.word_after(),
            KeyCode::Left => self.cursor = self.before(),
            KeyCode::Right => self.cursor = self.after(),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            KeyCode::Backspace if by_word => self.delete(self.word_before(), self.cursor),
            KeyCode::Backspace => self.delete(self.before(), self.cursor),
            KeyCode::Delete if by_word => self.delete(self.cursor, self.word_after()),
            KeyCode::Delete => self.delete(self.cursor, self.after()),
            KeyCode::Char('a') if control => self.cursor = 0,
            KeyCode::Char('e') if control => self.cursor = self.text.len(),
            KeyCode::Char('h') if control => self.delete(self.before(), self.cursor),
            KeyCode::Char('w') if control => self.delete(self.word_before(), self.cursor),
            KeyCode::Char('u') if control => self.delete(0, self.cursor),
            KeyCode::Char('k') if control => self.delete(self.cursor, self.text.len()),
            KeyCode::Char('b') if !control && by_word => self.cursor = self.word_before(),
            KeyCode::Char('f') if !control && by_word => self.cursor = self.word_after(),
            KeyCode::Char('d') if !control && by_word => {
                self.delete(self.cursor, self.word_after())
            }
            _ => return Handled::No,
        }
        Handled::Yes
    }

    /// The byte that the cursor stands before.
    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Moves the cursor to a place between two graphemes.
    pub(super) fn place(&mut self, at: usize) {
        self.cursor = at;
    }

    pub(super) fn insert(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    pub(super) fn delete(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    fn before(&self) -> usize {
        self.text[..self.cursor]
            .grapheme_indices(true)
            .next_back()
            .map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        self.text[self.cursor..]
            .graphemes(true)
            .next()
            .map_or(self.cursor, |grapheme| self.cursor + grapheme.len())
    }

    fn word_before(&self) -> usize {
        let mut words = self.text[..self.cursor].unicode_word_indices();
        words.next_back().map_or(0, |(at, _)| at)
    }

    fn word_after(&self) -> usize {
        let mut words = self.text[self.cursor..].unicode_word_indices();
        words
            .next()
            .map_or(self.text.len(), |(at, word)| self.cursor + at + word.len())
    }

    /// Draws the line, or the placeholder while it is empty, scrolled so that the cursor shows.
    pub(super) fn render(
        &mut self,
        area: Rect,
        buffer: &mut Buffer,
        placeholder: &str,
        cx: &RenderContext<'_>,
    ) {
        if area.is_empty() {
            return;
        }
        let width = usize::from(area.width);
        let shown = |text: &str| {
            if self.secret {
                "•".repeat(text.graphemes(true).count())
            } else {
                text.to_owned()
            }
        };
        let (left, whole) = (shown(&self.text[..self.cursor]), shown(&self.text));
        let column = text::width(&left);
        self.scroll = self.scroll.min(column);
        if column >= self.scroll + width {
            self.scroll = column + 1 - width;
        }
        if self.text.is_empty() {
            cx.paint().draw_line(
                buffer,
                area,
                &StyledLine::new(placeholder.to_owned(), Role::Placeholder),
            );
        } else {
            let mut start = 0;
            let mut skipped = 0;
            for grapheme in whole.graphemes(true) {
                if skipped >= self.scroll {
                    break;
                }
                skipped += grapheme_width(grapheme);
                start += grapheme.len();
            }
            let visible = StyledLine::new(whole[start..].to_owned(), Role::Text);
            cx.paint().draw_line(buffer, area, &visible);
        }
        let offset = u16::try_from(column - self.scroll).unwrap_or(0);
        cx.place_cursor(Position::new(area.x + offset, area.y));
    }
}

#[cfg(test)]
mod tests {
    use bezel_api_tui::{Chord, KeyEvent};

    use super::*;

    fn press(edit: &mut LineEdit, keys: &str) {
        for key in keys.split(' ') {
            let stroke = key.parse::<Chord>().unwrap().strokes()[0];
            edit.handle(&InputEvent::Key(KeyEvent::new(
                stroke.code,
                stroke.modifiers,
            )));
        }
    }

    #[test]
    fn a_line_is_edited_with_the_usual_keys() {
        let mut edit = LineEdit::new("one two".into(), false);
        press(&mut edit, "ctrl+w x left é");
        assert_eq!(edit.text(), "one éx");
        press(&mut edit, "home delete end backspace alt+backspace");
        assert_eq!(edit.text(), "ne ");
        press(&mut edit, "ctrl+u");
        edit.handle(&InputEvent::Paste("two\n lines\t\u{1b}x".into()));
        assert_eq!(edit.text(), "two lines x");
        press(&mut edit, "ctrl+a ctrl+right ctrl+k");
        assert_eq!(edit.text(), "two");
    }

    #[test]
    fn a_grapheme_is_one_step_and_one_deletion() {
        let mut edit = LineEdit::new("a👩‍👩‍👧b".into(), false);
        press(&mut edit, "left backspace");
        assert_eq!(edit.text(), "ab");
    }
}
