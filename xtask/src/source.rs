//! A Rust file taken apart just far enough for the checks: code, comments and strings told from
//! one another, and test code told from the rest. No parser: it never fails on odd code.

use std::ops::Range;

/// A Rust file's text in three views of the same length, so that offsets and lines agree.
pub(crate) struct Source {
    /// The text as it stands.
    pub(crate) text: String,
    /// Comments and the insides of string and character literals are blanks.
    pub(crate) code: String,
    /// Byte ranges of items under `#[cfg(test)]`.
    tests: Vec<Range<usize>>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let code = blank(text);
        let tests = test_items(&code);
        Self {
            text: text.to_owned(),
            code,
            tests,
        }
    }

    /// Lines of `view` that are not test code, with their numbers from 1.
    fn lines_outside_tests<'a>(&'a self, view: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let mut offset = 0;
        view.split_inclusive('\n')
            .enumerate()
            .filter_map(move |(index, line)| {
                let start = offset;
                offset += line.len();
                let tested = self.tests.iter().any(|range| range.contains(&start));
                (!tested).then_some((index + 1, line.trim_end()))
            })
    }

    /// Code lines outside tests, with their numbers from 1.
    pub(crate) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines_outside_tests(&self.code)
    }

    /// Whole lines outside tests, comments and strings included, with their numbers from 1.
    pub(crate) fn text_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines_outside_tests(&self.text)
    }

    /// Names of the modules that are declared under `#[cfg(test)]` and live in files of their own.
    pub(crate) fn test_modules(&self) -> Vec<&str> {
        self.tests
            .iter()
            .filter_map(|range| self.code.get(range.clone()))
            .filter_map(|item| item.trim_end().strip_suffix(';'))
            .filter_map(|item| item.rsplit_once("mod "))
            .map(|(_, name)| name.trim())
            .collect()
    }
}

/// Replaces comments and the insides of literals by blanks, byte for byte; line ends stay.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => line_end(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => block_comment_end(bytes, at),
            b'"' => {
                let end = string_end(bytes, at);
                erase(&mut out, at + 1..end.saturating_sub(1));
                at = end;
                continue;
            }
            b'r' if !continues_word(bytes, at) => match raw_string(bytes, at) {
                Some((inside, end)) => {
                    erase(&mut out, inside);
                    at = end;
                    continue;
                }
                None => {
                    at += 1;
                    continue;
                }
            },
            b'\'' => match char_end(bytes, at) {
                Some(end) => {
                    erase(&mut out, at + 1..end - 1);
                    at = end;
                    continue;
                }
                None => {
                    at += 1;
                    continue;
                }
            },
            _ => {
                at += 1;
                continue;
            }
        };
        erase(&mut out, at..end);
        at = end;
    }
    String::from_utf8(out)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn erase(out: &mut [u8], range: Range<usize>) {
    for byte in out.get_mut(range).into_iter().flatten() {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether the byte at `at` belongs to a word that began earlier; the `r` of `br` and `cr` starts
/// a raw string all the same.
fn continues_word(bytes: &[u8], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).and_then(|index| bytes.get(index));
    match before(1) {
        Some(b'b' | b'c') => before(2).is_some_and(|byte| is_word(*byte)),
        Some(byte) => is_word(*byte),
        None => false,
    }
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(rest.len())
}

fn block_comment_end(bytes: &[u8], from: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = from;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'/', Some(b'*')) => {
                depth += 1;
                at += 2;
            }
            (b'*', Some(b'/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// For `r"…"` and `r#"…"#`: the inside and the end of the literal that starts at `from`.
fn raw_string(bytes: &[u8], from: usize) -> Option<(Range<usize>, usize)> {
    let rest = bytes.get(from + 1..)?;
    let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
    if rest.get(hashes) != Some(&b'"') {
        return None;
    }
    let start = from + 1 + hashes + 1;
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let length = bytes
        .get(start..)?
        .windows(close.len())
        .position(|window| window == close)?;
    Some((start..start + length, start + length + close.len()))
}

/// The end of a character literal at `from`; `None` for a lifetime.
fn char_end(bytes: &[u8], from: usize) -> Option<usize> {
    if bytes.get(from + 1) == Some(&b'\\') {
        let rest = bytes.get(from + 3..)?;
        let length = rest.iter().position(|byte| *byte == b'\'')?;
        return Some(from + 3 + length + 1);
    }
    let text = std::str::from_utf8(bytes.get(from + 1..)?).ok()?;
    let first = text.chars().next()?;
    let close = from + 1 + first.len_utf8();
    (bytes.get(close) == Some(&b'\'')).then_some(close + 1)
}

/// Ranges of the items that stand under `#[cfg(test)]` in blanked code, attribute included.
fn test_items(code: &str) -> Vec<Range<usize>> {
    const MARKS: [&str; 3] = ["#[cfg(test)]", "#[cfg(all(test", "#[cfg(any(test"];
    let mut found: Vec<Range<usize>> = Vec::new();
    for (start, _) in code.match_indices("#[cfg(") {
        let inside = found.iter().any(|range| range.contains(&start));
        let marked = MARKS.iter().any(|mark| code[start..].starts_with(mark));
        if marked && !inside {
            // From the line's start, so that an indented attribute's line counts as test code.
            let line = code[..start].rfind('\n').map_or(0, |end| end + 1);
            found.push(line..item_end(code.as_bytes(), start));
        }
    }
    found
}

/// Where the item that starts at `from` ends: after its `;`, or after its closing brace.
fn item_end(bytes: &[u8], from: usize) -> usize {
    let mut round = 0_i32;
    let mut braces = 0_i32;
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => round += 1,
            b')' | b']' => round -= 1,
            b'{' => braces += 1,
            b'}' => {
                braces -= 1;
                if braces <= 0 && round <= 0 {
                    return at + 1;
                }
            }
            b';' if braces == 0 && round == 0 => return at + 1,
            _ => {}
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests;
