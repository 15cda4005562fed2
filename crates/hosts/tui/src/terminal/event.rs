//! What comes from a terminal.

use bezel_api_tui::{KeyEvent, MouseEvent, MouseEventKind};
use bezel_presentation::theme::ThemeKind;

/// Something that a terminal reports.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TerminalEvent {
    /// A key.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// Pasted text, line ends as `\n`.
    Paste(String),
    /// The terminal's window got the focus.
    FocusGained,
    /// The terminal's window lost it.
    FocusLost,
    /// An answer to a question.
    Reply(Reply),
}

impl TerminalEvent {
    /// Whether a person waits for its echo. Drags and the wheel come in floods: the frame rate is enough.
    pub(crate) fn is_urgent(&self) -> bool {
        match self {
            TerminalEvent::Key(_) | TerminalEvent::Paste(_) => true,
            TerminalEvent::Mouse(mouse) => {
                matches!(mouse.kind, MouseEventKind::Down(_) | MouseEventKind::Up(_))
            }
            TerminalEvent::FocusGained | TerminalEvent::FocusLost | TerminalEvent::Reply(_) => {
                false
            }
        }
    }
}

/// An answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The background's colour, 8 bits a channel.
    Background(u8, u8, u8),
    /// The desktop's colour scheme, or a change of it.
    Scheme(ThemeKind),
    /// The terminal speaks the kitty keyboard protocol.
    Keyboard,
    /// The answer that every terminal gives: whatever was asked before and is not answered yet never will be.
    Attributes,
}
