//! How connection and session stand, in the status line; and the header that names the session.

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::{RenderContext, View};
use bezel_presentation::clock::Clock;
use bezel_presentation::text::{Role, TextStyle, sanitize};
use bezel_presentation::wrap::{truncate, truncate_text};
use bezel_presentation::{StyledLine, StyledSpan};
use bezel_rpc::{AttachmentState, ConnectionState};
use tokio::time::Instant;

use crate::desk::Desk;
use crate::picker::title;

/// Columns of a reason at least, where it has so many; on a wide screen half of it.
const REASON: usize = 40;

/// How connection and session stand: a dot when all is well.
pub(crate) fn line(desk: &Desk, clock: &Clock, cx: &RenderContext<'_>) -> StyledLine {
    let busy = |text: String| {
        StyledLine::from(vec![
            StyledSpan::new(format!("{} ", cx.spinner()), Role::Accent),
            StyledSpan::new(text, Role::Muted),
        ])
    };
    match &*desk.parts().connection.get() {
        ConnectionState::Connecting { attempt: 0 | 1 } => return busy("connecting…".into()),
        ConnectionState::Connecting { attempt } => {
            return busy(format!("connecting… (try {attempt})"));
        }
        ConnectionState::Disconnected {
            reason,
            retry_at: Some(at),
            ..
        } => {
            let now = u64::try_from(clock.now().as_millisecond()).unwrap_or(0);
            let seconds = at.saturating_sub(now).div_ceil(1000);
            cx.redraw_at(Instant::now() + std::time::Duration::from_millis(200));
            let mut line = busy(if seconds == 0 {
                "reconnecting…".into()
            } else {
                format!("reconnecting in {seconds}s")
            });
            let reason = short(reason, cx.screen().width);
            line.push(StyledSpan::new(format!(" {reason}"), Role::Faint));
            return line;
        }
        ConnectionState::Disconnected {
            reason,
            retry_at: None,
            ..
        } => {
            let reason = short(reason, cx.screen().width);
            return StyledLine::new(format!("✗ disconnected: {reason}"), Role::Error);
        }
        ConnectionState::Connected { .. } => {}
    }
    match &*desk.parts().attachment.get() {
        AttachmentState::Attached { .. } => StyledLine::new("●", Role::Success),
        AttachmentState::Attaching { .. } => busy("starting the session…".into()),
        AttachmentState::Degraded { .. } if desk.has_given_up() => StyledLine::from(vec![
            StyledSpan::new("✗ the session stopped", Role::Error),
            StyledSpan::new(" /restart", Role::Key),
        ]),
        AttachmentState::Degraded { .. } => busy("the session stopped; starting it again…".into()),
        AttachmentState::Detached if desk.is_opening() || desk.current().is_some() => {
            busy("opening the session…".into())
        }
        AttachmentState::Detached => StyledLine::from(vec![
            StyledSpan::new("no session", Role::Warning),
            StyledSpan::new(" /new", Role::Key),
        ]),
    }
}

fn short(reason: &str, screen: u16) -> String {
    let room = REASON.max(usize::from(screen / 2));
    truncate_text(&sanitize(reason, 4).replace('\n', " "), room).into_owned()
}

/// The session's title, and where it works.
pub(crate) struct Header(pub(crate) Desk);

/// Screens of fewer rows have none to spare below the header.
const ROOMY: u16 = 20;

impl View for Header {
    fn height(&mut self, _width: u16, cx: &RenderContext<'_>) -> u16 {
        if cx.screen().height < ROOMY { 1 } else { 2 }
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let width = usize::from(area.width);
        let session = self.0.summary();
        let workspace = match &session {
            Some(session) if !session.workspace_name.is_empty() => session.workspace_name.clone(),
            _ => {
                let directory = &self.0.parts().launch.directory;
                directory
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default()
            }
        };
        let workspace = truncate_text(&workspace, width / 3).into_owned();
        let named = session
            .as_ref()
            .is_some_and(|session| !session.title.is_empty());
        let name = session.as_ref().map_or("", title).to_owned();
        let style = if named {
            TextStyle::role(Role::Text).bold()
        } else {
            TextStyle::role(Role::Faint)
        };
        let mut line = StyledLine::new("  ", Role::Text);
        line.push(StyledSpan::new(
            sanitize(&name, 4).replace('\n', " "),
            style,
        ));
        let room = width.saturating_sub(bezel_presentation::text::width(&workspace) + 4);
        let mut line = truncate(&line, room);
        let gap =
            width.saturating_sub(line.width() + bezel_presentation::text::width(&workspace) + 1);
        line.push(StyledSpan::new(" ".repeat(gap), Role::Text));
        line.push(StyledSpan::new(workspace, Role::Muted));
        cx.paint().draw_line(buffer, area, &line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_half_of_a_wide_screen() {
        let reason = "r".repeat(100);
        let width = |screen| bezel_presentation::text::width(&short(&reason, screen));
        assert_eq!((width(60), width(160), width(300)), (40, 80, 100));
    }
}
