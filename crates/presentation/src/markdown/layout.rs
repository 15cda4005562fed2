//! From blocks to lines of a width.

use super::block::{Block, Inline, ListItem};
use super::table;
use crate::highlight::CodeHighlight;
use crate::text::{Role, StyledLine, StyledSpan, TextStyle};
use crate::wrap::{Wrapper, wrap_hard};

/// Narrower than this nothing is indented any more.
const NARROW: usize = 12;

/// Lays blocks out in lines of at most `width` columns, an empty line between blocks.
pub fn lay_out(blocks: &[Block], width: usize) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    for block in blocks {
        push_block(block, width, &mut Codes::default(), &mut lines);
    }
    lines
}

/// The highlighted code of a block, by position among its code blocks.
#[derive(Default)]
pub(super) struct Codes<'a> {
    pub(super) highlights: &'a [CodeHighlight],
    pub(super) next: usize,
}

/// Adds a block, after an empty line if something stands above it.
pub(super) fn push_block(
    block: &Block,
    width: usize,
    codes: &mut Codes<'_>,
    out: &mut Vec<StyledLine>,
) {
    if !out.is_empty() {
        out.push(StyledLine::default());
    }
    let width = width.max(2);
    match block {
        Block::Heading { level, text } => {
            let start = out.len();
            push_inline(text, width, out);
            for span in out[start..].iter_mut().flat_map(|line| &mut line.spans) {
                span.style.bold = true;
                span.style.underline |= *level == 1;
                span.style.italic |= *level >= 3;
            }
        }
        Block::Paragraph(text) => push_inline(text, width, out),
        Block::Code { text, .. } => push_code(text, width, codes, out),
        Block::Quote(blocks) => {
            let bar = StyledSpan::new("▎ ", Role::Quote);
            let (inner, prefix) = indent(width, bar);
            let mut lines = nested(blocks, inner, codes);
            for line in &mut lines {
                for span in &mut line.spans {
                    if matches!(span.style.role, Role::Text | Role::Emphasis | Role::Strong) {
                        span.style = TextStyle {
                            role: Role::Quote,
                            ..span.style
                        };
                    }
                }
            }
            out.extend(lines.into_iter().map(|line| prefixed(prefix.clone(), line)));
        }
        Block::List {
            start,
            loose,
            items,
        } => push_list(*start, *loose, items, width, codes, out),
        Block::Table {
            alignments,
            header,
            rows,
        } => table::push(alignments, header, rows, width, out),
        Block::Rule => out.push(StyledLine::new("─".repeat(width.min(40)), Role::Border)),
        Block::Html(text) => {
            for line in text.trim_end().lines() {
                out.extend(wrap_hard(
                    &StyledLine::new(line.to_owned(), Role::Muted),
                    width,
                ));
            }
        }
    }
}

fn nested(blocks: &[Block], width: usize, codes: &mut Codes<'_>) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    for block in blocks {
        push_block(block, width, codes, &mut lines);
    }
    lines
}

/// The width that an indent leaves, and the indent; none where it would leave too little.
fn indent(width: usize, prefix: StyledSpan) -> (usize, Option<StyledSpan>) {
    let used = prefix.width();
    if width < NARROW + used {
        (width, None)
    } else {
        (width - used, Some(prefix))
    }
}

fn prefixed(prefix: Option<StyledSpan>, line: StyledLine) -> StyledLine {
    let Some(prefix) = prefix else { return line };
    let mut whole = StyledLine {
        spans: vec![prefix],
        background: line.background,
    };
    line.spans.into_iter().for_each(|span| whole.push(span));
    whole
}

/// Adds wrapped text. A link is followed by where it leads, unless its text says so.
pub(super) fn push_inline(text: &Inline, width: usize, out: &mut Vec<StyledLine>) {
    for line in text {
        let mut wrapper = Wrapper::new(width, StyledLine::default(), StyledLine::default());
        push_spans(line, &mut wrapper);
        out.extend(wrapper.finish());
    }
}

pub(super) fn push_spans(line: &StyledLine, wrapper: &mut Wrapper) {
    for (position, span) in line.spans.iter().enumerate() {
        wrapper.push(span);
        let Some(link) = &span.link else { continue };
        if line
            .spans
            .get(position + 1)
            .is_some_and(|next| next.link.as_ref() == Some(link))
        {
            continue;
        }
        let text: String = {
            let same = |span: &&StyledSpan| span.link.as_ref() == Some(link);
            let mut parts: Vec<&str> = line.spans[..=position]
                .iter()
                .rev()
                .take_while(same)
                .map(|span| span.text.as_ref())
                .collect();
            parts.reverse();
            parts.concat()
        };
        let says_so =
            **link == *text || link.trim_start_matches("mailto:") == text || link.starts_with('#');
        if !says_so && !link.is_empty() {
            wrapper.push(&StyledSpan::new(format!(" ({link})"), Role::Faint));
        }
    }
}

fn push_code(text: &str, width: usize, codes: &mut Codes<'_>, out: &mut Vec<StyledLine>) {
    let (inner, bar) = code_indent(width);
    let ready = codes
        .highlights
        .get(codes.next)
        .map(|highlight| highlight.lines_from(0))
        .unwrap_or_default();
    codes.next += 1;
    for (position, line) in code_lines(text).enumerate() {
        push_code_line(line, ready.get(position), inner, &bar, out);
    }
}

/// The lines of a code block, without their newlines; the newline at its end begins no line.
pub(super) fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    text.strip_suffix('\n').unwrap_or(text).split('\n')
}

pub(super) fn code_indent(width: usize) -> (usize, Option<StyledSpan>) {
    indent(width, StyledSpan::new("  ", Role::CodeFrame))
}

pub(super) fn push_code_line(
    line: &str,
    highlighted: Option<&StyledLine>,
    width: usize,
    bar: &Option<StyledSpan>,
    out: &mut Vec<StyledLine>,
) {
    let rows = match highlighted {
        Some(styled) if has_text(styled, line) => wrap_hard(styled, width),
        _ => wrap_hard(&StyledLine::new(line.to_owned(), Role::CodeBlock), width),
    };
    out.extend(rows.into_iter().map(|row| prefixed(bar.clone(), row)));
}

/// Whether that is what the line says; a highlight may be late.
fn has_text(line: &StyledLine, mut text: &str) -> bool {
    let begins = line.spans.iter().all(|span| {
        let rest = text.strip_prefix(span.text.as_ref());
        text = rest.unwrap_or_default();
        rest.is_some()
    });
    begins && text.is_empty()
}

fn push_list(
    start: Option<u64>,
    loose: bool,
    items: &[ListItem],
    width: usize,
    codes: &mut Codes<'_>,
    out: &mut Vec<StyledLine>,
) {
    let last = start.map(|start| start.saturating_add(items.len() as u64).saturating_sub(1));
    let digits = last.map_or(0, |last| last.to_string().len());
    for (position, item) in items.iter().enumerate() {
        let marker = match (start, item.done) {
            (_, Some(true)) => StyledSpan::new("☑ ", Role::TaskDone),
            (_, Some(false)) => StyledSpan::new("☐ ", Role::TaskOpen),
            (Some(start), None) => {
                let number = start.saturating_add(position as u64);
                StyledSpan::new(format!("{number:>digits$}. "), Role::ListMarker)
            }
            (None, None) => StyledSpan::new("• ", Role::ListMarker),
        };
        let columns = marker.width();
        let inner = if width < NARROW + columns {
            NARROW.min(width)
        } else {
            width - columns
        };
        let mut lines = item_lines(item, loose, inner, codes);
        if lines.is_empty() {
            lines.push(StyledLine::default());
        }
        if position > 0 && loose {
            out.push(StyledLine::default());
        }
        for (row, line) in lines.into_iter().enumerate() {
            let narrow = width < NARROW + columns && row > 0;
            let prefix = if row == 0 {
                marker.clone()
            } else {
                StyledSpan::new(" ".repeat(columns), Role::Text)
            };
            let whole = prefixed((!narrow).then_some(prefix), line);
            // The first row of a list that is too narrow to indent has its marker and then what fits.
            if whole.width() > width {
                out.extend(wrap_hard(&whole, width))
            } else {
                out.push(whole)
            }
        }
    }
}

/// An item's lines. In a tight list what follows its text follows without an empty line.
fn item_lines(
    item: &ListItem,
    loose: bool,
    width: usize,
    codes: &mut Codes<'_>,
) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    for block in &item.blocks {
        let mut part = Vec::new();
        push_block(block, width, codes, &mut part);
        if item.done == Some(true) {
            let spans = part.iter_mut().flat_map(|line| &mut line.spans);
            spans
                .filter(|span| span.style.role == Role::Text)
                .for_each(|span| span.style.role = Role::Muted);
        }
        let apart = loose || matches!(block, Block::Code { .. } | Block::Table { .. });
        if apart && !lines.is_empty() {
            lines.push(StyledLine::default());
        }
        lines.append(&mut part);
    }
    lines
}
