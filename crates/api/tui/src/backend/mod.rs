//! The host's side of this interface. Facets have no use for it: nothing here leads from a facet's handles
//! to the host that made them.

mod parts;
mod registries;

use std::any::Any;
use std::cell::Cell;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bezel_plugin::PluginId;
use bezel_presentation::highlight::Highlighter;
use ratatui::layout::{Position, Rect, Size};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::{
    Answer, Ask, Confirm, EventContext, Focus, Input, Message, Overlay, Paint, Placement, Program,
    ProgramError, Quit, RenderContext, SelectAction, Slot, ThemeChoice, Toast, View,
};

pub use crate::commands::{CommandSet, RunError};
pub use parts::{
    AskOptionParts, AskParts, ConfirmParts, InputCheck, InputParts, OverlayParts, message_parts,
};
pub use registries::{Registries, Runner};

/// What a host does for the handles. Called from any thread; must not wait.
pub trait UiBackend: Send + Sync + 'static {
    /// Takes a request, to be carried out in order before the next frame or input.
    fn post(&self, request: Request);

    /// Notes that a frame is due.
    fn redraw(&self);
}

/// A view or overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewId(u64);

impl ViewId {
    /// An id that no other view of this process has.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ViewId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// One facet's part of the screen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnerId {
    /// Whose.
    pub plugin: PluginId,
    number: u64,
}

impl OwnerId {
    /// An owner that differs from all others, those of the same plugin too.
    pub fn next(plugin: PluginId) -> Self {
        OwnerId {
            plugin,
            number: ViewId::next().0,
        }
    }
}

/// What handles ask of a host.
pub enum Request {
    /// Put a view into a slot.
    AddView {
        /// Whose.
        owner: OwnerId,
        /// Its id.
        id: ViewId,
        /// Where.
        slot: Slot,
        /// Where among others.
        placement: Placement,
        /// The view.
        view: Box<dyn View>,
    },
    /// Take a view out.
    RemoveView(ViewId),
    /// Open an overlay.
    OpenOverlay {
        /// Whose.
        owner: OwnerId,
        /// Its id.
        id: ViewId,
        /// The overlay.
        overlay: Overlay,
        /// Set when it has closed.
        closed: watch::Sender<bool>,
    },
    /// Open a dialog.
    OpenDialog {
        /// Whose.
        owner: OwnerId,
        /// Its id.
        id: ViewId,
        /// The dialog.
        dialog: DialogRequest,
    },
    /// Close an overlay or dialog; nothing happens if it has closed.
    CloseOverlay(ViewId),
    /// Put a question aside: it closes and waits.
    PutAside(ViewId),
    /// Bring back what was put aside.
    ShowAsks,
    /// A facet has ended: everything of it goes.
    RemoveOwner(OwnerId),
    /// Show a note.
    Toast(Toast),
    /// Move the focus.
    Focus(Focus),
    /// Put text on the clipboard.
    Copy(String),
    /// Set the terminal's title.
    SetTitle(String),
    /// Call the person back.
    Notify(String),
    /// Use a theme.
    SelectTheme(ThemeChoice),
    /// Give the terminal to a program.
    RunProgram {
        /// The program.
        program: Program,
        /// How it ended.
        reply: oneshot::Sender<Result<ExitStatus, ProgramError>>,
    },
    /// Let the person edit a text.
    Edit {
        /// The text.
        text: String,
        /// Its kind, for the file's name.
        extension: String,
        /// The text afterwards.
        reply: oneshot::Sender<Result<String, ProgramError>>,
    },
    /// Draw everything anew.
    Repaint,
    /// Open help.
    ShowHelp,
    /// Open the palette.
    ShowPalette,
    /// Stop the process until it is continued.
    Suspend,
    /// End.
    Quit(Quit),
}

/// A dialog to open.
pub enum DialogRequest {
    /// Choose from a list.
    Select(SelectRequest),
    /// A line of text; `None` when cancelled.
    Input(Input, oneshot::Sender<Option<String>>),
    /// Yes or no.
    Confirm(Confirm, oneshot::Sender<bool>),
    /// Something to read.
    Message(Message, oneshot::Sender<()>),
    /// Something that waits for an answer.
    Ask(Ask, oneshot::Sender<Answer>),
}

/// A list to choose from.
pub struct SelectRequest {
    /// Its title.
    pub title: String,
    /// What stands in the empty search line.
    pub placeholder: String,
    /// What is said when there is nothing.
    pub empty: String,
    /// What is searched at first.
    pub query: String,
    /// Keys beside enter.
    pub actions: Vec<SelectAction>,
    /// The rows, shared with whoever feeds them.
    pub content: Arc<Mutex<SelectContent>>,
    /// What was chosen; `None` when cancelled.
    pub reply: oneshot::Sender<Option<Chosen>>,
}

/// The rows of a list.
#[derive(Default)]
pub struct SelectContent {
    /// The rows.
    pub rows: Vec<SelectRow>,
    /// Whether more are being looked for.
    pub loading: bool,
    /// Grows with every change.
    pub revision: u64,
    /// Set while the dialog is open.
    pub backend: Option<Arc<dyn UiBackend>>,
}

/// One row of a list.
#[derive(Clone)]
pub struct SelectRow {
    /// What it says first.
    pub label: String,
    /// What it says behind that.
    pub detail: String,
    /// What else search finds it by.
    pub search: String,
    /// The heading that it stands under.
    pub group: Option<Arc<str>>,
    /// Markdown beside the list.
    pub preview: Option<Arc<str>>,
    /// Whether it is the one in use.
    pub current: bool,
    /// The value that choosing it gives.
    pub value: Arc<dyn Any + Send + Sync>,
}

/// A chosen row.
pub struct Chosen {
    /// Its value.
    pub value: Arc<dyn Any + Send + Sync>,
    /// The action whose key was pressed.
    pub action: Option<Arc<str>>,
}

/// What is the same for all views of one frame.
pub struct Frame {
    /// The looks.
    pub paint: Paint,
    /// The screen.
    pub size: Size,
    /// Questions that wait for the person.
    pub asks: usize,
    /// When it is drawn.
    pub now: Instant,
    /// When the host started; animations count from here.
    pub started: Instant,
    /// Where highlighting comes from.
    pub highlighter: Highlighter,
    /// When views want another frame.
    pub redraw_at: Cell<Option<Instant>>,
    /// Where the focused view wants the cursor.
    pub cursor: Cell<Option<Position>>,
}

impl Frame {
    /// What one view gets to draw with.
    pub fn context(&self, focused: bool) -> RenderContext<'_> {
        RenderContext::new(self, focused)
    }
}

/// What one view gets to handle input with.
pub fn event_context(area: Rect, focused: bool) -> EventContext {
    EventContext::new(area, focused)
}
