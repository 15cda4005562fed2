//! The transcript service: the newest items as state, the rest from the tree.

use bezel_api_session::SessionTree;
use bezel_rpc::{Context, State};
use bezel_session_types::{Entry, EntryId, Message, ToolResultMessage};
use bezel_transcript_contract::{Transcript, TranscriptError, TranscriptPage, TranscriptState};

use crate::history;

pub(crate) struct TranscriptService {
    pub(crate) tree: SessionTree,
    pub(crate) state: State<TranscriptState>,
}

impl Transcript for TranscriptService {
    fn state(&self) -> State<TranscriptState> {
        self.state.clone()
    }

    async fn page(
        &self,
        _cx: &Context,
        before: String,
        limit: u32,
    ) -> Result<TranscriptPage, TranscriptError> {
        // A call's item before its result carries the answer's id and the call's place.
        let entry = EntryId::new(before.split(':').next().unwrap_or_default());
        if self.tree.entry(&entry).await.map_err(storage)?.is_none() {
            return Err(TranscriptError::UnknownItem { item: before });
        }
        let limit = usize::try_from(limit.min(200)).unwrap_or(200);
        let (entries, has_older) = self
            .tree
            .recent(Some(&entry), limit)
            .await
            .map_err(storage)?;
        Ok(TranscriptPage {
            items: history::items(&entries),
            has_older,
        })
    }

    async fn result(
        &self,
        _cx: &Context,
        item: String,
    ) -> Result<ToolResultMessage, TranscriptError> {
        let entry = self
            .tree
            .entry(&EntryId::new(item.clone()))
            .await
            .map_err(storage)?;
        match entry.as_ref().and_then(Entry::message) {
            Some(Message::ToolResult(result)) => Ok(result.clone()),
            _ => Err(TranscriptError::UnknownItem { item }),
        }
    }
}

fn storage(error: impl std::fmt::Display) -> TranscriptError {
    TranscriptError::Storage {
        message: error.to_string(),
    }
}
