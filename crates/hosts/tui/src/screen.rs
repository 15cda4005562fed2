//! The screen's own facet: help, palette, repainting, suspending, leaving. It uses what every facet has.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bezel_api_tui::{
    Binding, Command, CommandArguments, Facet, FacetError, Keybindings, Placement, Quit,
    RenderContext, Select, SelectItem, Slot, Toast, TuiContext, segment,
};
use bezel_presentation::text::{Role, TextStyle};
use bezel_presentation::{StyledLine, StyledSpan};
use tokio::time::Instant;

/// The plugin's name.
pub(crate) const PLUGIN: &str = "screen";

/// The command that opens the palette.
pub(crate) const PALETTE: &str = "screen.palette";

/// The command that brings questions back.
const ASKS: &str = "screen.answer";

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
    let command = Command::new(ASKS, "Answer what is asked")
        .description("Brings back the questions that were put aside.")
        .slash("answer");
    cx.commands.add(command.run(move |_, _| {
        ui.show_asks();
        async { Ok(()) }
    }));
    let keybindings = cx.keybindings.clone();
    let badge = segment(move |cx| waiting(cx, &keybindings));
    cx.slots
        .add(Slot::StatusLeft, Placement::order(1).importance(95), badge);
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
        ("ctrl+x a", ASKS),
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

/// What the status line says while something waits for an answer.
fn waiting(cx: &RenderContext<'_>, keybindings: &Keybindings) -> Option<StyledLine> {
    let text = match cx.asks() {
        0 => return None,
        1 => "1 answer wanted".to_owned(),
        count => format!("{count} answers wanted"),
    };
    let mut line = StyledLine::new("? ", TextStyle::role(Role::Warning).bold());
    line.push(StyledSpan::new(text, Role::Warning));
    if let Some(chord) = keybindings.chord_of(ASKS) {
        line.push(StyledSpan::new(format!(" {chord}"), Role::Key));
    }
    Some(line)
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
