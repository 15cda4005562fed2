//! Ids of tool calls: made where a provider gives none, and made to fit where another provider's do not.

use std::borrow::Cow;

/// A new id, unique in every conversation.
pub(crate) fn generate() -> String {
    format!("call_{}", uuid::Uuid::new_v4().simple())
}

/// `id` if it is 1 to `longest` letters, digits, `_` or `-`; else another that is always the same for it.
pub(crate) fn fitting(id: &str, longest: usize) -> Cow<'_, str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !id.is_empty() && id.len() <= longest && id.bytes().all(fits) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(format!("call_{:016x}", hash(id)))
}

/// The same for a server that wants exactly nine letters or digits.
pub(crate) fn nine_letters(id: &str) -> Cow<'_, str> {
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    let mut rest = hash(id);
    let letters = std::iter::repeat_with(|| {
        let digit = (rest % 36) as u32;
        rest /= 36;
        char::from_digit(digit, 36).expect("a remainder of 36 is a digit of base 36")
    });
    Cow::Owned(letters.take(9).collect())
}

/// FNV-1a: the same in every build, which a conversation that is sent again and again needs.
fn hash(id: &str) -> u64 {
    id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_fits_stays_and_another_becomes_one_that_does() {
        assert_eq!(fitting("toolu_01-x", 64), "toolu_01-x");
        for id in ["", "fc|call", "é", &"x".repeat(65)] {
            let fitted = fitting(id, 64).into_owned();
            assert_eq!(fitting(&fitted, 64), fitted.as_str());
            assert_eq!(fitting(id, 64), fitted.as_str(), "the same each time");
        }
        assert_ne!(fitting("a|b", 64), fitting("a|c", 64));
        assert_eq!(nine_letters("D681PevKs"), "D681PevKs");
        assert_eq!(nine_letters("call_1").len(), 9);
        assert_ne!(nine_letters("call_1"), nine_letters("call_2"));
    }
}
