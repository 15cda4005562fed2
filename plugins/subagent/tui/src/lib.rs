//! Subagents in the terminal: what their calls show, and the way into their sessions and back.

mod card;
mod family;

use bezel_api_tui::{
    Binding, Command, Facet, FacetError, Namespace, Placement, Slot, TuiContext, TuiFacet, segment,
};
use bezel_sessions_contract::SessionDirectoryClient;
use bezel_subagent_contract::TOOL;

use crate::family::Family;

/// Before what the status line says of the session itself.
const BADGE: i32 = -5;

/// The terminal facet of subagents.
pub fn facet() -> TuiFacet {
    Facet::new("subagent", setup).requires::<SessionDirectoryClient>(Namespace::Server)
}

async fn setup(cx: TuiContext) -> Result<(), FacetError> {
    cx.tool_renderers.add(TOOL, card::SubagentCard);
    let family = Family::new(&cx);
    let (shown, enabled) = (family.clone(), family.clone());
    cx.commands.add(
        Command::new("subagent.children", "Look into a subagent")
            .description(
                "Opens the session of a subagent: read what it does, answer it, interrupt it",
            )
            .slash("children")
            .enabled(move || enabled.has_children())
            .run(move |cx, _| {
                let family = shown.clone();
                async move { family.choose(&cx).await }
            }),
    );
    let shown = family.clone();
    cx.slots.add(
        Slot::StatusLeft,
        Placement::order(BADGE),
        segment(move |_| shown.badge()),
    );
    let enabled = family.clone();
    cx.commands.add(
        Command::new("subagent.parent", "Back to the session that began this one")
            .slash("parent")
            .enabled(move || enabled.parent().is_some())
            .run(move |_, _| {
                let family = family.clone();
                async move { family.back() }
            }),
    );
    cx.keybindings
        .add(Binding::new("ctrl+x c", "subagent.children")?);
    cx.keybindings
        .add(Binding::new("ctrl+x p", "subagent.parent")?);
    Ok(())
}

#[cfg(test)]
mod tests;
