//! The dialogs that facets can ask for, and the host's own: help, what may follow in a chord.

mod ask;
mod confirm;
mod continuations;
mod help;
mod input;
mod line_edit;
mod message;
mod scroll;
mod select;
mod text_edit;

use std::sync::Arc;

use bezel_api_tui::Overlay;
use bezel_api_tui::backend::{DialogRequest, Request, UiBackend, ViewId};

use crate::mailbox::Mailbox;

pub(crate) use ask::{AskState, SURPRISE, overlay as ask_overlay};
pub(crate) use continuations::draw as draw_continuations;
pub(crate) use help::help;

/// Closes the dialog that holds it.
pub(crate) struct Close {
    mailbox: Arc<Mailbox>,
    id: ViewId,
}

impl Close {
    pub(crate) fn new(mailbox: Arc<Mailbox>, id: ViewId) -> Self {
        Close { mailbox, id }
    }

    fn close(&self) {
        self.mailbox.post(Request::CloseOverlay(self.id));
    }

    fn put_aside(&self) {
        self.mailbox.post(Request::PutAside(self.id));
    }

    fn backend(&self) -> Arc<dyn UiBackend> {
        Arc::clone(&self.mailbox) as Arc<dyn UiBackend>
    }
}

/// A dialog, ready for the screen.
pub(crate) enum Dialog {
    /// It opens at once.
    Overlay(Overlay),
    /// It comes when its time has come.
    Ask(Box<AskState>),
}

/// What a facet has asked for.
pub(crate) fn build(dialog: DialogRequest, close: Close) -> Dialog {
    Dialog::Overlay(match dialog {
        DialogRequest::Select(request) => select::overlay(request, close),
        DialogRequest::Input(input, reply) => input::overlay(input.into(), reply, close),
        DialogRequest::Confirm(confirm, reply) => confirm::overlay(confirm.into(), reply, close),
        DialogRequest::Message(message, reply) => message::overlay(message, reply, close),
        DialogRequest::Ask(ask, reply) => {
            return Dialog::Ask(Box::new(AskState::new(ask.into(), reply)));
        }
    })
}
