//! Terminal renderers for the built-in tools.
//!
//! They draw what a tool says of itself (`ToolDetails`) and never read the text that the model gets. A closed
//! card shows the gist in a few lines, an open one everything.

mod arguments;
mod bash;
mod changes;
mod memo;
mod output;
mod paths;
mod read;
mod search;
#[cfg(test)]
mod tests;
mod todo;

use bezel_api_tui::{Facet, FacetError, TuiContext, TuiFacet};

use crate::paths::Paths;

/// The terminal facet of the tools.
pub fn facet() -> TuiFacet {
    Facet::new("tools", setup)
}

async fn setup(cx: TuiContext) -> Result<(), FacetError> {
    let paths = Paths::new(
        &cx.launch.directory,
        cx.launch.environment.get("HOME").map(String::as_str),
    );
    let renderers = &cx.tool_renderers;
    renderers.add("read", read::ReadRenderer::new(paths.clone()));
    renderers.add(
        "write",
        changes::ChangesRenderer::new("Write", paths.clone()),
    );
    renderers.add("edit", changes::ChangesRenderer::new("Edit", paths.clone()));
    renderers.add(
        "apply_patch",
        changes::ChangesRenderer::new("Patch", paths.clone()),
    );
    renderers.add("bash", bash::BashRenderer::default());
    renderers.add("bash_output", bash::BackgroundRenderer::new("Output of"));
    renderers.add("bash_kill", bash::BackgroundRenderer::new("End"));
    renderers.add("grep", search::SearchRenderer::new("Grep", paths.clone()));
    renderers.add("glob", search::SearchRenderer::new("Glob", paths.clone()));
    renderers.add("ls", search::SearchRenderer::new("List", paths));
    renderers.add("todo", todo::TodoRenderer);
    Ok(())
}
