//! Workers: one per session, launched on demand, waited for, stopped, and noticed when they die.

mod children;
mod life;
mod slot;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use bezel_api_server::{
    FleetError, LaunchEnvironment, ManagedSession, Restart, Resume, WorkerPolicy,
    WorkerPolicyDraft, WorkerProcess,
};
use bezel_context::{Context, Spawner};
use bezel_plugin::Registry;
use bezel_rpc::{Connect, Router};
use bezel_session_types::SessionId;
use tokio::sync::watch;

use self::children::{Children, root_in};
use self::life::Life;
use self::slot::{Digest, Phase, Slot, digest, stopped};
use crate::blocking::blocking;
use crate::feed::Feed;
use crate::records::{Records, WorkerNow, WorkerRow, Write};
use crate::{WorkerCredential, WorkerLauncher};

/// How long a killed worker may take to be gone.
const KILL_TIME: Duration = Duration::from_secs(5);
/// Sessions that the start of the server looks at for something that is to go on.
const LOOKED_AT: usize = 200;
/// A worker that died in the middle of something is started again by itself so often within [`CALM`].
const REVIVALS: usize = 3;
const CALM: Duration = Duration::from_secs(120);

/// All workers of this server.
#[derive(Clone)]
pub(crate) struct Workers(Arc<Shared>);

pub(crate) struct Shared {
    records: Records,
    launcher: Arc<dyn WorkerLauncher>,
    policy: Registry<WorkerPolicyDraft>,
    router: Router,
    spawner: Spawner,
    /// Where a worker of this process connects; known once the server accepts. Weak, because whoever
    /// accepts knows the workers.
    server: OnceLock<Weak<dyn Connect>>,
    // A plain mutex: held to look up or change, never across an await.
    slots: Mutex<Slots>,
    /// Published whenever the number of workers changes.
    changed: Feed<()>,
    children: Arc<Children>,
}

#[derive(Default)]
struct Slots {
    by_session: HashMap<SessionId, Slot>,
    by_credential: HashMap<Digest, SessionId>,
    /// Sessions whose last worker died.
    crashed: HashSet<SessionId>,
    /// Sessions that may get no worker any more.
    removed: HashSet<SessionId>,
    /// When workers were started again by themselves.
    revivals: HashMap<SessionId, Vec<tokio::time::Instant>>,
    /// The server ends.
    closed: bool,
}

impl Workers {
    pub(crate) fn new(
        records: Records,
        launcher: Arc<dyn WorkerLauncher>,
        policy: Registry<WorkerPolicyDraft>,
        router: Router,
        spawner: Spawner,
    ) -> Self {
        let (server, slots, changed) = (OnceLock::new(), Mutex::default(), Feed::default());
        let shared = Shared {
            records,
            launcher,
            policy,
            router,
            spawner,
            server,
            slots,
            changed,
            children: Arc::default(),
        };
        Workers(Arc::new(shared))
    }

    /// Who starts workers, and does errands.
    pub(crate) fn launcher(&self) -> Arc<dyn WorkerLauncher> {
        Arc::clone(&self.0.launcher)
    }

    /// From now on workers can be launched.
    pub(crate) fn open(&self, server: &Arc<dyn Connect>) {
        self.0.server.get_or_init(|| Arc::downgrade(server));
    }

    /// How many start, run or end. A tree of sessions has one.
    pub(crate) fn count(&self) -> usize {
        let sessions = self.0.lock().by_session.len();
        sessions.saturating_sub(self.0.children.count())
    }

    pub(crate) fn on_changed(&self, listener: impl Fn() + Send + Sync + 'static) -> Box<dyn Send> {
        self.0.changed.subscribe(move |()| listener())
    }

    /// Whose worker shows this credential.
    pub(crate) fn recognise(&self, credential: &str) -> Option<SessionId> {
        self.0
            .lock()
            .by_credential
            .get(&digest(credential))
            .cloned()
    }

    /// The worker of a session has connected, or has lost its connection.
    pub(crate) fn connection(&self, session_id: &SessionId, connected: bool) {
        let (phase, now) = match connected {
            true => (Phase::Connected, WorkerNow::Connected),
            false => (Phase::Disconnected, WorkerNow::Disconnected),
        };
        {
            let slots = self.0.lock();
            let Some(slot) = slots.by_session.get(session_id) else {
                return;
            };
            slot.phase.send_replace(phase);
            // One that was told to end is not missed.
            if connected || !slot.stopping {
                self.0.records.mark(session_id, now);
            }
        }
        if connected {
            self.0.children.connected(session_id);
        }
        self.0.records.tell();
    }

    /// Begins a launch where the session has no worker; resolves once the launcher has done its part.
    pub(crate) async fn launch(
        &self,
        cx: &Context,
        session: &ManagedSession,
        environment: Option<LaunchEnvironment>,
    ) -> Result<(), FleetError> {
        let (mut phase, _) = self.join(session, environment)?;
        match cx
            .run(phase.wait_for(|phase| !matches!(phase, Phase::Launching)))
            .await?
        {
            Ok(phase) => match &*phase {
                Phase::Ended(reason) => Err(reason
                    .clone()
                    .unwrap_or_else(|| stopped(&session.session_id))),
                _ => Ok(()),
            },
            Err(_) => Err(FleetError::Stopping),
        }
    }

    /// Resolves once the session's worker is connected; launches it where there is none.
    pub(crate) async fn start(
        &self,
        cx: &Context,
        session: &ManagedSession,
        environment: Option<LaunchEnvironment>,
    ) -> Result<(), FleetError> {
        loop {
            let (mut phase, ending) = self.join(session, environment.clone())?;
            if ending {
                cx.run(phase.wait_for(|phase| matches!(phase, Phase::Ended(_))))
                    .await?
                    .ok();
                continue;
            }
            let decisive = |phase: &Phase| {
                matches!(
                    phase,
                    Phase::Connected | Phase::Disconnected | Phase::Ended(_)
                )
            };
            let reached = cx.run(phase.wait_for(decisive)).await?;
            match reached
                .map(|phase| phase.clone())
                .map_err(|_| FleetError::Stopping)?
            {
                Phase::Connected => return Ok(()),
                Phase::Ended(reason) => {
                    return Err(reason.unwrap_or_else(|| stopped(&session.session_id)));
                }
                _ => {
                    let back = phase.wait_for(|phase| !matches!(phase, Phase::Disconnected));
                    let limit = self.0.policy.current().reconnect_timeout;
                    if cx.run(tokio::time::timeout(limit, back)).await?.is_err() {
                        tracing::warn!(session = %session.session_id, "a worker does not answer; it is replaced");
                        self.stop(&session.session_id).await?;
                    }
                }
            }
        }
    }

    /// Asks the worker to end, ends it after the policy's grace, and resolves once it is gone.
    pub(crate) async fn stop(&self, session_id: &SessionId) -> Result<(), FleetError> {
        let policy = self.0.policy.current();
        let waiting = {
            let mut slots = self.0.lock();
            slots.crashed.remove(session_id);
            let slot = slots.by_session.get_mut(session_id);
            if slot.is_none() {
                self.0.records.mark(session_id, WorkerNow::Closed);
            }
            // One that is not launched yet is told as soon as it is.
            slot.map(|slot| {
                slot.stopping = true;
                (slot.phase.subscribe(), slot.process.clone())
            })
        };
        self.0.records.tell();
        let Some((mut phase, process)) = waiting else {
            return Ok(());
        };
        if let Some(process) = process {
            process.request_stop();
        }
        let ended = |phase: &Phase| matches!(phase, Phase::Ended(_));
        if tokio::time::timeout(policy.stop_grace, phase.wait_for(ended))
            .await
            .is_ok()
        {
            return Ok(());
        }
        self.kill(session_id);
        match tokio::time::timeout(KILL_TIME, phase.wait_for(ended)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(FleetError::Worker {
                session_id: session_id.clone(),
                reason: "did not end although it was killed; look for its process".into(),
            }),
        }
    }

    /// The session gets no worker any more; ends the one it has.
    pub(crate) async fn remove(&self, session_id: &SessionId) -> Result<(), FleetError> {
        self.0.lock().removed.insert(session_id.clone());
        let stopped = self.stop(session_id).await;
        match &stopped {
            Ok(()) => self.0.clear(session_id).await,
            Err(_) => {
                self.0.lock().removed.remove(session_id);
            }
        }
        stopped
    }

    /// A removed session is gone, or was kept after all.
    pub(crate) fn forget(&self, session_id: &SessionId) {
        self.0.lock().removed.remove(session_id);
    }

    /// Ends all workers; none is launched from now on.
    pub(crate) async fn close(&self) -> Vec<FleetError> {
        let running: Vec<SessionId> = {
            let mut slots = self.0.lock();
            slots.closed = true;
            slots.by_session.keys().cloned().collect()
        };
        let stopping = running.iter().map(|session_id| self.stop(session_id));
        futures::future::join_all(stopping)
            .await
            .into_iter()
            .filter_map(Result::err)
            .collect()
    }

    /// Takes over what an earlier life of the server launched and what still runs.
    ///
    /// Returns the sessions whose worker has gone meanwhile, for [`Workers::resume`].
    pub(crate) fn adopt(&self, mut rows: Vec<WorkerRow>) -> Vec<SessionId> {
        let mut gone = Vec::new();
        // Roots before what lives in their workers.
        rows.sort_by_key(|row| root_in(&row.process).is_some());
        for row in rows {
            let known = self.0.records.get(&row.session_id).is_some();
            let process = match root_in(&row.process).filter(|_| known) {
                Some(root) => self.adopt_child(&row.session_id, root),
                None => self.0.launcher.adopt(&row.process).filter(|_| known),
            };
            match process {
                Some(process) => {
                    let (session_id, credential) = (row.session_id, row.credential);
                    let life = {
                        let mut slots = self.0.lock();
                        self.0.records.mark(&session_id, WorkerNow::Disconnected);
                        slots.open(&self.0, &session_id, credential, Phase::Disconnected)
                    };
                    self.0.told();
                    self.spawn(life.adopted(Arc::from(process)));
                }
                None => {
                    // At once: no worker of it can have been launched yet.
                    self.0
                        .cleared(&row.session_id, self.0.launcher.clear(&row.session_id));
                    if known {
                        gone.push(row.session_id.clone());
                    }
                    let (records, session_id) = (self.0.records.clone(), row.session_id);
                    self.spawn(async move {
                        if let Err(error) =
                            records.keep_worker(Write::DeleteWorker(session_id)).await
                        {
                            tracing::warn!(%error, "a worker that is gone is still on record");
                        }
                    });
                }
            }
        }
        gone
    }

    /// Looks at the start of the server for what is to go on: in sessions whose worker is gone, and in those
    /// that changed last, whose worker the end of an earlier server may have ended in order.
    pub(crate) fn resume_left(&self, gone: Vec<SessionId>) {
        if self.0.policy.current().resume != Resume::AtOnce {
            return;
        }
        let newest = self.0.records.snapshot().into_iter().take(LOOKED_AT);
        let mut left = gone;
        for session in newest {
            if !left.contains(&session.session_id) {
                left.push(session.session_id);
            }
        }
        left.into_iter().for_each(|session| self.resume(session));
    }

    /// Starts the worker of a session again that died in the middle of something, where the policy says so.
    /// One that dies over and over is left for a person to look at.
    pub(crate) fn resume(&self, session_id: SessionId) {
        let policy = *self.0.policy.current();
        if policy.resume != Resume::AtOnce || policy.restart == Restart::Never {
            return;
        }
        let workers = self.clone();
        self.spawn(async move {
            let (files, id) = (workers.0.records.files().clone(), session_id.clone());
            let runs = workers.0.lock().by_session.contains_key(&session_id);
            if runs || !blocking(move || files.has_open_work(&id)).await {
                return;
            }
            let Some(session) = workers.0.records.get(&session_id) else {
                return;
            };
            if !workers.0.lock().may_revive(&session_id) {
                tracing::warn!(session = %session_id, "its worker died {REVIVALS} times within {} s; it waits until somebody opens it", CALM.as_secs());
                return;
            }
            tracing::info!(session = %session_id, "what ran when its worker died goes on");
            if let Err(error) = workers.start(&Context::background(), &session, None).await {
                tracing::warn!(session = %session_id, %error, "a session could not go on at once");
            }
        });
    }

    /// Ends a worker at once. False where there is none.
    pub(crate) fn kill(&self, session_id: &SessionId) -> bool {
        let process = {
            let slots = self.0.lock();
            slots
                .by_session
                .get(session_id)
                .and_then(|slot| slot.process.clone())
        };
        process.as_ref().inspect(|process| process.kill()).is_some()
    }

    pub(crate) fn processes(&self) -> Vec<WorkerProcess> {
        let slots = self.0.lock();
        let process = |(session_id, slot): (&SessionId, &Slot)| WorkerProcess {
            session_id: session_id.clone(),
            process_id: slot
                .process
                .as_ref()
                .and_then(|process| process.process_id()),
            connected: slot.is_connected(),
        };
        slots.by_session.iter().map(process).collect()
    }

    /// The session's worker, a new one where there is none; and whether it is about to end.
    fn join(
        &self,
        session: &ManagedSession,
        environment: Option<LaunchEnvironment>,
    ) -> Result<(watch::Receiver<Phase>, bool), FleetError> {
        let session_id = &session.session_id;
        let policy = *self.0.policy.current();
        let server = self
            .0
            .server
            .get()
            .and_then(Weak::upgrade)
            .ok_or(FleetError::Stopping)?;
        let (life, credential) = {
            let mut slots = self.0.lock();
            if slots.closed {
                return Err(FleetError::Stopping);
            }
            if slots.removed.contains(session_id) {
                return Err(FleetError::NotAuthorized {
                    session_id: session_id.clone(),
                });
            }
            if let Some(slot) = slots.by_session.get(session_id) {
                return Ok((slot.phase.subscribe(), slot.stopping));
            }
            if policy.restart == Restart::Never && slots.crashed.contains(session_id) {
                let reason = "died, and the policy of this server does not start it again; \
                    stop the session or restart the server first"
                    .into();
                return Err(FleetError::Worker {
                    session_id: session_id.clone(),
                    reason,
                });
            }
            let credential = WorkerCredential::generate();
            let life = slots.open(
                &self.0,
                session_id,
                digest(credential.reveal()),
                Phase::Launching,
            );
            self.0.records.mark(session_id, WorkerNow::Starting);
            (life, credential)
        };
        self.0.told();
        let phase = life.watch();
        self.spawn(life.launched(session.clone(), credential, environment, policy, server));
        Ok((phase, false))
    }

    fn spawn(&self, life: impl Future<Output = ()> + Send + 'static) {
        // The task ends with the server's scope; its outcome is in the slot.
        drop(self.0.spawner.spawn("worker", life));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what the session's last worker has left running.
    async fn clear(&self, session_id: &SessionId) {
        let (launcher, session) = (Arc::clone(&self.launcher), session_id.clone());
        let count = blocking(move || launcher.clear(&session)).await;
        self.cleared(session_id, count);
    }

    fn cleared(&self, session_id: &SessionId, count: usize) {
        if count > 0 {
            tracing::info!(session = %session_id, count, "processes that a dead worker had left were ended");
        }
    }

    /// Tells of what was marked, and of the number of workers. The caller holds no lock.
    fn told(&self) {
        self.records.tell();
        self.changed.publish(());
    }
}

impl Slots {
    /// Notes that a worker is started again by itself; false where that happened too often lately.
    fn may_revive(&mut self, session_id: &SessionId) -> bool {
        if self.closed || self.removed.contains(session_id) {
            return false;
        }
        let revivals = self.revivals.entry(session_id.clone()).or_default();
        revivals.retain(|at| at.elapsed() < CALM);
        if revivals.len() >= REVIVALS {
            return false;
        }
        revivals.push(tokio::time::Instant::now());
        true
    }

    fn open(
        &mut self,
        shared: &Arc<Shared>,
        session_id: &SessionId,
        credential: Digest,
        phase: Phase,
    ) -> Life {
        self.crashed.remove(session_id);
        let slot = Slot::new(credential, phase);
        let life = Life::new(Arc::clone(shared), session_id.clone(), &slot);
        self.by_credential.insert(credential, session_id.clone());
        self.by_session.insert(session_id.clone(), slot);
        life
    }
}

/// What is left of a policy after a part of its time has passed.
fn remaining(policy: &WorkerPolicy, since: tokio::time::Instant) -> Duration {
    policy.start_timeout.saturating_sub(since.elapsed())
}
