//! Editing of a draft: cursor, words, kill and yank, undo.

use unicode_segmentation::UnicodeSegmentation;

use super::layout::Layout;
use crate::draft::{Draft, clean};

/// How many steps back there are.
const UNDO: usize = 200;

/// A draft under the cursor.
#[derive(Debug, Default)]
pub(crate) struct Editor {
    draft: Draft,
    /// Byte of the text, at a grapheme boundary.
    cursor: usize,
    /// The column that moving up and down keeps to.
    goal: Option<usize>,
    killed: String,
    undo: Vec<(Draft, usize)>,
    last: Step,
}

/// What the last change was: equal ones in a row are undone together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Other,
    Typed,
    Deleted,
    Killed,
}

/// Where to move or how far to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Motion {
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    Start,
    End,
}

impl Editor {
    pub(crate) fn draft(&self) -> &Draft {
        &self.draft
    }

    pub(crate) fn text(&self) -> &str {
        &self.draft.text
    }

    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.draft.text.is_empty()
    }

    /// Puts another draft in place, with the cursor at its end. Can be undone.
    pub(crate) fn replace(&mut self, draft: Draft) {
        self.save(Step::Other);
        self.cursor = draft.text.len();
        self.draft = draft;
    }

    /// Takes the draft out; there is nothing to undo afterwards.
    pub(crate) fn take(&mut self) -> Draft {
        let killed = std::mem::take(&mut self.killed);
        let taken = std::mem::take(self);
        self.killed = killed;
        taken.draft
    }

    pub(crate) fn place_cursor(&mut self, at: usize) {
        self.last = Step::Other;
        self.goal = None;
        self.cursor = at.min(self.draft.text.len());
    }

    /// Inserts what was typed.
    pub(crate) fn type_text(&mut self, text: &str) {
        let text = clean(text);
        // A space begins a new step, so that undo goes by words.
        if text.chars().all(char::is_whitespace) {
            self.last = Step::Other;
        }
        self.save(Step::Typed);
        self.put(&text);
    }

    /// Inserts what was pasted; long text becomes a chip.
    pub(crate) fn paste(&mut self, text: &str) {
        self.save(Step::Other);
        let text = self.draft.pasted(text);
        self.put(&text);
    }

    /// Inserts a chip and a space behind it.
    pub(crate) fn insert_chip(&mut self, chip: crate::draft::Chip) {
        self.save(Step::Other);
        let letter = self.draft.add(chip);
        self.put(&format!("{letter} "));
    }

    /// Puts text in place of a range, with the cursor behind it.
    pub(crate) fn replace_range(&mut self, range: std::ops::Range<usize>, text: &str) {
        if self.draft.text.get(range.clone()).is_none() {
            return;
        }
        self.save(Step::Other);
        self.draft.text.replace_range(range.clone(), "");
        self.cursor = range.start;
        self.put(&clean(text));
    }

    pub(crate) fn go(&mut self, motion: Motion) {
        let to = self.target(motion);
        self.place_cursor(to);
    }

    /// Moves by screen rows, keeping to the column. False where there is no such row.
    pub(crate) fn go_rows(&mut self, layout: &Layout, rows: isize) -> bool {
        let (row, column) = layout.position(&self.draft, self.cursor);
        let Some(row) = row
            .checked_add_signed(rows)
            .filter(|row| *row < layout.rows.len())
        else {
            return false;
        };
        let goal = self.goal.unwrap_or(column);
        let to = layout.place(&self.draft, row, goal);
        self.place_cursor(to);
        self.goal = Some(goal);
        true
    }

    /// Deletes up to where the motion leads.
    pub(crate) fn delete(&mut self, motion: Motion) {
        let (start, end) = self.reach(motion);
        if start < end {
            self.save(Step::Deleted);
            self.draft.text.replace_range(start..end, "");
            self.cursor = start;
        }
    }

    /// Deletes up to where the motion leads and keeps it for [`Editor::yank`]; kills in a row add up. At the
    /// end or start of a line it takes the newline.
    pub(crate) fn kill(&mut self, motion: Motion) {
        let (mut start, mut end) = self.reach(motion);
        if start == end {
            match motion {
                Motion::LineEnd if end < self.draft.text.len() => end += 1,
                Motion::LineStart if start > 0 => start -= 1,
                _ => return,
            }
        }
        let adds = self.last == Step::Killed;
        self.save(Step::Killed);
        let piece: String = self.draft.text.drain(start..end).collect();
        let forward = start == self.cursor;
        self.cursor = start;
        self.killed = match (adds, forward) {
            (false, _) => piece,
            (true, true) => format!("{}{piece}", self.killed),
            (true, false) => format!("{piece}{}", self.killed),
        };
    }

    /// Inserts what was killed last.
    pub(crate) fn yank(&mut self) {
        // A chip that was killed with another draft stands for nothing here.
        let known = |letter: &char| {
            self.draft.chip(*letter).is_some() || !clean(&letter.to_string()).is_empty()
        };
        let killed: String = self.killed.chars().filter(known).collect();
        if !killed.is_empty() {
            self.save(Step::Other);
            self.put(&killed);
        }
    }

    /// Goes back to before the last change. False when there is none.
    pub(crate) fn undo(&mut self) -> bool {
        let Some((draft, cursor)) = self.undo.pop() else {
            return false;
        };
        (self.draft, self.cursor) = (draft, cursor);
        (self.goal, self.last) = (None, Step::Other);
        true
    }

    fn save(&mut self, step: Step) {
        self.goal = None;
        let joins = step == self.last && matches!(step, Step::Typed | Step::Deleted);
        self.last = step;
        if joins {
            return;
        }
        if self.undo.len() == UNDO {
            self.undo.remove(0);
        }
        self.undo.push((self.draft.clone(), self.cursor));
    }

    fn put(&mut self, text: &str) {
        self.draft.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    fn reach(&self, motion: Motion) -> (usize, usize) {
        let to = self.target(motion);
        (to.min(self.cursor), to.max(self.cursor))
    }

    fn target(&self, motion: Motion) -> usize {
        let text = &self.draft.text;
        let (before, after) = text.split_at(self.cursor);
        match motion {
            Motion::Left => self.cursor - before.graphemes(true).next_back().map_or(0, str::len),
            Motion::Right => self.cursor + after.graphemes(true).next().map_or(0, str::len),
            Motion::WordLeft => {
                let words = before.trim_end_matches(|letter| !self.in_word(letter));
                match words.chars().next_back() {
                    Some(letter) if self.draft.chip(letter).is_some() => {
                        words.len() - letter.len_utf8()
                    }
                    _ => words.trim_end_matches(is_word).len(),
                }
            }
            Motion::WordRight => {
                let words = after.trim_start_matches(|letter| !self.in_word(letter));
                let rest = match words.chars().next() {
                    Some(letter) if self.draft.chip(letter).is_some() => {
                        &words[letter.len_utf8()..]
                    }
                    _ => words.trim_start_matches(is_word),
                };
                text.len() - rest.len()
            }
            Motion::LineStart => before.rfind('\n').map_or(0, |at| at + 1),
            Motion::LineEnd => after.find('\n').map_or(text.len(), |at| self.cursor + at),
            Motion::Start => 0,
            Motion::End => text.len(),
        }
    }

    fn in_word(&self, letter: char) -> bool {
        is_word(letter) || self.draft.chip(letter).is_some()
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::Chip;

    fn editor(text: &str) -> Editor {
        let mut editor = Editor::default();
        let at = text.find('|').expect("a cursor");
        editor.type_text(&text.replace('|', ""));
        editor.place_cursor(at);
        editor
    }

    fn shown(editor: &Editor) -> String {
        let mut text = editor.text().to_owned();
        text.insert(editor.cursor(), '|');
        text
    }

    #[test]
    fn motions_go_by_characters_words_and_lines() {
        let cases = [
            ("ab|c", Motion::Left, "a|bc"),
            ("|", Motion::Left, "|"),
            ("e\u{301}|x", Motion::Left, "|e\u{301}x"),
            ("foo.bar_baz, qux|", Motion::WordLeft, "foo.bar_baz, |qux"),
            ("foo.bar_baz, |qux", Motion::WordLeft, "foo.|bar_baz, qux"),
            ("|foo.bar", Motion::WordRight, "foo|.bar"),
            ("foo|.bar", Motion::WordRight, "foo.bar|"),
            ("a\nbc|d\ne", Motion::LineStart, "a\n|bcd\ne"),
            ("a\nb|cd\ne", Motion::LineEnd, "a\nbcd|\ne"),
            ("a\nb|cd\ne", Motion::Start, "|a\nbcd\ne"),
            ("a\nb|cd\ne", Motion::End, "a\nbcd\ne|"),
        ];
        for (before, motion, after) in cases {
            let mut editor = editor(before);
            editor.go(motion);
            assert_eq!(shown(&editor), after, "{motion:?} from {before}");
        }
    }

    #[test]
    fn killed_text_comes_back() {
        let mut it = editor("one two |three\nfour");
        it.kill(Motion::LineEnd);
        it.kill(Motion::LineEnd);
        assert_eq!(shown(&it), "one two |four");
        it.go(Motion::Start);
        it.yank();
        assert_eq!(shown(&it), "three\n|one two four");
        let mut it = editor("one two three|");
        it.kill(Motion::WordLeft);
        it.kill(Motion::WordLeft);
        assert_eq!(shown(&it), "one |");
        it.yank();
        assert_eq!(shown(&it), "one two three|");
    }

    #[test]
    fn undo_goes_back_by_words_and_pastes() {
        let mut it = Editor::default();
        for letter in "hello world".chars() {
            it.type_text(&letter.to_string());
        }
        it.paste("!");
        assert!(it.undo());
        assert_eq!(shown(&it), "hello world|");
        assert!(it.undo());
        assert_eq!(shown(&it), "hello|");
        assert!(it.undo());
        assert!(!it.undo());
        assert_eq!(shown(&it), "|");
    }

    #[test]
    fn a_chip_is_one_character() {
        let mut it = editor("see |");
        it.paste(&"line\n".repeat(40));
        assert_eq!(it.draft().in_short(), "see [pasted 40 lines]");
        it.go(Motion::WordLeft);
        assert_eq!(it.cursor(), 4);
        it.go(Motion::WordRight);
        it.delete(Motion::Left);
        assert_eq!(shown(&it), "see |");
        it.insert_chip(Chip::Paste("x".into()));
        it.kill(Motion::WordLeft);
        it.take();
        it.yank();
        assert_eq!(
            shown(&it),
            " |",
            "a chip of another draft is not taken for one of this"
        );
    }

    #[test]
    fn moving_by_rows_keeps_the_column() {
        let mut it = editor("abcdef|\nx\nabcdef");
        let layout = Layout::new(it.draft(), 40);
        assert!(it.go_rows(&layout, 1));
        assert_eq!(shown(&it), "abcdef\nx|\nabcdef");
        assert!(it.go_rows(&layout, 1));
        assert_eq!(shown(&it), "abcdef\nx\nabcdef|");
        assert!(!it.go_rows(&layout, 1));
    }
}
