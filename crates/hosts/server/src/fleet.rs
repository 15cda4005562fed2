//! Records, workers and attachments behind the facets' handles.

use std::path::PathBuf;
use std::sync::Arc;

use bezel_api_server::host::{ChangeListener, FleetBackend, FleetResult, Subscription};
use bezel_api_server::{
    AccessRequest, AuthorizationDraft, ChildLaunch, ChildWish, Commit, CreateManaged, FleetError,
    LaunchEnvironment, ManagedSession, Workspace,
};
use bezel_context::{ClientId, Context, Principal, Spawner, WorkspaceId, Workspaces};
use bezel_plugin::Registry;
use bezel_rpc::Router;
use bezel_session_types::{ModelRef, PermissionMode, SessionId, ThinkingLevel};
use futures::FutureExt;

use crate::WorkerExit;
use crate::blocking::blocking;
use crate::records::{OUTSIDE, Records, checked_agent, checked_title, shortened};
use crate::workers::Workers;
use crate::workspace::Location;

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

    /// A client that has gone is detached already.
    fn detach(&self, client: &ClientId) {
        if let Err(error) = self.router.unbind(client) {
            tracing::debug!(%client, %error, "nobody to detach");
        }
    }

    async fn locate(directory: PathBuf) -> Result<Location, FleetError> {
        let shown = directory.display().to_string();
        let located = blocking(move || Location::of(&directory)).await;
        located.map_err(|error| FleetError::Directory {
            directory: shown,
            reason: error.reason,
        })
    }

    /// Where a principal means. One that is bound to workspaces names a place inside them, from the root
    /// of its only one on where the path is relative; it learns nothing of what lies outside.
    pub(crate) async fn locate_for(
        &self,
        principal: Option<&Principal>,
        directory: PathBuf,
    ) -> Result<Location, FleetError> {
        let shown = directory.display().to_string();
        let wrong = |reason: &str| FleetError::Directory {
            directory: shown.clone(),
            reason: reason.into(),
        };
        let Some(Workspaces::Only(reachable)) = principal.map(|principal| &principal.workspaces)
        else {
            if directory.as_os_str().is_empty() {
                return Err(FleetError::Directory {
                    directory: "a directory that nobody named".into(),
                    reason: "name one of the server's machine (`--cwd`), from the root on".into(),
                });
            }
            return Self::locate(directory).await;
        };
        let roots: Vec<PathBuf> = reachable
            .iter()
            .filter_map(|workspace| self.records.root(workspace))
            .collect();
        let directory = match roots.as_slice() {
            [root] if directory.is_relative() => root.join(directory),
            _ => directory,
        };
        let located = Self::locate(directory).await;
        let directory = located.map_err(|_| wrong(OUTSIDE))?.directory;
        let around = roots.into_iter().filter(|root| directory.starts_with(root));
        let root = around.max_by_key(|root| root.as_os_str().len());
        // Its workspace, whatever lies between: a repository inside is a part of it.
        let root = root.ok_or_else(|| wrong(OUTSIDE))?;
        Ok(Location { directory, root })
    }

    /// The same for who only looks: to one that is bound there is nothing outside its workspaces.
    async fn look_for(
        &self,
        cx: &Context,
        directory: PathBuf,
    ) -> Result<Option<Location>, FleetError> {
        let principal = cx.principal().map(AsRef::as_ref);
        let bound =
            principal.is_some_and(|principal| matches!(principal.workspaces, Workspaces::Only(_)));
        match self.locate_for(principal, directory).await {
            Err(_) if bound => Ok(None),
            located => located.map(Some),
        }
    }

    async fn created(
        self,
        cx: Context,
        options: CreateManaged,
    ) -> Result<ManagedSession, FleetError> {
        let environment = local_environment(&cx, options.environment.clone());
        let asked = options.session_id.as_ref();
        let was_there = asked.is_some_and(|asked| self.records.get(asked).is_some());
        let session = self.recorded(&cx, options).await?;
        if was_there {
            return Ok(session);
        }
        let launched = self
            .workers
            .launch(&Context::background(), &session, environment)
            .await;
        if let Err(error) = launched {
            // Nobody has been told of the session: it was not created.
            self.records.delete(&cx, &session.session_id).await?;
            return Err(error);
        }
        self.known(&session.session_id)
    }

    /// Records a new session, or finds the one that was asked for before.
    async fn recorded(
        &self,
        cx: &Context,
        mut options: CreateManaged,
    ) -> Result<ManagedSession, FleetError> {
        if let Some(parent) = options.parent_id.clone() {
            self.inherit(cx, &parent, &mut options)?;
        }
        let shown = options.directory.display().to_string();
        let location = self
            .locate_for(cx.principal().map(AsRef::as_ref), options.directory.clone())
            .await?;
        let owner = options.owner.clone();
        if let Some(asked) = &options.session_id
            && let Some(session) = self.records.get(asked)
        {
            // Asked for again: what came of it the first time.
            let principal = cx.principal();
            let own = session.owner == owner
                && principal.is_none_or(|principal| self.within_reach(principal, asked).is_ok());
            return match own {
                true => Ok(session),
                false => Err(FleetError::NotAuthorized {
                    session_id: asked.clone(),
                }),
            };
        }
        let may_use = |workspace: &WorkspaceId| match cx.principal() {
            Some(principal) => self.may_reach(principal, &owner, workspace, None),
            None => true,
        };
        let session = self.records.create(cx, options, location, may_use).await;
        // As it was given: what it leads to on this machine is not told.
        let session = session.map_err(|error| match error {
            FleetError::Directory { reason, .. } => FleetError::Directory {
                directory: shown,
                reason,
            },
            other => other,
        })?;
        if let Some(parent) = &session.parent_id
            && self.records.is_archived(parent)
        {
            // Nobody lists a child under a parent that is put away.
            self.records.unarchive(cx, &session.session_id).await?;
        }
        Ok(session)
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

    /// What nobody said of a child is as it is of its parent.
    fn inherit(
        &self,
        cx: &Context,
        parent: &SessionId,
        options: &mut CreateManaged,
    ) -> Result<(), FleetError> {
        let parent = match cx.principal() {
            Some(principal) => self.within_reach(principal, parent)?,
            None => self.known(parent)?,
        };
        if parent.owner != options.owner {
            return Err(FleetError::NotAuthorized {
                session_id: parent.session_id,
            });
        }
        if options.directory.as_os_str().is_empty() {
            options.directory = parent.directory;
        }
        let within = parent.permission_mode;
        let asked = options.permission_mode.unwrap_or(within);
        options.permission_mode = Some(asked.min(within));
        options.agent = options.agent.take().or(parent.agent);
        options.model = options.model.take().or(parent.model);
        Ok(())
    }

    /// A session goes with all that it began: its children first, so that what is left after a crash is whole.
    async fn removed(self, cx: Context, session_id: SessionId) -> Result<(), FleetError> {
        for child in self.records.descendants(&session_id).into_iter().rev() {
            self.removed_alone(&cx, child).await?;
        }
        self.removed_alone(&cx, session_id).await
    }

    async fn removed_alone(&self, cx: &Context, session_id: SessionId) -> Result<(), FleetError> {
        self.known(&session_id)?;
        self.workers.remove(&session_id).await?;
        for client in self.router.clients_of(session_id.as_str()) {
            self.detach(&client);
        }
        let deleted = self.records.delete(cx, &session_id).await;
        self.workers.forget(&session_id);
        deleted?;
        let (launcher, id) = (self.workers.launcher(), session_id.clone());
        blocking(move || launcher.forget(&id)).await.map_err(|error| {
            FleetError::Storage(format!(
                "session {session_id} is deleted, and what its commands left in the temporary directory is not: {error}"
            ))
        })
    }
}

/// Variables of the owner's own clients alone: those of another machine mean nothing here, or harm.
fn local_environment(
    cx: &Context,
    environment: Option<LaunchEnvironment>,
) -> Option<LaunchEnvironment> {
    let paired = |principal: &Arc<Principal>| principal.credential.is_some();
    environment.filter(|_| !cx.principal().is_some_and(paired))
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

    fn workspace(&self, cx: &Context, directory: PathBuf) -> FleetResult<Option<Workspace>> {
        let (fleet, cx) = (self.clone(), cx.clone());
        async move {
            let Some(location) = fleet.look_for(&cx, directory).await? else {
                return Ok(None);
            };
            let found = fleet.records.workspace(&location.root);
            Ok(found.filter(|found| {
                cx.principal().is_some_and(|principal| {
                    fleet.may_reach(principal, &fleet.owner, &found.workspace_id, None)
                })
            }))
        }
        .boxed()
    }

    fn register(&self, cx: &Context, directory: PathBuf) -> FleetResult<Workspace> {
        let (fleet, cx) = (self.clone(), cx.clone());
        self.whole("register workspace", async move {
            let principal = cx.principal().map(AsRef::as_ref);
            let location = fleet.locate_for(principal, directory).await?;
            let owner = Arc::clone(&fleet.owner);
            let may_use = |workspace: &WorkspaceId| {
                cx.principal()
                    .is_some_and(|principal| fleet.may_reach(principal, &owner, workspace, None))
            };
            fleet.records.register(location, may_use).await
        })
    }

    fn in_directory(&self, cx: &Context, directory: PathBuf) -> FleetResult<Vec<ManagedSession>> {
        let (fleet, cx) = (self.clone(), cx.clone());
        async move {
            let Some(location) = fleet.look_for(&cx, directory).await? else {
                return Ok(Vec::new());
            };
            let mut there = fleet.records.in_directory(&location.directory);
            there.retain(|session| {
                cx.principal()
                    .is_some_and(|principal| fleet.reaches(principal, session))
            });
            Ok(there)
        }
        .boxed()
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
        let (records, cx) = (self.records.clone(), cx.clone());
        self.whole("switch permission mode", async move {
            let known = |id: &SessionId| records.get(id);
            let parent = known(&session_id).and_then(|session| known(&session.parent_id?));
            if let Some(parent) = parent.filter(|parent| parent.permission_mode < mode) {
                return Err(FleetError::Invalid(format!(
                    "a session may do no more unasked than the one that began it, which is in mode {}; widen that one's first",
                    parent.permission_mode.as_str()
                )));
            }
            // What it began first: a crash leaves nothing wider than what it is a part of.
            for child in records.descendants(&session_id) {
                let narrow = |record: &mut crate::records::Record| {
                    record.permission_mode = record.permission_mode.min(mode);
                };
                records.update(&cx, &child, narrow).await?;
            }
            let change = |record: &mut crate::records::Record| record.permission_mode = mode;
            records.update(&cx, &session_id, change).await
        })
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
        let title = commit
            .title
            .as_deref()
            .map(shortened)
            .filter(|title| !title.is_empty());
        async move {
            let session = fleet.known(&session_id)?;
            let touched = fleet.records.commit(&cx, &session_id, &commit);
            if commit.running && fleet.records.is_archived(&session_id) {
                // Nothing runs out of sight.
                let (records, cx, id) = (fleet.records.clone(), cx.clone(), session_id.clone());
                let taken_back = async move { records.unarchive(&cx, &id).await.map(|_| ()) };
                fleet.whole("take session back", taken_back).await?;
            }
            let (records, id) = (fleet.records.clone(), session_id.clone());
            match title.filter(|_| session.title.is_empty()) {
                Some(title) => {
                    let titled = async move {
                        let change = |record: &mut crate::records::Record| {
                            if record.title.is_empty() {
                                record.title.clone_from(&title);
                            }
                        };
                        records.update(&cx, &id, change).await.map(|_| ())
                    };
                    fleet.whole("title session", titled).await
                }
                // The time of the last change is worth no wait: the next change writes it again.
                None if touched => {
                    drop(fleet.spawner.spawn("touch session", async move {
                        if let Err(error) = records.persist(&id).await {
                            tracing::warn!(session = %id, %error, "the time of a session's last change is not on record");
                        }
                    }));
                    Ok(())
                }
                None => Ok(()),
            }
        }
        .boxed()
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
        let (fleet, cx) = (self.clone(), cx.clone());
        self.whole("create child", async move {
            let parent = options.parent_id.clone().unwrap_or_else(|| of.clone());
            let parent = fleet.in_tree(&of, &parent)?;
            let options = CreateManaged {
                parent_id: Some(parent.session_id),
                owner: parent.owner,
                environment: None,
                ..options
            };
            fleet.recorded(&cx, options).await
        })
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
        async move {
            let refused = |reason: &str| FleetError::Client {
                client: client.clone(),
                reason: reason.into(),
            };
            let principal = fleet.router.principal_of(&client);
            let principal =
                principal.ok_or_else(|| refused("no presentation is connected under this id"))?;
            fleet.within_reach(&principal, &session_id)?;
            let bound = fleet.router.bind(&client, session_id.as_str());
            let bound = bound.map_err(|error| refused(&error.to_string()))?;
            if bound.incarnation.is_none() && !fleet.router.is_connected(session_id.as_str()) {
                // Nobody would start a worker for it: the client would wait for ever.
                fleet.detach(&client);
                return Err(FleetError::Worker {
                    session_id,
                    reason: "was lost while it was opened; open the session again".into(),
                });
            }
            Ok(())
        }
        .boxed()
    }

    fn unbind(&self, _cx: &Context, client: ClientId) -> FleetResult<()> {
        self.detach(&client);
        async { Ok(()) }.boxed()
    }
}
