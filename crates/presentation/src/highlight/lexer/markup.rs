//! HTML and XML.

use super::Pieces;
use crate::text::{Role, StyledLine};

/// What is open at the end of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum MarkupState {
    #[default]
    Text,
    Comment,
    /// Within a tag, behind its name.
    Tag,
    /// Within a value, up to this quote.
    Value(char),
}

pub(super) fn read_line(state: &mut MarkupState, line: &str) -> StyledLine {
    let mut pieces = Pieces::new(line);
    let mut at = 0;
    while at < line.len() {
        let rest = &line[at..];
        let up_to = |end: Option<usize>| end.unwrap_or(rest.len()).max(1);
        let (length, role, next) = match *state {
            MarkupState::Comment => match rest.find("-->") {
                Some(end) => (end + 3, Role::Comment, MarkupState::Text),
                None => (rest.len(), Role::Comment, MarkupState::Comment),
            },
            MarkupState::Value(quote) => match rest.find(quote) {
                Some(end) => (end + 1, Role::String, MarkupState::Tag),
                None => (rest.len(), Role::String, MarkupState::Value(quote)),
            },
            MarkupState::Text if rest.starts_with("<!--") => {
                (4, Role::Comment, MarkupState::Comment)
            }
            MarkupState::Text if rest.starts_with('<') => {
                let signs = if rest[1..].starts_with(['/', '!', '?']) {
                    2
                } else {
                    1
                };
                pieces.push(at, at + signs, Role::Punctuation);
                at += signs;
                let name = &line[at..];
                let length = name
                    .find(|letter: char| !is_name(letter))
                    .unwrap_or(name.len());
                (length, Role::Tag, MarkupState::Tag)
            }
            MarkupState::Text if rest.starts_with('&') => {
                match rest.find(';').filter(|end| *end < 12) {
                    Some(end) => (end + 1, Role::Escape, MarkupState::Text),
                    None => (1, Role::CodeBlock, MarkupState::Text),
                }
            }
            MarkupState::Text => {
                let end = rest
                    .char_indices()
                    .skip(1)
                    .find(|(_, letter)| matches!(letter, '<' | '&'))
                    .map(|(at, _)| at);
                (up_to(end), Role::CodeBlock, MarkupState::Text)
            }
            MarkupState::Tag => match rest.chars().next() {
                Some('>') => (1, Role::Punctuation, MarkupState::Text),
                Some(quote @ ('"' | '\'')) => (1, Role::String, MarkupState::Value(quote)),
                Some(letter) if is_name(letter) => {
                    let value = line[..at].ends_with('=');
                    let role = if value { Role::String } else { Role::Attribute };
                    (
                        up_to(rest.find(|letter: char| !is_name(letter))),
                        role,
                        MarkupState::Tag,
                    )
                }
                Some(letter) => (letter.len_utf8(), Role::Punctuation, MarkupState::Tag),
                None => break,
            },
        };
        pieces.push(at, at + length, role);
        at += length;
        *state = next;
    }
    pieces.out
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '-' | '_' | ':' | '.' | '@' | '#')
}
