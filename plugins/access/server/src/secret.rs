//! Codes and tokens: made here, kept as digests alone.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The letters of a code: none that is easily taken for another.
const LETTERS: &[u8; 32] = b"ABCDEFGHJKMNPQRSTVWXYZ0123456789";
/// Letters in a code: 50 bits, for five minutes and with few wrong attempts.
const CODE: usize = 10;
/// How every token begins, so that one that leaks is recognised.
const TOKEN: &str = "bezel_";

/// The SHA-256 of a secret. It is all that is kept of one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Fingerprint([u8; 32]);

/// What a connection showed, by its form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Token(Fingerprint),
    Code(Fingerprint),
    /// A credential of another kind.
    Other,
}

impl Fingerprint {
    fn of(secret: &str) -> Self {
        Fingerprint(Sha256::digest(secret.as_bytes()).into())
    }

    /// Whether both are the same, in time that does not depend on where they differ.
    pub(crate) fn matches(&self, other: &Fingerprint) -> bool {
        let differing = self
            .0
            .iter()
            .zip(&other.0)
            .fold(0, |differing, (a, b)| differing | (a ^ b));
        std::hint::black_box(differing) == 0
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Fingerprint(hidden)")
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        hex(&fingerprint.0)
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let wrong = "a fingerprint has 64 hexadecimal digits";
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(wrong);
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| wrong)?;
        }
        Ok(Fingerprint(bytes))
    }
}

/// Reads what a connection showed.
pub(crate) fn read(shown: &str) -> Shown {
    if shown.starts_with(TOKEN) {
        return Shown::Token(Fingerprint::of(shown));
    }
    match normalised(shown) {
        Some(code) => Shown::Code(Fingerprint::of(&code)),
        None => Shown::Other,
    }
}

/// A new code as it is shown, and its fingerprint.
pub(crate) fn new_code() -> (String, Fingerprint) {
    let bytes: [u8; CODE] = rand::random();
    let plain: String = bytes
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]))
        .collect();
    let (first, second) = plain.split_at(CODE / 2);
    (format!("{first}-{second}"), Fingerprint::of(&plain))
}

/// A new token, 256 random bits, and its fingerprint.
pub(crate) fn new_token() -> (String, Fingerprint) {
    let bytes: [u8; 32] = rand::random();
    let token = format!("{TOKEN}{}", hex(&bytes));
    let fingerprint = Fingerprint::of(&token);
    (token, fingerprint)
}

/// A new name of a client; no secret.
pub(crate) fn new_id() -> String {
    let bytes: [u8; 4] = rand::random();
    hex(&bytes)
}

/// A code as its maker knows it: without case, groups, and the letters that it has none of.
fn normalised(shown: &str) -> Option<String> {
    let mut code = String::with_capacity(CODE);
    for character in shown
        .chars()
        .filter(|character| !matches!(character, '-' | ' '))
    {
        let letter = match character.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            // Not in the alphabet either; sounds like V on the telephone.
            'U' => 'V',
            letter => letter,
        };
        if code.len() == CODE || !letter.is_ascii() || !LETTERS.contains(&(letter as u8)) {
            return None;
        }
        code.push(letter);
    }
    (code.len() == CODE).then_some(code)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_code_is_read_however_it_is_typed() {
        let (code, fingerprint) = new_code();
        let typed = [
            code.clone(),
            code.to_lowercase(),
            code.replace('-', ""),
            format!(" {} ", code.replace('-', " ")),
            code.replace('0', "o").replace('1', "l").replace('V', "u"),
        ];
        for typed in typed {
            assert_eq!(read(&typed), Shown::Code(fingerprint), "{typed}");
        }
        assert_eq!(read(&code[1..]), Shown::Other);
        assert_eq!(read(&format!("{code}A")), Shown::Other);
        assert_eq!(read(""), Shown::Other);
    }

    #[test]
    fn no_two_secrets_are_the_same_and_none_is_in_what_is_kept() {
        let (token, fingerprint) = new_token();
        assert_eq!(token.len(), TOKEN.len() + 64);
        assert_ne!(new_token().0, token);
        assert_ne!(new_code().0, new_code().0);
        assert_eq!(read(&token), Shown::Token(fingerprint));
        let kept = serde_json::to_string(&fingerprint).unwrap();
        assert!(!kept.contains(&token[TOKEN.len()..]));
        assert_eq!(
            serde_json::from_str::<Fingerprint>(&kept).unwrap(),
            fingerprint
        );
        assert!(serde_json::from_str::<Fingerprint>("\"00\"").is_err());
    }

    proptest! {
        #[test]
        fn whatever_is_shown_is_read_without_a_panic(shown in any::<String>()) {
            let _read = read(&shown);
        }
    }
}
