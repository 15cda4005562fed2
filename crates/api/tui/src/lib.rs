//! What a terminal facet may touch.
//!
//! A facet's setup gets a [`TuiContext`]: two remote namespaces, dialogs and overlays ([`Ui`]), and the
//! registries of commands, keybindings, tool renderers, slots, themes and help. Every contribution ends
//! with the facet's scope. Handles are concrete types over sealed backends: the terminal, the registries'
//! results as a whole and the connection are out of reach.
//!
//! ```
//! use bezel_api_tui::{Binding, Command, Facet, Placement, Slot, TuiContext, segment};
//!
//! pub fn facet() -> Facet<TuiContext> {
//!     Facet::new("clock", |cx: TuiContext| async move {
//!         cx.slots.add(Slot::StatusRight, Placement::default(), segment(|_| Some("12:00".into())));
//!         let command = Command::new("clock.set", "Set the clock").slash("clock");
//!         let ui = cx.ui.clone();
//!         cx.commands.add(command.run(move |_cx, arguments| {
//!             ui.toast(format!("It is {} now", arguments.text));
//!             async { Ok(()) }
//!         }));
//!         cx.keybindings.add(Binding::new("ctrl+x c", "clock.set")?);
//!         Ok(())
//!     })
//! }
//! # facet();
//! ```
//!
//! # Walls
//!
//! No handle leads to its backend:
//!
//! ```compile_fail,E0616
//! fn reach(ui: bezel_api_tui::Ui) {
//!     ui.backend;
//! }
//! ```
//!
//! nor to a registry as a whole:
//!
//! ```compile_fail,E0616
//! fn reach(commands: bezel_api_tui::Commands) {
//!     commands.registry.open();
//! }
//! ```
//!
//! nor to the connection behind a namespace:
//!
//! ```compile_fail,E0599
//! async fn reach(cx: bezel_api_tui::TuiContext) {
//!     cx.server.stop().await;
//! }
//! ```
//!
//! A context comes from a host alone:
//!
//! ```compile_fail,E0639
//! fn forge(cx: bezel_api_tui::TuiContext) -> bezel_api_tui::TuiContext {
//!     bezel_api_tui::TuiContext { ..cx }
//! }
//! ```

pub mod backend;
mod commands;
mod context;
mod help;
mod keybindings;
mod keys;
mod paint;
mod slots;
mod themes;
mod tool_renderers;
mod ui;
mod view;

pub use bezel_plugin::{Facet, FacetError, FacetScope, Namespace};
pub use commands::{
    Command, CommandArguments, CommandDraft, CommandEntry, CommandError, CommandResult, Commands,
    Completion,
};
pub use context::{Launch, LaunchSession, TuiContext};
pub use help::{Help, HelpDraft, HelpEntry, HelpGroup};
pub use keybindings::{Binding, BindingDraft, BindingEntry, Keybindings, Layer};
pub use keys::{Chord, ChordError, KeyStroke};
pub use paint::Paint;
pub use ratatui;
pub use ratatui::crossterm;
pub use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
pub use slots::{Placement, Slot, Slots, ViewHandle};
pub use themes::{ThemeChoice, ThemeDraft, Themes};
pub use tool_renderers::{
    GenericToolRenderer, ToolCard, ToolOutcome, ToolRenderContext, ToolRenderer, ToolRendererDraft,
    ToolRenderers, ToolStatus,
};
pub use ui::{
    Answer, Ask, AskOption, Confirm, Focus, Input, Level, Message, Overlay, OverlayHandle,
    OverlayPlacement, Program, ProgramError, Quit, Select, SelectAction, SelectFeed, SelectItem,
    Selected, Toast, Ui,
};
pub use view::{EventContext, Handled, InputEvent, RenderContext, SPINNER_INTERVAL, View, segment};

/// One plugin's part in a terminal host.
pub type TuiFacet = Facet<TuiContext>;
