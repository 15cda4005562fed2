//! Calls to draw, and what they look like as text.

use bezel_api_tui::{ToolCard, ToolOutcome, ToolRenderContext, ToolRenderer, ToolStatus};
use bezel_presentation::StyledLine;
use bezel_presentation::highlight::Highlighter;
use bezel_tools_contract::{
    BashDetails, CommandStatus, DiffHunk, DiffLine, DiffLineKind, FileAction, FileDiff, ToolDetails,
};
use serde_json::Value;

use crate::paths::Paths;

pub(super) const WIDTH: u16 = 64;

pub(super) fn paths() -> Paths {
    Paths::new(std::path::Path::new("/project"), Some("/home/me"))
}

/// A call that has ended.
pub(super) struct Ended {
    pub(super) arguments: Value,
    pub(super) details: Option<ToolDetails>,
    pub(super) text: &'static str,
    pub(super) is_error: bool,
}

impl Ended {
    pub(super) fn well(arguments: Value, details: ToolDetails, text: &'static str) -> Self {
        Ended {
            arguments,
            details: Some(details),
            text,
            is_error: false,
        }
    }

    pub(super) fn badly(arguments: Value, text: &'static str) -> Self {
        Ended {
            arguments,
            details: None,
            text,
            is_error: true,
        }
    }

    pub(super) fn lines(&self, renderer: &impl ToolRenderer, expanded: bool) -> Vec<StyledLine> {
        let details = self
            .details
            .as_ref()
            .map_or(Value::Null, ToolDetails::to_value);
        let card = ToolCard {
            name: "tool",
            arguments: &self.arguments,
            status: if self.is_error {
                ToolStatus::Failed
            } else {
                ToolStatus::Succeeded
            },
            output: "",
            progress: &Value::Null,
            outcome: Some(ToolOutcome {
                text: self.text,
                details: &details,
                is_error: self.is_error,
            }),
            elapsed: None,
        };
        draw(renderer, &card, expanded)
    }

    /// Closed, then open.
    pub(super) fn shown(&self, renderer: &impl ToolRenderer) -> String {
        let text = |expanded| {
            self.lines(renderer, expanded)
                .iter()
                .map(StyledLine::to_text)
                .collect::<Vec<_>>()
                .join("\n")
        };
        format!("{}\n---- open\n{}", text(false), text(true))
    }
}

pub(super) fn draw(
    renderer: &impl ToolRenderer,
    card: &ToolCard<'_>,
    expanded: bool,
) -> Vec<StyledLine> {
    let highlighter = Highlighter::plain();
    let cx = ToolRenderContext {
        width: WIDTH,
        expanded,
        highlighter: &highlighter,
    };
    let mut lines = vec![renderer.title(card, &cx)];
    lines.extend(renderer.body(card, &cx));
    for line in &lines[1..] {
        assert!(
            line.width() <= usize::from(WIDTH),
            "too wide: {}",
            line.to_text()
        );
    }
    lines
}

pub(super) fn running(
    name: &'static str,
    arguments: &Value,
    output: &str,
    renderer: &impl ToolRenderer,
) -> String {
    let card = ToolCard {
        name,
        arguments,
        status: ToolStatus::Running,
        output,
        progress: &Value::Null,
        outcome: None,
        elapsed: None,
    };
    draw(renderer, &card, false)
        .iter()
        .map(StyledLine::to_text)
        .collect::<Vec<_>>()
        .join("\n")
}

pub(super) fn line(kind: DiffLineKind, old: u64, new: u64, text: &str) -> DiffLine {
    let (old_line, new_line) = match kind {
        DiffLineKind::Context => (Some(old), Some(new)),
        DiffLineKind::Added => (None, Some(new)),
        DiffLineKind::Removed => (Some(old), None),
    };
    DiffLine {
        kind,
        old_line,
        new_line,
        text: text.into(),
        no_newline: false,
    }
}

pub(super) fn edited(path: &str) -> FileDiff {
    use DiffLineKind::{Added, Context, Removed};
    let lines = vec![
        line(
            Context,
            8,
            8,
            "fn parse(input: &str) -> Result<Tree, Error> {",
        ),
        line(Removed, 9, 9, "    let tokens = lex(input);"),
        line(Added, 10, 9, "    let tokens = lex(input)?;"),
        line(Added, 10, 10, "    check(&tokens)?;"),
        line(Context, 10, 11, "    build(tokens)"),
    ];
    FileDiff {
        path: path.into(),
        action: FileAction::Updated,
        moved_from: None,
        added: 2,
        removed: 1,
        hunks: vec![DiffHunk {
            old_start: 8,
            old_lines: 3,
            new_start: 8,
            new_lines: 4,
            lines,
        }],
        truncated: false,
    }
}

pub(super) fn created(path: &str, count: u64) -> FileDiff {
    let lines = (1..=count)
        .map(|number| line(DiffLineKind::Added, 0, number, &format!("line {number}")))
        .collect();
    FileDiff {
        path: path.into(),
        action: FileAction::Added,
        moved_from: None,
        added: count,
        removed: 0,
        hunks: vec![DiffHunk {
            old_start: 0,
            old_lines: 0,
            new_start: 1,
            new_lines: count,
            lines,
        }],
        truncated: false,
    }
}

pub(super) fn bash(command: &str, status: CommandStatus) -> ToolDetails {
    ToolDetails::Bash(BashDetails {
        command: command.into(),
        directory: "/project".into(),
        status,
        duration_ms: 1200,
        output_bytes: 70_000,
        saved_file: None,
        background_id: None,
    })
}
