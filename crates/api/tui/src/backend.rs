//! The host's side of this interface. Facets have no use for it: nothing here leads from a facet's handles
//! to the host that made them.

use std::any::Any;
use std::cell::Cell;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bezel_plugin::{FacetScope, PluginId, Problem, Registry};
use bezel_presentation::highlight::Highlighter;
use bezel_presentation::theme::Theme;
use bezel_rpc::{AttachedRemote, ConnectionState, Remote, State};
use ratatui::layout::{Position, Rect, Size};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::commands::{self, CommandArguments, CommandDraft, CommandEntry, Commands};
pub use crate::commands::{CommandSet, RunError};
use crate::help::{self, Help, HelpDraft, HelpGroup};
use crate::keybindings::{self, BindingDraft, BindingEntry, Keybindings, OwnBindings};
use crate::slots::Slots;
use crate::themes::{ThemeDraft, Themes};
use crate::tool_renderers::{ToolRendererDraft, ToolRenderers};
use crate::{
    Chord, Confirm, EventContext, Focus, Input, Launch, Level, Message, Overlay, OverlayPlacement,
    Paint, Placement, Program, ProgramError, Quit, RenderContext, SelectAction, Slot, ThemeChoice,
    Toast, TuiContext, Ui, View,
};

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

/// An overlay's parts.
pub struct OverlayParts {
    /// The view.
    pub view: Box<dyn View>,
    /// Where it stands.
    pub placement: OverlayPlacement,
    /// Its title.
    pub title: Option<String>,
    /// Keys worth knowing.
    pub hints: String,
    /// Whether it has a frame.
    pub framed: bool,
    /// Whether it takes the keys.
    pub modal: bool,
}

impl From<Overlay> for OverlayParts {
    fn from(overlay: Overlay) -> Self {
        let Overlay {
            view,
            placement,
            title,
            hints,
            framed,
            modal,
        } = overlay;
        OverlayParts {
            view,
            placement,
            title,
            hints,
            framed,
            modal,
        }
    }
}

/// Says what is wrong with a text.
pub type InputCheck = crate::ui::Check;

/// A line-of-text dialog's parts.
pub struct InputParts {
    /// Its title.
    pub title: String,
    /// A sentence above the line.
    pub prompt: String,
    /// What stands in the empty line.
    pub placeholder: String,
    /// What the line starts with.
    pub initial: String,
    /// Whether dots are shown.
    pub secret: bool,
    /// Refuses what does not pass.
    pub check: Option<InputCheck>,
}

impl From<Input> for InputParts {
    fn from(input: Input) -> Self {
        let Input {
            title,
            prompt,
            placeholder,
            initial,
            secret,
            check,
        } = input;
        InputParts {
            title,
            prompt,
            placeholder,
            initial,
            secret,
            check,
        }
    }
}

/// A yes-or-no dialog's parts.
pub struct ConfirmParts {
    /// Its title.
    pub title: String,
    /// The question, Markdown.
    pub body: String,
    /// The button for yes.
    pub yes: String,
    /// The button for no.
    pub no: String,
    /// Whether `no` is selected at first.
    pub danger: bool,
}

impl From<Confirm> for ConfirmParts {
    fn from(confirm: Confirm) -> Self {
        let Confirm {
            title,
            body,
            yes,
            no,
            danger,
        } = confirm;
        ConfirmParts {
            title,
            body,
            yes,
            no,
            danger,
        }
    }
}

/// A message's title and Markdown.
pub fn message_parts(message: Message) -> (String, String) {
    (message.title, message.body)
}

/// The registries of one host.
pub struct Registries {
    backend: Arc<dyn UiBackend>,
    own: OwnBindings,
    connection: State<ConnectionState>,
    commands: Registry<CommandDraft>,
    keybindings: Registry<BindingDraft>,
    help: Registry<HelpDraft>,
    themes: Registry<ThemeDraft>,
    tool_renderers: Registry<ToolRendererDraft>,
}

impl Registries {
    /// Empty registries whose handles talk to `backend`. `own` is a person's own keybindings: chords with the
    /// commands that they start, or none to free them.
    pub fn new(backend: Arc<dyn UiBackend>, own: Vec<(Chord, Option<Arc<str>>)>) -> Self {
        Registries {
            backend,
            own: own.into(),
            connection: State::constant(ConnectionState::default()),
            commands: Registry::new(CommandSet::default()),
            keybindings: Registry::new(Vec::new()),
            help: Registry::new(Vec::new()),
            themes: Registry::new(Vec::new()),
            tool_renderers: Registry::new(Default::default()),
        }
    }

    /// Tells facets how the connection stands. To be called before [`Registries::context`].
    #[must_use]
    pub fn with_connection(mut self, connection: State<ConnectionState>) -> Self {
        self.connection = connection;
        self
    }

    /// Publishes what setup contributed, and follows changes from now on.
    pub fn open(&self) {
        self.commands.open();
        self.keybindings.open();
        self.help.open();
        self.themes.open();
        self.tool_renderers.open();
    }

    /// The context of one facet. What it adds ends with `scope`.
    pub fn context(
        &self,
        scope: FacetScope,
        server: Remote,
        session: AttachedRemote,
        launch: Arc<Launch>,
    ) -> TuiContext {
        let owner = OwnerId::next(scope.plugin().clone());
        scope.own(RemoveOwner {
            backend: Arc::clone(&self.backend),
            owner: owner.clone(),
        });
        TuiContext {
            server,
            session,
            connection: self.connection.clone(),
            ui: Ui::new(Arc::clone(&self.backend), owner.clone()),
            commands: Commands::new(&self.commands, &scope, self.runner()),
            keybindings: Keybindings::new(&self.keybindings, Arc::clone(&self.own), &scope),
            tool_renderers: ToolRenderers::new(&self.tool_renderers, &scope),
            slots: Slots::new(Arc::clone(&self.backend), owner),
            themes: Themes::new(&self.themes, &scope, Arc::clone(&self.backend)),
            help: Help::new(&self.help, &scope),
            launch,
            scope,
        }
    }

    /// Starts commands for keys and palette.
    pub fn runner(&self) -> Runner {
        Runner {
            commands: self.commands.clone(),
            backend: Arc::clone(&self.backend),
        }
    }

    /// All commands, in order.
    pub fn command_entries(&self) -> Vec<CommandEntry> {
        self.commands.current().entries()
    }

    /// All bindings: a person's own over those of the plugins.
    pub fn bindings(&self) -> Vec<BindingEntry> {
        keybindings::with_own(&self.keybindings.current(), &self.own)
    }

    /// Signals every change of the bindings.
    pub fn bindings_changed(&self) -> watch::Receiver<Arc<Vec<BindingEntry>>> {
        self.keybindings.watch()
    }

    /// Everything there is to know about keys.
    pub fn help(&self) -> Vec<HelpGroup> {
        help::gather(
            &self.help.current(),
            &self.command_entries(),
            &self.bindings(),
        )
    }

    /// The themes that plugins added.
    pub fn themes(&self) -> Arc<Vec<Theme>> {
        self.themes.current()
    }

    /// What a person should know: conflicts and failed contributions.
    pub fn problems(&self) -> Vec<Problem> {
        let mut all = self.commands.problems();
        all.extend(self.keybindings.problems());
        all.extend(self.help.problems());
        all.extend(self.themes.problems());
        all.extend(self.tool_renderers.problems());
        all
    }
}

/// Starts commands and shows what goes wrong.
#[derive(Clone)]
pub struct Runner {
    commands: Registry<CommandDraft>,
    backend: Arc<dyn UiBackend>,
}

impl Runner {
    /// Starts a command.
    pub fn run(&self, id: &str, arguments: CommandArguments) {
        let backend = Arc::clone(&self.backend);
        let failed = move |text| {
            backend.post(Request::Toast(Toast {
                level: Level::Error,
                text,
            }))
        };
        if let Err(error) = commands::start(&self.commands.current(), id, arguments, failed) {
            self.backend.post(Request::Toast(Toast {
                level: Level::Warning,
                text: error.to_string(),
            }));
        }
    }
}

struct RemoveOwner {
    backend: Arc<dyn UiBackend>,
    owner: OwnerId,
}

impl Drop for RemoveOwner {
    fn drop(&mut self) {
        self.backend.post(Request::RemoveOwner(self.owner.clone()));
    }
}
