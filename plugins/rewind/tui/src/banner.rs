//! What is staged, above the composer: a person must not forget it.

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::{RenderContext, View};
use bezel_presentation::text::{self, Role};
use bezel_presentation::wrap::truncate;
use bezel_presentation::{StyledLine, StyledSpan};
use bezel_rewind_contract::{Reach, RewindState};
use bezel_rpc::{AttachmentState, State};

/// How it is undone and how it is kept.
const KEYS: &str = " ctrl+x u undo · ctrl+x k keep";

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
        let mut line = StyledLine::default();
        for span in spans {
            line.push(span);
        }
        Some(line)
    }
}

impl View for Banner {
    fn height(&mut self, width: u16, _cx: &RenderContext<'_>) -> u16 {
        self.line().map_or(0, |line| rows(&line, width))
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let Some(mut line) = self.line() else { return };
        let keys = StyledSpan::new(KEYS, Role::Muted);
        if rows(&line, area.width) == 1 {
            line.push(StyledSpan::new(" ·", Role::Muted));
            line.push(keys);
            cx.paint().draw_line(buffer, area, &line);
            return;
        }
        // The keys have a row of their own: they are what must not be cut.
        let below = StyledLine::from(vec![StyledSpan::new("   ", Role::Muted), keys]);
        let line = truncate(&line, usize::from(area.width));
        for (row, line) in area.rows().zip([line, below]) {
            cx.paint().draw_line(buffer, row, &line);
        }
    }
}

/// One where both the text and the keys have room in it.
fn rows(line: &StyledLine, width: u16) -> u16 {
    let fits = line.width() + text::width(KEYS) + 2 <= usize::from(width);
    if fits { 1 } else { 2 }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(32) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}
