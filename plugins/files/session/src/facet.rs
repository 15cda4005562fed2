//! The session facet: file completion over the session's directory.

use bezel_api_session::{Facet, FacetError, SessionContext, SessionFacet};
use bezel_files_contract::{FileMatch, Files, FilesClient};
use bezel_rpc::Context;

use crate::{FileSearch, FileSearchError};

/// The most matches that one search returns.
const MOST: u32 = 100;

/// The session facet of files.
pub fn facet() -> SessionFacet {
    Facet::new("files", setup).provides::<FilesClient>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let directory = cx.agent.identity().directory.clone();
    cx.provide(FilesClient::new(FilesService(FileSearch::new(
        directory,
        cx.spawner().clone(),
    ))));
    Ok(())
}

struct FilesService(FileSearch);

impl Files for FilesService {
    async fn search(&self, cx: &Context, query: String, limit: u32) -> Vec<FileMatch> {
        let limit = usize::try_from(limit.min(MOST)).unwrap_or_default();
        match self.0.search(cx, &query, limit).await {
            Ok(matches) => matches
                .into_iter()
                .map(|found| FileMatch {
                    path: found.path,
                    is_directory: found.is_dir,
                    indices: found.indices,
                })
                .collect(),
            Err(FileSearchError::Cancelled) => Vec::new(),
            Err(error) => {
                tracing::warn!(%error, "files could not be searched");
                Vec::new()
            }
        }
    }
}
