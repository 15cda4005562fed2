//! `bash` and its background commands.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use bezel_api_tui::{ToolCard, ToolRenderContext, ToolRenderer};
use bezel_presentation::highlight::CodeHighlight;
use bezel_presentation::text::{Role, sanitize};
use bezel_presentation::wrap::{truncate, wrap_hard};
use bezel_presentation::{StyledLine, StyledSpan, format};
use bezel_tools_contract::{BashDetails, CommandStatus, ToolDetails};

use crate::arguments;
use crate::memo::Memo;
use crate::output::{self, Part};
use crate::read::{details, error_body};

/// Lines of output that a closed card shows.
const CLOSED_LINES: usize = 5;

/// Draws calls of `bash`.
#[derive(Default)]
pub(crate) struct BashRenderer {
    commands: Memo<CodeHighlight>,
}

impl BashRenderer {
    /// The lines of the command, highlighted as far as that has got.
    fn command(&self, command: &str, cx: &ToolRenderContext<'_>) -> Vec<StyledLine> {
        let mut hasher = DefaultHasher::new();
        command.hash(&mut hasher);
        let highlight = self.commands.get(hasher.finish(), || {
            let mut highlight = cx.highlighter.open("bash");
            highlight.update(command, true);
            highlight
        });
        let ready = highlight.lines_from(0);
        let lines = command.trim_end().lines().enumerate().map(|(place, line)| {
            let plain = sanitize(line, 4).into_owned();
            match ready.get(place) {
                Some(ready) if ready.to_text() == plain => ready.clone(),
                _ => StyledLine::new(plain, Role::CodeBlock),
            }
        });
        lines.collect()
    }
}

impl ToolRenderer for BashRenderer {
    fn title(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> StyledLine {
        let command = command(card);
        let lines = self.command(&command, cx);
        let mut line = StyledLine::new("$ ", Role::Accent);
        if let Some(first) = lines.first() {
            first.spans.iter().for_each(|span| line.push(span.clone()));
        }
        if lines.len() > 1 {
            line.push(StyledSpan::new(
                format!(
                    " … {}",
                    format::count(lines.len() - 1, "more line", "more lines")
                ),
                Role::Faint,
            ));
        }
        line
    }

    fn body(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> Vec<StyledLine> {
        let mut rows = Vec::new();
        let command = command(card);
        let lines = self.command(&command, cx);
        let width = usize::from(cx.width);
        let fits = lines.len() == 1 && lines[0].width() + 12 < width;
        if cx.expanded && !fits {
            for (place, line) in lines.iter().enumerate() {
                let mut whole = StyledLine::new(if place == 0 { "$ " } else { "  " }, Role::Faint);
                line.spans.iter().for_each(|span| whole.push(span.clone()));
                rows.extend(wrap_hard(&whole, width));
            }
        } else if !fits && let Some(description) = arguments::text(card, "description") {
            let description = sanitize(&description, 4).replace('\n', " ");
            rows.push(truncate(&StyledLine::new(description, Role::Muted), width));
        }
        let text = card.outcome.map_or(card.output, |outcome| outcome.text);
        match details(card) {
            Some(ToolDetails::Bash(details)) => {
                rows.extend(tail(text, &details, Role::Muted, cx));
                rows.extend(ending(&details, cx.expanded));
            }
            // It never ran: the text says why.
            _ if card.outcome.is_some_and(|outcome| outcome.is_error) => {
                rows.extend(error_body(text, cx));
            }
            _ => rows.extend(output::lines(text, Role::Muted, cx.width, part(cx))),
        }
        rows
    }

    fn took(&self, card: &ToolCard<'_>) -> Option<Duration> {
        match details(card) {
            Some(ToolDetails::Bash(details)) if details.status != CommandStatus::Running => {
                Some(Duration::from_millis(details.duration_ms))
            }
            _ => None,
        }
    }

    fn came_to_failure(&self, card: &ToolCard<'_>) -> bool {
        match details(card) {
            Some(ToolDetails::Bash(details)) => failed(&details.status),
            _ => false,
        }
    }
}

fn part(cx: &ToolRenderContext<'_>) -> Part {
    if cx.expanded {
        Part::All
    } else {
        Part::Tail(CLOSED_LINES)
    }
}

fn failed(status: &CommandStatus) -> bool {
    !matches!(
        status,
        CommandStatus::Running | CommandStatus::Exited { code: 0 } | CommandStatus::Killed
    )
}

/// The output, or its end. How the command ended is told by its details, not twice; and of an output that is
/// not here as a whole nobody can count the lines.
fn tail(
    text: &str,
    details: &BashDetails,
    role: Role,
    cx: &ToolRenderContext<'_>,
) -> Vec<StyledLine> {
    let here = u64::try_from(text.len()).unwrap_or(u64::MAX);
    let text = without_status(text, &details.status);
    let mut rows = output::lines(&text, role, cx.width, part(cx));
    if !cx.expanded && details.output_bytes > here && output::count(&text) > CLOSED_LINES {
        rows.drain(..rows.len().saturating_sub(CLOSED_LINES));
        let note = format!("… the end of {}", format::bytes(details.output_bytes));
        rows.insert(0, StyledLine::new(note, Role::Faint));
    }
    rows
}

/// The text without the line at its end that tells the model how the command ended.
fn without_status<'a>(text: &'a str, status: &CommandStatus) -> Cow<'a, str> {
    let said = match status {
        CommandStatus::Exited { code: 0 } => return text.into(),
        CommandStatus::Exited { code } => format!("[exit code {code}"),
        CommandStatus::Signalled { signal } => format!("[ended by signal {signal}"),
        CommandStatus::TimedOut { .. } => "[timed out".to_owned(),
        CommandStatus::OutputLimit { .. } => "[ended with all its processes".to_owned(),
        CommandStatus::Killed => "[ended on request".to_owned(),
        CommandStatus::Running => "[still running".to_owned(),
    };
    let text = text.trim_end();
    let lines: Vec<&str> = text.lines().collect();
    // Only notes stand behind it.
    let note = |line: &&&str| line.starts_with('[') && line.ends_with(']');
    let notes = lines.iter().rev().take_while(note).count();
    let Some(at) = (lines.len() - notes..lines.len()).find(|at| {
        let rest = lines[*at].strip_prefix(said.as_str());
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
    }) else {
        return text.into();
    };
    let kept = [&lines[..at], &lines[at + 1..]].concat();
    kept.join("\n").trim_end().to_owned().into()
}

fn command(card: &ToolCard<'_>) -> String {
    match details(card) {
        Some(ToolDetails::Bash(details)) => details.command,
        _ => arguments::text(card, "command")
            .map(|command| command.into_owned())
            .unwrap_or_default(),
    }
}

/// How it ended, where that is worth a word, and where its output is.
fn ending(details: &BashDetails, expanded: bool) -> Vec<StyledLine> {
    let mut parts: Vec<(String, Role)> = Vec::new();
    match details.status {
        CommandStatus::Running => {
            if let Some(id) = &details.background_id {
                parts.push((format!("runs in the background as {id}"), Role::Notice));
            }
        }
        CommandStatus::Exited { code: 0 } => {}
        CommandStatus::Exited { code } => parts.push((format!("exit {code}"), Role::Error)),
        CommandStatus::Signalled { signal } => {
            parts.push((format!("ended by signal {signal}"), Role::Error))
        }
        CommandStatus::TimedOut { after_ms } => {
            parts.push((
                format!(
                    "stopped after {}",
                    format::duration(Duration::from_millis(after_ms))
                ),
                Role::Warning,
            ));
        }
        CommandStatus::Killed => parts.push(("ended".to_owned(), Role::Warning)),
        CommandStatus::OutputLimit { limit_bytes } => {
            parts.push((
                format!("stopped after {} of output", format::bytes(limit_bytes)),
                Role::Warning,
            ));
        }
    }
    if let Some(file) = &details.saved_file
        && (expanded || !parts.is_empty())
    {
        parts.push((
            format!("{} in {file}", format::bytes(details.output_bytes)),
            Role::Faint,
        ));
    }
    let mut line = StyledLine::default();
    for (position, (text, role)) in parts.into_iter().enumerate() {
        if position > 0 {
            line.push(StyledSpan::new(" · ", Role::Faint));
        }
        line.push(StyledSpan::new(text, role));
    }
    if line.spans.is_empty() {
        Vec::new()
    } else {
        vec![line]
    }
}

/// Draws calls of `bash_output` and `bash_kill`.
pub(crate) struct BackgroundRenderer {
    verb: &'static str,
}

impl BackgroundRenderer {
    pub(crate) fn new(verb: &'static str) -> Self {
        BackgroundRenderer { verb }
    }
}

impl ToolRenderer for BackgroundRenderer {
    fn title(&self, card: &ToolCard<'_>, _cx: &ToolRenderContext<'_>) -> StyledLine {
        let mut line = StyledLine::new(format!("{} ", self.verb), Role::ToolName);
        match details(card) {
            Some(ToolDetails::Background(details)) => {
                line.push(StyledSpan::new(details.id, Role::Text));
                let command = sanitize(&details.command.command, 4).replace('\n', " ");
                line.push(StyledSpan::new(format!("  $ {command}"), Role::Faint));
            }
            _ => {
                let id = arguments::text(card, "id").unwrap_or_default();
                line.push(StyledSpan::new(id.into_owned(), Role::Text));
            }
        }
        line
    }

    fn body(&self, card: &ToolCard<'_>, cx: &ToolRenderContext<'_>) -> Vec<StyledLine> {
        let text = card.outcome.map_or(card.output, |outcome| outcome.text);
        if card.outcome.is_some_and(|outcome| outcome.is_error) {
            return error_body(text, cx);
        }
        let mut rows = output::lines(text, Role::Muted, cx.width, part(cx));
        if let Some(ToolDetails::Background(details)) = details(card) {
            rows.extend(ending(
                &BashDetails {
                    background_id: None,
                    ..details.command
                },
                cx.expanded,
            ));
        }
        rows
    }
}
