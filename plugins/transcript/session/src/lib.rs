//! Projects the session tree into the transcript.
//!
//! The projection starts from the newest entries of the tree and then follows the session's events. Text
//! grows by appends; everything else replaces one item, so that a change costs what it changes.

mod history;
mod projection;
mod remarks;
mod service;

use std::sync::Arc;

use bezel_api_session::{
    AgentEvent, EventBody, Facet, FacetError, LaneError, SessionContext, SessionFacet, SessionTree,
};
use bezel_context::Context;
use bezel_rpc::StateCell;
use bezel_transcript_contract::{TranscriptClient, TranscriptState, entries};

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
    let items = entries::items(&entries);
    let open = history::open_calls(&entries);
    let cell = cx.state_cell(TranscriptState {
        items: items.clone(),
        has_older,
        settled: None,
    });
    let mut projection = Projection::new(items, open);

    cx.provide(TranscriptClient::new(TranscriptService {
        tree: tree.clone(),
        state: cell.state(),
    }));
    let mut events = cx.agent.events().receiver();
    cx.spawner().spawn("transcript", async move {
        let mut batch = Vec::new();
        while events.receive(&mut batch).await {
            let moved = |event: &Arc<AgentEvent>| matches!(event.body, EventBody::Navigated { .. });
            let moved = batch.iter().rposition(moved);
            if let Some(last) = moved {
                // What came before belongs to the path that was left. What the tree has of what comes
                // after is put in its own place again.
                batch.drain(..=last);
                match begin(&tree, &cell).await {
                    Ok(begun) => projection = begun,
                    Err(error) => {
                        tracing::error!(%error, "the transcript could not follow to another place");
                    }
                }
            }
            let edits = projection.apply_all(batch.iter().map(|event| &**event));
            write(&cell, edits);
            batch.clear();
        }
    });
    Ok(())
}

/// Shows the newest entries of the path that the lane is on now, and nothing else.
async fn begin(
    tree: &SessionTree,
    cell: &StateCell<TranscriptState>,
) -> Result<Projection, LaneError> {
    let (entries, has_older) = tree.recent(None, WINDOW).await?;
    let items = entries::items(&entries);
    let shown = items.clone();
    cell.update(&Context::background(), |state| {
        (state.items, state.has_older) = (shown, has_older);
    });
    Ok(Projection::new(items, history::open_calls(&entries)))
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
