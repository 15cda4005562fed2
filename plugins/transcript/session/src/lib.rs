//! Projects the session tree into the transcript.
//!
//! The projection starts from the newest entries of the tree and then follows the session's events. Text
//! grows by appends; everything else replaces one item, so that a change costs what it changes.

mod history;
mod projection;
mod service;

use std::sync::{Arc, Mutex, PoisonError};

use bezel_api_session::{Facet, FacetError, SessionContext, SessionFacet};
use bezel_context::Context;
use bezel_rpc::StateCell;
use bezel_transcript_contract::{TranscriptClient, TranscriptState};

use crate::projection::{Edit, Projection};
use crate::service::TranscriptService;

/// Items that a fresh replica gets.
const WINDOW: usize = 200;

/// The session facet of the transcript.
pub fn facet() -> SessionFacet {
    Facet::new("transcript", setup).provides::<TranscriptClient>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let tree = cx.agent.tree();
    let (entries, has_older) = tree.recent(None, WINDOW).await?;
    let items = history::items(&entries);
    let open = history::open_calls(&entries);
    let cell = cx.state_cell(TranscriptState {
        items: items.clone(),
        has_older,
        settled: None,
    });
    // Only the event task locks it; the mutex makes the listener `Send`.
    let projection = Arc::new(Mutex::new(Projection::new(items, open)));

    cx.provide(TranscriptClient::new(TranscriptService {
        tree,
        state: cell.state(),
    }));
    cx.agent.events().subscribe(move |events| {
        let mut projection = projection.lock().unwrap_or_else(PoisonError::into_inner);
        let edits = projection.apply_all(events.iter().map(|event| &**event));
        write(&cell, edits);
    });
    Ok(())
}

fn write(cell: &StateCell<TranscriptState>, edits: Vec<Edit>) {
    let cx = Context::background();
    for edit in edits {
        let written = match edit {
            Edit::Append { path, text } => cell.append(&cx, path, text),
            Edit::Replace { index, item } => cell.splice(&cx, "items", index, 1, [item]),
            Edit::Insert { index, item } => cell.splice(&cx, "items", index, 0, [item]),
            Edit::Remove { index } => cell.splice(&cx, "items", index, 1, [(); 0]),
            Edit::Settle { operation } => {
                cell.update(&cx, |state| state.settled = Some(operation));
                Ok(())
            }
            Edit::DropOldest { count } => {
                let written = cell.splice(&cx, "items", 0, count, [(); 0]);
                cell.update(&cx, |state| state.has_older = true);
                written
            }
        };
        if let Err(error) = written {
            tracing::error!(%error, "the transcript and its projection differ");
        }
    }
}
