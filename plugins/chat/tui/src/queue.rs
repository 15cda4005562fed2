//! Messages that wait: on their way to the session, or taken and not delivered yet.

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::{RenderContext, View};
use bezel_blobs_contract::Progress;
use bezel_chat_contract::{Activity, ChatState, Delivery, Outcome, OutcomeStatus};
use bezel_presentation::text::{Role, width as columns};
use bezel_presentation::wrap::truncate;
use bezel_presentation::{StyledLine, StyledSpan};
use bezel_rpc::{AttachmentState, State};

use crate::outbox::Outbox;

/// Rows of messages; more are counted.
const ROWS: usize = 4;

/// Shows what waits, right above the composer.
pub(crate) struct QueueView {
    pub(crate) chat: State<ChatState>,
    pub(crate) attachment: State<AttachmentState>,
    pub(crate) outbox: Outbox,
}

struct Waiting {
    label: &'static str,
    text: String,
}

impl QueueView {
    fn waiting(&self) -> Vec<Waiting> {
        let mut waiting = Vec::new();
        let attached = self.attachment.get().is_attached();
        if attached && !self.chat.is_stale() {
            let held = self.is_held();
            waiting.extend(self.chat.get().queue.iter().map(|message| {
                Waiting {
                    label: if held {
                        "held"
                    } else {
                        label(message.delivery)
                    },
                    text: message
                        .text
                        .split_whitespace()
                        .collect::<Vec<_>>()
                        .join(" "),
                }
            }));
        }
        let on_their_way = self.outbox.waiting().into_iter().map(|outgoing| Waiting {
            label: if attached { "sending" } else { "waiting" },
            text: match outgoing.uploaded {
                Some(uploaded) => format!("{} {}", share(uploaded), outgoing.draft.in_short()),
                None => outgoing.draft.in_short(),
            },
        });
        waiting.extend(on_their_way);
        waiting
    }

    /// Whether what the session has taken waits for the next message: nothing runs that it could join.
    fn is_held(&self) -> bool {
        let chat = self.chat.get();
        let cut_short = |last: &Outcome| last.status != OutcomeStatus::Done;
        chat.activity == Activity::Idle
            && !chat.queue.is_empty()
            && chat.last.as_ref().is_some_and(cut_short)
    }
}

/// How much of the pictures has arrived.
fn share(uploaded: Progress) -> String {
    let percent = uploaded.done.saturating_mul(100) / uploaded.total.max(1);
    format!("({percent}%)")
}

/// Columns from which on the keys stand beside a message.
fn room_for_key(key: &str) -> usize {
    columns(key) + 40
}

fn label(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::Steer => "steer",
        Delivery::Queue => "queued",
    }
}

impl View for QueueView {
    fn height(&mut self, _width: u16, _cx: &RenderContext<'_>) -> u16 {
        u16::try_from(self.waiting().len().min(ROWS)).unwrap_or(0)
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let waiting = self.waiting();
        let width = usize::from(area.width);
        let rows = usize::from(area.height);
        // The newest stay in sight; they are what can be taken back.
        let hidden = waiting.len().saturating_sub(rows);
        let key = if self.is_held() && self.outbox.is_empty() {
            "enter sends · alt+up takes back"
        } else {
            "alt+up takes back"
        };
        for (position, (row, message)) in area.rows().zip(&waiting[hidden..]).enumerate() {
            let mut line = StyledLine::new("  ↳ ", Role::Faint);
            line.push(StyledSpan::new(
                format!("{:<8}", message.label),
                Role::AccentAlternate,
            ));
            if position == 0 && hidden > 0 {
                line.push(StyledSpan::new(format!("(+{hidden}) "), Role::Faint));
            }
            line.push(StyledSpan::new(message.text.clone(), Role::Muted));
            let last = position + 1 == rows.min(waiting.len());
            let room = if last && width > room_for_key(key) {
                width.saturating_sub(columns(key) + 3)
            } else {
                width.saturating_sub(1)
            };
            let mut line = truncate(&line, room);
            if last && width > room_for_key(key) {
                let gap = width.saturating_sub(line.width() + columns(key) + 1);
                line.push(StyledSpan::new(" ".repeat(gap), Role::Text));
                line.push(StyledSpan::new(key, Role::Faint));
            }
            cx.paint().draw_line(buffer, row, &line);
        }
    }
}
