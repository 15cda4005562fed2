//! Which sessions there are.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bezel_api_server::{ManagedSession, ManagedSessions, ServerContext, SessionChange};
use bezel_rpc::{Context, EventSource, Events, Projected, State, StateCell};
use bezel_session_types::{
    Entry, EntryId, HistoryPage, HistoryRange, JournalPage, Message, ModelView, SessionId,
};
use bezel_sessions_contract::{
    DirectoryEvent, DirectoryState, ListSessions, SessionDirectory, SessionError, SessionNews,
    SessionPage, SessionSummary, WorkspaceSummary,
};

use crate::following::{self, Followers};
use crate::listing;
use crate::words;

const MOST_MESSAGES: u32 = 500;
const MOST_ENTRIES: u32 = 500;
const MOST_FACTS: u32 = 1_000;

pub(crate) struct Directory {
    managed: ManagedSessions,
    state: StateCell<DirectoryState>,
    events: EventSource<DirectoryEvent>,
    followers: Followers,
}

impl Directory {
    /// A directory that follows the fleet from now on until the facet ends.
    pub(crate) fn follow(cx: &ServerContext) -> Self {
        let managed = cx.fleet.managed.clone();
        let reach = managed.clone();
        let state = StateCell::projected(
            DirectoryState::default(),
            move |all: &DirectoryState, principal| {
                let mut reachable = all.clone();
                reachable
                    .sessions
                    .retain(|session| reach.is_reachable(principal, &session.session_id));
                reachable
            },
        );
        // The session of the change that is being told: a deleted one is in no snapshot any more.
        let changing: Arc<Mutex<Option<ManagedSession>>> = Arc::default();
        let (told, reach) = (Arc::clone(&changing), managed.clone());
        let events = EventSource::projected(move |event, principal| {
            let told = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let may_see = told.is_some_and(|session| {
                session.session_id == *subject(event) && reach.reaches(principal, &session)
            });
            match may_see {
                true => Projected::Whole,
                false => Projected::Hidden,
            }
        });
        let publish = {
            let (managed, state) = (managed.clone(), state.clone());
            move |cx: &Context| {
                let sessions = managed.snapshot();
                let listed = sessions
                    .iter()
                    .filter(|session| session.archived_at.is_none());
                let sessions = listed.map(words::summary).collect();
                state.update(cx, |directory| {
                    directory.revision += 1;
                    directory.sessions = sessions;
                });
            }
        };
        publish(&Context::background());
        let (emitted, followers) = (events.clone(), Followers::default());
        let woken = followers.clone();
        managed.on_committed(move |session_id| woken.changed(session_id));
        let woken = followers.clone();
        managed.on_changed(move |change, cx| {
            publish(cx);
            // Changes are told one after another, and each is projected before the next.
            *changing.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(change.session().clone());
            emitted.emit(cx, event(change));
            let session_id = &change.session().session_id;
            match change {
                SessionChange::Deleted(_) => woken.deleted(session_id),
                SessionChange::Created(_) | SessionChange::Changed(_) => woken.changed(session_id),
            }
        });
        Directory {
            managed,
            state,
            events,
            followers,
        }
    }
}

fn event(change: &SessionChange) -> DirectoryEvent {
    let session = words::summary(change.session());
    match change {
        SessionChange::Created(_) => DirectoryEvent::Created { session },
        SessionChange::Changed(_) => DirectoryEvent::Changed { session },
        SessionChange::Deleted(_) => DirectoryEvent::Deleted {
            session_id: session.session_id,
        },
    }
}

fn subject(event: &DirectoryEvent) -> &SessionId {
    match event {
        DirectoryEvent::Created { session } | DirectoryEvent::Changed { session } => {
            &session.session_id
        }
        DirectoryEvent::Deleted { session_id } => session_id,
    }
}

impl Directory {
    fn authorized(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<ManagedSession, SessionError> {
        self.managed
            .authorized(cx, session_id)
            .map_err(words::error)
    }
}

impl SessionDirectory for Directory {
    fn state(&self) -> State<DirectoryState> {
        self.state.state()
    }

    fn events(&self) -> Events<DirectoryEvent> {
        self.events.events()
    }

    async fn messages(
        &self,
        cx: &Context,
        session_id: SessionId,
        limit: u32,
    ) -> Result<Vec<Message>, SessionError> {
        let session = self.authorized(cx, &session_id)?;
        let limit = listing::limit(limit, MOST_MESSAGES, "messages")?;
        let messages = self.managed.messages(cx, &session.session_id, limit).await;
        messages.map_err(words::error)
    }

    async fn get(
        &self,
        cx: &Context,
        session_id: SessionId,
    ) -> Result<SessionSummary, SessionError> {
        let session = self.authorized(cx, &session_id)?;
        Ok(words::summary(&session))
    }

    async fn list(&self, cx: &Context, query: ListSessions) -> Result<SessionPage, SessionError> {
        let sessions = match &query.directory {
            Some(directory) => self
                .managed
                .in_directory(cx, Path::new(directory))
                .await
                .map_err(words::error)?,
            None => self.managed.snapshot(),
        };
        let reachable = sessions.into_iter().filter(|session| {
            cx.principal()
                .is_some_and(|principal| self.managed.reaches(principal, session))
        });
        listing::page(reachable, &query)
    }

    async fn message(
        &self,
        cx: &Context,
        session_id: SessionId,
        entry_id: EntryId,
    ) -> Result<Entry, SessionError> {
        self.authorized(cx, &session_id)?;
        let found = self.managed.entry(cx, &session_id, &entry_id).await;
        found
            .map_err(words::error)?
            .ok_or(SessionError::UnknownEntry {
                session_id,
                entry_id,
            })
    }

    async fn context(
        &self,
        cx: &Context,
        session_id: SessionId,
    ) -> Result<ModelView, SessionError> {
        self.authorized(cx, &session_id)?;
        let view = self.managed.model_view(cx, &session_id).await;
        view.map_err(words::error)
    }

    async fn history(
        &self,
        cx: &Context,
        session_id: SessionId,
        range: HistoryRange,
        asked: u32,
    ) -> Result<HistoryPage, SessionError> {
        self.authorized(cx, &session_id)?;
        let limit = listing::limit(asked, MOST_ENTRIES, "entries")?;
        let page = self.managed.history(cx, &session_id, range, limit).await;
        page.map_err(words::error)
    }

    async fn journal(
        &self,
        cx: &Context,
        session_id: SessionId,
        after: u64,
        asked: u32,
    ) -> Result<JournalPage, SessionError> {
        self.authorized(cx, &session_id)?;
        let limit = listing::limit(asked, MOST_FACTS, "facts")?;
        let page = self.managed.journal(cx, &session_id, after, limit).await;
        page.map_err(words::error)
    }

    async fn follow(
        &self,
        cx: &Context,
        session_id: SessionId,
        after: Option<String>,
        asked: u32,
    ) -> Result<SessionNews, SessionError> {
        self.authorized(cx, &session_id)?;
        let limit = listing::limit(asked, MOST_FACTS, "facts")?;
        let (managed, followers) = (&self.managed, &self.followers);
        following::follow(managed, followers, cx, &session_id, after.as_deref(), limit).await
    }

    async fn workspace(
        &self,
        cx: &Context,
        directory: String,
    ) -> Result<Option<WorkspaceSummary>, SessionError> {
        let found = self
            .managed
            .workspace(cx, Path::new(&directory))
            .await
            .map_err(words::error)?;
        Ok(found.map(|found| WorkspaceSummary {
            workspace_id: found.workspace_id,
            name: found.name,
        }))
    }

    async fn newest_in(
        &self,
        cx: &Context,
        directory: String,
    ) -> Result<Option<SessionSummary>, SessionError> {
        let found = self
            .managed
            .in_directory(cx, Path::new(&directory))
            .await
            .map_err(words::error)?;
        let newest = found
            .iter()
            .find(|session| session.archived_at.is_none() && session.parent_id.is_none());
        Ok(newest.map(words::summary))
    }
}
