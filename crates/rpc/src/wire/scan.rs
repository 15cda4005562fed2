//! The little JSON that headers are made of, written and read by hand.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use smallvec::SmallVec;

use super::header::HeaderError;

pub(super) fn number(out: &mut Vec<u8>, key: &[u8], mut value: u64) {
    out.extend_from_slice(key);
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

pub(super) fn text(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

pub(super) struct Reader<'h> {
    pub(super) bytes: &'h [u8],
    pub(super) at: usize,
}

impl<'h> Reader<'h> {
    pub(super) fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    pub(super) fn next_is(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<(), HeaderError> {
        if self.next_is(byte) {
            Ok(())
        } else {
            Err(HeaderError::Syntax(self.at))
        }
    }

    pub(super) fn string(&mut self) -> Result<Cow<'h, str>, HeaderError> {
        self.space();
        let start = self.at;
        self.expect(b'"')?;
        let mut escaped = false;
        let ahead = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            self.at += rest.iter().position(ahead).unwrap_or(rest.len());
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += 2;
                }
                _ => return Err(HeaderError::Syntax(self.at.min(self.bytes.len()))),
            }
        }
        self.at += 1;
        let quoted = &self.bytes[start..self.at];
        if escaped {
            return serde_json::from_slice::<String>(quoted)
                .map(Cow::Owned)
                .map_err(|_| HeaderError::Value(start));
        }
        std::str::from_utf8(&quoted[1..quoted.len() - 1])
            .map(Cow::Borrowed)
            .map_err(|_| HeaderError::Value(start))
    }

    /// A string without escapes, as names and trace parents are.
    pub(super) fn plain(&mut self) -> Result<&'h str, HeaderError> {
        let start = self.at;
        match self.string()? {
            Cow::Borrowed(text) => Ok(text),
            Cow::Owned(_) => Err(HeaderError::Value(start)),
        }
    }

    pub(super) fn number(&mut self) -> Result<u64, HeaderError> {
        self.space();
        let start = self.at;
        let mut value: u64 = 0;
        while let Some(byte @ b'0'..=b'9') = self.bytes.get(self.at) {
            value = value
                .checked_mul(10)
                .and_then(|value| value.checked_add(u64::from(byte - b'0')))
                .filter(|value| *value <= 1 << 53)
                .ok_or(HeaderError::Value(start))?;
            self.at += 1;
        }
        let digits = &self.bytes[start..self.at];
        if digits.is_empty() || (digits.len() > 1 && digits[0] == b'0') {
            Err(HeaderError::Value(start))
        } else {
            Ok(value)
        }
    }

    pub(super) fn boolean(&mut self) -> Result<bool, HeaderError> {
        self.space();
        for (word, value) in [(&b"true"[..], true), (b"false", false)] {
            if self.bytes[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(HeaderError::Value(self.at))
    }

    pub(super) fn pairs(&mut self) -> Result<SmallVec<[(u64, u64); 4]>, HeaderError> {
        let mut pairs = SmallVec::new();
        self.expect(b'[')?;
        if self.next_is(b']') {
            return Ok(pairs);
        }
        loop {
            self.expect(b'[')?;
            let route = self.number()?;
            self.expect(b',')?;
            pairs.push((route, self.number()?));
            self.expect(b']')?;
            if self.next_is(b',') {
                continue;
            }
            self.expect(b']')?;
            return Ok(pairs);
        }
    }

    /// Passes over a value that this version does not know.
    pub(super) fn skip(&mut self, depth: usize) -> Result<(), HeaderError> {
        self.space();
        let start = self.at;
        if depth > 8 {
            return Err(HeaderError::Value(start));
        }
        match self.bytes.get(self.at) {
            Some(b'"') => self.string().map(drop),
            Some(b'{') => {
                self.at += 1;
                if self.next_is(b'}') {
                    return Ok(());
                }
                loop {
                    self.string()?;
                    self.expect(b':')?;
                    self.skip(depth + 1)?;
                    if self.next_is(b',') {
                        continue;
                    }
                    return self.expect(b'}');
                }
            }
            Some(b'[') => {
                self.at += 1;
                if self.next_is(b']') {
                    return Ok(());
                }
                loop {
                    self.skip(depth + 1)?;
                    if self.next_is(b',') {
                        continue;
                    }
                    return self.expect(b']');
                }
            }
            _ => {
                while matches!(
                    self.bytes.get(self.at),
                    Some(b'a'..=b'z' | b'0'..=b'9' | b'+' | b'-' | b'.' | b'E')
                ) {
                    self.at += 1;
                }
                serde_json::from_slice::<IgnoredAny>(&self.bytes[start..self.at])
                    .map(drop)
                    .map_err(|_| HeaderError::Syntax(start))
            }
        }
    }
}
