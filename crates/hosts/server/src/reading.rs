//! Sessions' databases behind the facets' handles.

use bezel_api_server::FleetError;
use bezel_api_server::host::{FleetResult, ReadingBackend};
use bezel_context::Context;
use bezel_session_types::{
    Entry, EntryId, HistoryPage, HistoryRange, JournalPage, Message, ModelView, SessionId,
};
use bezel_store::{Queries, ReadError};
use futures::FutureExt;

use crate::fleet::HostFleet;
use crate::records::reading;

impl HostFleet {
    /// Reads a session's database; `empty` makes what one without a file answers.
    fn read<T: Send + 'static>(
        &self,
        session_id: SessionId,
        empty: impl FnOnce() -> T + Send + 'static,
        read: impl FnOnce(&Queries<'_>) -> Result<T, ReadError> + Send + 'static,
    ) -> FleetResult<T> {
        let fleet = self.clone();
        async move {
            fleet.known(&session_id)?;
            let found = fleet.records.read(&session_id, read).await?;
            Ok(found.unwrap_or_else(empty))
        }
        .boxed()
    }
}

impl ReadingBackend for HostFleet {
    fn messages(
        &self,
        _cx: &Context,
        session_id: SessionId,
        limit: usize,
    ) -> FleetResult<Vec<Message>> {
        self.read(session_id, Vec::new, move |queries| {
            reading::newest(queries, limit)
        })
    }

    fn entry(
        &self,
        _cx: &Context,
        session_id: SessionId,
        entry_id: EntryId,
    ) -> FleetResult<Option<Entry>> {
        self.read(session_id, || None, move |queries| queries.entry(&entry_id))
    }

    fn model_view(&self, _cx: &Context, session_id: SessionId) -> FleetResult<ModelView> {
        self.read(session_id, ModelView::default, reading::model_view)
    }

    fn history(
        &self,
        _cx: &Context,
        session_id: SessionId,
        range: HistoryRange,
        limit: usize,
    ) -> FleetResult<HistoryPage> {
        let named = range.before.clone().or(range.after.clone());
        let empty = || named.map_or_else(|| Ok(HistoryPage::default()), Err);
        let read = self.read(session_id.clone(), empty, move |queries| {
            reading::history(queries, &range, limit)
        });
        async move {
            read.await?.map_err(|entry| FleetError::Invalid(format!(
                "the conversation of session {session_id} does not go through entry {entry}: it may have gone back before it; read it from its newest entries on"
            )))
        }
        .boxed()
    }

    fn journal(
        &self,
        _cx: &Context,
        session_id: SessionId,
        after: u64,
        limit: usize,
    ) -> FleetResult<JournalPage> {
        self.read(
            session_id,
            move || reading::no_journal(after),
            move |queries| reading::journal(queries, after, limit),
        )
    }
}
