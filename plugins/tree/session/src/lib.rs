//! Outlines the session tree and moves the conversation in it.

mod outline;
mod service;

use bezel_api_session::{EventBody, Facet, FacetError, SessionContext, SessionFacet};
use bezel_context::Context;
use bezel_tree_contract::{TreeClient, TreeState};

use crate::service::TreeService;

/// The session facet of the tree.
pub fn facet() -> SessionFacet {
    Facet::new("tree", setup).provides::<TreeClient>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let tree = cx.agent.tree();
    let cell = cx.state_cell(TreeState {
        tip: tree.tip(),
        revision: 0,
    });
    cx.provide(TreeClient::new(TreeService {
        tree: tree.clone(),
        lane: cx.agent.main(),
        state: cell.state(),
    }));
    cx.agent.events().subscribe(move |events| {
        let changes = |body: &EventBody| {
            matches!(
                body,
                EventBody::Committed { .. }
                    | EventBody::Navigated { .. }
                    | EventBody::LabelSet { .. }
            )
        };
        if events.iter().any(|event| changes(&event.body)) {
            let tip = tree.tip();
            cell.update(&Context::background(), |state| {
                (state.tip, state.revision) = (tip, state.revision + 1);
            });
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests;
