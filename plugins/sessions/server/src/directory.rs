//! Which sessions there are.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bezel_api_server::{ManagedSession, ManagedSessions, ServerContext, SessionChange};
use bezel_rpc::{Context, EventSource, Events, Projected, State, StateCell};
use bezel_session_types::{Message, SessionId};
use bezel_sessions_contract::{
    DirectoryEvent, DirectoryState, SessionDirectory, SessionError, SessionSummary,
    WorkspaceSummary,
};

use crate::words;

const MOST_MESSAGES: u32 = 500;

pub(crate) struct Directory {
    managed: ManagedSessions,
    state: StateCell<DirectoryState>,
    events: EventSource<DirectoryEvent>,
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
                let sessions = managed.snapshot().iter().map(words::summary).collect();
                state.update(cx, |directory| {
                    directory.revision += 1;
                    directory.sessions = sessions;
                });
            }
        };
        publish(&Context::background());
        let emitted = events.clone();
        managed.on_changed(move |change, cx| {
            publish(cx);
            // Changes are told one after another, and each is projected before the next.
            *changing.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(change.session().clone());
            emitted.emit(cx, event(change));
        });
        Directory {
            managed,
            state,
            events,
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
        let session = self
            .managed
            .authorized(cx, &session_id)
            .map_err(words::error)?;
        if limit == 0 || limit > MOST_MESSAGES {
            let message = format!("a limit of {limit} messages is not within 1 to {MOST_MESSAGES}");
            return Err(SessionError::Invalid { message });
        }
        let messages = self
            .managed
            .messages(cx, &session.session_id, limit as usize)
            .await;
        messages.map_err(words::error)
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
        Ok(found.first().map(words::summary))
    }
}
