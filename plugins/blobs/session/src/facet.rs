//! The session facet: the service, and the shelf for facets beside it.

use std::sync::Arc;

use bezel_api_session::{Facet, FacetError, SessionContext, SessionFacet};
use bezel_blobs_contract::{BlobShelf, BlobsClient};

use crate::limits::StoreLimits;
use crate::service::BlobService;
use crate::store::BlobStore;

/// The session facet of blobs.
pub fn facet() -> SessionFacet {
    Facet::new("blobs", setup)
        .provides::<BlobsClient>()
        .provides_local::<BlobShelf>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let outputs = cx.agent.identity().output_directory.clone();
    let store = Arc::new(BlobStore::new(
        outputs.join("blobs"),
        StoreLimits::default(),
    ));
    let shelf = Arc::clone(&store);
    cx.provide_local(Arc::new(BlobShelf::new(move |id, limit| {
        shelf.take(id, limit)
    })));
    cx.provide(BlobsClient::new(BlobService {
        store,
        tree: cx.agent.tree(),
        outputs,
    }));
    Ok(())
}
