//! Code in an open fence: grows line by line.

use std::sync::Arc;

use super::super::block::Block;
use crate::highlight::{CodeHighlight, Highlighter};
use crate::text::sanitize;

/// An open fence at the left edge.
#[derive(Debug)]
pub(super) struct Fence {
    marker: u8,
    /// Markers that opened it; at least as many close it.
    count: usize,
    language: Arc<str>,
    /// The complete lines.
    code: String,
    /// Where the line that is not complete begins in the source.
    rest: usize,
    highlight: CodeHighlight,
}

impl Fence {
    /// The fence that opens at `start`, if there is one whose first line is complete.
    pub(super) fn at(source: &str, start: usize, language: &Arc<str>) -> Option<Fence> {
        let first = &source[start..start + source[start..].find('\n')?];
        let marker = *first
            .as_bytes()
            .first()
            .filter(|byte| matches!(byte, b'`' | b'~'))?;
        let count = first.bytes().take_while(|byte| *byte == marker).count();
        if count < 3 {
            return None;
        }
        let rest = start + first.len() + 1;
        let highlight = Highlighter::plain().open(language);
        let fence = Fence {
            marker,
            count,
            language: Arc::clone(language),
            code: String::new(),
            rest,
            highlight,
        };
        let open = source[rest..].lines().all(|line| !fence.closes(line));
        open.then_some(fence)
    }

    /// Takes over the highlight that the block had so far.
    pub(super) fn adopt(&mut self, highlight: CodeHighlight) {
        self.highlight = highlight;
    }

    /// Takes the lines that have become complete. Gives the place behind the closing line, once there is one.
    pub(super) fn read(&mut self, source: &str) -> Option<usize> {
        while let Some(length) = source[self.rest..].find('\n') {
            let line = &source[self.rest..self.rest + length];
            self.rest += length + 1;
            if self.closes(line) {
                self.highlight.update(&self.code, true);
                return Some(self.rest);
            }
            self.code.push_str(&sanitize(line, 4));
            self.code.push('\n');
        }
        self.highlight.update(&self.code, false);
        None
    }

    /// The complete lines.
    pub(super) fn code(&self) -> &str {
        &self.code
    }

    /// The line that is not complete, unless it is blank or would close the fence as it stands.
    pub(super) fn partial<'a>(&self, source: &'a str) -> std::borrow::Cow<'a, str> {
        let line = source.get(self.rest..).unwrap_or_default();
        if self.closes(line) || line.trim().is_empty() {
            "".into()
        } else {
            sanitize(line, 4)
        }
    }

    pub(super) fn block(&self, source: &str) -> Block {
        let text = format!("{}{}", self.code, self.partial(source));
        Block::Code {
            language: Arc::clone(&self.language),
            text,
        }
    }

    pub(super) fn highlight(&self) -> &CodeHighlight {
        &self.highlight
    }

    pub(super) fn into_highlight(self) -> CodeHighlight {
        self.highlight
    }

    fn closes(&self, line: &str) -> bool {
        let inner = line.trim_start_matches(' ');
        if line.len() - inner.len() > 3 {
            return false;
        }
        let count = inner
            .bytes()
            .take_while(|byte| *byte == self.marker)
            .count();
        count >= self.count
            && inner[count..]
                .bytes()
                .all(|byte| matches!(byte, b' ' | b'\t'))
    }
}
