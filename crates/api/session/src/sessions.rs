//! All sessions within reach of one session: the records of any, actions on those of its own tree.
//!
//! Records are the server's and are read and changed there, whether a worker runs or not. What runs belongs to a
//! worker: a session and what it began live in one process, and an action on a session that is not of this tree
//! answers that there is no such session. Copying a session and rewinding it are done by services of the session
//! itself, and are asked of those, as a presentation asks: each has one owner.

mod asking;
mod error;
mod own_services;
mod records;

use std::sync::Arc;

use bezel_context::Context;
use bezel_rpc::{ConnectionState, Remote, State};
use bezel_session_types::{
    CommandId, Delivery, Entry, EntryBody, Message, NextRequest, OperationId, SessionId,
    UserMessage,
};
use bezel_sessions_contract::{
    SessionChildrenClient, SessionDirectoryClient, SessionManagementClient,
};
use tokio::sync::watch;

pub use self::asking::ask;
pub use self::error::SessionsError;
use crate::agent::{Admission, Lane, LaneError, Outcome};
use crate::backend::TreeBackend;
use crate::events::AgentEventReceiver;
use crate::opening::{Opening, ToCome};

/// Entries that are looked at for the last words of a session.
const LOOKED_AT: usize = 64;

/// The sessions, for one facet, usable from its setup on.
///
/// What is asked of the server is answered while facets are still being set up: the connection does not wait for
/// them. A call waits for the connection, and is made again where that was lost before the answer: each may be made
/// twice.
///
/// What acts on a session needs one whose facets are active. While those of its own session are not, a facet acts
/// on sessions of this process that are, and has none taken up: it is told [`SessionsError::NotActive`] at once,
/// where waiting would keep its own session from ever becoming active. A task that is started in a setup waits for
/// [`Sessions::until_active`].
#[derive(Clone)]
pub struct Sessions {
    own: SessionId,
    tree: Arc<dyn TreeBackend>,
    pub(crate) opening: Opening,
    connection: State<ConnectionState>,
    children: SessionChildrenClient,
    directory: SessionDirectoryClient,
    management: SessionManagementClient,
}

/// A session that lives in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedSession {
    /// Its id.
    pub session_id: SessionId,
    /// The session that began it; none for the root.
    pub parent_id: Option<SessionId>,
    /// Which host of this process it is: one that is taken up again has another number.
    pub number: u64,
}

impl Sessions {
    pub(crate) fn new(
        own: SessionId,
        tree: Arc<dyn TreeBackend>,
        opening: Opening,
        server: &Remote,
        connection: State<ConnectionState>,
    ) -> Self {
        Sessions {
            own,
            tree,
            opening,
            connection,
            children: server.use_service(),
            directory: server.use_service(),
            management: server.use_service(),
        }
    }

    /// The session that this facet belongs to.
    pub fn own(&self) -> &SessionId {
        &self.own
    }

    /// The text of the newest answer of a session; none where it has not answered with text. Starts nothing.
    pub async fn final_text(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<Option<String>, SessionsError> {
        let messages: Vec<Message> = match self.tree.hosted(session_id) {
            Some(agent) => {
                let (entries, _) = agent.recent(None, LOOKED_AT).await?;
                let message = |entry: Entry| match entry.body {
                    EntryBody::Message { message } => Some(Arc::unwrap_or_clone(message)),
                    _ => None,
                };
                entries.into_iter().filter_map(message).collect()
            }
            None => self.messages(cx, session_id, LOOKED_AT as u32).await?,
        };
        let mut answers = messages.iter().rev().filter_map(|message| match message {
            Message::Assistant(answer) => Some(answer.to_text()),
            _ => None,
        });
        Ok(answers.find(|text| !text.trim().is_empty()))
    }

    /// Admits a message to a session of this tree durably, then starts or joins its run; takes the session up
    /// where it is not. The same command id with the same message adds nothing.
    pub async fn prompt(
        &self,
        cx: &Context,
        session_id: &SessionId,
        command_id: CommandId,
        message: UserMessage,
        delivery: Delivery,
    ) -> Result<Admission, SessionsError> {
        let lane = self.lane(cx, session_id).await?;
        Ok(lane.prompt(cx, command_id, message, delivery).await?)
    }

    /// The same, and starts nothing for it: it enters with the next run, or when somebody resumes.
    pub async fn record(
        &self,
        cx: &Context,
        session_id: &SessionId,
        command_id: CommandId,
        message: UserMessage,
        delivery: Delivery,
    ) -> Result<Admission, SessionsError> {
        let lane = self.lane(cx, session_id).await?;
        Ok(lane.record(cx, command_id, message, delivery).await?)
    }

    /// Starts what waits in a session of this tree, or goes on with what a crash left open. False where there is
    /// nothing.
    pub async fn resume(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<bool, SessionsError> {
        Ok(self.lane(cx, session_id).await?.resume(cx).await?)
    }

    /// Waits until nothing runs in a session of this tree and nothing follows. Starts nothing: one that is not
    /// taken up runs nothing. A tool that waits so for its own session waits for itself.
    pub async fn wait(&self, cx: &Context, session_id: &SessionId) -> Result<(), SessionsError> {
        match self.hosted_lane(cx, session_id).await? {
            Some(lane) => Ok(lane.wait_idle(cx).await.map_err(|_| LaneError::Cancelled)?),
            None => Ok(()),
        }
    }

    /// Waits until an operation of a session of this tree has ended. Starts nothing but the session.
    pub async fn outcome(
        &self,
        cx: &Context,
        session_id: &SessionId,
        operation: &OperationId,
    ) -> Result<Outcome, SessionsError> {
        Ok(self.lane(cx, session_id).await?.wait(cx, operation).await?)
    }

    /// Ends what runs in a session of this tree, durably, and says which operation that was; none while it is
    /// idle or not taken up.
    pub async fn interrupt(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<Option<OperationId>, SessionsError> {
        match self.hosted_lane(cx, session_id).await? {
            Some(lane) => Ok(lane.interrupt(cx).await?),
            None => Ok(None),
        }
    }

    /// Summarises the conversation of a session of this tree for the model.
    pub async fn compact(
        &self,
        cx: &Context,
        session_id: &SessionId,
        instructions: Option<String>,
    ) -> Result<Admission, SessionsError> {
        let lane = self.lane(cx, session_id).await?;
        Ok(lane.compact(cx, instructions).await?)
    }

    /// The sessions of this tree in which something runs now.
    pub fn active(&self) -> Vec<SessionId> {
        let hosted = self.tree.members().borrow().clone();
        let runs = |session: &&HostedSession| {
            let agent = self.tree.hosted(&session.session_id);
            agent.is_some_and(|agent| !agent.main().activity().borrow().is_idle())
        };
        let active = hosted.iter().filter(runs);
        active.map(|session| session.session_id.clone()).collect()
    }

    /// The sessions of this tree that live in this process, now and from now on.
    pub fn hosted(&self) -> watch::Receiver<Arc<[HostedSession]>> {
        self.tree.members()
    }

    /// What happens in a hosted session from now on; none where it is not hosted.
    pub fn events(&self, session_id: &SessionId) -> Option<AgentEventReceiver> {
        let agent = self.tree.hosted(session_id)?;
        Some(AgentEventReceiver::new(agent.subscribe()))
    }

    /// The main lane of a session of this tree, which is taken up where it is not.
    pub async fn lane(&self, cx: &Context, session_id: &SessionId) -> Result<Lane, SessionsError> {
        let agent = self.tree.ensure(cx, &self.own, session_id).await?;
        Ok(Lane(agent.main()))
    }

    /// What the model would be sent in a session of this tree now, which is taken up where it is not.
    pub async fn next_request(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<NextRequest, SessionsError> {
        Ok(self.lane(cx, session_id).await?.next_request(cx).await?)
    }

    /// The services of a hosted session, as a presentation that has it open uses them; none where it is not
    /// hosted now.
    pub fn services(&self, session_id: &SessionId) -> Option<Remote> {
        self.tree.services(session_id)
    }

    /// Waits until the facets of this facet's own session are active, and what acts on sessions can be done.
    pub async fn until_active(&self, cx: &Context) -> Result<(), SessionsError> {
        self.tree.until_active(cx, &self.own).await
    }

    /// Says in a setup that a child of this session is to be taken up again: the session is shown to nobody before
    /// what this returns is dropped, so that what the child asks is among what the session asks. That has a bound:
    /// a child that does not come is not waited for without end.
    pub fn taking_up(&self) -> ToCome {
        self.opening.child()
    }

    /// The lane of a session of this tree, where it is taken up.
    async fn hosted_lane(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<Option<Lane>, SessionsError> {
        match self.tree.hosted(session_id) {
            Some(agent) => Ok(Some(Lane(agent.main()))),
            None => {
                // Not hosted, and perhaps not of this tree at all.
                self.children(cx, session_id).await?;
                Ok(None)
            }
        }
    }
}
