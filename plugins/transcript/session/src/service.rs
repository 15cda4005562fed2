//! The transcript service: the newest items as state, the rest from the tree.

use bezel_api_session::SessionTree;
use bezel_rpc::{Context, State};
use bezel_session_types::{Entry, EntryId, Message, ToolResultMessage};
use bezel_transcript_contract::{
    Transcript, TranscriptContinuation, TranscriptError, TranscriptPage, TranscriptState, entries,
};

use crate::history;
use crate::remarks::anchor;

/// Entries read at once on the way back to an answer.
const PAGE: usize = 32;

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
        let entry = EntryId::new(anchor(&before).split(':').next().unwrap_or_default());
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
            items: entries::items(&entries),
            has_older,
        })
    }

    async fn page_after(
        &self,
        _cx: &Context,
        after: String,
        limit: u32,
    ) -> Result<TranscriptContinuation, TranscriptError> {
        let after = anchor(&after).to_owned();
        let id = EntryId::new(after.split(':').next().unwrap_or_default());
        let unknown = || TranscriptError::UnknownItem {
            item: after.clone(),
        };
        let limit = usize::try_from(limit.clamp(1, 200)).unwrap_or(200);
        let Some(first) = self.tree.entry(&id).await.map_err(storage)? else {
            return Err(unknown());
        };
        let found = self.tree.following(&id, limit).await.map_err(storage)?;
        let (mut next, mut has_newer) = found.ok_or_else(unknown)?;
        let mut entries = self.answer_of(first).await?;
        entries.append(&mut next);
        // A call without its result would look interrupted.
        let mut open = history::open_calls(&entries).len();
        while open > 0
            && has_newer
            && let Some(last) = entries.last()
        {
            let found = self.tree.following(&last.id, open).await.map_err(storage)?;
            (next, has_newer) = found.unwrap_or_default();
            entries.append(&mut next);
            open = history::open_calls(&entries).len();
        }
        let mut items = entries::items(&entries);
        let known = history::place(&items, &after).ok_or_else(unknown)?;
        items.drain(..=known);
        Ok(TranscriptContinuation { items, has_newer })
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

impl TranscriptService {
    /// An entry, and before it, where it is a result, all from the answer on that it belongs to.
    async fn answer_of(&self, entry: Entry) -> Result<Vec<Entry>, TranscriptError> {
        let is_result = |entry: &Entry| matches!(entry.message(), Some(Message::ToolResult(_)));
        let mut entries = vec![entry];
        while is_result(&entries[0]) {
            let before = Some(&entries[0].id);
            let (mut page, _) = self.tree.recent(before, PAGE).await.map_err(storage)?;
            if page.is_empty() {
                break;
            }
            if let Some(answer) = page.iter().rposition(|entry| !is_result(entry)) {
                page.drain(..answer);
            }
            entries.splice(..0, page);
        }
        Ok(entries)
    }
}

fn storage(error: impl std::fmt::Display) -> TranscriptError {
    TranscriptError::Storage {
        message: error.to_string(),
    }
}
