//! The rules that payloads keep beyond JSON's own grammar: depth, no duplicate keys, safe integers.
//!
//! This runs before a payload is parsed, so the grammar itself is the parser's matter.

use std::borrow::Cow;
use std::collections::HashSet;

use smallvec::SmallVec;

use crate::json::specials;

/// Objects and arrays may stand this deep inside each other.
pub(crate) const MOST_DEPTH: usize = 64;
/// The largest integer that every JSON reader keeps exact.
const MOST_INTEGER: u128 = 1 << 53;

/// A payload that is JSON, but not the strict kind that crosses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrictError {
    /// Too many nested containers.
    #[error("it is nested deeper than {MOST_DEPTH} levels; flatten it")]
    TooDeep,
    /// One object has a key twice.
    #[error("the key {0:?} stands twice in one object; send each key once")]
    DuplicateKey(String),
    /// An integer that not every reader keeps exact.
    #[error("the integer {0} passes 2^53; send it as text")]
    UnsafeInteger(String),
    /// Not JSON.
    #[error("it is not JSON (at byte {0})")]
    Syntax(usize),
    /// Something follows the value.
    #[error("bytes follow the value (at byte {0}); send one value")]
    Trailing(usize),
}

/// The payload as text.
pub(crate) fn text(payload: &[u8]) -> Result<&str, StrictError> {
    std::str::from_utf8(payload).map_err(|error| StrictError::Syntax(error.valid_up_to()))
}

/// Checks one payload; answers it as the text that it is.
pub(crate) fn check(payload: &[u8]) -> Result<&str, StrictError> {
    // A parser looks at what it keeps alone, and members that nobody knows are passed over.
    let text =
        std::str::from_utf8(payload).map_err(|error| StrictError::Syntax(error.valid_up_to()))?;
    let mut scanner = Scanner::new(payload);
    scanner.value(0)?;
    scanner.space();
    match scanner.at == payload.len() {
        true => Ok(text),
        false => Err(StrictError::Trailing(scanner.at)),
    }
}

/// Passes over JSON and sees what is not strict.
pub(crate) struct Scanner<'p> {
    bytes: &'p [u8],
    pub(crate) at: usize,
}

impl<'p> Scanner<'p> {
    pub(crate) fn new(bytes: &'p [u8]) -> Self {
        Scanner { bytes, at: 0 }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(crate) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), StrictError> {
        if self.peek() != Some(byte) {
            return Err(StrictError::Syntax(self.at));
        }
        self.at += 1;
        Ok(())
    }

    pub(crate) fn value(&mut self, depth: usize) -> Result<(), StrictError> {
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'a'..=b'z') => {
                while matches!(self.peek(), Some(b'a'..=b'z')) {
                    self.at += 1;
                }
                Ok(())
            }
            _ => Err(StrictError::Syntax(self.at)),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), StrictError> {
        if depth > MOST_DEPTH {
            return Err(StrictError::TooDeep);
        }
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let mut keys = Keys::default();
        loop {
            self.space();
            let key = self.string()?;
            keys.insert(key)?;
            self.space();
            self.expect(b':')?;
            self.value(depth)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(StrictError::Syntax(self.at)),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), StrictError> {
        if depth > MOST_DEPTH {
            return Err(StrictError::TooDeep);
        }
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(StrictError::Syntax(self.at)),
            }
        }
    }

    /// Passes a string and answers what stands between its quotes.
    pub(crate) fn string(&mut self) -> Result<&'p [u8], StrictError> {
        self.expect(b'"')?;
        let start = self.at;
        while let Some(block) = self.bytes[self.at..].first_chunk() {
            let mut specials = specials(block);
            // What a backslash stands before, at most one byte after the block.
            let mut escaped = usize::MAX;
            while specials != 0 {
                let at = specials.trailing_zeros() as usize;
                specials &= specials - 1;
                match block[at] {
                    _ if at == escaped => {}
                    b'"' => return Ok(self.end_string(start, self.at + at)),
                    b'\\' => escaped = at + 1,
                    _ => return Err(StrictError::Syntax(self.at + at)),
                }
            }
            self.at = (self.at + 64 + usize::from(escaped == 64)).min(self.bytes.len());
        }
        loop {
            match self.peek() {
                Some(b'"') => return Ok(self.end_string(start, self.at)),
                Some(b'\\') => self.at = (self.at + 2).min(self.bytes.len()),
                Some(0x20..) => self.at += 1,
                _ => return Err(StrictError::Syntax(self.at)),
            }
        }
    }

    fn end_string(&mut self, start: usize, end: usize) -> &'p [u8] {
        self.at = end + 1;
        &self.bytes[start..end]
    }

    fn number(&mut self) -> Result<(), StrictError> {
        let start = self.at;
        let mut integer = true;
        while let Some(byte) = self.peek() {
            match byte {
                b'0'..=b'9' | b'-' | b'+' => {}
                b'.' | b'e' | b'E' => integer = false,
                _ => break,
            }
            self.at += 1;
        }
        let text = &self.bytes[start..self.at];
        if integer && text.len() > 15 {
            let digits = std::str::from_utf8(text).map_err(|_| StrictError::Syntax(start))?;
            let size = digits.trim_start_matches('-').parse::<u128>();
            if size.is_err() || size.is_ok_and(|size| size > MOST_INTEGER) {
                return Err(StrictError::UnsafeInteger(
                    digits.chars().take(40).collect(),
                ));
            }
        }
        Ok(())
    }
}

/// The keys of one object.
#[derive(Default)]
pub(crate) struct Keys<'p> {
    few: SmallVec<[Cow<'p, [u8]>; 16]>,
    many: Option<HashSet<Cow<'p, [u8]>>>,
}

impl<'p> Keys<'p> {
    pub(crate) fn insert(&mut self, raw: &'p [u8]) -> Result<(), StrictError> {
        let key = unescaped(raw);
        let fresh = match &mut self.many {
            Some(many) => many.insert(key.clone()),
            None if self.few.contains(&key) => false,
            None if self.few.len() < 16 => {
                self.few.push(key);
                return Ok(());
            }
            None => {
                let mut many: HashSet<_> = self.few.drain(..).collect();
                let fresh = many.insert(key.clone());
                self.many = Some(many);
                fresh
            }
        };
        match fresh {
            true => Ok(()),
            false => Err(StrictError::DuplicateKey(
                String::from_utf8_lossy(raw).chars().take(80).collect(),
            )),
        }
    }
}

fn unescaped(raw: &[u8]) -> Cow<'_, [u8]> {
    if !raw.contains(&b'\\') {
        return Cow::Borrowed(raw);
    }
    let quoted = [b"\"", raw, b"\""].concat();
    match serde_json::from_slice::<String>(&quoted) {
        Ok(text) => Cow::Owned(text.into_bytes()),
        // Not a valid string: the parser says so later.
        Err(_) => Cow::Borrowed(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(payload: &[u8]) -> Result<(), StrictError> {
        super::check(payload).map(drop)
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_even_where_nobody_reads_them() {
        assert_eq!(check(b"{\"a\":\"\xff\"}"), Err(StrictError::Syntax(6)));
    }

    #[test]
    fn what_json_allows_and_the_wire_does_not_is_refused() {
        let deep = "[".repeat(65) + &"]".repeat(65);
        assert_eq!(check(deep.as_bytes()), Err(StrictError::TooDeep));
        assert_eq!(check(("[".repeat(64) + &"]".repeat(64)).as_bytes()), Ok(()));
        assert!(
            matches!(check(br#"{"a":1,"b":{"a":2},"a":3}"#), Err(StrictError::DuplicateKey(key)) if key == "a")
        );
        assert!(matches!(
            check(br#"{"a":1,"\u0061":2}"#),
            Err(StrictError::DuplicateKey(_))
        ));
        let many: Vec<String> = (0..40).map(|index| format!("\"k{index}\":0")).collect();
        assert_eq!(check(format!("{{{}}}", many.join(",")).as_bytes()), Ok(()));
        assert!(matches!(
            check(format!("{{{},\"k7\":0}}", many.join(",")).as_bytes()),
            Err(StrictError::DuplicateKey(_))
        ));
        assert_eq!(check(b"9007199254740992"), Ok(()));
        assert!(matches!(
            check(b"[-9007199254740993]"),
            Err(StrictError::UnsafeInteger(_))
        ));
        assert!(matches!(
            check(b"123456789012345678901234567890123456789012345"),
            Err(StrictError::UnsafeInteger(_))
        ));
        assert_eq!(check(b"{} {}"), Err(StrictError::Trailing(3)));
        assert!(matches!(check(b"NaN"), Err(StrictError::Syntax(0))));
        assert!(matches!(check(b"\"open"), Err(StrictError::Syntax(_))));
        assert!(matches!(check(b"\"\\"), Err(StrictError::Syntax(_))));
        assert!(matches!(check(b""), Err(StrictError::Syntax(0))));
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            (-(1i64 << 53)..=(1i64 << 53)).prop_map(Into::into),
            any::<f64>()
                .prop_filter("finite", |number| number.is_finite())
                .prop_map(Into::into),
            ".*".prop_map(Into::into),
        ];
        leaf.prop_recursive(6, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(serde_json::Value::from),
                prop::collection::btree_map(".{0,8}", inner, 0..24)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_that_serde_writes_passes(value in json()) {
            prop_assert_eq!(check(&serde_json::to_vec(&value).expect("a value")), Ok(()));
            prop_assert_eq!(check(&serde_json::to_vec_pretty(&value).expect("a value")), Ok(()));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let passed = check(&bytes);
            if serde_json::from_slice::<serde_json::Value>(&bytes).is_ok() {
                prop_assert!(!matches!(passed, Err(StrictError::Syntax(_) | StrictError::Trailing(_))));
            }
        }

        #[test]
        fn a_string_ends_where_a_byte_by_byte_scan_ends_it(text in "[a-c\"\\\\\n]{0,4}[a-c]{50,70}[a-c\"\\\\\n]{0,4}[a-c]{50,70}[\"\\\\]{0,5}") {
            let bytes = format!("\"{text}").into_bytes();
            let mut scanner = Scanner { bytes: &bytes, at: 0 };
            let found = scanner.string().map(<[u8]>::len).ok();
            let (mut at, mut slow) = (1, None);
            while let Some(byte) = bytes.get(at) {
                match byte {
                    b'"' => {
                        slow = Some(at - 1);
                        break;
                    }
                    b'\\' => at += 2,
                    0..0x20 => break,
                    _ => at += 1,
                }
            }
            prop_assert_eq!(found, slow);
        }
    }
}
