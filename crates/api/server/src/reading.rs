//! What was said and done in a session, read from its file: no worker is asked and none is started.

use bezel_context::Context;
use bezel_session_types::{
    Entry, EntryId, HistoryPage, HistoryRange, JournalPage, Message, ModelView, SessionId,
};

use crate::{FleetError, ManagedSessions};

impl ManagedSessions {
    /// The newest `limit` messages of the main lane, oldest first.
    pub async fn messages(
        &self,
        cx: &Context,
        session_id: &SessionId,
        limit: usize,
    ) -> Result<Vec<Message>, FleetError> {
        self.backend.messages(cx, session_id.clone(), limit).await
    }

    /// One entry, wherever it stands in the tree; none where there is no such entry.
    pub async fn entry(
        &self,
        cx: &Context,
        session_id: &SessionId,
        entry_id: &EntryId,
    ) -> Result<Option<Entry>, FleetError> {
        self.backend
            .entry(cx, session_id.clone(), entry_id.clone())
            .await
    }

    /// What the model would be given of the main lane's conversation.
    pub async fn model_view(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<ModelView, FleetError> {
        self.backend.model_view(cx, session_id.clone()).await
    }

    /// Up to `limit` entries of the main lane's path.
    pub async fn history(
        &self,
        cx: &Context,
        session_id: &SessionId,
        range: HistoryRange,
        limit: usize,
    ) -> Result<HistoryPage, FleetError> {
        self.backend
            .history(cx, session_id.clone(), range, limit)
            .await
    }

    /// Up to `limit` facts of the journal after sequence number `after`.
    pub async fn journal(
        &self,
        cx: &Context,
        session_id: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<JournalPage, FleetError> {
        self.backend
            .journal(cx, session_id.clone(), after, limit)
            .await
    }
}
