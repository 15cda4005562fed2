//! What a person has written so far: text in which pasted blocks and pictures stand as one character each.

use std::ops::Range;

use bezel_blobs_contract::Picture;

/// The first character of the private plane that stands for chips; the next ones follow.
const FIRST: u32 = 0x10_0000;
const LAST: u32 = 0x10_FFFD;

/// Pastes of more lines than this are shown as one chip.
const PASTE_LINES: usize = 8;
/// And pastes of more characters than this.
const PASTE_LETTERS: usize = 1500;

/// Something in a draft that is shown in short and moved as one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Chip {
    /// Many pasted lines.
    Paste(String),
    /// A picture.
    Image {
        /// Its file name.
        name: String,
        /// What is sent.
        picture: Picture,
    },
}

impl Chip {
    /// What is shown in its place.
    pub(crate) fn label(&self) -> String {
        match self {
            Chip::Paste(text) => {
                let lines = text.lines().count();
                if lines > 1 {
                    format!("[pasted {lines} lines]")
                } else {
                    format!("[pasted {} characters]", text.chars().count())
                }
            }
            Chip::Image { name, .. } => format!("[image {name}]"),
        }
    }
}

/// Text and its chips.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Draft {
    /// The text; a chip is one character of a private plane.
    pub(crate) text: String,
    chips: Vec<Chip>,
}

/// One piece of a draft, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Piece<'a> {
    /// Text.
    Text(&'a str),
    /// A chip.
    Chip(&'a Chip),
}

/// One part of what is sent, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Text(String),
    Picture(Picture),
}

impl Draft {
    pub(crate) fn plain(text: impl AsRef<str>) -> Self {
        Draft {
            text: clean(text.as_ref()),
            chips: Vec::new(),
        }
    }

    /// The character that stands for a new chip.
    pub(crate) fn add(&mut self, chip: Chip) -> char {
        let index = u32::try_from(self.chips.len()).unwrap_or(0);
        self.chips.push(chip);
        char::from_u32(FIRST + index).unwrap_or('?')
    }

    /// What pasted text becomes: itself, or the character of a chip where it is long.
    pub(crate) fn pasted(&mut self, text: &str) -> String {
        let text = clean(text);
        let long = text.lines().count() > PASTE_LINES || text.chars().nth(PASTE_LETTERS).is_some();
        if long {
            self.add(Chip::Paste(text)).to_string()
        } else {
            text
        }
    }

    /// The chip that a character stands for.
    pub(crate) fn chip(&self, letter: char) -> Option<&Chip> {
        let index = u32::from(letter).checked_sub(FIRST)?;
        self.chips.get(usize::try_from(index).ok()?)
    }

    /// The pieces of a range, in order.
    pub(crate) fn pieces(&self, range: Range<usize>) -> Vec<Piece<'_>> {
        let Some(text) = self.text.get(range) else {
            return Vec::new();
        };
        let mut pieces = Vec::new();
        let mut start = 0;
        for (at, letter) in text.char_indices() {
            if let Some(chip) = self.chip(letter) {
                if at > start {
                    pieces.push(Piece::Text(&text[start..at]));
                }
                pieces.push(Piece::Chip(chip));
                start = at + letter.len_utf8();
            }
        }
        if start < text.len() {
            pieces.push(Piece::Text(&text[start..]));
        }
        pieces
    }

    /// Whether there is nothing to send.
    pub(crate) fn is_blank(&self) -> bool {
        self.pieces(0..self.text.len())
            .iter()
            .all(|piece| match piece {
                Piece::Text(text) => text.trim().is_empty(),
                Piece::Chip(Chip::Paste(text)) => text.trim().is_empty(),
                Piece::Chip(Chip::Image { .. }) => false,
            })
    }

    /// The text with pastes written out; pictures appear as their labels.
    pub(crate) fn expanded(&self) -> String {
        let text = self
            .pieces(0..self.text.len())
            .into_iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.to_owned(),
                Piece::Chip(Chip::Paste(text)) => text.clone(),
                Piece::Chip(image) => image.label(),
            });
        text.collect()
    }

    /// What is shown of it in one line.
    pub(crate) fn in_short(&self) -> String {
        let text = self
            .pieces(0..self.text.len())
            .into_iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.to_owned(),
                Piece::Chip(chip) => chip.label(),
            });
        let text: String = text.collect();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The parts of a message: text and pictures in order.
    pub(crate) fn content(&self) -> Vec<Part> {
        let mut content = Vec::new();
        let mut text = String::new();
        for piece in self.pieces(0..self.text.len()) {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Chip(Chip::Paste(paste)) => text.push_str(paste),
                Piece::Chip(Chip::Image { picture, .. }) => {
                    push_text(&mut content, &mut text);
                    content.push(Part::Picture(picture.clone()));
                }
            }
        }
        push_text(&mut content, &mut text);
        content
    }

    /// A text that was edited elsewhere; labels of this draft's pictures in it stand for them again.
    pub(crate) fn rewritten(&self, text: &str) -> Draft {
        let mut draft = Draft::plain(text);
        for chip in self
            .chips
            .iter()
            .filter(|chip| matches!(chip, Chip::Image { .. }))
        {
            if let Some(at) = draft.text.find(&chip.label()) {
                let letter = draft.add(chip.clone());
                draft
                    .text
                    .replace_range(at..at + chip.label().len(), letter.encode_utf8(&mut [0; 4]));
            }
        }
        draft
    }

    /// Puts another draft behind this one, after an empty line if there is something.
    pub(crate) fn append(&mut self, other: &Draft) {
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        for letter in other.text.chars() {
            match other.chip(letter) {
                Some(chip) => {
                    let letter = self.add(chip.clone());
                    self.text.push(letter);
                }
                None => self.text.push(letter),
            }
        }
    }
}

fn push_text(content: &mut Vec<Part>, text: &mut String) {
    let part = std::mem::take(text);
    let part = part.trim();
    if !part.is_empty() {
        content.push(Part::Text(part.to_owned()));
    }
}

/// Text without what a draft cannot hold: control characters, and those that stand for chips.
pub(crate) fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let kept = |letter: &char| {
        let private = (FIRST..=LAST).contains(&u32::from(*letter));
        !private && (!letter.is_control() || matches!(letter, '\n' | '\t'))
    };
    text.chars().filter(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str) -> Chip {
        let picture = Picture::new(b"\x89PNG\r\n\x1a\n".to_vec()).unwrap();
        Chip::Image {
            name: name.into(),
            picture,
        }
    }

    #[test]
    fn a_long_paste_is_short_on_the_screen_and_whole_when_sent() {
        let mut draft = Draft::default();
        let long = (1..=123)
            .map(|line| format!("line {line}\n"))
            .collect::<String>();
        let letter = draft.pasted(&long);
        draft.text = format!("see: {letter} end");
        assert_eq!(draft.in_short(), "see: [pasted 123 lines] end");
        assert_eq!(draft.content(), [Part::Text(format!("see: {long} end"))]);
        assert_eq!(draft.expanded(), format!("see: {long} end"));
        assert_eq!(draft.pasted("two\r\nlines"), "two\nlines");
    }

    #[test]
    fn pictures_are_sent_in_their_place_and_survive_an_editor() {
        let mut draft = Draft::default();
        let letter = draft.add(image("a.png"));
        draft.text = format!("before {letter} after");
        let content = draft.content();
        assert!(
            matches!(&content[..], [Part::Text(first), Part::Picture(_), Part::Text(last)]
            if first == "before" && last == "after")
        );
        let edited = draft.rewritten("now [image a.png] and [image b.png]");
        assert_eq!(edited.in_short(), "now [image a.png] and [image b.png]");
        assert_eq!(edited.content().len(), 3);
        assert!(
            !Draft {
                text: letter.to_string(),
                ..draft.clone()
            }
            .is_blank()
        );
    }

    #[test]
    fn what_could_fake_a_chip_or_move_the_cursor_is_dropped() {
        assert_eq!(clean("a\u{100000}b\u{1b}[31m\r\nc\td"), "ab[31m\nc\td");
        assert!(Draft::plain(" \n\t").is_blank());
    }

    #[test]
    fn drafts_join_with_their_chips() {
        let mut first = Draft::plain("one");
        let mut second = Draft::default();
        let letter = second.add(image("b.png"));
        second.text = format!("two {letter}");
        first.append(&second);
        assert_eq!(first.in_short(), "one two [image b.png]");
        assert_eq!(first.content().len(), 2);
    }
}
