//! Collects the matching lines of one file.

use std::io::{self, Read};

use bezel_context::Context;
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};

use crate::bound::count;

/// Characters shown of a line.
const LINE_CHARACTERS: usize = 400;
/// Characters kept before a match in a long line.
const BEFORE_MATCH: usize = 100;

/// What one file holds.
#[derive(Debug, Default)]
pub(super) struct FileMatches {
    /// Lines in order; empty when only counting.
    pub(super) lines: Vec<FoundLine>,
    /// Matching lines.
    pub(super) matches: u64,
    /// True when the file turned out to be binary.
    pub(super) binary: bool,
    /// True when there are more matches than were looked for.
    pub(super) cut: bool,
}

/// A line of a file, or a gap.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FoundLine {
    /// A line that matches.
    Match { number: u64, text: String },
    /// A line near one.
    Context { number: u64, text: String },
    /// Lines are left out here.
    Break,
}

/// Gathers what the searcher finds, up to `limit` matching lines.
pub(super) struct Collector<'a> {
    pub(super) matcher: &'a RegexMatcher,
    pub(super) keep_lines: bool,
    pub(super) limit: u64,
    pub(super) found: FileMatches,
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.found.matches >= self.limit {
            self.found.cut = true;
            return Ok(false);
        }
        let first = found.line_number().unwrap_or_default();
        for (number, line) in (first..).zip(found.lines()) {
            self.found.matches += 1;
            if self.keep_lines {
                let text = self.shown(line);
                self.found.lines.push(FoundLine::Match { number, text });
            }
        }
        Ok(self.keep_lines || self.limit > 1)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.keep_lines
            && !(*context.kind() == SinkContextKind::Before && self.found.matches >= self.limit)
        {
            let number = context.line_number().unwrap_or_default();
            self.found.lines.push(FoundLine::Context {
                number,
                text: shown_from(context.bytes(), 0),
            });
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        if self.keep_lines {
            self.found.lines.push(FoundLine::Break);
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        if finish.binary_byte_offset().is_some() {
            self.found.binary = true;
        }
        Ok(())
    }
}

impl Collector<'_> {
    fn shown(&self, line: &[u8]) -> String {
        let start = match self.matcher.find(line) {
            Ok(Some(found)) => found.start(),
            _ => 0,
        };
        shown_from(line, start)
    }
}

/// The part of a long line around the byte `matched`, the whole of a short one.
fn shown_from(line: &[u8], matched: usize) -> String {
    let before = String::from_utf8_lossy(&line[..matched]).chars().count();
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches(['\n', '\r']);
    let length = text.chars().count();
    if length <= LINE_CHARACTERS {
        return text.into();
    }
    let start = before
        .saturating_sub(BEFORE_MATCH)
        .min(length - LINE_CHARACTERS);
    let part: String = text.chars().skip(start).take(LINE_CHARACTERS).collect();
    let (left, right) = (
        if start > 0 { "…" } else { "" },
        if start + LINE_CHARACTERS < length {
            "…"
        } else {
            ""
        },
    );
    format!(
        "{left}{part}{right} [line of {} characters]",
        count(length as u64)
    )
}

/// Ends a search inside a large file when the call is cancelled.
pub(super) struct Cancellable<'a, R> {
    pub(super) cx: &'a Context,
    pub(super) inner: R,
}

impl<R: Read> Read for Cancellable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cx.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.inner.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_shown_around_its_match() {
        let line = format!("{}needle{}", "a".repeat(1_000), "b".repeat(1_000));
        let shown = shown_from(line.as_bytes(), 1_000);
        assert!(
            shown.starts_with('…')
                && shown.contains("needle")
                && shown.ends_with("… [line of 2,006 characters]"),
            "{shown}"
        );
        assert_eq!(shown_from(b"short\r\n", 0), "short");
    }
}
