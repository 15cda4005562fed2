//! Which sessions there are.

use std::path::Path;

use bezel_api_server::{ManagedSessions, ServerContext, SessionChange};
use bezel_rpc::{Context, EventSource, Events, State, StateCell};
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
        let events = cx.event_source();
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
