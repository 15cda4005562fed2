//! Sessions that are parts of others: a tree of them lives in the worker of its root.

use std::fmt;
use std::sync::Arc;

use bezel_context::{Context, Principal};
use bezel_plugin::FacetScope;
use bezel_session_types::SessionId;
use serde_json::Value;

use crate::host::FleetBackend;
use crate::{CreateManaged, FleetError, ManagedSession};

/// The children of sessions, as far as a facet has them. Every call says which session of a tree makes it, and
/// reaches that tree alone.
#[derive(Clone)]
pub struct Children {
    pub(crate) backend: Arc<dyn FleetBackend>,
    pub(crate) scope: FacetScope,
}

/// What the host of a child is told. Holds a credential; its debug form hides it.
#[derive(Clone, PartialEq)]
pub struct ChildLaunch(pub Value);

impl fmt::Debug for ChildLaunch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ChildLaunch(hidden)")
    }
}

/// A child that its tree's worker is to take up or to let go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildWish {
    /// Which child.
    pub session_id: SessionId,
    /// The root of its tree.
    pub root: SessionId,
    /// Whether it is to be let go.
    pub release: bool,
}

impl Children {
    /// The root of the tree whose worker the principal is; `None` for everybody else.
    pub fn root_of(&self, principal: &Principal) -> Option<SessionId> {
        self.backend.root_of(principal)
    }

    /// Records a child of a session in the tree of `of`. What the options leave open is as it is of the parent;
    /// the owner is always that one's. Launches nothing.
    pub async fn create(
        &self,
        cx: &Context,
        of: &SessionId,
        options: CreateManaged,
    ) -> Result<ManagedSession, FleetError> {
        self.backend.create_child(cx, of.clone(), options).await
    }

    /// All sessions of the tree of `of`, parents before their children.
    pub fn tree(&self, of: &SessionId) -> Vec<ManagedSession> {
        self.backend.tree(of)
    }

    /// Takes a child of the tree of `of` up: resolves with what its host is to be told.
    pub async fn claim(
        &self,
        cx: &Context,
        of: &SessionId,
        session_id: &SessionId,
    ) -> Result<ChildLaunch, FleetError> {
        self.backend
            .claim_child(cx, of.clone(), session_id.clone())
            .await
    }

    /// A child of the tree of `of` is hosted no more; `description` is the rest of a sentence.
    pub fn released(
        &self,
        of: &SessionId,
        session_id: &SessionId,
        orderly: bool,
        description: &str,
    ) -> Result<(), FleetError> {
        self.backend
            .release_child(of, session_id, orderly, description)
    }

    /// Those and no others of the children that were claimed are hosted now.
    pub fn hosted(&self, of: &SessionId, children: &[SessionId]) {
        self.backend.hosted_children(of, children);
    }

    /// What is wanted of all trees.
    pub fn wishes(&self) -> Vec<ChildWish> {
        self.backend.child_wishes()
    }

    /// Calls `listener` whenever the wishes change, until the facet ends. It must not wait.
    pub fn on_wishes(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.scope
            .own(self.backend.on_child_wishes(Arc::new(listener)));
    }
}
