//! The tree behind the facets' handles.

use std::sync::Arc;

use bezel_api_session::backend::{AgentBackend, TreeBackend};
use bezel_api_session::{HostedSession, LaneError, SessionsError};
use bezel_context::Context;
use bezel_rpc::{Link, Remote};
use bezel_session_types::SessionId;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

use super::place::Stage;
use super::services::Services;
use super::{Member, WorkerTree};

impl WorkerTree {
    /// A session that lives here and whose facets are active.
    pub(super) fn taken_up(&self, session_id: &SessionId) -> Option<Arc<dyn AgentBackend>> {
        let members = self.lock();
        let member = members.by_id.get(session_id)?;
        let is_up = *member.stage.borrow() >= Stage::GoingOn;
        is_up.then(|| Arc::clone(&member.agent))
    }

    /// A connection to the services of a session that lives here.
    fn link(&self, session_id: &SessionId) -> Option<Link> {
        let mut members = self.lock();
        let spawner = members.root.as_ref()?.spawner.clone();
        let member = members.by_id.get_mut(session_id)?;
        let table = &member.table;
        let services = member
            .services
            .get_or_insert_with(|| Services::open(&spawner, session_id, table));
        Some(services.link())
    }

    /// Waits until a session that lives here has come so far.
    async fn until(
        &self,
        cx: &Context,
        session_id: &SessionId,
        stage: Stage,
    ) -> Result<(), SessionsError> {
        let unknown = || SessionsError::NotFound {
            session_id: session_id.clone(),
        };
        let mut reached = {
            let members = self.lock();
            let member = members.by_id.get(session_id).ok_or_else(unknown)?;
            member.stage.subscribe()
        };
        let waited = cx.run(reached.wait_for(|reached| *reached >= stage)).await;
        let waited = waited.map_err(|_| LaneError::Cancelled)?;
        // It ended.
        waited.map(drop).map_err(|_| unknown())
    }
}

impl TreeBackend for WorkerTree {
    fn hosted(&self, session_id: &SessionId) -> Option<Arc<dyn AgentBackend>> {
        let members = self.lock();
        let member = members.by_id.get(session_id)?;
        Some(Arc::clone(&member.agent))
    }

    fn members(&self) -> watch::Receiver<Arc<[HostedSession]>> {
        self.0.published.subscribe()
    }

    fn services(&self, session_id: &SessionId) -> Option<Remote> {
        Some(self.link(session_id)?.server())
    }

    fn ensure<'a>(
        &'a self,
        cx: &'a Context,
        by: &'a SessionId,
        session_id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Arc<dyn AgentBackend>, SessionsError>> {
        async move {
            if let Some(agent) = self.taken_up(session_id) {
                return Ok(agent);
            }
            let unknown = || SessionsError::NotFound {
                session_id: session_id.clone(),
            };
            let root = {
                let members = self.lock();
                let sets_up = |member: &Member| *member.stage.borrow() == Stage::SettingUp;
                if members.by_id.get(by).is_some_and(sets_up) {
                    return Err(SessionsError::NotActive {
                        session_id: by.clone(),
                    });
                }
                members.root.clone().ok_or_else(unknown)?
            };
            // Whoever goes away leaves a start to its end.
            let (tree, id) = (self.clone(), session_id.clone());
            let start = root
                .spawner
                .spawn("host child", async move { tree.take_up(&id).await });
            let started = cx.run(start).await.map_err(|_| LaneError::Cancelled)?;
            match started {
                Some(Ok(started)) => started,
                Some(Err(_)) | None => Err(unknown()),
            }
        }
        .boxed()
    }

    fn reach<'a>(
        &'a self,
        cx: &'a Context,
        by: &'a SessionId,
        session_id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Remote, SessionsError>> {
        async move {
            self.ensure(cx, by, session_id).await?;
            self.until(cx, session_id, Stage::Active).await?;
            let link = self
                .link(session_id)
                .ok_or_else(|| SessionsError::NotFound {
                    session_id: session_id.clone(),
                })?;
            let settled = link.settled(cx).await;
            settled.map_err(|_| LaneError::Cancelled)?;
            Ok(link.server())
        }
        .boxed()
    }

    fn until_active<'a>(
        &'a self,
        cx: &'a Context,
        session_id: &'a SessionId,
    ) -> BoxFuture<'a, Result<(), SessionsError>> {
        self.until(cx, session_id, Stage::GoingOn).boxed()
    }
}
