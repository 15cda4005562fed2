//! What is staged, above the composer: a person must not forget it.

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::{RenderContext, View};
use bezel_presentation::text::Role;
use bezel_presentation::wrap::truncate;
use bezel_presentation::{StyledLine, StyledSpan};
use bezel_rewind_contract::{Reach, RewindState};
use bezel_rpc::{AttachmentState, State};

/// Shows what is staged, and the keys for it.
pub(crate) struct Banner {
    pub(crate) state: State<RewindState>,
    pub(crate) attachment: State<AttachmentState>,
}

impl Banner {
    fn line(&self) -> Option<StyledLine> {
        if !self.attachment.get().is_attached() || self.state.is_stale() {
            return None;
        }
        let state = self.state.get();
        let staged = state.staged.as_ref()?;
        let files = crate::files(staged.total);
        let mut spans = vec![
            StyledSpan::new("  ↶ ", Role::Warning),
            StyledSpan::new(format!("{files} as before "), Role::Warning),
            StyledSpan::new(format!("“{}”", shortened(&staged.text)), Role::Text),
        ];
        if staged.reach == Reach::FilesAndConversation {
            let goes = ", the conversation with what you send next";
            spans.push(StyledSpan::new(goes, Role::Muted));
        }
        if !staged.left_alone.is_empty() {
            let left = format!(", {} left alone", staged.left_alone.len());
            spans.push(StyledSpan::new(left, Role::Muted));
        }
        spans.push(StyledSpan::new(
            " · ctrl+x u undo · ctrl+x k keep",
            Role::Muted,
        ));
        let mut line = StyledLine::default();
        for span in spans {
            line.push(span);
        }
        Some(line)
    }
}

impl View for Banner {
    fn height(&mut self, _width: u16, _cx: &RenderContext<'_>) -> u16 {
        u16::from(self.line().is_some())
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        if let Some(line) = self.line() {
            let line = truncate(&line, usize::from(area.width));
            cx.paint().draw_line(buffer, area, &line);
        }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(32) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}
