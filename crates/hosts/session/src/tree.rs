//! The sessions that live in one process: a root and what it began, each with facets and a connection of its own.
//!
//! A child is taken up because a session of this tree wants something of it, or because the server wants it for
//! somebody who opens it; both begin with a claim. What the server wants comes over the root's connection.

mod services;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_api_session::backend::{AgentBackend, TreeBackend, ask};
use bezel_api_session::{HostedSession, LaneError, SessionsError};
use bezel_context::{Context, Spawner, Task};
use bezel_plugin::Failure;
use bezel_rpc::{ConnectionState, Link, Remote, ServiceTable, State};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{ChildEnd, ChildStart, ChildrenState, SessionChildrenClient};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

use self::services::Services;
use crate::start::RunningSession;

/// Starts the hosts of children.
pub trait StartChild: Send + Sync + 'static {
    /// Starts a host for the child that `start` describes, in the words of the server; it lives in `tree`.
    fn start(
        &self,
        tree: WorkerTree,
        start: Value,
    ) -> BoxFuture<'_, Result<RunningSession, ChildStartError>>;
}

/// A child's host that did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChildStartError(
    /// What went wrong, for people.
    pub String,
);

/// The sessions of one process.
#[derive(Clone)]
pub struct WorkerTree(Arc<Shared>);

struct Shared {
    starts: Arc<dyn StartChild>,
    // A plain mutex: held to look up or change, never across an await.
    members: Mutex<Members>,
    published: watch::Sender<Arc<[HostedSession]>>,
}

#[derive(Default)]
struct Members {
    /// Of the host that came last.
    number: u64,
    by_id: HashMap<SessionId, Member>,
    /// One start of a child at a time, and no end of it meanwhile.
    turns: HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>,
    /// What the root brought, while it runs.
    root: Option<Root>,
    /// What follows the server's wishes; without an end of its own.
    following: Vec<Task<()>>,
}

#[derive(Clone)]
struct Root {
    children: SessionChildrenClient,
    connection: State<ConnectionState>,
    spawner: Spawner,
}

impl Root {
    /// Claims a child: a claim whose answer was lost is answered again.
    async fn claim(&self, session_id: &SessionId) -> Result<ChildStart, SessionsError> {
        let cx = Context::background();
        let claim = || self.children.claim(&cx, session_id.clone());
        ask(&cx, &self.connection, claim).await
    }
}

/// How far a session has come whose host starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Its facets are not all active: nothing is done in it, and it has nobody taken up.
    SettingUp,
    /// They are, and it goes on with what was open: what runs in it may want others.
    GoingOn,
    /// Its services can be called.
    Active,
}

/// A session that lives here.
struct Member {
    number: u64,
    stage: watch::Sender<Stage>,
    parent_id: Option<SessionId>,
    agent: Arc<dyn AgentBackend>,
    table: ServiceTable,
    /// A connection to its services, once somebody uses them.
    services: Option<Services>,
    /// A child's host.
    running: Option<RunningSession>,
}

/// A session's place among the hosted ones; given back when it is dropped.
pub(crate) struct Place {
    tree: WorkerTree,
    session_id: SessionId,
}

impl Place {
    /// The facets are active.
    pub(crate) fn goes_on(&self) {
        self.reached(Stage::GoingOn);
    }

    /// The services can be called.
    pub(crate) fn is_active(&self) {
        self.reached(Stage::Active);
    }

    fn reached(&self, stage: Stage) {
        if let Some(member) = self.tree.lock().by_id.get(&self.session_id) {
            member.stage.send_replace(stage);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let left = self.tree.lock().by_id.remove(&self.session_id);
        self.tree.publish();
        // Outside of the lock: what it held may come here again when it is dropped.
        drop(left);
    }
}

impl WorkerTree {
    /// A tree whose children's hosts are started so. The root comes with [`crate::SessionHost::start`].
    pub fn new(starts: Arc<dyn StartChild>) -> Self {
        WorkerTree(Arc::new(Shared {
            starts,
            members: Mutex::default(),
            published: watch::Sender::new(Arc::from([])),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Members> {
        self.0
            .members
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self) {
        let mut hosted: Vec<HostedSession> = {
            let members = self.lock();
            let one = |(id, member): (&SessionId, &Member)| HostedSession {
                session_id: id.clone(),
                parent_id: member.parent_id.clone(),
                number: member.number,
            };
            members.by_id.iter().map(one).collect()
        };
        hosted.sort_by(|a, b| a.session_id.cmp(&b.session_id));
        self.0.published.send_replace(hosted.into());
    }

    /// A session lives here from now on, until its place is dropped.
    pub(crate) fn enter(
        &self,
        session_id: SessionId,
        parent_id: Option<SessionId>,
        agent: Arc<dyn AgentBackend>,
        table: ServiceTable,
    ) -> Place {
        {
            let mut members = self.lock();
            members.number += 1;
            let member = Member {
                number: members.number,
                stage: watch::Sender::new(Stage::SettingUp),
                parent_id,
                agent,
                table,
                services: None,
                running: None,
            };
            members.by_id.insert(session_id.clone(), member);
        }
        self.publish();
        Place {
            tree: self.clone(),
            session_id,
        }
    }

    /// The root's facets are active: children can be taken up from now on, and what the server wants of this tree is
    /// followed, for as long as the root's tasks run.
    pub(crate) fn follow(
        &self,
        spawner: Spawner,
        server: &Remote,
        connection: State<ConnectionState>,
    ) {
        let children: SessionChildrenClient = server.use_service();
        self.lock().root = Some(Root {
            children: children.clone(),
            connection: connection.clone(),
            spawner: spawner.clone(),
        });
        let (tree, told) = (self.clone(), children.clone());
        let telling = spawner.spawn("hosted children", async move {
            let mut watcher = connection.watch();
            loop {
                if matches!(*connection.get(), ConnectionState::Connected { .. }) {
                    tree.tell_hosted(&told).await;
                }
                watcher.changed().await;
            }
        });
        let tree = self.clone();
        let hosting = spawner.spawn("wanted children", async move {
            let state = children.state();
            let mut watcher = state.watch();
            loop {
                tree.reconcile(&state.get());
                watcher.changed().await;
            }
        });
        self.lock().following = vec![telling, hosting];
    }

    async fn tell_hosted(&self, children: &SessionChildrenClient) {
        let hosted: Vec<SessionId> = {
            let members = self.lock();
            let starting = members
                .turns
                .iter()
                .filter(|(_, turn)| turn.try_lock().is_err());
            let starting = starting.map(|(id, _)| id.clone());
            let hosted = members
                .by_id
                .iter()
                .filter(|(_, member)| member.parent_id.is_some());
            hosted.map(|(id, _)| id.clone()).chain(starting).collect()
        };
        if let Err(error) = children.hosted(&Context::background(), hosted).await {
            // The connection was lost again: the next one says it.
            tracing::debug!(%error, "the server was not told which children are hosted");
        }
    }

    fn reconcile(&self, state: &ChildrenState) {
        let Some(root) = self.lock().root.clone() else {
            return;
        };
        for session_id in &state.unwanted {
            let (tree, session_id) = (self.clone(), session_id.clone());
            root.spawner.spawn("release child", async move {
                tree.release(&session_id, None, "ended as it was asked to")
                    .await;
            });
        }
        for session_id in &state.wanted {
            let (tree, session_id) = (self.clone(), session_id.clone());
            root.spawner.spawn("host child", async move {
                if let Err(error) = tree.take_up(&session_id).await {
                    tracing::warn!(session = %session_id, %error, "a child could not be hosted");
                }
            });
        }
    }

    /// Hosts a child of this tree, unless it lives here.
    async fn take_up(
        &self,
        session_id: &SessionId,
    ) -> Result<Arc<dyn AgentBackend>, SessionsError> {
        let turn = self.turn(session_id);
        let _turn = turn.lock().await;
        if let Some(agent) = self.taken_up(session_id) {
            return Ok(agent);
        }
        let root = self.lock().root.clone();
        let root = root.ok_or_else(|| SessionsError::NotFound {
            session_id: session_id.clone(),
        })?;
        let start = root.claim(session_id).await?;
        match self.0.starts.start(self.clone(), start.0).await {
            Ok(running) => Ok(self.keep(&root, session_id, running)),
            Err(error) => {
                let reason = error.to_string();
                let end = ChildEnd {
                    orderly: false,
                    description: format!("could not be started: {reason}"),
                };
                self.tell_released(&root, session_id, end).await;
                Err(SessionsError::Start {
                    session_id: session_id.clone(),
                    reason,
                })
            }
        }
    }

    fn keep(
        &self,
        root: &Root,
        session_id: &SessionId,
        running: RunningSession,
    ) -> Arc<dyn AgentBackend> {
        let agent = running.agent();
        let retired = running.retired();
        let number = self.lock().by_id.get_mut(session_id).map(|member| {
            member.running = Some(running);
            member.number
        });
        let (tree, session_id) = (self.clone(), session_id.clone());
        root.spawner.spawn("child", async move {
            let reason = retired.await;
            tree.release(&session_id, number, &format!("ended: {reason}"))
                .await;
        });
        agent
    }

    /// Ends a child's host, and says so: whichever it is where the server wants it, otherwise the one of this
    /// number alone, which another one may have followed.
    async fn release(&self, session_id: &SessionId, number: Option<u64>, description: &str) {
        let turn = self.turn(session_id);
        let _turn = turn.lock().await;
        let (running, root) = {
            let mut members = self.lock();
            let member = members.by_id.get_mut(session_id);
            let meant = |member: &&mut Member| number.is_none_or(|number| member.number == number);
            let running = member
                .filter(meant)
                .and_then(|member| member.running.take());
            (running, members.root.clone())
        };
        if running.is_none() && number.is_some() {
            return;
        }
        if let Some(running) = running {
            for failure in running.stop().await {
                tracing::warn!(session = %session_id, %failure, "a child did not end in order");
            }
        }
        if let Some(root) = root {
            let end = ChildEnd {
                orderly: true,
                description: description.into(),
            };
            self.tell_released(&root, session_id, end).await;
        }
    }

    async fn tell_released(&self, root: &Root, session_id: &SessionId, end: ChildEnd) {
        let cx = Context::background();
        let told = root.children.released(&cx, session_id.clone(), end);
        if let Err(error) = told.await {
            // The next connection says which children are hosted.
            tracing::debug!(session = %session_id, %error, "the server was not told that a child is let go");
        }
    }

    /// A session that lives here and whose facets are active.
    fn taken_up(&self, session_id: &SessionId) -> Option<Arc<dyn AgentBackend>> {
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

    fn turn(&self, session_id: &SessionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut members = self.lock();
        Arc::clone(members.turns.entry(session_id.clone()).or_default())
    }

    /// Ends all children, as the root ends. Returns what went wrong.
    pub(crate) fn close(&self) -> BoxFuture<'_, Vec<Failure>> {
        let running: Vec<RunningSession> = {
            let mut members = self.lock();
            members.root = None;
            members.following.drain(..).for_each(|task| task.abort());
            let all = members.by_id.values_mut();
            all.filter_map(|member| member.running.take()).collect()
        };
        let stopped = running.into_iter().map(RunningSession::stop);
        let stopped = futures::future::join_all(stopped);
        // Boxed: a child's end is made of this one as well, and a type must have an end.
        stopped
            .map(|failures| failures.into_iter().flatten().collect())
            .boxed()
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
