//! Records, workers and attachments behind the facets' handles.

mod attaching;
mod changing;
mod creating;
mod places;
mod removing;

use std::path::PathBuf;
use std::sync::Arc;

use bezel_api_server::host::{
    ChangeListener, CommitListener, FleetBackend, FleetResult, Subscription,
};
use bezel_api_server::{
    AccessRequest, AuthorizationDraft, ChildLaunch, ChildWish, Commit, CreateManaged, FleetError,
    LaunchEnvironment, ManagedSession, Workspace,
};
use bezel_context::{ClientId, Context, Principal, Spawner, WorkspaceId};
use bezel_plugin::Registry;
use bezel_rpc::Router;
use bezel_session_types::{ModelRef, PermissionMode, SessionId, ThinkingLevel};
use futures::FutureExt;

pub(crate) use self::creating::Creating;
use self::creating::local_environment;
use crate::WorkerExit;
use crate::records::{Records, checked_agent, checked_title, shortened};
use crate::workers::Workers;

/// Records, workers and attachments as one.
#[derive(Clone)]
pub(crate) struct HostFleet {
    pub(crate) owner: Arc<str>,
    /// The product's.
    pub(crate) version: Arc<str>,
    pub(crate) records: Records,
    pub(crate) workers: Workers,
    pub(crate) router: Router,
    pub(crate) authorization: Registry<AuthorizationDraft>,
    pub(crate) spawner: Spawner,
    pub(crate) creating: Creating,
}

impl HostFleet {
    /// Runs a change to its end, whoever still waits for it.
    pub(crate) fn whole<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<T, FleetError>> + Send + 'static,
    ) -> FleetResult<T> {
        let spawner = self.spawner.clone();
        async move {
            match spawner.spawn(name, work).await {
                Some(Ok(outcome)) => outcome,
                Some(Err(error)) if error.is_panic() => {
                    std::panic::resume_unwind(error.into_panic())
                }
                Some(Err(_)) | None => Err(FleetError::Stopping),
            }
        }
        .boxed()
    }

    pub(crate) fn may_reach(
        &self,
        principal: &Principal,
        owner: &str,
        workspace: &WorkspaceId,
        session: Option<&SessionId>,
    ) -> bool {
        let request = AccessRequest {
            principal,
            owner,
            workspace,
            session,
        };
        self.authorization.current().allows(&request)
    }

    fn within_reach(
        &self,
        principal: &Principal,
        session_id: &SessionId,
    ) -> Result<ManagedSession, FleetError> {
        let session = self.records.get(session_id).filter(|session| {
            self.may_reach(
                principal,
                &session.owner,
                &session.workspace_id,
                Some(session_id),
            )
        });
        session.ok_or_else(|| FleetError::NotAuthorized {
            session_id: session_id.clone(),
        })
    }

    pub(crate) fn known(&self, session_id: &SessionId) -> Result<ManagedSession, FleetError> {
        let session = self.records.get(session_id);
        session.ok_or_else(|| FleetError::NotAuthorized {
            session_id: session_id.clone(),
        })
    }

    /// A session of the same tree as `of`.
    fn in_tree(
        &self,
        of: &SessionId,
        session_id: &SessionId,
    ) -> Result<ManagedSession, FleetError> {
        let session = self.known(session_id)?;
        match self.records.root_of(of) == self.records.root_of(session_id) {
            true => Ok(session),
            false => Err(FleetError::NotAuthorized {
                session_id: session_id.clone(),
            }),
        }
    }
}

impl FleetBackend for HostFleet {
    fn snapshot(&self) -> Vec<ManagedSession> {
        self.records.snapshot()
    }

    fn is_reachable(&self, principal: &Principal, session_id: &SessionId) -> bool {
        let belongs = self.records.belongs(session_id);
        belongs.is_some_and(|(owner, workspace)| {
            self.may_reach(principal, &owner, &workspace, Some(session_id))
        })
    }

    fn reaches(&self, principal: &Principal, session: &ManagedSession) -> bool {
        self.may_reach(
            principal,
            &session.owner,
            &session.workspace_id,
            Some(&session.session_id),
        )
    }

    fn authorized(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<ManagedSession, FleetError> {
        match cx.principal() {
            Some(principal) => self.within_reach(principal, session_id),
            None => Err(FleetError::NotAuthorized {
                session_id: session_id.clone(),
            }),
        }
    }

    fn of_worker(&self, client: &ClientId) -> Option<ManagedSession> {
        let target = self.router.worker_target(client)?;
        self.records.get(&SessionId::new(target))
    }

    fn on_changed(&self, listener: ChangeListener) -> Subscription {
        self.records.on_changed(listener)
    }

    fn on_committed(&self, listener: CommitListener) -> Subscription {
        self.records.on_committed(listener)
    }

    fn workspace(&self, cx: &Context, directory: PathBuf) -> FleetResult<Option<Workspace>> {
        let (fleet, cx) = (self.clone(), cx.clone());
        async move { fleet.workspace_at(&cx, directory).await }.boxed()
    }

    fn register(&self, cx: &Context, directory: PathBuf) -> FleetResult<Workspace> {
        let registered = self.clone().registered(cx.clone(), directory);
        self.whole("register workspace", registered)
    }

    fn in_directory(&self, cx: &Context, directory: PathBuf) -> FleetResult<Vec<ManagedSession>> {
        let (fleet, cx) = (self.clone(), cx.clone());
        async move { fleet.sessions_in(&cx, directory).await }.boxed()
    }

    fn create(&self, cx: &Context, options: CreateManaged) -> FleetResult<ManagedSession> {
        self.whole("create session", self.clone().created(cx.clone(), options))
    }

    fn remove(&self, cx: &Context, session_id: SessionId) -> FleetResult<()> {
        self.whole(
            "remove session",
            self.clone().removed(cx.clone(), session_id),
        )
    }

    fn rename(
        &self,
        cx: &Context,
        session_id: SessionId,
        title: String,
    ) -> FleetResult<ManagedSession> {
        let (records, cx) = (self.records.clone(), cx.clone());
        self.whole("rename session", async move {
            let title = checked_title(&title)?;
            records
                .update(&cx, &session_id, |record| record.title.clone_from(&title))
                .await
        })
    }

    fn archive(
        &self,
        cx: &Context,
        session_id: SessionId,
        archived: bool,
    ) -> FleetResult<ManagedSession> {
        let (records, cx) = (self.records.clone(), cx.clone());
        self.whole("archive session", async move {
            match archived {
                true => records.archive(&cx, &session_id).await,
                false => records.unarchive(&cx, &session_id).await,
            }
        })
    }

    fn switch_agent(
        &self,
        cx: &Context,
        session_id: SessionId,
        agent: Option<String>,
    ) -> FleetResult<ManagedSession> {
        let (records, cx) = (self.records.clone(), cx.clone());
        self.whole("switch agent", async move {
            let agent = agent.as_deref().map(checked_agent).transpose()?;
            records
                .update(&cx, &session_id, |record| record.agent.clone_from(&agent))
                .await
        })
    }

    fn switch_model(
        &self,
        cx: &Context,
        session_id: SessionId,
        model: ModelRef,
        thinking_level: ThinkingLevel,
    ) -> FleetResult<ManagedSession> {
        let (records, cx) = (self.records.clone(), cx.clone());
        self.whole("switch model", async move {
            let change = |record: &mut crate::records::Record| {
                record.model = Some(model.clone());
                record.thinking_level = Some(thinking_level);
            };
            records.update(&cx, &session_id, change).await
        })
    }

    fn switch_permission_mode(
        &self,
        cx: &Context,
        session_id: SessionId,
        mode: PermissionMode,
    ) -> FleetResult<ManagedSession> {
        let switched = self.clone().mode_switched(cx.clone(), session_id, mode);
        self.whole("switch permission mode", switched)
    }

    fn start(
        &self,
        cx: &Context,
        session_id: SessionId,
        environment: Option<LaunchEnvironment>,
    ) -> FleetResult<()> {
        let (fleet, cx) = (self.clone(), cx.clone());
        async move {
            let session = fleet.known(&session_id)?;
            let environment = local_environment(&cx, environment);
            fleet.workers.start(&cx, &session, environment).await
        }
        .boxed()
    }

    fn stop(&self, _cx: &Context, session_id: SessionId) -> FleetResult<()> {
        let fleet = self.clone();
        self.whole("stop worker", async move {
            fleet.known(&session_id)?;
            fleet.workers.stop(&session_id).await
        })
    }

    fn begin_copy(&self, _cx: &Context, of: SessionId) -> FleetResult<(SessionId, PathBuf)> {
        let fleet = self.clone();
        self.whole("begin copy", async move {
            let session = fleet.known(&of)?;
            fleet.records.begin_copy(&session).await
        })
    }

    fn place_copy(
        &self,
        cx: &Context,
        of: SessionId,
        session_id: SessionId,
        title: Option<String>,
    ) -> FleetResult<ManagedSession> {
        let (fleet, cx) = (self.clone(), cx.clone());
        self.whole("place copy", async move {
            let session = fleet.known(&of)?;
            fleet
                .records
                .place_copy(&cx, &session, session_id, title)
                .await
        })
    }

    fn abandon_copy(&self, _cx: &Context, of: SessionId, session_id: SessionId) -> FleetResult<()> {
        let fleet = self.clone();
        self.whole("abandon copy", async move {
            fleet.records.abandon_copy(&of, &session_id).await
        })
    }

    fn report_commit(
        &self,
        cx: &Context,
        session_id: SessionId,
        commit: Commit,
    ) -> FleetResult<()> {
        let (fleet, cx) = (self.clone(), cx.clone());
        async move { fleet.committed(&cx, session_id, commit).await }.boxed()
    }

    fn root_of(&self, principal: &Principal) -> Option<SessionId> {
        let target = self.router.worker_target(&principal.client)?;
        Some(self.records.root_of(&SessionId::new(target)))
    }

    fn create_child(
        &self,
        cx: &Context,
        of: SessionId,
        options: CreateManaged,
    ) -> FleetResult<ManagedSession> {
        let begun = self.clone().child_begun(cx.clone(), of, options);
        self.whole("create child", begun)
    }

    fn tree(&self, of: &SessionId) -> Vec<ManagedSession> {
        let root = self.records.root_of(of);
        let mut ids = self.records.descendants(&root);
        ids.insert(0, root);
        ids.iter().filter_map(|id| self.records.get(id)).collect()
    }

    fn claim_child(
        &self,
        cx: &Context,
        of: SessionId,
        session_id: SessionId,
    ) -> FleetResult<ChildLaunch> {
        let (fleet, cx) = (self.clone(), cx.clone());
        async move {
            let session = fleet.in_tree(&of, &session_id)?;
            if fleet.records.root_of(&session_id) == session_id {
                return Err(FleetError::NotAuthorized { session_id });
            }
            fleet.workers.claim_child(&cx, &session).await
        }
        .boxed()
    }

    fn release_child(
        &self,
        of: &SessionId,
        session_id: &SessionId,
        orderly: bool,
        description: &str,
    ) -> Result<(), FleetError> {
        self.in_tree(of, session_id)?;
        let exit = WorkerExit {
            orderly,
            description: shortened(description),
        };
        self.workers.release_child(session_id, exit);
        Ok(())
    }

    fn hosted_children(&self, of: &SessionId, children: &[SessionId]) {
        self.workers
            .hosted_children(&self.records.root_of(of), children);
    }

    fn child_wishes(&self) -> Vec<ChildWish> {
        self.workers.child_wishes()
    }

    fn on_child_wishes(&self, listener: Arc<dyn Fn() + Send + Sync>) -> Subscription {
        self.workers.on_child_wishes(move || listener())
    }

    fn bind(&self, _cx: &Context, client: ClientId, session_id: SessionId) -> FleetResult<()> {
        let fleet = self.clone();
        async move { fleet.bound(&client, session_id) }.boxed()
    }

    fn unbind(&self, _cx: &Context, client: ClientId) -> FleetResult<()> {
        self.detach(&client);
        async { Ok(()) }.boxed()
    }
}
