//! What the fake fleet's sessions hold, read as a server reads it.

use bezel_api_server::host::{FleetResult, ReadingBackend};
use bezel_context::Context;
use bezel_session_types::{
    Entry, EntryId, HistoryPage, HistoryRange, JournalGap, JournalPage, Message, ModelView,
    SessionId, assemble,
};

use super::fleet::{Backend, now};

impl ReadingBackend for Backend {
    fn messages(
        &self,
        _cx: &Context,
        session_id: SessionId,
        limit: usize,
    ) -> FleetResult<Vec<Message>> {
        now(self.0.may_fail().map(|()| {
            let mut messages = self.0.messages_of(&session_id);
            messages.drain(..messages.len().saturating_sub(limit));
            messages
        }))
    }

    fn entry(
        &self,
        _cx: &Context,
        session_id: SessionId,
        entry_id: EntryId,
    ) -> FleetResult<Option<Entry>> {
        now(self.0.may_fail().map(|()| {
            let mut entries = self.0.entries_of(&session_id).into_iter();
            entries.find(|entry| entry.id == entry_id)
        }))
    }

    fn model_view(&self, _cx: &Context, session_id: SessionId) -> FleetResult<ModelView> {
        now(self.0.may_fail().map(|()| {
            let entries = self.0.entries_of(&session_id);
            let view: Vec<_> = entries.into_iter().map(Into::into).collect();
            ModelView {
                tip: view
                    .last()
                    .map(|entry: &std::sync::Arc<Entry>| entry.id.clone()),
                compaction: None,
                messages: assemble(&view),
            }
        }))
    }

    fn history(
        &self,
        _cx: &Context,
        session_id: SessionId,
        range: HistoryRange,
        limit: usize,
    ) -> FleetResult<HistoryPage> {
        now(self.0.may_fail().map(|()| {
            let mut entries = self.0.entries_of(&session_id);
            let at = |entries: &[Entry], end: &EntryId| {
                entries.iter().position(|entry| entry.id == *end)
            };
            if let Some(end) = range.before.as_ref().and_then(|end| at(&entries, end)) {
                entries.truncate(end);
            }
            if let Some(start) = range.after.as_ref().and_then(|start| at(&entries, start)) {
                entries.drain(..=start);
            }
            let more = entries.len() > limit;
            match range.after {
                Some(_) => entries.truncate(limit),
                None => drop(entries.drain(..entries.len().saturating_sub(limit))),
            }
            HistoryPage { entries, more }
        }))
    }

    fn journal(
        &self,
        _cx: &Context,
        session_id: SessionId,
        after: u64,
        limit: usize,
    ) -> FleetResult<JournalPage> {
        now(self.0.may_fail().map(|()| {
            let mut events = self.0.journal_of(&session_id);
            let newest = events.last().map_or(0, |fact| fact.seq);
            if after > newest {
                let entries = self.0.entries_of(&session_id);
                return JournalPage {
                    events: Vec::new(),
                    next: newest,
                    gap: Some(JournalGap {
                        snapshot: newest,
                        tip: entries.last().map(|entry| entry.id.clone()),
                    }),
                };
            }
            events.retain(|fact| fact.seq > after);
            events.truncate(limit);
            JournalPage {
                next: events.last().map_or(after, |fact| fact.seq),
                events,
                gap: None,
            }
        }))
    }
}
