//! A range of numbered lines out of a text of any size, in constant memory.

use std::io::{self, BufRead};

use crate::bound::{MAX_BYTES, NOTES_BYTES, count, cut_line};
use crate::text::Encoding;

/// Characters shown of one line.
const LINE_CHARACTERS: usize = 2_000;
/// Bytes kept of one line; the rest is counted and dropped.
const LINE_BYTES: usize = LINE_CHARACTERS * 4;
/// Bytes read past the range to learn how many lines there are.
const COUNTED_BYTES: u64 = 256 * 1024 * 1024;

/// Which lines are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    /// From 1.
    pub(super) first: u64,
    /// At least 1.
    pub(super) limit: u64,
}

/// The lines that were found.
#[derive(Debug)]
pub(super) struct Window {
    text: String,
    /// Lines in `text`.
    pub(super) shown: u64,
    /// Lines that were too long.
    pub(super) cut: u64,
    /// Lines of the whole text; `None` when it is too large to count.
    pub(super) total: Option<u64>,
    full: bool,
    invalid: bool,
}

/// Reads the range. `None` when `cancelled` says so on the way.
pub(super) fn window(
    source: &mut dyn BufRead,
    range: Range,
    cancelled: impl Fn() -> bool,
) -> io::Result<Option<Window>> {
    let mut window = Window {
        text: String::new(),
        shown: 0,
        cut: 0,
        total: None,
        full: false,
        invalid: false,
    };
    let mut number = 0;
    let mut line = Vec::new();
    while window.shown < range.limit && !window.full {
        if cancelled() {
            return Ok(None);
        }
        let Some(length) = next_line(source, &mut line, number + 1 >= range.first)? else {
            window.total = Some(number);
            return Ok(Some(window));
        };
        number += 1;
        if number >= range.first {
            window.add(number, &line, length);
        }
    }
    if window.full {
        number -= 1;
    }
    let rest = count_rest(source, &cancelled)?;
    window.total = match rest {
        Rest::Cancelled => return Ok(None),
        Rest::TooMany => None,
        Rest::Lines(lines) => Some(number + lines + u64::from(window.full)),
    };
    Ok(Some(window))
}

/// Reads one line without its newline into `line`, at most [`LINE_BYTES`] of it, and says how long it is.
/// `None` at the end.
fn next_line(source: &mut dyn BufRead, line: &mut Vec<u8>, keep: bool) -> io::Result<Option<u64>> {
    line.clear();
    let mut length = 0_u64;
    loop {
        let buffer = source.fill_buf()?;
        if buffer.is_empty() {
            return Ok((length > 0).then_some(length));
        }
        let newline = memchr::memchr(b'\n', buffer);
        let part = &buffer[..newline.unwrap_or(buffer.len())];
        length += part.len() as u64;
        if keep {
            let room = LINE_BYTES - line.len();
            line.extend_from_slice(&part[..part.len().min(room)]);
        }
        let used = newline.map_or(buffer.len(), |at| at + 1);
        source.consume(used);
        if newline.is_some() {
            return Ok(Some(length));
        }
    }
}

enum Rest {
    Lines(u64),
    TooMany,
    Cancelled,
}

fn count_rest(source: &mut dyn BufRead, cancelled: &impl Fn() -> bool) -> io::Result<Rest> {
    let (mut lines, mut bytes, mut open) = (0, 0, false);
    loop {
        let buffer = source.fill_buf()?;
        let length = buffer.len();
        let Some(last) = buffer.last() else {
            return Ok(Rest::Lines(lines + u64::from(open)));
        };
        open = *last != b'\n';
        lines += memchr::memchr_iter(b'\n', buffer).count() as u64;
        source.consume(length);
        bytes += length as u64;
        if bytes > COUNTED_BYTES {
            return Ok(Rest::TooMany);
        }
        if cancelled() {
            return Ok(Rest::Cancelled);
        }
    }
}

impl Window {
    fn add(&mut self, number: u64, line: &[u8], length: u64) {
        let complete = line.len() as u64 == length;
        let line = if complete {
            line.strip_suffix(b"\r").unwrap_or(line)
        } else {
            line
        };
        let text = String::from_utf8_lossy(line);
        let shown = cut_line(&text, LINE_CHARACTERS);
        let shown = match (complete, shown) {
            (true, shown) => shown,
            (false, _) => {
                let kept: String = text.chars().take(LINE_CHARACTERS).collect();
                format!("{kept}… [line of {} bytes, cut here]", count(length)).into()
            }
        };
        if self.text.len() + shown.len() + 8 > MAX_BYTES - NOTES_BYTES && self.shown > 0 {
            self.full = true;
            return;
        }
        self.invalid |= complete && matches!(text, std::borrow::Cow::Owned(_));
        self.cut += u64::from(shown.len() != line.len() || !complete);
        self.text += &format!("{number:>6}\t{shown}\n");
        self.shown += 1;
    }

    /// What the model gets: the lines and notes on what it does not see.
    pub(super) fn into_text(self, range: Range, encoding: Encoding) -> String {
        if self.total == Some(0) {
            return "(The file is empty.)".into();
        }
        let mut text = self.text;
        let last = range.first + self.shown - 1;
        let of = self.total.map_or("more than that".into(), count);
        if self.total != Some(last) {
            text += &format!(
                "\n(Lines {}–{} of {of}. Go on with offset {}.)\n",
                count(range.first),
                count(last),
                last + 1
            );
        } else if range.first > 1 {
            text += &format!(
                "\n(Lines {}–{}, up to the end.)\n",
                count(range.first),
                count(last)
            );
        }
        if self.invalid {
            text += "\n(Some bytes are not valid UTF-8 and are shown as �. edit keeps them as they are.)\n";
        }
        match encoding {
            Encoding::Utf16Le | Encoding::Utf16Be => {
                text += "\n(The file is UTF-16 and was decoded; edit keeps that encoding.)\n";
            }
            Encoding::Utf8 | Encoding::Utf8Bom => {}
        }
        text
    }
}
