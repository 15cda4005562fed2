//! The registries of a host, the contexts that contribute to them, and what runs their commands.

use std::sync::Arc;

use bezel_plugin::{FacetScope, Problem, Registry};
use bezel_presentation::theme::Theme;
use bezel_rpc::{AttachedRemote, ConnectionState, Remote, State};
use tokio::sync::watch;

use super::{CommandSet, OwnerId, Request, UiBackend};
use crate::commands::{self, CommandArguments, CommandDraft, CommandEntry, Commands};
use crate::help::{self, Help, HelpDraft, HelpGroup};
use crate::keybindings::{self, BindingDraft, BindingEntry, Keybindings, OwnBindings};
use crate::slots::Slots;
use crate::themes::{ThemeDraft, Themes};
use crate::tool_renderers::{ToolRendererDraft, ToolRenderers};
use crate::{Chord, Launch, Level, Toast, TuiContext, Ui};

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
