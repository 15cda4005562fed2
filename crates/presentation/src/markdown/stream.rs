//! Markdown that grows: work is done only for what is not settled yet.
//!
//! A top-level block is settled once a later one has begun on a line that is complete: CommonMark is read
//! line by line, and what follows can only change the last block. Two kinds of last block get long, so they
//! settle in part: code in an open fence line by line, and a paragraph wherever no emphasis, code span or
//! link can be open. Link definitions reach back to any place; a text that has one is read as a whole.

use std::mem;

use super::block::{Block, Inline};
use super::layout::{Codes, push_block};
use super::parse::{Parsed, parse_blocks};
use crate::StyledLine;
use crate::highlight::{CodeHighlight, Highlighter};
use crate::text::{Role, StyledSpan};

mod fence;
mod rows;

use fence::Fence;
use rows::Rows;

/// A paragraph settles in part from this many bytes on.
const LONG: usize = 1024;

/// A Markdown text that may grow, with its layout for one width.
#[derive(Debug)]
pub struct MarkdownText {
    source: String,
    /// How much of the source the blocks reflect.
    parsed: usize,
    /// Where the blocks that are not settled begin.
    open: usize,
    /// Grows when settled blocks were taken back.
    epoch: u64,
    defines_links: bool,
    settled: Vec<Settled>,
    tail: Tail,
    rows: Option<Rows>,
    highlighter: Highlighter,
    long: usize,
}

/// A block that will not change.
#[derive(Debug)]
struct Settled {
    block: Block,
    codes: Vec<CodeHighlight>,
}

/// What may still change.
#[derive(Debug)]
enum Tail {
    Blocks(Open),
    Fence(Fence),
}

#[derive(Debug, Default)]
struct Open {
    /// The settled part of a long paragraph, which the first block continues.
    prefix: Option<Prefix>,
    blocks: Vec<Block>,
    /// Highlights of all their code blocks, in order.
    codes: Vec<CodeHighlight>,
}

/// The settled part of a paragraph: pieces of it, each followed by a space.
#[derive(Debug, Default)]
struct Prefix {
    /// Where the rest begins in the source.
    end: usize,
    pieces: Vec<Inline>,
}

impl Default for MarkdownText {
    fn default() -> Self {
        MarkdownText {
            source: String::new(),
            parsed: 0,
            open: 0,
            epoch: 0,
            defines_links: false,
            settled: Vec::new(),
            tail: Tail::Blocks(Open::default()),
            rows: None,
            highlighter: Highlighter::plain(),
            long: LONG,
        }
    }
}

impl From<&str> for MarkdownText {
    fn from(text: &str) -> Self {
        let mut markdown = MarkdownText::default();
        markdown.append(text);
        markdown
    }
}

impl MarkdownText {
    /// An empty text.
    pub fn new() -> Self {
        MarkdownText::default()
    }

    /// Adds text at the end. Costs what it adds; reading it waits until somebody looks.
    pub fn append(&mut self, text: &str) {
        self.source.extend(text.split(['\r', '\0']));
    }

    /// Makes the text be `text`: appends where it goes on from what is there, else starts anew.
    pub fn set(&mut self, text: &str) {
        match text.strip_prefix(self.source.as_str()) {
            Some(rest) => self.append(rest),
            None => {
                let (highlighter, epoch) = (mem::take(&mut self.highlighter), self.epoch + 1);
                *self = MarkdownText {
                    highlighter,
                    epoch,
                    ..MarkdownText::default()
                };
                self.append(text);
            }
        }
    }

    /// The text so far.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The blocks so far. Copies them; for presentations that lay out themselves.
    pub fn blocks(&mut self) -> Vec<Block> {
        self.read();
        let settled = self.settled.iter().map(|settled| settled.block.clone());
        let open: Vec<Block> = match &self.tail {
            Tail::Fence(fence) => vec![fence.block(&self.source)],
            Tail::Blocks(open) => open.blocks_with_prefix().collect(),
        };
        settled.chain(open).collect()
    }

    /// The lines at this width. Code is plain until `highlighter` has got to it; ask again when it reports.
    pub fn lines(&mut self, width: usize, highlighter: &Highlighter) -> &[StyledLine] {
        self.highlighter = highlighter.clone();
        self.read();
        let mut rows = match self.rows.take() {
            Some(rows) if rows.is_for(width, self.epoch) => rows,
            _ => Rows::new(width, self.epoch),
        };
        rows.update(&self.settled, &self.tail, &self.source);
        self.rows.insert(rows).lines()
    }

    /// Gives back the memory of the layout; the next look costs a whole one.
    pub fn forget_lines(&mut self) {
        self.rows = None;
    }

    fn read(&mut self) {
        while self.parsed < self.source.len() {
            let finished = match &mut self.tail {
                Tail::Fence(fence) => fence.read(&self.source),
                Tail::Blocks(_) => {
                    self.read_blocks();
                    None
                }
            };
            match finished {
                None => self.parsed = self.source.len(),
                Some(end) => {
                    if let Tail::Fence(fence) =
                        mem::replace(&mut self.tail, Tail::Blocks(Open::default()))
                    {
                        let block = fence.block(&self.source[..end]);
                        self.settled.push(Settled {
                            block,
                            codes: vec![fence.into_highlight()],
                        });
                    }
                    (self.open, self.parsed) = (end, end);
                }
            }
        }
    }

    fn read_blocks(&mut self) {
        let Tail::Blocks(open) = &mut self.tail else {
            return;
        };
        let start = open.prefix.as_ref().map_or(self.open, |prefix| prefix.end);
        let mut parsed = parse_blocks(&self.source[start..]);
        let continues =
            matches!(parsed.blocks.first(), Some((Block::Paragraph(_), range)) if range.start == 0);
        let defines = parsed.defines_links && !self.defines_links;
        if defines || (open.prefix.is_some() && !continues) {
            open.prefix = None;
            if defines {
                self.defines_links = true;
                self.open = 0;
                self.settled.clear();
                open.codes.clear();
            }
            self.epoch += 1;
            parsed = parse_blocks(&self.source[self.open..]);
        }
        if !self.defines_links {
            self.settle(&mut parsed);
        }
        let Tail::Blocks(open) = &mut self.tail else {
            return;
        };
        open.blocks = parsed.blocks.into_iter().map(|(block, _)| block).collect();
        follow_codes(&open.blocks, &mut open.codes, &self.highlighter);
        if !self.defines_links {
            self.settle_fence();
            self.settle_paragraph();
        }
    }

    /// Settles the blocks before the last one whose beginning is certain: its first line is complete, or
    /// begins with a letter, which begins nothing but text.
    fn settle(&mut self, parsed: &mut Parsed) {
        let Tail::Blocks(open) = &mut self.tail else {
            return;
        };
        let start = open.prefix.as_ref().map_or(self.open, |prefix| prefix.end);
        let certain = |at: usize| {
            let text = &self.source[start + at..];
            text.contains('\n') || text.starts_with(char::is_alphabetic)
        };
        let Some(last) = parsed
            .blocks
            .iter()
            .rposition(|(_, range)| certain(range.start))
            .filter(|last| *last > 0)
        else {
            return;
        };
        let from = start + parsed.blocks[last].1.start;
        self.open = self.source[..from].rfind('\n').map_or(0, |at| at + 1);
        for (position, (block, _)) in parsed.blocks.drain(..last).enumerate() {
            let block = match open.prefix.take_if(|_| position == 0) {
                Some(prefix) => prefix.join(&block),
                None => block,
            };
            let mut codes: Vec<CodeHighlight> = Vec::new();
            code_blocks(std::slice::from_ref(&block), &mut |language, text| {
                let mut code = if open.codes.is_empty() {
                    self.highlighter.open(language)
                } else {
                    open.codes.remove(0)
                };
                code.update(text, true);
                codes.push(code);
            });
            self.settled.push(Settled { block, codes });
        }
    }

    /// Turns an open fence at the end into something that grows line by line.
    fn settle_fence(&mut self) {
        let Tail::Blocks(open) = &mut self.tail else {
            return;
        };
        let [Block::Code { language, .. }] = open.blocks.as_slice() else {
            return;
        };
        if let Some(mut fence) = Fence::at(&self.source, self.open, language) {
            fence.adopt(
                open.codes
                    .pop()
                    .unwrap_or_else(|| self.highlighter.open(language)),
            );
            let closed = fence.read(&self.source);
            debug_assert_eq!(closed, None, "a closed fence is no open one");
            self.tail = Tail::Fence(fence);
        }
    }

    /// Settles the beginning of a long paragraph at the end.
    fn settle_paragraph(&mut self) {
        let Tail::Blocks(open) = &mut self.tail else {
            return;
        };
        if !matches!(open.blocks.as_slice(), [Block::Paragraph(_)]) {
            return;
        }
        let start = open.prefix.as_ref().map_or(self.open, |prefix| prefix.end);
        if self.source.len() - start < self.long {
            return;
        }
        let Some(end) = split_point(&self.source[start..], self.long / 4).map(|at| start + at)
        else {
            return;
        };
        let Some(piece) = parse_piece(&self.source[start..end]) else {
            return;
        };
        let prefix = open.prefix.get_or_insert_default();
        prefix.pieces.push(piece);
        prefix.end = end;
        let rest = parse_blocks(&self.source[end..]);
        open.blocks = rest.blocks.into_iter().map(|(block, _)| block).collect();
    }
}

impl Open {
    fn blocks_with_prefix(&self) -> impl Iterator<Item = Block> {
        self.blocks
            .iter()
            .enumerate()
            .map(|(position, block)| match &self.prefix {
                Some(prefix) if position == 0 => prefix.join(block),
                _ => block.clone(),
            })
    }
}

impl Prefix {
    /// The paragraph that begins here and ends with `rest`.
    fn join(&self, rest: &Block) -> Block {
        let mut whole: Inline = vec![StyledLine::default()];
        let rest = match rest {
            Block::Paragraph(rest) => Some(rest),
            _ => None,
        };
        for (position, piece) in self.pieces.iter().chain(rest).enumerate() {
            for (number, line) in piece.iter().enumerate() {
                if number > 0 {
                    whole.push(StyledLine::default());
                }
                if let Some(last) = whole.last_mut() {
                    if position > 0 && number == 0 {
                        last.push(space());
                    }
                    line.spans.iter().for_each(|span| last.push(span.clone()));
                }
            }
        }
        Block::Paragraph(whole)
    }
}

fn space() -> StyledSpan {
    StyledSpan::new(" ", Role::Text)
}

/// The last place, at least `keep` bytes before the end, where a word begins within a line.
fn split_point(text: &str, keep: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let inert = |byte: u8| !byte.is_ascii_whitespace() && byte != b'\\';
    (2..bytes.len().saturating_sub(keep)).rev().find(|at| {
        bytes[*at].is_ascii_alphabetic() && bytes[at - 1] == b' ' && inert(bytes[at - 2])
    })
}

/// Reads the beginning of a paragraph up to a split point, if nothing that follows can change it.
fn parse_piece(text: &str) -> Option<Inline> {
    let mut parsed = parse_blocks(text);
    let (block, range) = parsed.blocks.pop()?;
    match block {
        Block::Paragraph(lines)
            if parsed.blocks.is_empty() && range.start == 0 && !parsed.defines_links =>
        {
            let spans = || {
                lines
                    .iter()
                    .flat_map(|line| &line.spans)
                    .filter(|span| span.style.role != Role::InlineCode)
            };
            spans().all(|span| is_inert(&span.text)).then_some(lines)
        }
        _ => None,
    }
}

/// Whether the text holds nothing that could open emphasis, code, a link, HTML or a table.
fn is_inert(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().all(|(at, byte)| match byte {
        b'*' | b'`' | b'~' | b'[' | b'<' | b'|' => false,
        b'_' => {
            // Within a word an underscore neither opens nor closes emphasis.
            let letter = |at: Option<usize>| {
                at.and_then(|at| bytes.get(at))
                    .is_some_and(u8::is_ascii_alphanumeric)
            };
            letter(at.checked_sub(1)) && letter(Some(at + 1))
        }
        _ => true,
    })
}

/// Calls `found` with every code block, in order of layout.
fn code_blocks(blocks: &[Block], found: &mut impl FnMut(&str, &str)) {
    for block in blocks {
        match block {
            Block::Code { language, text } => found(language, text),
            Block::Quote(blocks) => code_blocks(blocks, found),
            Block::List { items, .. } => items
                .iter()
                .for_each(|item| code_blocks(&item.blocks, found)),
            _ => {}
        }
    }
}

/// Keeps one highlight for each code block that is not settled, and tells it how far its code is.
fn follow_codes(blocks: &[Block], codes: &mut Vec<CodeHighlight>, highlighter: &Highlighter) {
    let mut position = 0;
    code_blocks(blocks, &mut |language, text| {
        match codes.get_mut(position) {
            Some(code) if code.language() == language => {}
            Some(code) => *code = highlighter.open(language),
            None => codes.push(highlighter.open(language)),
        }
        codes[position].update(text, false);
        position += 1;
    });
    codes.truncate(position);
}

fn lay_out_block(block: &Block, codes: &[CodeHighlight], width: usize, out: &mut Vec<StyledLine>) {
    push_block(
        block,
        width,
        &mut Codes {
            highlights: codes,
            next: 0,
        },
        out,
    );
}

#[cfg(test)]
mod tests;
