//! `write`, `edit` and `apply_patch`: diffs of the files that changed.

use std::hash::{DefaultHasher, Hash, Hasher};

use bezel_api_tui::{ToolCard, ToolRenderContext, ToolRenderer};
use bezel_presentation::diff::{self, DiffHunk, DiffKind, DiffSyntax, PlainHunk};
use bezel_presentation::text::Role;
use bezel_presentation::wrap::truncate;
use bezel_presentation::{StyledLine, StyledSpan};
use bezel_tools_contract::{ChangesDetails, DiffLineKind, FileAction, FileDiff, ToolDetails};

use crate::memo::Memo;
use crate::paths::{Paths, TIME};
use crate::read::{details, error_body};
use crate::{arguments, output};

/// Rows of a diff that a closed card shows.
const CLOSED_ROWS: usize = 20;

/// Draws calls that change files.
pub(crate) struct ChangesRenderer {
    verb: &'static str,
    paths: Paths,
    diffs: Memo<Drawn>,
}

/// A file's hunks and their syntax.
struct Drawn {
    hunks: Vec<DiffHunk>,
    syntax: DiffSyntax,
}

impl ChangesRenderer {
    pub(crate) fn new(verb: &'static str, paths: Paths) -> Self {
        ChangesRenderer {
            verb,
            paths,
            diffs: Memo::default(),
        }
    }

    /// What was done to one file, and how much of it changed, in `width` columns where that can be.
    fn file_line(&self, file: &FileDiff, verb: &str, role: Role, width: usize) -> StyledLine {
        let mut line = StyledLine::new(format!("{verb} "), role);
        let mut counts = StyledLine::default();
        push_counts(&mut counts, file.added, file.removed);
        let room = width.saturating_sub(line.width() + counts.width());
        match &file.moved_from {
            Some(from) => {
                let half = room.saturating_sub(3) / 2;
                line.push(StyledSpan::new(self.paths.fitted(from, half), Role::Text));
                line.push(StyledSpan::new(" → ", Role::Faint));
                line.push(StyledSpan::new(
                    self.paths.fitted(&file.path, half),
                    Role::Text,
                ));
            }
            None => line.push(StyledSpan::new(
                self.paths.fitted(&file.path, room),
                Role::Text,
            )),
        }
        counts.spans.into_iter().for_each(|span| line.push(span));
        line
    }

    fn file_rows(&self, file: &FileDiff, cx: &ToolRenderContext<'_>) -> Vec<StyledLine> {
        let drawn = self.diffs.get(fingerprint(file), || {
            let hunks = diff::from_hunks(file.hunks.iter().map(plain));
            let syntax = DiffSyntax::new(&hunks, &file.path, cx.highlighter);
            Drawn { hunks, syntax }
        });
        let mut rows = diff::lay_out(&drawn.hunks, Some(&drawn.syntax), usize::from(cx.width));
        if file.truncated {
            rows.push(StyledLine::new(
                "… the rest of the changes is too long to show",
                Role::Faint,
            ));
        }
        rows
    }
}

impl ToolRenderer for ChangesRenderer {
    fn title(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> StyledLine {
        let width = usize::from(cx.width).saturating_sub(TIME);
        match changes(card)
            .as_ref()
            .map(|changes| changes.files.as_slice())
        {
            Some([file]) => self.file_line(file, verb(file, self.verb), Role::ToolName, width),
            Some([]) => StyledLine::from(vec![
                StyledSpan::new(format!("{} ", self.verb), Role::ToolName),
                StyledSpan::new("nothing changed", Role::Muted),
            ]),
            Some(files) => {
                let mut line = StyledLine::new(format!("{} ", self.verb), Role::ToolName);
                line.push(StyledSpan::new(
                    format!("{} files", files.len()),
                    Role::Text,
                ));
                let sum = |count: fn(&FileDiff) -> u64| files.iter().map(count).sum();
                push_counts(&mut line, sum(|file| file.added), sum(|file| file.removed));
                line
            }
            None => {
                let mut line = StyledLine::new(format!("{} ", self.verb), Role::ToolName);
                let room = width.saturating_sub(line.width());
                let path = arguments::text(card, "path").map(|path| self.paths.fitted(&path, room));
                line.push(StyledSpan::new(path.unwrap_or_default(), Role::Text));
                line
            }
        }
    }

    fn body(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> Vec<StyledLine> {
        let mut rows = Vec::new();
        if let Some(outcome) = card.outcome.filter(|outcome| outcome.is_error) {
            rows.extend(error_body(outcome.text, cx));
        }
        let Some(changes) = changes(card) else {
            return rows;
        };
        let many = changes.files.len() > 1;
        for file in &changes.files {
            if many {
                let width = usize::from(cx.width);
                rows.push(truncate(
                    &self.file_line(file, verb(file, "Edit"), Role::Muted, width),
                    width,
                ));
            }
            rows.extend(self.file_rows(file, cx));
        }
        if !cx.expanded && rows.len() > CLOSED_ROWS {
            let hidden = rows.len() - (CLOSED_ROWS - 1);
            rows.truncate(CLOSED_ROWS - 1);
            rows.push(output::more(hidden));
        }
        rows
    }
}

fn changes(card: &ToolCard<'_>) -> Option<ChangesDetails> {
    match details(card) {
        Some(ToolDetails::Changes(changes)) => Some(changes),
        _ => None,
    }
}

fn verb(file: &FileDiff, usual: &'static str) -> &'static str {
    match (file.action, &file.moved_from) {
        (FileAction::Added, _) => "Create",
        (FileAction::Deleted, _) => "Delete",
        (FileAction::Updated, Some(_)) if file.added + file.removed == 0 => "Move",
        (FileAction::Updated, _) => usual,
    }
}

fn push_counts(line: &mut StyledLine, added: u64, removed: u64) {
    if added > 0 {
        line.push(StyledSpan::new(format!(" +{added}"), Role::Success));
    }
    if removed > 0 {
        line.push(StyledSpan::new(format!(" −{removed}"), Role::Error));
    }
}

fn plain(hunk: &bezel_tools_contract::DiffHunk) -> PlainHunk {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    // A side without lines names the line before the region; the first number is then never used.
    let kind = |kind: DiffLineKind| match kind {
        DiffLineKind::Context => DiffKind::Context,
        DiffLineKind::Added => DiffKind::Added,
        DiffLineKind::Removed => DiffKind::Removed,
    };
    PlainHunk {
        old_start: number(hunk.old_start),
        new_start: number(hunk.new_start),
        lines: hunk
            .lines
            .iter()
            .map(|line| (kind(line.kind), text(line)))
            .collect(),
    }
}

/// The text of a line; a missing newline at the end of a file is told where it is part of the change.
fn text(line: &bezel_tools_contract::DiffLine) -> String {
    match (line.no_newline, line.kind) {
        (true, DiffLineKind::Added | DiffLineKind::Removed) => {
            format!("{}  ← no newline at the end", line.text)
        }
        _ => line.text.clone(),
    }
}

fn fingerprint(file: &FileDiff) -> u64 {
    let mut hasher = DefaultHasher::new();
    file.path.hash(&mut hasher);
    for hunk in &file.hunks {
        (hunk.old_start, hunk.new_start).hash(&mut hasher);
        for line in &hunk.lines {
            (line.kind as u8, &line.text).hash(&mut hasher);
        }
    }
    hasher.finish()
}
