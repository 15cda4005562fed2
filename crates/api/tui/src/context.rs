//! The context that a terminal facet's setup gets.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use bezel_plugin::FacetScope;
use bezel_rpc::{AttachedRemote, ConnectionState, Remote, State};

use crate::commands::Commands;
use crate::help::Help;
use crate::keybindings::Keybindings;
use crate::slots::Slots;
use crate::themes::Themes;
use crate::tool_renderers::ToolRenderers;
use crate::ui::Ui;

/// Everything that a terminal facet may touch. Dereferences to the scope that all facets share: lifetime,
/// configuration, tasks, local services.
#[derive(Clone)]
#[non_exhaustive]
pub struct TuiContext {
    pub(crate) scope: FacetScope,
    /// Services of the connected server.
    pub server: Remote,
    /// Services of the session that this presentation is attached to.
    pub session: AttachedRemote,
    /// How the connection to the server stands.
    pub connection: State<ConnectionState>,
    /// Dialogs, overlays, focus, clipboard, programs.
    pub ui: Ui,
    /// What a person can ask for.
    pub commands: Commands,
    /// Chords that start commands.
    pub keybindings: Keybindings,
    /// How calls of tools look.
    pub tool_renderers: ToolRenderers,
    /// Places of the screen.
    pub slots: Slots,
    /// Themes to choose from.
    pub themes: Themes,
    /// Keys that views handle themselves, for the help.
    pub help: Help,
    /// What the person who started the presentation asked for.
    pub launch: Arc<Launch>,
}

impl Deref for TuiContext {
    type Target = FacetScope;

    fn deref(&self) -> &FacetScope {
        &self.scope
    }
}

/// What the person who started the presentation asked for. A host reads neither arguments nor environment:
/// the program that starts it passes them.
#[derive(Clone, Default)]
pub struct Launch {
    /// Where it was started.
    pub directory: PathBuf,
    /// Which session to open.
    pub session: LaunchSession,
    /// What to send first; empty for nothing.
    pub prompt: String,
    /// The shell's environment, for a session that is created or started. Secret: never shown or logged.
    pub environment: BTreeMap<String, String>,
}

/// Which session a presentation opens at first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LaunchSession {
    /// A new one.
    #[default]
    New,
    /// The last one of this directory.
    Last,
    /// This one.
    Id(String),
    /// Whichever the person picks.
    Pick,
}

impl fmt::Debug for Launch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Launch")
            .field("directory", &self.directory)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
