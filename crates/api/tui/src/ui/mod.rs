//! What a facet may ask of the screen: dialogs, overlays, toasts, focus, clipboard, programs, the end.

mod ask;
mod dialogs;
mod overlay;
mod program;
mod select;

pub use ask::{Answer, Ask, AskOption};
pub use dialogs::{Confirm, Input, Level, Message, Toast};
pub use overlay::{Overlay, OverlayHandle, OverlayPlacement};
pub use program::{Program, ProgramError, Quit};
pub use select::{Select, SelectAction, SelectFeed, SelectItem, Selected};

pub(crate) use dialogs::Check;
pub(crate) use overlay::CloseOnDrop;

use std::process::ExitStatus;
use std::sync::Arc;

use bezel_context::Context;
use tokio::sync::oneshot;

use crate::backend::{DialogRequest, OwnerId, Request, UiBackend, ViewId};

/// Who gets keys first when no dialog is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Focus {
    /// The composer; what it does not want goes to main.
    #[default]
    Composer,
    /// Main; typed text brings the focus back to the composer.
    Main,
}

/// A facet's way to the screen. Everything that it opened closes when the facet ends.
#[derive(Clone)]
pub struct Ui {
    backend: Arc<dyn UiBackend>,
    owner: OwnerId,
}

impl Ui {
    pub(crate) fn new(backend: Arc<dyn UiBackend>, owner: OwnerId) -> Self {
        Ui { backend, owner }
    }

    /// Says that something shown has changed. Cheap; many calls make one frame.
    pub fn redraw(&self) {
        self.backend.redraw();
    }

    /// Lets the person choose from a list with fuzzy search. `None` when they did not, when `cx` ended, or
    /// when the screen has closed. Dropping the future closes the dialog.
    pub async fn select<T: Clone + Send + Sync + 'static>(
        &self,
        cx: &Context,
        select: Select<T>,
    ) -> Option<Selected<T>> {
        let (reply, answer) = oneshot::channel();
        let chosen = self
            .open_dialog(
                cx,
                DialogRequest::Select(select.into_request(reply)),
                answer,
            )
            .await??;
        let value = chosen.value.downcast_ref::<T>()?.clone();
        Some(Selected {
            value,
            action: chosen.action,
        })
    }

    /// Asks for a line of text. `None` when the person cancelled, as for [`Ui::select`].
    pub async fn input(&self, cx: &Context, input: Input) -> Option<String> {
        let (reply, answer) = oneshot::channel();
        self.open_dialog(cx, DialogRequest::Input(input, reply), answer)
            .await?
    }

    /// Asks yes or no. False when the person cancelled, as for [`Ui::select`].
    pub async fn confirm(&self, cx: &Context, confirm: Confirm) -> bool {
        let (reply, answer) = oneshot::channel();
        self.open_dialog(cx, DialogRequest::Confirm(confirm, reply), answer)
            .await
            .unwrap_or_default()
    }

    /// Asks something that waits for an answer: with esc the person puts it aside and finds it again later,
    /// and it comes when no other dialog is open. `None` when `cx` ended or the screen has closed.
    /// Dropping the future takes the question back: somebody else has answered it.
    pub async fn ask(&self, cx: &Context, ask: Ask) -> Option<Answer> {
        let (reply, answer) = oneshot::channel();
        self.open_dialog(cx, DialogRequest::Ask(ask, reply), answer)
            .await
    }

    /// Brings back the questions that the person has put aside; says so where there are none.
    pub fn show_asks(&self) {
        self.backend.post(Request::ShowAsks);
    }

    /// Shows Markdown until the person closes it.
    pub async fn message(&self, cx: &Context, message: Message) {
        let (reply, answer) = oneshot::channel();
        self.open_dialog(cx, DialogRequest::Message(message, reply), answer)
            .await
            .unwrap_or_default();
    }

    /// Shows a short note for a while.
    pub fn toast(&self, toast: impl Into<Toast>) {
        self.backend.post(Request::Toast(toast.into()));
    }

    /// Opens an overlay.
    pub fn open(&self, overlay: Overlay) -> OverlayHandle {
        let id = ViewId::next();
        let (closed, when_closed) = tokio::sync::watch::channel(false);
        self.backend.post(Request::OpenOverlay {
            owner: self.owner.clone(),
            id,
            overlay,
            closed,
        });
        OverlayHandle::new(Arc::clone(&self.backend), id, when_closed)
    }

    /// Gives the keyboard to a place of the screen.
    pub fn focus(&self, focus: Focus) {
        self.backend.post(Request::Focus(focus));
    }

    /// Puts text on the clipboard of the terminal that the person sits at (OSC 52).
    pub fn copy(&self, text: impl Into<String>) {
        self.backend.post(Request::Copy(text.into()));
    }

    /// Sets the terminal's title.
    pub fn set_title(&self, title: impl Into<String>) {
        self.backend.post(Request::SetTitle(title.into()));
    }

    /// Calls the person back by the terminal's own means if it does not have the focus.
    pub fn notify(&self, text: impl Into<String>) {
        self.backend.post(Request::Notify(text.into()));
    }

    /// Gives the terminal to a program until that ends, then draws everything anew.
    pub async fn run_program(
        &self,
        cx: &Context,
        program: Program,
    ) -> Result<ExitStatus, ProgramError> {
        let (reply, answer) = oneshot::channel();
        self.backend.post(Request::RunProgram { program, reply });
        answered(cx, answer).await?
    }

    /// Lets the person change `text` in their editor; `extension` (`md`) tells it the kind of text.
    pub async fn edit(
        &self,
        cx: &Context,
        text: String,
        extension: &str,
    ) -> Result<String, ProgramError> {
        let (reply, answer) = oneshot::channel();
        self.backend.post(Request::Edit {
            text,
            extension: extension.to_owned(),
            reply,
        });
        answered(cx, answer).await?
    }

    /// Draws everything anew, over whatever another program has left on the screen.
    pub fn repaint(&self) {
        self.backend.post(Request::Repaint);
    }

    /// Opens the list of all keys and commands.
    pub fn show_help(&self) {
        self.backend.post(Request::ShowHelp);
    }

    /// Opens the palette of all commands.
    pub fn show_palette(&self) {
        self.backend.post(Request::ShowPalette);
    }

    /// Stops the process as ctrl+z does in a shell.
    pub fn suspend(&self) {
        self.backend.post(Request::Suspend);
    }

    /// Ends the presentation; sessions go on.
    pub fn quit(&self, quit: Quit) {
        self.backend.post(Request::Quit(quit));
    }

    async fn open_dialog<T>(
        &self,
        cx: &Context,
        dialog: DialogRequest,
        answer: oneshot::Receiver<T>,
    ) -> Option<T> {
        let id = ViewId::next();
        self.backend.post(Request::OpenDialog {
            owner: self.owner.clone(),
            id,
            dialog,
        });
        let _closes = CloseOnDrop::new(Arc::clone(&self.backend), id);
        cx.run(answer).await.ok()?.ok()
    }
}

async fn answered<T>(cx: &Context, answer: oneshot::Receiver<T>) -> Result<T, ProgramError> {
    cx.run(answer)
        .await
        .map_err(|_| ProgramError::Closed)?
        .map_err(|_| ProgramError::Closed)
}
