//! The screen's own facet: help, palette, repainting, suspending, leaving. It uses what every facet has.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bezel_api_tui::{
    Binding, Command, CommandArguments, Facet, FacetError, Quit, Select, SelectItem, Toast,
    TuiContext,
};
use tokio::time::Instant;

/// The plugin's name.
pub(crate) const PLUGIN: &str = "screen";

/// The command that opens the palette.
pub(crate) const PALETTE: &str = "screen.palette";

/// A second press within this time leaves.
const TWICE: Duration = Duration::from_secs(2);

/// The facet.
pub(crate) fn facet() -> Facet<TuiContext> {
    Facet::new(PLUGIN, |cx: TuiContext| async move { set_up(&cx) })
}

fn set_up(cx: &TuiContext) -> Result<(), FacetError> {
    let ui = cx.ui.clone();
    let command = Command::new("screen.help", "Help")
        .description("Shows every key and command.")
        .slash("help");
    cx.commands.add(command.run(move |_, _| {
        ui.show_help();
        async { Ok(()) }
    }));
    let context = cx.clone();
    let command = Command::new(PALETTE, "Commands")
        .description("Searches all commands.")
        .hidden();
    cx.commands.add(command.run(move |cx, _| {
        let context = context.clone();
        async move {
            palette(&context, &cx).await;
            Ok(())
        }
    }));
    let ui = cx.ui.clone();
    let command = Command::new("screen.redraw", "Redraw the screen")
        .description("Draws everything anew.")
        .hidden();
    cx.commands.add(command.run(move |_, _| {
        ui.repaint();
        async { Ok(()) }
    }));
    let ui = cx.ui.clone();
    let command = Command::new("screen.suspend", "Suspend")
        .description("Goes back to the shell; `fg` returns.")
        .hidden();
    cx.commands.add(command.run(move |_, _| {
        ui.suspend();
        async { Ok(()) }
    }));
    let ui = cx.ui.clone();
    let command = Command::new("screen.quit", "Quit")
        .description("Leaves; sessions go on.")
        .slash("quit")
        .alias("exit");
    cx.commands.add(command.run(move |_, _| {
        ui.quit(Quit::default());
        async { Ok(()) }
    }));
    let ui = cx.ui.clone();
    let pressed: Arc<Mutex<Option<Instant>>> = Arc::default();
    let command = Command::new("screen.leave", "Quit, pressed twice").hidden();
    cx.commands.add(command.run(move |_, _| {
        let mut pressed = pressed.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match pressed.replace(now) {
            Some(before) if now - before <= TWICE => ui.quit(Quit::default()),
            _ => ui.toast(Toast::info("Press ctrl+c again to quit")),
        }
        async { Ok(()) }
    }));
    let bindings = [
        ("f1", "screen.help"),
        ("?", "screen.help"),
        ("ctrl+p", PALETTE),
        ("ctrl+l", "screen.redraw"),
        ("ctrl+z", "screen.suspend"),
        ("ctrl+c", "screen.leave"),
        ("ctrl+d", "screen.quit"),
    ];
    for (chord, command) in bindings {
        cx.keybindings.add(Binding::new(chord, command)?);
    }
    Ok(())
}

async fn palette(context: &TuiContext, cx: &bezel_context::Context) {
    let item = |command: bezel_api_tui::CommandEntry| {
        let chord = context
            .keybindings
            .chord_of(&command.id)
            .map(|chord| chord.to_string());
        let slash = command.slash.as_ref().map(|slash| format!("/{slash}"));
        let detail = [slash, chord]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("  ");
        let search = format!(
            "{} {} {}",
            command.id,
            command.description,
            command.aliases.join(" ")
        );
        SelectItem::new(command.title.to_string(), command.id)
            .detail(detail)
            .search(search)
    };
    let commands = context
        .commands
        .list()
        .into_iter()
        .filter(|command| !command.hidden && command.enabled);
    let select = Select::new("Commands")
        .placeholder("search commands")
        .items(commands.map(item));
    if let Some(selected) = context.ui.select(cx, select).await {
        context
            .commands
            .run(&selected.value, CommandArguments::default());
    }
}
