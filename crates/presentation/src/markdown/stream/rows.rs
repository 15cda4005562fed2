//! The laid out lines of a growing text: settled ones stay, the rest is laid out again.

use std::ops::Range;

use super::super::layout::{code_indent, push_code_line, push_spans};
use super::fence::Fence;
use super::{Open, Settled, Tail, lay_out_block, space};
use crate::StyledLine;
use crate::highlight::CodeHighlight;
use crate::wrap::Wrapper;

#[derive(Debug)]
pub(super) struct Rows {
    width: usize,
    epoch: u64,
    lines: Vec<StyledLine>,
    /// The rows of each settled block, the empty line above it included.
    settled: Vec<Range<usize>>,
    /// Settled blocks whose code is not all highlighted yet.
    pending: Vec<usize>,
    growing: Growing,
}

/// The part of an unsettled block that stays.
#[derive(Debug)]
enum Growing {
    Nothing,
    Fence(FenceRows),
    Paragraph {
        pieces: usize,
        wrapper: Wrapper,
        end: usize,
    },
}

/// A place in a growing code block: lines before it, their bytes, and the row behind them.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    line: usize,
    byte: usize,
    row: usize,
}

#[derive(Debug)]
struct FenceRows {
    /// Up to here rows are highlighted.
    colored: Place,
    /// Up to here complete lines are laid out.
    laid: Place,
}

impl Rows {
    pub(super) fn new(width: usize, epoch: u64) -> Self {
        Rows {
            width,
            epoch,
            lines: Vec::new(),
            settled: Vec::new(),
            pending: Vec::new(),
            growing: Growing::Nothing,
        }
    }

    pub(super) fn is_for(&self, width: usize, epoch: u64) -> bool {
        self.width == width && self.epoch == epoch
    }

    pub(super) fn lines(&self) -> &[StyledLine] {
        &self.lines
    }

    pub(super) fn update(&mut self, settled: &[Settled], tail: &Tail, source: &str) {
        self.color_settled(settled);
        if settled.len() > self.settled.len() {
            self.growing = Growing::Nothing;
            self.lines.truncate(self.settled_end());
            for block in &settled[self.settled.len()..] {
                let start = self.lines.len();
                lay_out_block(&block.block, &block.codes, self.width, &mut self.lines);
                if !block.codes.iter().all(CodeHighlight::is_done) {
                    self.pending.push(self.settled.len());
                }
                self.settled.push(start..self.lines.len());
            }
        }
        match tail {
            Tail::Fence(fence) => self.update_fence(fence, source),
            Tail::Blocks(open) => self.update_open(open),
        }
    }

    fn settled_end(&self) -> usize {
        self.settled.last().map_or(0, |range| range.end)
    }

    fn color_settled(&mut self, settled: &[Settled]) {
        let (width, lines, ranges) = (self.width, &mut self.lines, &self.settled);
        self.pending.retain(|position| {
            let Settled { block, codes } = &settled[*position];
            if !codes.iter().all(CodeHighlight::is_done) {
                return true;
            }
            let range = ranges[*position].clone();
            // Colours change no line's width, so the rows stay as many.
            let mut fresh = Vec::new();
            lay_out_block(block, codes, width, &mut fresh);
            let start = range.end - fresh.len();
            lines.splice(start..range.end, fresh);
            false
        });
    }

    fn update_open(&mut self, open: &Open) {
        let keep = match (&mut self.growing, &open.prefix) {
            (Growing::Paragraph { .. }, Some(_)) => return self.update_paragraph(open),
            (_, Some(_)) => {
                self.begin_growing();
                let wrapper = Wrapper::new(
                    self.width.max(2),
                    StyledLine::default(),
                    StyledLine::default(),
                );
                self.growing = Growing::Paragraph {
                    pieces: 0,
                    wrapper,
                    end: self.lines.len(),
                };
                return self.update_paragraph(open);
            }
            (_, None) => self.settled_end(),
        };
        self.growing = Growing::Nothing;
        self.lines.truncate(keep);
        let mut highlights = open.codes.as_slice();
        for block in &open.blocks {
            let mut count = 0;
            super::code_blocks(std::slice::from_ref(block), &mut |_, _| count += 1);
            let (own, rest) = highlights.split_at(count);
            lay_out_block(block, own, self.width, &mut self.lines);
            highlights = rest;
        }
    }

    fn begin_growing(&mut self) {
        self.lines.truncate(self.settled_end());
        if !self.lines.is_empty() {
            self.lines.push(StyledLine::default());
        }
    }

    fn update_paragraph(&mut self, open: &Open) {
        let (
            Growing::Paragraph {
                pieces,
                wrapper,
                end,
            },
            Some(prefix),
        ) = (&mut self.growing, &open.prefix)
        else {
            return;
        };
        self.lines.truncate(*end);
        for piece in &prefix.pieces[*pieces..] {
            push_lines(piece, wrapper);
            wrapper.push(&space());
            self.lines.append(&mut wrapper.take_rows());
        }
        *pieces = prefix.pieces.len();
        *end = self.lines.len();
        let mut rest = wrapper.clone();
        if let Some(super::Block::Paragraph(lines)) = open.blocks.first() {
            push_lines(lines, &mut rest);
        }
        self.lines.append(&mut rest.finish());
        for block in open.blocks.iter().skip(1) {
            lay_out_block(block, &[], self.width, &mut self.lines);
        }
    }

    fn update_fence(&mut self, fence: &Fence, source: &str) {
        if !matches!(self.growing, Growing::Fence(_)) {
            self.begin_growing();
            let start = Place {
                row: self.lines.len(),
                ..Place::default()
            };
            self.growing = Growing::Fence(FenceRows {
                colored: start,
                laid: start,
            });
        }
        let Growing::Fence(rows) = &mut self.growing else {
            return;
        };
        let highlight = fence.highlight();
        if highlight.ready() > rows.colored.line && rows.colored.line < rows.laid.line {
            rows.laid = rows.colored;
        }
        self.lines.truncate(rows.laid.row);
        let (inner, bar) = code_indent(self.width.max(2));
        let ready = highlight.lines_from(rows.laid.line);
        let mut colors = ready.iter();
        for line in fence.code()[rows.laid.byte..].split_inclusive('\n') {
            let color = colors.next();
            push_code_line(
                line.trim_end_matches('\n'),
                color,
                inner,
                &bar,
                &mut self.lines,
            );
            let all_colored = rows.colored.line == rows.laid.line;
            rows.laid = Place {
                line: rows.laid.line + 1,
                byte: rows.laid.byte + line.len(),
                row: self.lines.len(),
            };
            if color.is_some() && all_colored {
                rows.colored = rows.laid;
            }
        }
        let partial = fence.partial(source);
        if !partial.is_empty() || rows.laid.line == 0 {
            push_code_line(&partial, None, inner, &bar, &mut self.lines);
        }
    }
}

fn push_lines(lines: &[StyledLine], wrapper: &mut Wrapper) {
    for (position, line) in lines.iter().enumerate() {
        if position > 0 {
            wrapper.newline();
        }
        push_spans(line, wrapper);
    }
}
