//! The children of sessions, for the workers that they live in.

use bezel_api_server::{ChildWish, CreateManaged, Fleet, ManagedSession, ServerContext};
use bezel_rpc::{Context, State, StateCell};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{
    ChildEnd, ChildStart, ChildrenState, CreateChild, SessionChildren, SessionError, SessionSummary,
};

use crate::words;

pub(crate) struct ChildrenOfWorkers {
    fleet: Fleet,
    state: StateCell<ChildrenState>,
}

impl ChildrenOfWorkers {
    /// Follows what is wanted until the facet ends.
    pub(crate) fn follow(cx: &ServerContext) -> Self {
        let fleet = cx.fleet.clone();
        let trees = fleet.children.clone();
        // Two workers of one project have the same rights and different trees: each has a view of its own. What
        // is wanted is not the cell's value but asked for, so that there is one owner of it.
        let state = StateCell::projected_to_each(
            ChildrenState::default(),
            move |_: &ChildrenState, principal| match trees.root_of(principal) {
                Some(root) => of_tree(&root, trees.wishes()),
                None => ChildrenState::default(),
            },
        );
        let wanted = state.clone();
        fleet
            .children
            .on_wishes(move || wanted.refresh(&Context::background()));
        ChildrenOfWorkers { fleet, state }
    }

    /// The session whose worker calls; which one, its credential says.
    fn own(&self, cx: &Context) -> Result<ManagedSession, SessionError> {
        self.fleet.managed.of_worker(cx).ok_or_else(|| SessionError::Invalid {
            message: "only a session's own worker hosts its children; begin a child with `create` of session-management and a `parent_id`".into(),
        })
    }
}

fn of_tree(root: &SessionId, mut wishes: Vec<ChildWish>) -> ChildrenState {
    wishes.retain(|wish| wish.root == *root);
    let (unwanted, wanted) = wishes
        .into_iter()
        .partition::<Vec<_>, _>(|wish| wish.release);
    let ids = |wishes: Vec<ChildWish>| wishes.into_iter().map(|wish| wish.session_id).collect();
    ChildrenState {
        wanted: ids(wanted),
        unwanted: ids(unwanted),
    }
}

impl SessionChildren for ChildrenOfWorkers {
    fn state(&self) -> State<ChildrenState> {
        self.state.state()
    }

    async fn create(
        &self,
        cx: &Context,
        options: CreateChild,
    ) -> Result<SessionSummary, SessionError> {
        let own = self.own(cx)?;
        let options = CreateManaged {
            session_id: options.session_id,
            // The parent's counts, whatever stands here.
            owner: own.owner.clone(),
            title: options.title,
            directory: options.directory.unwrap_or_default().into(),
            parent_id: Some(options.parent_id),
            agent: options.agent,
            model: options.model,
            permission_mode: options.permission_mode,
            environment: None,
        };
        let created = self
            .fleet
            .children
            .create(cx, &own.session_id, options)
            .await;
        Ok(words::summary(&created.map_err(words::error)?))
    }

    async fn tree(&self, cx: &Context) -> Result<Vec<SessionSummary>, SessionError> {
        let own = self.own(cx)?.session_id;
        let tree = self.fleet.children.tree(&own);
        Ok(tree.iter().map(words::summary).collect())
    }

    async fn claim(&self, cx: &Context, session_id: SessionId) -> Result<ChildStart, SessionError> {
        let own = self.own(cx)?.session_id;
        let claimed = self.fleet.children.claim(cx, &own, &session_id).await;
        Ok(ChildStart(claimed.map_err(words::error)?.0))
    }

    async fn released(
        &self,
        cx: &Context,
        session_id: SessionId,
        end: ChildEnd,
    ) -> Result<(), SessionError> {
        let own = self.own(cx)?.session_id;
        let ChildEnd {
            orderly,
            description,
        } = end;
        self.fleet
            .children
            .released(&own, &session_id, orderly, &description)
            .map_err(words::error)
    }

    async fn hosted(&self, cx: &Context, children: Vec<SessionId>) -> Result<(), SessionError> {
        let own = self.own(cx)?.session_id;
        self.fleet.children.hosted(&own, &children);
        Ok(())
    }
}
