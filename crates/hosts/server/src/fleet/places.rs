//! Where a principal means, and which workspace that is.

use std::path::PathBuf;

use bezel_api_server::{FleetError, ManagedSession, Workspace};
use bezel_context::{Context, Principal, WorkspaceId, Workspaces};

use super::HostFleet;
use crate::blocking::blocking;
use crate::records::OUTSIDE;
use crate::workspace::Location;

impl HostFleet {
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

    /// The registered workspace of a directory, where it is within reach.
    pub(super) async fn workspace_at(
        &self,
        cx: &Context,
        directory: PathBuf,
    ) -> Result<Option<Workspace>, FleetError> {
        let Some(location) = self.look_for(cx, directory).await? else {
            return Ok(None);
        };
        let found = self.records.workspace(&location.root);
        Ok(found.filter(|found| self.may_use(cx, &found.workspace_id)))
    }

    /// The workspace of a directory, registered where it is new.
    pub(super) async fn registered(
        self,
        cx: Context,
        directory: PathBuf,
    ) -> Result<Workspace, FleetError> {
        let principal = cx.principal().map(AsRef::as_ref);
        let location = self.locate_for(principal, directory).await?;
        let may_use = |workspace: &WorkspaceId| self.may_use(&cx, workspace);
        self.records.register(location, may_use).await
    }

    /// The sessions of a directory that are within reach.
    pub(super) async fn sessions_in(
        &self,
        cx: &Context,
        directory: PathBuf,
    ) -> Result<Vec<ManagedSession>, FleetError> {
        let Some(location) = self.look_for(cx, directory).await? else {
            return Ok(Vec::new());
        };
        let mut there = self.records.in_directory(&location.directory);
        there.retain(|session| {
            let principal = cx.principal();
            principal.is_some_and(|principal| {
                let of = Some(&session.session_id);
                self.may_reach(principal, &session.owner, &session.workspace_id, of)
            })
        });
        Ok(there)
    }

    fn may_use(&self, cx: &Context, workspace: &WorkspaceId) -> bool {
        cx.principal()
            .is_some_and(|principal| self.may_reach(principal, &self.owner, workspace, None))
    }
}
