//! One worker from its launch to its end.

use std::path::PathBuf;
use std::sync::Arc;

use bezel_api_server::{FleetError, LaunchEnvironment, ManagedSession, WorkerPolicy};
use bezel_context::Context;
use bezel_rpc::Connect;
use bezel_session_types::SessionId;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::children;
use super::slot::{Digest, Phase, Slot};
use super::{KILL_TIME, Shared, remaining};
use crate::blocking::blocking;
use crate::records::{WorkerNow, WorkerRow, Write};
use crate::{LaunchedWorker, WorkerCredential, WorkerExit, WorkerStart};

/// Follows one worker; the only one that ends its slot.
pub(super) struct Life {
    shared: Arc<Shared>,
    session_id: SessionId,
    credential: Digest,
    phase: watch::Receiver<Phase>,
    kept: bool,
}

/// How a worker came to its end.
enum End {
    /// It exited after it had been connected, or was told to.
    Exit(WorkerExit),
    /// It never became ready.
    Failed(FleetError),
}

impl Life {
    pub(super) fn new(shared: Arc<Shared>, session_id: SessionId, slot: &Slot) -> Self {
        let (credential, phase) = (slot.credential, slot.phase.subscribe());
        Life {
            shared,
            session_id,
            credential,
            phase,
            kept: false,
        }
    }

    pub(super) fn watch(&self) -> watch::Receiver<Phase> {
        self.phase.clone()
    }

    /// Launches the worker and follows it.
    pub(super) async fn launched(
        mut self,
        session: ManagedSession,
        credential: WorkerCredential,
        environment: Option<LaunchEnvironment>,
        policy: WorkerPolicy,
        server: Arc<dyn Connect>,
    ) {
        let since = Instant::now();
        let launched = match self.prepare(&session, credential, environment).await {
            Ok(start) => self.launch(start, &policy, server).await,
            Err(error) => Err(error),
        };
        let end = match launched {
            Ok(process) => {
                self.keep(process.as_ref()).await;
                self.follow_start(process, &policy, since).await
            }
            Err(error) => End::Failed(error),
        };
        self.end(end).await;
    }

    /// Follows a worker that an earlier life of the server launched.
    pub(super) async fn adopted(mut self, process: Arc<dyn LaunchedWorker>) {
        self.kept = true;
        self.install(&process);
        let exit = process.exited().await;
        self.end(End::Exit(exit)).await;
    }

    async fn prepare(
        &self,
        session: &ManagedSession,
        credential: WorkerCredential,
        environment: Option<LaunchEnvironment>,
    ) -> Result<WorkerStart, FleetError> {
        let directory = session.directory.clone();
        if !blocking(move || directory.is_dir()).await {
            return Err(FleetError::Directory {
                directory: session.directory.display().to_string(),
                reason:
                    "the session's directory is gone; put it back, or begin a session elsewhere"
                        .into(),
            });
        }
        let records = &self.shared.records;
        let above = self.above(session)?;
        records.prepare(session).await?;
        let root = records.root(&session.workspace_id);
        Ok(WorkerStart {
            session_id: session.session_id.clone(),
            title: session.title.clone(),
            owner: session.owner.clone(),
            workspace_id: session.workspace_id.clone(),
            workspace_name: session.workspace_name.clone(),
            workspace_root: root.unwrap_or_else(|| session.directory.clone()),
            directory: session.directory.clone(),
            database: records.files().database(&session.session_id),
            output: records.files().output(&session.session_id),
            credential,
            environment,
            model: session.model.clone(),
            thinking_level: session.thinking_level,
            parent_id: session.parent_id.clone(),
            agent: session.agent.clone(),
            permission_mode: session.permission_mode,
            above,
        })
    }

    /// Where the sessions above a session work, the root's first.
    fn above(&self, session: &ManagedSession) -> Result<Vec<PathBuf>, FleetError> {
        let mut above = Vec::new();
        let mut parent = session.parent_id.clone();
        while let Some(id) = parent {
            let gone = || self.failed("was not started: a session above it is gone".into());
            let found = self.shared.records.get(&id).ok_or_else(gone)?;
            above.push(found.directory);
            parent = found.parent_id;
        }
        above.reverse();
        Ok(above)
    }

    async fn launch(
        &self,
        start: WorkerStart,
        policy: &WorkerPolicy,
        server: Arc<dyn Connect>,
    ) -> Result<Arc<dyn LaunchedWorker>, FleetError> {
        let cx = Context::background().with_timeout(policy.start_timeout);
        let root = self.shared.records.root_of(&self.session_id);
        let launching = match root == self.session_id {
            true => self.shared.launcher.launch(&cx, start, server),
            false => children::launch(Arc::clone(&self.shared), root, start),
        };
        let process: Arc<dyn LaunchedWorker> = match timeout(policy.start_timeout, launching).await
        {
            Ok(Ok(process)) => Arc::from(process),
            Ok(Err(error)) => return Err(self.failed(format!("could not be launched: {error}"))),
            Err(_) => return Err(self.failed(overran(policy, "be launched"))),
        };
        self.install(&process);
        Ok(process)
    }

    /// Puts the process into the slot; one that is not wanted any more is told so at once.
    fn install(&self, process: &Arc<dyn LaunchedWorker>) {
        let unwanted = {
            let mut slots = self.shared.lock();
            let Some(slot) = slots.by_session.get_mut(&self.session_id) else {
                return;
            };
            slot.process = Some(Arc::clone(process));
            slot.phase.send_if_modified(|phase| {
                let launching = matches!(phase, Phase::Launching);
                if launching {
                    *phase = Phase::Launched;
                }
                launching
            });
            slot.stopping
        };
        if unwanted {
            process.request_stop();
        }
    }

    /// Remembers a worker that can outlive this server.
    async fn keep(&mut self, process: &dyn LaunchedWorker) {
        let Some(identity) = process.identity() else {
            return;
        };
        self.kept = true;
        let (session_id, credential) = (self.session_id.clone(), self.credential);
        let row = WorkerRow {
            session_id,
            credential,
            process: identity,
        };
        if let Err(error) = self.shared.records.keep_worker(Write::Worker(row)).await {
            tracing::warn!(session = %self.session_id, %error, "a worker is not on record");
        }
    }

    async fn follow_start(
        &self,
        process: Arc<dyn LaunchedWorker>,
        policy: &WorkerPolicy,
        since: Instant,
    ) -> End {
        let mut exited = process.exited();
        let mut phase = self.phase.clone();
        let connected =
            phase.wait_for(|phase| matches!(phase, Phase::Connected | Phase::Disconnected));
        let early = tokio::select! {
            biased;
            reached = timeout(remaining(policy, since), connected) => Err(reached.is_ok()),
            exit = &mut exited => Ok(exit),
        };
        let ready = match early {
            Err(ready) => ready,
            Ok(exit) if self.is_stopping() => return End::Exit(exit),
            Ok(exit) => {
                let reason = format!("{} before it was ready; its log says why", exit.description);
                return End::Failed(self.failed(reason));
            }
        };
        if ready {
            return End::Exit(exited.await);
        }
        process.kill();
        if timeout(KILL_TIME, exited).await.is_err() {
            tracing::warn!(session = %self.session_id, "a killed worker has not ended");
        }
        End::Failed(self.failed(overran(policy, "connect")))
    }

    fn is_stopping(&self) -> bool {
        self.shared
            .lock()
            .by_session
            .get(&self.session_id)
            .is_some_and(|slot| slot.stopping)
    }

    fn failed(&self, reason: String) -> FleetError {
        FleetError::Worker {
            session_id: self.session_id.clone(),
            reason,
        }
    }

    async fn end(self, end: End) {
        let stopping = self.is_stopping();
        let (closed, reason) = match &end {
            End::Exit(exit) if stopping || exit.orderly => (true, None),
            End::Exit(exit) => (
                false,
                Some(self.failed(format!("died: it {}", exit.description))),
            ),
            End::Failed(error) => (stopping, Some(error.clone())),
        };
        if let Some(error) = reason.as_ref().filter(|_| !closed) {
            tracing::warn!(session = %self.session_id, %error, "a worker is gone");
        }
        self.shared
            .router
            .disconnect_worker(self.session_id.as_str());
        if !matches!(&end, End::Exit(exit) if exit.orderly) {
            // Before the slot is free: a worker after this one has processes of its own.
            self.shared.clear(&self.session_id).await;
        }
        let records = &self.shared.records;
        records.abandon_copies(&self.session_id).await;
        // Before the slot is free: a worker after this one has a row of its own.
        if self.kept {
            let write = Write::DeleteWorker(self.session_id.clone());
            if let Err(error) = records.keep_worker(write).await {
                tracing::warn!(session = %self.session_id, %error, "a worker that is gone is still on record");
            }
        }
        let slot = {
            let mut slots = self.shared.lock();
            slots.by_credential.remove(&self.credential);
            if !closed {
                slots.crashed.insert(self.session_id.clone());
            }
            records.mark(
                &self.session_id,
                if closed {
                    WorkerNow::Closed
                } else {
                    WorkerNow::Dead
                },
            );
            slots.by_session.remove(&self.session_id)
        };
        self.shared.children.forget(&self.session_id);
        // Whoever waits for the end finds the status that came of it.
        records.tell();
        if let Some(slot) = slot {
            slot.phase.send_replace(Phase::Ended(reason));
        }
        self.shared.told();
        if !closed {
            super::Workers(Arc::clone(&self.shared)).resume(self.session_id);
        }
    }
}

fn overran(policy: &WorkerPolicy, what: &str) -> String {
    let seconds = policy.start_timeout.as_secs_f32();
    format!("did not {what} within {seconds} s and was ended; its log says how far it came")
}
