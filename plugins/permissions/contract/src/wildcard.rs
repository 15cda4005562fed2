//! Wildcards: `*` is any text and `?` one character, a backslash takes the meaning of the next character away.

/// A pattern, read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wildcard(Vec<Piece>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    One(char),
    Any,
    Many,
}

impl Wildcard {
    /// Reads a pattern; every text is one.
    pub fn new(pattern: &str) -> Self {
        let mut pieces = Vec::with_capacity(pattern.len());
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            pieces.push(match character {
                '*' if pieces.last() == Some(&Piece::Many) => continue,
                '*' => Piece::Many,
                '?' => Piece::Any,
                '\\' => Piece::One(characters.next().unwrap_or('\\')),
                other => Piece::One(other),
            });
        }
        Wildcard(pieces)
    }

    /// Whether it is all of `text`.
    pub fn matches(&self, text: &str) -> bool {
        matches(&self.0, text)
    }

    /// Whether it is all of a command line: ` *` at the end also stands for no argument.
    pub fn matches_line(&self, line: &str) -> bool {
        if self.matches(line) {
            return true;
        }
        match self.0.as_slice() {
            [head @ .., Piece::One(' '), Piece::Many] => matches(head, line),
            _ => false,
        }
    }
}

/// Goes back to the last `*` alone, so the time is at most length times length.
fn matches(pieces: &[Piece], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut piece, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let fits = match pieces.get(piece) {
            Some(Piece::Many) => {
                star = Some((piece + 1, at));
                piece += 1;
                continue;
            }
            Some(Piece::Any) => at < text.len(),
            Some(Piece::One(character)) => text.get(at) == Some(character),
            None if at == text.len() => return true,
            None => false,
        };
        if fits {
            (piece, at) = (piece + 1, at + 1);
            continue;
        }
        match &mut star {
            Some((after, from)) if *from < text.len() => {
                *from += 1;
                (piece, at) = (*after, *from);
            }
            _ => return false,
        }
    }
}
