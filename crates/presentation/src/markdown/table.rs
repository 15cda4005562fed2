//! Tables that fit the width: columns shrink, cells wrap, and what is hopeless becomes a list.

use super::block::{Alignment, Inline};
use super::layout::push_inline;
use crate::text::{Role, StyledLine, StyledSpan};

/// A column is not made narrower than this.
const LEAST: usize = 6;

const GAP: usize = 3;

pub(super) fn push(
    alignments: &[Alignment],
    header: &[Inline],
    rows: &[Vec<Inline>],
    width: usize,
    out: &mut Vec<StyledLine>,
) {
    let columns = header.len().max(1);
    let natural: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows
                .iter()
                .filter_map(|row| row.get(column))
                .chain(header.get(column));
            cells
                .flat_map(|cell| cell.iter().map(StyledLine::width))
                .max()
                .unwrap_or(0)
                .max(1)
        })
        .collect();
    let room = width.saturating_sub(GAP * (columns - 1));
    let Some(widths) = fit(&natural, room) else {
        return push_as_list(header, rows, width, out);
    };
    let blank = |cell: &Inline| cell.iter().all(|line| line.to_text().trim().is_empty());
    if header.iter().all(blank) {
        // Markdown asks for a header; one that says nothing is left out.
        for row in rows {
            push_row(row, alignments, &widths, false, out);
        }
        return;
    }
    push_row(header, alignments, &widths, true, out);
    let mut rule = StyledLine::default();
    for (column, width) in widths.iter().enumerate() {
        let joint = if column == 0 { "" } else { "─┼─" };
        rule.push(StyledSpan::new(
            format!("{joint}{}", "─".repeat(*width)),
            Role::Border,
        ));
    }
    out.push(rule);
    for row in rows {
        push_row(row, alignments, &widths, false, out);
    }
}

/// Widths that together take `room`; the widest give way first.
fn fit(natural: &[usize], room: usize) -> Option<Vec<usize>> {
    let mut widths = natural.to_vec();
    let least: usize = natural.iter().map(|width| (*width).min(LEAST)).sum();
    if least > room {
        return None;
    }
    while widths.iter().sum::<usize>() > room {
        let widest = widths.iter().copied().max()?;
        let second = widths
            .iter()
            .copied()
            .filter(|width| *width < widest)
            .max()
            .unwrap_or(LEAST)
            .max(LEAST);
        let over = widths.iter().sum::<usize>() - room;
        let count = widths.iter().filter(|width| **width == widest).count();
        let step = (widest - second.min(widest - 1))
            .min(over.div_ceil(count))
            .max(1);
        let mut left = over;
        for width in widths.iter_mut().filter(|width| **width == widest) {
            let take = step.min(left);
            *width -= take;
            left -= take;
        }
    }
    Some(widths)
}

fn push_row(
    cells: &[Inline],
    alignments: &[Alignment],
    widths: &[usize],
    strong: bool,
    out: &mut Vec<StyledLine>,
) {
    let wrapped: Vec<Vec<StyledLine>> = widths
        .iter()
        .enumerate()
        .map(|(column, width)| {
            let mut lines = Vec::new();
            if let Some(cell) = cells.get(column) {
                push_inline(cell, *width, &mut lines);
            }
            lines
        })
        .collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or(0).max(1);
    for row in 0..height {
        let mut line = StyledLine::default();
        for (column, width) in widths.iter().enumerate() {
            if column > 0 {
                line.push(StyledSpan::new(" │ ", Role::Border));
            }
            let cell = wrapped[column].get(row).cloned().unwrap_or_default();
            let left = width.saturating_sub(cell.width());
            let before = match alignments.get(column).copied().unwrap_or_default() {
                Alignment::Left => 0,
                Alignment::Center => left / 2,
                Alignment::Right => left,
            };
            line.push(StyledSpan::new(" ".repeat(before), Role::Text));
            for mut span in cell.spans {
                span.style.bold |= strong;
                line.push(span);
            }
            if column + 1 < widths.len() {
                line.push(StyledSpan::new(" ".repeat(left - before), Role::Text));
            }
        }
        out.push(line);
    }
}

fn push_as_list(header: &[Inline], rows: &[Vec<Inline>], width: usize, out: &mut Vec<StyledLine>) {
    for (position, row) in rows.iter().enumerate() {
        if position > 0 {
            out.push(StyledLine::new("─".repeat(width.min(8)), Role::Border));
        }
        for (name, cell) in header.iter().zip(row) {
            let mut lines = name.clone();
            lines
                .iter_mut()
                .flat_map(|line| &mut line.spans)
                .for_each(|span| span.style.bold = true);
            if let Some(last) = lines.last_mut() {
                last.push(StyledSpan::new(": ", Role::Muted));
                let mut cells = cell.iter();
                cells
                    .next()
                    .into_iter()
                    .flat_map(|line| line.spans.clone())
                    .for_each(|span| last.push(span));
                lines.extend(cells.cloned());
            }
            push_inline(&lines, width, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_says_nothing_is_left_out() {
        let text = "| | |\n|:--|--:|\n| Input | 12 |\n| Output | 7 |";
        let lines = crate::markdown::lay_out(&crate::markdown::parse(text), 40);
        let lines: Vec<String> = lines.iter().map(StyledLine::to_text).collect();
        assert_eq!(lines, ["Input  │ 12", "Output │  7"]);
    }

    #[test]
    fn the_widest_columns_give_way() {
        assert_eq!(fit(&[4, 30, 10], 60), Some(vec![4, 30, 10]));
        assert_eq!(fit(&[4, 30, 10], 24), Some(vec![4, 10, 10]));
        assert_eq!(fit(&[4, 30, 30], 25), Some(vec![4, 10, 11]));
        assert_eq!(fit(&[10, 10, 10], 15), None);
    }
}
