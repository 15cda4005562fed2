//! The sessions that live in one process: a root and what it began, each with facets and a connection of its own.
//!
//! A child is taken up because a session of this tree wants something of it, or because the server wants it for
//! somebody who opens it; both begin with a claim. What the server wants comes over the root's connection.

mod backend;
mod place;
mod services;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_api_session::backend::{AgentBackend, ask};
use bezel_api_session::{HostedSession, SessionsError};
use bezel_context::{Context, Spawner, Task};
use bezel_plugin::Failure;
use bezel_rpc::{ConnectionState, Remote, ServiceTable, State};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{ChildEnd, ChildStart, ChildrenState, SessionChildrenClient};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

pub(crate) use self::place::Place;
use self::place::Stage;
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
