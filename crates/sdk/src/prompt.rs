//! One prompt, from its text to its answer.

use std::future::IntoFuture;
use std::io;
use std::sync::Arc;

use bezel_cli::embed::{Joined, STAND_IN};
use bezel_context::{Context, Task};
use bezel_host_headless::{
    Choice, EndStatus, HeadlessOptions, PermissionAsked, Printer, QuestionChoice, RunEvent, run,
};
use bezel_permissions_contract::Reply;
use bezel_question_contract::QuestionResponse;
use bezel_session_types::{OperationId, SessionId};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::error::{Error, PromptError};
use crate::session::Session;

type OnPermission = Arc<dyn Fn(PermissionAsk) -> BoxFuture<'static, Reply> + Send + Sync>;
type OnQuestion = Arc<dyn Fn(Question) -> BoxFuture<'static, QuestionResponse> + Send + Sync>;

/// A prompt that is not sent yet. Awaiting it sends it and gives the [`Answer`].
///
/// Where the agent needs a permission or asks a question and the prompt says nothing about who answers, the turn
/// is interrupted and the error names what was asked. Dropping the future leaves the turn going on;
/// [`Session::interrupt`] ends it.
#[must_use = "a prompt is sent when it is awaited"]
pub struct Prompt {
    session: Session,
    text: String,
    on_permission: Option<OnPermission>,
    on_question: Option<OnQuestion>,
    /// Where events go besides; whoever takes them answers what is asked.
    events: Option<UnboundedSender<RunEvent>>,
}

/// A call that needs a permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionAsk {
    /// The prompt's session; the call may be of one that it began for a part of the work.
    pub session: SessionId,
    /// The tool that is called.
    pub tool: String,
    /// What it needs a permission for, and why.
    pub asked: Vec<PermissionAsked>,
}

/// A question of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Markdown.
    pub question: String,
    /// What can be chosen, in order. Something else can always be answered.
    pub options: Vec<QuestionChoice>,
}

/// What a prompt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    text: String,
    operation: Option<OperationId>,
}

impl Answer {
    /// The text of the last answer, Markdown; empty where the model said nothing.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text, for keeping.
    pub fn into_text(self) -> String {
        self.text
    }

    /// The turn that answered.
    pub fn operation_id(&self) -> Option<&OperationId> {
        self.operation.as_ref()
    }
}

impl Prompt {
    pub(crate) fn new(session: Session, text: String) -> Self {
        Prompt {
            session,
            text,
            on_permission: None,
            on_question: None,
            events: None,
        }
    }

    /// Who answers calls that need a permission.
    pub fn on_permission<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(PermissionAsk) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Reply> + Send + 'static,
    {
        self.on_permission = Some(Arc::new(move |ask| answer(ask).boxed()));
        self
    }

    /// Who answers questions.
    pub fn on_question<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(Question) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = QuestionResponse> + Send + 'static,
    {
        self.on_question = Some(Arc::new(move |question| answer(question).boxed()));
        self
    }

    /// Sends it and gives what happens, as it happens. What is asked waits for [`Session::permit`] and
    /// [`Session::answer`], unless the prompt says who answers.
    pub fn events(mut self) -> Events {
        let (sender, receiver) = unbounded_channel();
        self.events = Some(sender);
        let spawner = self.session.shared().spawner.clone();
        let answer = spawner.spawn("a prompt of the program", self.play());
        Events { receiver, answer }
    }

    async fn play(self) -> Result<Answer, PromptError> {
        let joined = self.session.shared().join().await.map_err(lost)?;
        let played = self.follow(&joined).await;
        joined.leave().await;
        played
    }

    async fn follow(&self, joined: &Joined) -> Result<Answer, PromptError> {
        let (press, mut presses) = unbounded_channel();
        let (tell, mut told) = unbounded_channel();
        let mut take = move |event| {
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            tell.send(event).map_err(gone)
        };
        let mut printer = Printer::Each(&mut take);
        let cx = Context::background();
        let running = run(
            &cx,
            &joined.link,
            self.options(),
            &mut presses,
            &mut printer,
        );
        tokio::pin!(running);
        let mut replies = FuturesUnordered::new();
        let mut answer = Answer {
            text: String::new(),
            operation: None,
        };
        let mut stopped = None;
        let outcome = loop {
            tokio::select! {
                biased;
                Some(event) = told.recv() => self.take(event, &mut answer, &mut replies, &mut stopped, &press),
                Some(replied) = replies.next() => {
                    if let Err(error) = replied {
                        stop(&mut stopped, PromptError::Failed(Error::to_string(&error)), &press);
                    }
                }
                outcome = &mut running => break outcome,
            }
        };
        while let Ok(event) = told.try_recv() {
            self.take(event, &mut answer, &mut replies, &mut stopped, &press);
        }
        if let Some(error) = stopped {
            return Err(error);
        }
        let outcome = outcome.map_err(|error| PromptError::Failed(error.to_string()))?;
        let said = outcome
            .error
            .unwrap_or_else(|| "the log may say why".to_owned());
        match outcome.status {
            EndStatus::Done => Ok(answer),
            EndStatus::Failed => Err(PromptError::Failed(said)),
            EndStatus::NoModel => Err(PromptError::NoModel(said)),
            EndStatus::Usage => Err(PromptError::Refused(said)),
            EndStatus::Interrupted => Err(PromptError::Interrupted),
        }
    }

    fn options(&self) -> HeadlessOptions {
        HeadlessOptions {
            prompt: self.text.clone(),
            pictures: Vec::new(),
            choice: Choice::Id(self.session.id().to_string()),
            // It is the session's own.
            directory: String::new(),
            environment: self.session.shared().environment.clone(),
            switch_model: None,
            stand_in: Some(STAND_IN.to_owned()),
            unreachable: false,
        }
    }

    /// Looks at an event, sees to it that what it asks is answered, and passes it on.
    fn take(
        &self,
        event: RunEvent,
        answer: &mut Answer,
        replies: &mut FuturesUnordered<BoxFuture<'static, Result<(), Error>>>,
        stopped: &mut Option<PromptError>,
        press: &UnboundedSender<()>,
    ) {
        let session = self.session.clone();
        match &event {
            RunEvent::Prompt { operation_id } => answer.operation = Some(operation_id.clone()),
            RunEvent::End { text, .. } => answer.text = text.clone().unwrap_or_default(),
            RunEvent::Permission {
                item,
                session_id,
                tool,
                asked,
                ..
            } => match &self.on_permission {
                Some(on_permission) => {
                    let reply = on_permission(PermissionAsk {
                        session: session_id.clone(),
                        tool: tool.clone(),
                        asked: asked.clone(),
                    });
                    let item = item.clone();
                    let replied = async move { session.permit(&item, reply.await).await };
                    replies.push(replied.boxed());
                }
                None if self.events.is_none() => {
                    let needs = PromptError::NeedsPermission {
                        tool: tool.clone(),
                        asked: asked.clone(),
                        session: session_id.clone(),
                    };
                    stop(stopped, needs, press);
                }
                None => {}
            },
            RunEvent::Question {
                item,
                session_id,
                question,
                options,
            } => match &self.on_question {
                Some(on_question) => {
                    let response = on_question(Question {
                        question: question.clone(),
                        options: options.clone(),
                    });
                    let item = item.clone();
                    let answered = async move { session.answer(&item, response.await).await };
                    replies.push(answered.boxed());
                }
                None if self.events.is_none() => {
                    let needs = PromptError::NeedsAnswer {
                        question: question.clone(),
                        session: session_id.clone(),
                    };
                    stop(stopped, needs, press);
                }
                None => {}
            },
            _ => {}
        }
        if let Some(events) = &self.events
            && events.send(event).is_err()
        {
            tracing::debug!("nobody takes the events of a prompt any more");
        }
    }
}

/// Interrupts the turn and keeps why; the first reason stays.
fn stop(stopped: &mut Option<PromptError>, why: PromptError, press: &UnboundedSender<()>) {
    if stopped.is_none() {
        *stopped = Some(why);
        if press.send(()).is_err() {
            tracing::debug!("the turn has ended already");
        }
    }
}

fn lost(error: Error) -> PromptError {
    PromptError::Connection(match error {
        Error::Connection(reason) => reason,
        other => other.to_string(),
    })
}

impl IntoFuture for Prompt {
    type Output = Result<Answer, PromptError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.play().boxed()
    }
}

/// What happens while a prompt is answered.
pub struct Events {
    receiver: UnboundedReceiver<RunEvent>,
    answer: Task<Result<Answer, PromptError>>,
}

impl Events {
    /// The next event; none after the last.
    pub async fn next(&mut self) -> Option<RunEvent> {
        self.receiver.recv().await
    }

    /// The answer; passes over events that were not taken.
    pub async fn answer(self) -> Result<Answer, PromptError> {
        match self.answer.await {
            Some(Ok(answered)) => answered,
            Some(Err(error)) => Err(PromptError::Failed(error.to_string())),
            None => Err(PromptError::Connection("they were stopped".to_owned())),
        }
    }
}
