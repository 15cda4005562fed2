//! A tree of one session: the one under test.

use std::sync::Arc;

use bezel_api_session::backend::{AgentBackend, TreeBackend};
use bezel_api_session::{HostedSession, SessionsError};
use bezel_context::Context;
use bezel_rpc::Remote;
use bezel_session_types::SessionId;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

pub(super) struct Alone {
    agent: Arc<dyn AgentBackend>,
    hosted: watch::Sender<Arc<[HostedSession]>>,
}

impl Alone {
    pub(super) fn new(agent: Arc<dyn AgentBackend>) -> Self {
        let own = HostedSession {
            session_id: agent.identity().session_id.clone(),
            parent_id: None,
            number: 0,
        };
        Alone {
            agent,
            hosted: watch::Sender::new(Arc::from([own])),
        }
    }

    /// Says that the session under test has these children beside it, and no other. They do nothing.
    pub(super) fn host(&self, children: &[&str]) {
        let own = self.agent.identity().session_id.clone();
        let child = |(place, id): (usize, &&str)| HostedSession {
            session_id: SessionId::new(*id),
            parent_id: Some(own.clone()),
            number: place as u64 + 1,
        };
        let children: Vec<HostedSession> = children.iter().enumerate().map(child).collect();
        self.hosted.send_modify(|hosted| {
            *hosted = hosted[..1].iter().cloned().chain(children).collect();
        });
    }
}

impl TreeBackend for Alone {
    fn hosted(&self, session_id: &SessionId) -> Option<Arc<dyn AgentBackend>> {
        let own = self.agent.identity().session_id == *session_id;
        own.then(|| Arc::clone(&self.agent))
    }

    fn members(&self) -> watch::Receiver<Arc<[HostedSession]>> {
        self.hosted.subscribe()
    }

    fn services(&self, _session_id: &SessionId) -> Option<Remote> {
        None
    }

    fn ensure<'a>(
        &'a self,
        _cx: &'a Context,
        _by: &'a SessionId,
        session_id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Arc<dyn AgentBackend>, SessionsError>> {
        let found = self
            .hosted(session_id)
            .ok_or_else(|| SessionsError::NotFound {
                session_id: session_id.clone(),
            });
        async move { found }.boxed()
    }

    fn reach<'a>(
        &'a self,
        cx: &'a Context,
        by: &'a SessionId,
        session_id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Remote, SessionsError>> {
        async move {
            self.ensure(cx, by, session_id).await?;
            Err(SessionsError::Server(
                "a played session is reached by its test alone".into(),
            ))
        }
        .boxed()
    }

    fn until_active<'a>(
        &'a self,
        _cx: &'a Context,
        _session_id: &'a SessionId,
    ) -> BoxFuture<'a, Result<(), SessionsError>> {
        async { Ok(()) }.boxed()
    }
}
