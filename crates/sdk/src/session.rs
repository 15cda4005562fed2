//! One session of an instance.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use bezel_chat_contract::ChatClient;
use bezel_cli::embed::Joined;
use bezel_context::Context;
use bezel_permissions_contract::{PermissionsClient, Reply};
use bezel_question_contract::{QuestionResponse, QuestionsClient};
use bezel_rewind_contract::{Restored, RewindClient, StageRequest, Staged};
use bezel_rpc::{AttachmentState, ServiceClient};
use bezel_session_types::{InvocationId, SessionId};
use bezel_sessions_contract::{ForkRequest, SessionForkClient, SessionManagementClient};

use crate::bezel::Shared;
use crate::error::Error;
use crate::prompt::Prompt;

/// How long a session's host may take to boot.
const OPENING: Duration = Duration::from_secs(45);

/// A session of an instance. Clones are the same session; it goes on when they are gone, and
/// [`Bezel::open`](crate::Bezel::open) finds it again.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    id: SessionId,
    /// A connection with which this session is selected.
    joined: Joined,
    shared: Arc<Shared>,
}

impl Session {
    pub(crate) async fn open(shared: &Arc<Shared>, id: SessionId) -> Result<Self, Error> {
        let attempt = format!("session {id} was not opened");
        let joined = shared.join().await?;
        let cx = Context::background().with_timeout(OPENING);
        let management: SessionManagementClient = joined.link.server().use_service();
        let attached = management.attach(&cx, id.clone(), Some(shared.environment.clone()));
        attached.await.map_err(|error| refused(&attempt, &error))?;
        let settled = |state: &AttachmentState| !matches!(state, AttachmentState::Attaching { .. });
        let attachment = joined.link.attached().attachment();
        let reason = match attachment.wait_for(&cx, settled).await {
            Ok(state) if state.is_attached() => {
                return Ok(Session(Arc::new(Inner {
                    id,
                    joined,
                    shared: Arc::clone(shared),
                })));
            }
            Ok(_) => "its host ended while it booted; try it again".to_owned(),
            Err(_) => format!("its host did not boot within {} seconds", OPENING.as_secs()),
        };
        Err(refused(&attempt, &reason))
    }

    /// Its id, with which [`Bezel::open`](crate::Bezel::open) and `bezel run --session` find it.
    pub fn id(&self) -> &SessionId {
        &self.0.id
    }

    /// A prompt. It is sent when it is awaited, or when its [`events`](Prompt::events) are asked for.
    pub fn prompt(&self, text: impl Into<String>) -> Prompt {
        Prompt::new(self.clone(), text.into())
    }

    /// Ends what runs in the session, durably. False where nothing does.
    pub async fn interrupt(&self) -> Result<bool, Error> {
        let chat: ChatClient = self.service();
        let ended = chat.interrupt(&Context::background()).await;
        let ended = ended.map_err(|error| self.not("interrupted", &error))?;
        Ok(ended.is_some())
    }

    /// Answers a call that waits for a permission, by its id of the event.
    pub async fn permit(&self, item: &str, reply: Reply) -> Result<(), Error> {
        let permissions: PermissionsClient = self.service();
        let id = InvocationId::new(item);
        let replied = permissions.reply(&Context::background(), id, reply).await;
        replied
            .map(drop)
            .map_err(|error| self.not("given the permission", &error))
    }

    /// Answers a question, by its id of the event.
    pub async fn answer(&self, item: &str, response: QuestionResponse) -> Result<(), Error> {
        let questions: QuestionsClient = self.service();
        let id = InvocationId::new(item);
        let cx = Context::background();
        let answered = questions.submit_answer(&cx, id, response);
        answered
            .await
            .map(drop)
            .map_err(|error| self.not("answered", &error))
    }

    /// Copies the session: the path to an entry of it, or all of its tree, into a new one, which is opened. What runs
    /// here goes on.
    pub async fn fork(&self, request: ForkRequest) -> Result<Session, Error> {
        let fork: SessionForkClient = self.service();
        let forked = fork.fork(&Context::background(), request).await;
        let forked = forked.map_err(|error| self.not("forked", &error))?;
        Session::open(&self.0.shared, forked.session_id).await
    }

    /// Puts the files that the agent changed back to how they were before a message, and lets the conversation go
    /// along when that is kept. Refused while something runs.
    pub async fn rewind_stage(&self, request: StageRequest) -> Result<Staged, Error> {
        let rewind: RewindClient = self.service();
        let staged = rewind.stage(&Context::background(), request).await;
        staged.map_err(|error| self.not("rewound", &error))
    }

    /// Brings back what the files were before they were staged; with `force` also those that were edited since.
    pub async fn rewind_clear(&self, force: bool) -> Result<Restored, Error> {
        let rewind: RewindClient = self.service();
        let cleared = rewind.clear(&Context::background(), force).await;
        cleared.map_err(|error| self.not("brought back", &error))
    }

    /// Keeps the files as staged.
    pub async fn rewind_commit(&self) -> Result<Restored, Error> {
        let rewind: RewindClient = self.service();
        let kept = rewind.commit(&Context::background()).await;
        kept.map_err(|error| self.not("kept as it was rewound", &error))
    }

    /// A service of the session, by its contract: whatever has no method here.
    pub fn service<C: ServiceClient>(&self) -> C {
        self.0.joined.link.attached().use_service()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Selects it no more.
    pub(crate) async fn leave(self) {
        if let Some(inner) = Arc::into_inner(self.0) {
            inner.joined.leave().await;
        }
    }

    fn not(&self, what: &str, error: &dyn Display) -> Error {
        refused(&format!("session {} was not {what}", self.0.id), error)
    }
}

pub(crate) fn refused(attempt: &str, reason: &dyn Display) -> Error {
    Error::Session {
        attempt: attempt.to_owned(),
        reason: reason.to_string(),
    }
}
