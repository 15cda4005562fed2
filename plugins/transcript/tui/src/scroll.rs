//! Which part of the conversation is in sight. Only what is near to that is laid out.

use crate::conversation::{Conversation, Older};
use crate::entry::{Entry, Layout};

/// What the view holds on to when the conversation changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// The end: it follows what is new.
    #[default]
    End,
    /// A row of an item, its gap included, is the first in sight.
    At {
        /// The item.
        id: String,
        /// The row.
        row: usize,
    },
}

/// The first row in sight: an item's place, and a row of it, its gap included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Top {
    pub(crate) entry: usize,
    pub(crate) row: usize,
}

/// Rows above an item that set it apart; for the first one, those of the note about older ones.
pub(crate) fn gap(conversation: &mut Conversation, index: usize, cx: &Layout<'_>) -> usize {
    let Some(before) = index.checked_sub(1) else {
        let note = conversation.has_older() || conversation.older != Older::Idle;
        return if note { 2 } else { 0 };
    };
    // Items that show nothing set nothing apart.
    let before = (0..=before)
        .rev()
        .find(|before| lay_out(conversation, *before, cx) > 0);
    let Some(before) = before else { return 0 };
    lay_out(conversation, index, cx);
    let entries = conversation.entries();
    usize::from(!(entries[before].is_line() && entries[index].is_line()))
}

fn lay_out(conversation: &mut Conversation, index: usize, cx: &Layout<'_>) -> usize {
    conversation.entry(index).map_or(0, |entry| {
        entry.lay_out(cx);
        entry.height()
    })
}

/// Rows of an item with its gap; none where it shows nothing, unless it carries the note about older ones.
fn total(conversation: &mut Conversation, index: usize, cx: &Layout<'_>) -> usize {
    match lay_out(conversation, index, cx) {
        0 if index == 0 => gap(conversation, index, cx),
        0 => 0,
        height => height + gap(conversation, index, cx),
    }
}

/// The first row in sight when the last one is at the lower edge.
fn top_of_end(conversation: &mut Conversation, height: usize, cx: &Layout<'_>) -> Top {
    let mut left = height;
    for entry in (0..conversation.entries().len()).rev() {
        let rows = total(conversation, entry, cx);
        if rows >= left {
            return Top {
                entry,
                row: rows - left,
            };
        }
        left -= rows;
    }
    Top { entry: 0, row: 0 }
}

/// The first row in sight. An anchor below which there is too little to fill the view becomes the end.
pub(crate) fn top(
    anchor: &mut Anchor,
    conversation: &mut Conversation,
    height: usize,
    cx: &Layout<'_>,
) -> Top {
    let place = match anchor {
        Anchor::End => None,
        Anchor::At { id, row } => conversation.position(id).map(|entry| (entry, *row)),
    };
    let Some((entry, row)) = place else {
        *anchor = Anchor::End;
        return top_of_end(conversation, height, cx);
    };
    let row = row.min(total(conversation, entry, cx).saturating_sub(1));
    let end = top_of_end(conversation, height, cx);
    let top = Top { entry, row };
    if top >= end {
        *anchor = Anchor::End;
        return end;
    }
    top
}

/// Moves the view by rows; negative ones lead to older items.
pub(crate) fn scroll(
    anchor: &mut Anchor,
    conversation: &mut Conversation,
    rows: isize,
    height: usize,
    cx: &Layout<'_>,
) {
    let Top { mut entry, mut row } = top(anchor, conversation, height, cx);
    if conversation.is_empty() {
        return;
    }
    let mut left = rows.unsigned_abs();
    if rows < 0 {
        loop {
            if row >= left {
                row -= left;
                break;
            }
            left -= row;
            row = 0;
            let Some(before) = entry.checked_sub(1) else {
                break;
            };
            entry = before;
            row = total(conversation, entry, cx);
        }
    } else {
        loop {
            let rest = total(conversation, entry, cx).saturating_sub(row);
            if left < rest {
                row += left;
                break;
            }
            if entry + 1 == conversation.entries().len() {
                *anchor = Anchor::End;
                return;
            }
            left -= rest;
            (entry, row) = (entry + 1, 0);
        }
    }
    hold(anchor, conversation, Top { entry, row });
    top(anchor, conversation, height, cx);
}

/// Holds on to a row.
pub(crate) fn hold(anchor: &mut Anchor, conversation: &Conversation, top: Top) {
    if let Some(entry) = conversation.entries().get(top.entry) {
        *anchor = Anchor::At {
            id: entry.id().to_owned(),
            row: top.row,
        };
    }
}

/// Scrolls as little as brings an item into sight; its beginning where it is too tall.
pub(crate) fn reveal(
    anchor: &mut Anchor,
    conversation: &mut Conversation,
    index: usize,
    height: usize,
    cx: &Layout<'_>,
) {
    let first = top(anchor, conversation, height, cx);
    let gap = gap(conversation, index, cx);
    let start = Top {
        entry: index,
        row: gap,
    };
    if start < first {
        // The gap above comes into sight too.
        hold(
            anchor,
            conversation,
            Top {
                entry: index,
                row: 0,
            },
        );
        return;
    }
    let above: usize = (first.entry..index)
        .map(|entry| total(conversation, entry, cx))
        .sum();
    let end = above + total(conversation, index, cx) - first.row;
    if end > height {
        let tall = conversation.entries().get(index).map_or(0, Entry::height) > height;
        let by = if tall {
            above + gap - first.row
        } else {
            end - height
        };
        scroll(
            anchor,
            conversation,
            isize::try_from(by).unwrap_or(0),
            height,
            cx,
        );
    }
}

/// The rows in sight: item, its gap, and which of its rows (without the gap) stand from which screen row on.
pub(crate) fn visible(
    conversation: &mut Conversation,
    top: Top,
    height: usize,
    cx: &Layout<'_>,
) -> Vec<Visible> {
    let mut visible = Vec::new();
    let (mut y, mut skip) = (0, top.row);
    for entry in top.entry..conversation.entries().len() {
        if y >= height {
            break;
        }
        let rows = total(conversation, entry, cx);
        if rows == 0 {
            continue;
        }
        let gap = gap(conversation, entry, cx);
        let shown_gap = gap.saturating_sub(skip);
        let first = skip.saturating_sub(gap);
        let room = height.saturating_sub(y + shown_gap);
        let last = (rows - gap).min(first + room);
        visible.push(Visible {
            entry,
            y: y + shown_gap,
            gap_y: y,
            gap: shown_gap.min(height - y),
            first,
            last,
        });
        y += shown_gap + (last - first);
        skip = 0;
    }
    visible
}

/// An item in sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visible {
    pub(crate) entry: usize,
    /// The screen row of its first row in sight.
    pub(crate) y: usize,
    /// The screen row where its gap begins, and how much of the gap is in sight.
    pub(crate) gap_y: usize,
    pub(crate) gap: usize,
    /// Its rows in sight.
    pub(crate) first: usize,
    pub(crate) last: usize,
}
