//! What a worker may do to the record of its own session.

use bezel_api_server::{Commit, Fleet, ManagedSession, ServerContext};
use bezel_rpc::{Context, State, StateCell};
use bezel_session_types::{ModelRef, PermissionMode, ThinkingLevel};
use bezel_sessions_contract::{CommitReport, SessionError, SessionRecord, WorkerRecord};

use crate::words;

pub(crate) struct Record {
    fleet: Fleet,
    state: StateCell<WorkerRecord>,
}

impl Record {
    /// Records that follow the fleet from now on until the facet ends: each worker sees its own.
    pub(crate) fn follow(cx: &ServerContext) -> Self {
        let managed = cx.fleet.managed.clone();
        let state = StateCell::projected_to_each(WorkerRecord::default(), move |_, principal| {
            let session = managed.of_client(&principal.client);
            session.as_ref().map(record).unwrap_or_default()
        });
        let told = state.clone();
        cx.fleet.managed.on_changed(move |_, cx| told.refresh(cx));
        Record {
            fleet: cx.fleet.clone(),
            state,
        }
    }

    /// The session whose worker calls; which one, its credential says.
    fn own(&self, cx: &Context) -> Result<ManagedSession, SessionError> {
        self.fleet.managed.of_worker(cx).ok_or_else(|| SessionError::Invalid {
            message: "only a session's own worker may use its record; rename it or choose a model through the session instead".into(),
        })
    }
}

fn record(session: &ManagedSession) -> WorkerRecord {
    WorkerRecord {
        title: session.title.clone(),
        model: session.model.clone(),
        thinking_level: session.thinking_level.unwrap_or_default(),
        permission_mode: session.permission_mode,
        agent: session.agent.clone(),
        parent_id: session.parent_id.clone(),
    }
}

impl SessionRecord for Record {
    fn state(&self) -> State<WorkerRecord> {
        self.state.state()
    }

    async fn current(&self, cx: &Context) -> Result<WorkerRecord, SessionError> {
        Ok(record(&self.own(cx)?))
    }

    async fn committed(&self, cx: &Context, report: CommitReport) -> Result<(), SessionError> {
        let session = self.own(cx)?;
        let commit = Commit {
            seq: report.seq,
            running: report.running,
            waiting: report.waiting,
            title: report.title,
        };
        let reported = self
            .fleet
            .managed
            .report_commit(cx, &session.session_id, commit)
            .await;
        reported.map_err(words::error)
    }

    async fn switch_model(
        &self,
        cx: &Context,
        model: ModelRef,
        thinking_level: ThinkingLevel,
    ) -> Result<(), SessionError> {
        let session = self.own(cx)?;
        let switched = self
            .fleet
            .managed
            .switch_model(cx, &session.session_id, model, thinking_level)
            .await;
        switched.map(|_| ()).map_err(words::error)
    }

    async fn switch_agent(&self, cx: &Context, agent: Option<String>) -> Result<(), SessionError> {
        let session = self.own(cx)?;
        let managed = &self.fleet.managed;
        let switched = managed.switch_agent(cx, &session.session_id, agent).await;
        switched.map(|_| ()).map_err(words::error)
    }

    async fn switch_permission_mode(
        &self,
        cx: &Context,
        mode: PermissionMode,
    ) -> Result<(), SessionError> {
        let session = self.own(cx)?;
        let switched = self
            .fleet
            .managed
            .switch_permission_mode(cx, &session.session_id, mode)
            .await;
        switched.map(|_| ()).map_err(words::error)
    }
}
