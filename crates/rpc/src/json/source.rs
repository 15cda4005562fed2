//! What a payload is read from: its text, and how far it was read.

use std::borrow::Cow;

use crate::strict::{Scanner, StrictError};

/// A payload that is being read. Beyond JSON's own grammar it keeps the rules of [`crate::strict`].
pub(super) struct Source<'p> {
    pub(super) scanner: Scanner<'p>,
    text: &'p str,
    pub(super) depth: usize,
}

impl<'p> Source<'p> {
    pub(super) fn new(text: &'p str) -> Self {
        Source {
            scanner: Scanner::new(text.as_bytes()),
            text,
            depth: 0,
        }
    }

    /// The next byte that is not white space.
    pub(super) fn next(&mut self) -> Option<u8> {
        self.scanner.space();
        self.scanner.peek()
    }

    /// Passes over one whole value and answers its text. It keeps the strict rules; its grammar is checked by
    /// whoever reads it.
    pub(super) fn value(&mut self) -> Result<&'p str, StrictError> {
        self.scanner.space();
        let start = self.scanner.at;
        self.scanner.value(self.depth)?;
        Ok(&self.text[start..self.scanner.at])
    }

    /// Passes over a string; answers it as it stands between its quotes.
    pub(super) fn raw(&mut self) -> Result<&'p str, StrictError> {
        let start = self.scanner.at + 1;
        self.scanner.string()?;
        Ok(&self.text[start..self.scanner.at - 1])
    }

    /// Reads a string.
    pub(super) fn string(&mut self) -> Result<Cow<'p, str>, StrictError> {
        let start = self.scanner.at + 1;
        let raw = self.raw()?;
        if !raw.as_bytes().contains(&b'\\') {
            return Ok(Cow::Borrowed(raw));
        }
        unescaped(raw)
            .map(Cow::Owned)
            .map_err(|at| StrictError::Syntax(start + at))
    }
}

/// The text that a string with escapes stands for, or where it is not JSON.
pub(super) fn unescaped(raw: &str) -> Result<String, usize> {
    let bytes = raw.as_bytes();
    let mut text = String::with_capacity(raw.len());
    let mut plain = 0;
    while let Some(ahead) = memchr::memchr(b'\\', &bytes[plain..]) {
        let at = plain + ahead;
        text.push_str(&raw[plain..at]);
        let escaped = match bytes.get(at + 1) {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'u') => {
                let (letter, length) = unicode(&bytes[at..]).ok_or(at)?;
                text.push(letter);
                plain = at + length;
                continue;
            }
            _ => return Err(at),
        };
        text.push(escaped);
        plain = at + 2;
    }
    text.push_str(&raw[plain..]);
    Ok(text)
}

/// What `\uXXXX` at the start stands for, two of them where they are a pair, and how long that is.
fn unicode(bytes: &[u8]) -> Option<(char, usize)> {
    let unit = |bytes: &[u8]| {
        let digits = bytes.strip_prefix(b"\\u")?.first_chunk::<4>()?;
        digits.iter().try_fold(0, |unit, digit| {
            let digit = char::from(*digit).to_digit(16)?;
            u16::try_from(digit).ok().map(|digit| unit << 4 | digit)
        })
    };
    let first = unit(bytes)?;
    if let Some(letter) = char::from_u32(u32::from(first)) {
        return Some((letter, 6));
    }
    let second = unit(bytes.get(6..)?)?;
    let letter = char::decode_utf16([first, second]).next()?.ok()?;
    Some((letter, 12))
}
