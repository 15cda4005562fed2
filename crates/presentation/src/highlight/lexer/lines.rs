//! Languages that are read line by line: Markdown's source and diffs.

use super::Pieces;
use crate::text::{Role, StyledLine};

/// Whether a fence is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MarkdownState {
    fenced: bool,
}

pub(super) fn read_markdown(state: &mut MarkdownState, line: &str) -> StyledLine {
    let mut pieces = Pieces::new(line);
    let inner = line.trim_start();
    let indent = line.len() - inner.len();
    if inner.starts_with("```") || inner.starts_with("~~~") {
        state.fenced = !state.fenced;
        pieces.push(0, line.len(), Role::CodeFrame);
        return pieces.out;
    }
    if state.fenced {
        pieces.push(0, line.len(), Role::InlineCode);
        return pieces.out;
    }
    let whole = match inner.chars().next() {
        Some('#') => Some(Role::Heading),
        Some('>') => Some(Role::Quote),
        _ => None,
    };
    if let Some(role) = whole {
        pieces.push(0, line.len(), role);
        return pieces.out;
    }
    let digits = inner.bytes().take_while(u8::is_ascii_digit).count();
    let marker = if inner.starts_with("- ") || inner.starts_with("* ") || inner.starts_with("+ ") {
        1
    } else if digits > 0 && inner[digits..].starts_with(". ") {
        digits + 1
    } else {
        0
    };
    pieces.push(0, indent + marker, Role::ListMarker);
    let mut at = indent + marker;
    while at < line.len() {
        let rest = &line[at..];
        let closed = |open: &str| {
            rest[open.len()..]
                .find(open)
                .filter(|end| *end > 0)
                .map(|end| end + 2 * open.len())
        };
        let (length, role) = if rest.starts_with('`') {
            (closed("`").unwrap_or(1), Role::InlineCode)
        } else if rest.starts_with("**") {
            (closed("**").unwrap_or(2), Role::Strong)
        } else {
            let next = rest
                .char_indices()
                .skip(1)
                .find(|(_, letter)| matches!(letter, '`' | '*'))
                .map(|(at, _)| at);
            (next.unwrap_or(rest.len()), Role::CodeBlock)
        };
        pieces.push(at, at + length, role);
        at += length;
    }
    pieces.out
}

pub(super) fn read_diff(line: &str) -> StyledLine {
    let role = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Role::Heading,
        [b'+', ..] => Role::DiffAdded,
        [b'-', ..] => Role::DiffRemoved,
        [b'@', b'@', ..] => Role::DiffHunk,
        _ if [
            "diff ",
            "index ",
            "similarity ",
            "rename ",
            "new file ",
            "deleted file ",
        ]
        .iter()
        .any(|start| line.starts_with(start)) =>
        {
            Role::Heading
        }
        _ => Role::CodeBlock,
    };
    let mut pieces = Pieces::new(line);
    pieces.push(0, line.len(), role);
    pieces.out
}
