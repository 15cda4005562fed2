//! What the agent does now, for how long, and how to stop it.

use std::time::Duration;

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::{RenderContext, View};
use bezel_chat_contract::{Activity, ChatState, OutcomeStatus, Phase};
use bezel_presentation::clock::Clock;
use bezel_presentation::text::{Role, sanitize};
use bezel_presentation::wrap::{truncate, truncate_text, wrap};
use bezel_presentation::{StyledLine, StyledSpan, format};
use bezel_rpc::{AttachmentState, State};
use bezel_session_types::OperationId;
use bezel_transcript_contract::{ItemBody, Part, TranscriptState};
use bezel_usage_contract::UsageState;

/// Rows of an error at most; the rest is in the session.
const ERROR_ROWS: usize = 4;

/// Columns of the reason of a retry at most, and at least where it is shown at all.
const REASON: usize = 60;
const LEAST_REASON: usize = 12;

/// Columns of the dot between two parts and the blanks around it.
const SEPARATOR: usize = 3;

/// Bytes of text that make about one token.
const TOKEN: usize = 4;

/// The line above the composer while something runs, and what went wrong after it.
pub(crate) struct ActivityView {
    pub(crate) chat: State<ChatState>,
    pub(crate) attachment: State<AttachmentState>,
    pub(crate) usage: State<UsageState>,
    pub(crate) transcript: State<TranscriptState>,
    pub(crate) clock: Clock,
    /// The operation that runs, and how much had been written before it.
    pub(crate) baseline: Option<(OperationId, u64)>,
    pub(crate) lines: Vec<StyledLine>,
}

impl ActivityView {
    fn build(&mut self, width: u16, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        if !self.attachment.get().is_attached() || self.chat.is_stale() {
            return Vec::new();
        }
        let width = usize::from(width);
        let chat = self.chat.get();
        match &chat.activity {
            Activity::Running {
                operation_id,
                since,
                phase,
                cancelling,
            } => {
                let tokens = self.tokens(operation_id);
                let mut line = StyledLine::new(format!("{} ", cx.spinner()), Role::Accent);
                self.say(phase, *cancelling, cx.asks() > 0, &mut line);
                let mut rest = StyledLine::default();
                let elapsed = self.clock.since(since).unwrap_or_default();
                push(&mut rest, &short(elapsed), Role::Muted);
                if tokens > 0 && width >= 60 {
                    push(
                        &mut rest,
                        &format!("↓ {} tokens", format::tokens(tokens)),
                        Role::Muted,
                    );
                }
                if !cancelling {
                    rest.push(StyledSpan::new(" · ", Role::Faint));
                    rest.push(StyledSpan::new("esc", Role::Key));
                    rest.push(StyledSpan::new(" to interrupt", Role::Muted));
                }
                let width = width.saturating_sub(1);
                if let Phase::Retrying { reason, .. } = phase
                    && !cancelling
                {
                    // How to stop it is not given up for a long reason.
                    let room = width.saturating_sub(line.width() + rest.width() + SEPARATOR);
                    if room >= LEAST_REASON {
                        let reason = one_line(reason);
                        let reason = truncate_text(&reason, room.min(REASON));
                        push(&mut line, &reason, Role::Muted);
                    }
                }
                rest.spans.into_iter().for_each(|span| line.push(span));
                vec![truncate(&line, width)]
            }
            Activity::Idle => {
                self.baseline = None;
                let Some(last) = chat.last.as_ref() else {
                    return Vec::new();
                };
                match last.status {
                    OutcomeStatus::Done => return Vec::new(),
                    OutcomeStatus::Interrupted if self.is_told(None) => return Vec::new(),
                    OutcomeStatus::Interrupted => {
                        let text = if chat.queue.is_empty() {
                            "⊘ Interrupted · say what to do instead"
                        } else {
                            "⊘ Interrupted"
                        };
                        let line = StyledLine::new(text, Role::Muted);
                        return vec![truncate(&line, width.saturating_sub(1))];
                    }
                    OutcomeStatus::Failed => {}
                }
                let message = last
                    .error
                    .as_ref()
                    .map_or("the turn failed; the log has more", |error| {
                        error.message.as_str()
                    });
                if self.is_told(Some(message)) {
                    return Vec::new();
                }
                let message = one_line(message);
                let mut rows = wrap(
                    &StyledLine::new(message, Role::Error),
                    width.saturating_sub(3),
                );
                rows.truncate(ERROR_ROWS);
                let mark = |(position, row): (usize, StyledLine)| {
                    let mut line =
                        StyledLine::new(if position == 0 { "✗ " } else { "  " }, Role::Error);
                    row.spans.into_iter().for_each(|span| line.push(span));
                    line
                };
                rows.into_iter().enumerate().map(mark).collect()
            }
        }
    }

    /// Whether the newest answer tells already how the turn ended: of a failure with this message.
    fn is_told(&self, message: Option<&str>) -> bool {
        if self.transcript.is_stale() {
            return false;
        }
        let transcript = self.transcript.get();
        let mut newest = transcript.items.iter().rev().map(|item| &item.body);
        let told = match newest.find(|body| !matches!(body, ItemBody::Note { failed: false, .. })) {
            Some(ItemBody::Assistant {
                error: Some(error), ..
            }) => error,
            Some(ItemBody::Note { text, failed: true }) => text,
            _ => return false,
        };
        message.is_none_or(|message| told.contains(message))
    }

    fn say(&self, phase: &Phase, cancelling: bool, asks: bool, line: &mut StyledLine) {
        let mut word = |text: &str| line.push(StyledSpan::new(text.to_owned(), Role::Text));
        if cancelling {
            return word("Interrupting…");
        }
        match phase {
            Phase::Starting => word("Preparing…"),
            Phase::WaitingForModel => word("Waiting for the model…"),
            Phase::Thinking => word("Thinking…"),
            Phase::Answering => word("Writing…"),
            Phase::Compacting => word("Summarising the conversation…"),
            Phase::Navigating => word("Going to another place in the conversation…"),
            Phase::Tools { .. } if asks => word("Waiting for your answer"),
            Phase::Tools { names } => {
                word("Running ");
                word(&counted(names));
            }
            Phase::Retrying { attempt, at, .. } => {
                let left = self.clock.until(at).unwrap_or_default();
                // Rounded up: it is never "in 0s" while there is time left.
                let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
                let when = if seconds == 0 {
                    "now".to_owned()
                } else {
                    format!("in {}", short(Duration::from_secs(seconds)))
                };
                line.push(StyledSpan::new(
                    format!("Trying again {when} (try {attempt})"),
                    Role::Warning,
                ));
            }
        }
    }

    /// Tokens written since the operation began: those that were counted, and an estimate of what streams.
    fn tokens(&mut self, operation: &OperationId) -> u64 {
        let total = self.usage.get().total.output;
        let before = match &self.baseline {
            Some((known, before)) if known == operation => *before,
            _ => {
                self.baseline = Some((operation.clone(), total));
                total
            }
        };
        let transcript = self.transcript.get();
        let streaming = transcript
            .items
            .iter()
            .rev()
            .find_map(|item| match &item.body {
                ItemBody::Assistant {
                    parts, done: false, ..
                } => {
                    let length = |part: &Part| match part {
                        Part::Text { text } | Part::Thinking { text } => text.len(),
                    };
                    Some(parts.iter().map(length).sum::<usize>())
                }
                _ => None,
            });
        let estimate = u64::try_from(streaming.unwrap_or(0) / TOKEN).unwrap_or(0);
        total.saturating_sub(before) + estimate
    }
}

fn one_line(text: &str) -> String {
    sanitize(text, 4).replace('\n', " ")
}

fn push(line: &mut StyledLine, text: &str, role: Role) {
    line.push(StyledSpan::new(" · ", Role::Faint));
    line.push(StyledSpan::new(text.to_owned(), role));
}

/// Whole seconds: `7s`, `1m 05s`.
fn short(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        _ => format::duration(duration),
    }
}

/// Names in order, equal ones counted: `read ×3, grep`.
fn counted(names: &[String]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let say = |(name, count): &(&str, usize)| {
        if *count > 1 {
            format!("{name} ×{count}")
        } else {
            (*name).to_owned()
        }
    };
    counts.iter().map(say).collect::<Vec<_>>().join(", ")
}

impl View for ActivityView {
    fn height(&mut self, width: u16, cx: &RenderContext<'_>) -> u16 {
        self.lines = self.build(width, cx);
        u16::try_from(self.lines.len()).unwrap_or(0)
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        cx.paint().draw_lines(buffer, area, &self.lines);
    }
}
