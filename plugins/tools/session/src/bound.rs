//! How much a model is shown, and how what is left out is said.

use std::borrow::Cow;

/// Lines of a result.
pub(crate) const MAX_LINES: usize = 2_000;
/// Bytes of a result.
pub(crate) const MAX_BYTES: usize = 50 * 1024;
/// Room that a tool leaves below [`MAX_BYTES`] for its own notes, so that the result is not cut again.
pub(crate) const NOTES_BYTES: usize = 2 * 1024;
/// The same below [`MAX_LINES`].
pub(crate) const NOTES_LINES: usize = 10;

/// A line of at most `limit` characters; what is cut is said at its end.
pub(crate) fn cut_line(line: &str, limit: usize) -> Cow<'_, str> {
    match line.char_indices().nth(limit) {
        None => Cow::Borrowed(line),
        Some((at, _)) => {
            let more = line[at..].chars().count();
            Cow::Owned(format!(
                "{}… [{} more characters in this line]",
                &line[..at],
                count(more as u64)
            ))
        }
    }
}

/// A number with thousands separators.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun, in the plural unless it is one.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = match noun {
        noun if number == 1 => noun.to_owned(),
        "match" => "matches".into(),
        "directory" => "directories".into(),
        "entry" => "entries".into(),
        noun => format!("{noun}s"),
    };
    format!("{} {plural}", count(number))
}

/// A size in bytes, KiB, MiB or GiB.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 3] = ["KiB", "MiB", "GiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes_are_readable() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "match"), "1 match");
        assert_eq!(counted(2, "entry"), "2 entries");
        assert_eq!(size(1023), "1023 bytes");
        assert_eq!(size(64 * 1024 * 1024), "64.0 MiB");
        assert_eq!(size(5 << 40), "5120.0 GiB");
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        assert_eq!(cut_line("héllo", 5), "héllo");
        assert_eq!(cut_line("héllo", 2), "hé… [3 more characters in this line]");
    }
}
