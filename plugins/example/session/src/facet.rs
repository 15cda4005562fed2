//! The session facet: the local service, and the remote one that is a narrow part of it.

use std::sync::Arc;

use bezel_api_session::{Facet, FacetError, SessionContext, SessionFacet};
use bezel_example_contract::{ProjectTree, TodosClient};

use crate::{TodoService, project_tree};

/// The session facet of the example.
pub fn facet() -> SessionFacet {
    Facet::new("example", setup)
        .provides::<TodosClient>()
        .provides_local::<ProjectTree>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let tree = Arc::new(project_tree(&cx.agent.identity().directory));
    cx.provide_local(Arc::clone(&tree));
    cx.provide(TodosClient::new(TodoService::new(
        tree,
        cx.spawner().clone(),
    )));
    Ok(())
}
