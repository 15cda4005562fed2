//! Messages on their way: each keeps its text and its command id until the session has taken it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bezel_blobs_contract::{BlobsClient, Progress, TransferError};
use bezel_chat_contract::{ChatClient, Delivery, PromptPart, PromptRequest};
use bezel_context::{Context, TraceCarrier, span};
use bezel_rpc::{AttachmentState, CallError, ConnectionState, ErrorCode, RpcError, State};
use bezel_session_types::{CommandId, SessionId};
use bezel_sessions_contract::{LaunchEnvironment, SessionManagementClient};
use tokio::sync::Notify;

use crate::draft::{Draft, Part};

/// How long to wait before a message is offered again whose reply was lost.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// A message on its way.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub(crate) draft: Draft,
    pub(crate) delivery: Delivery,
    command_id: CommandId,
    /// The session that it is for; none yet when it was written before one was there.
    target: Option<String>,
    /// How much of its pictures the session has, while they are uploaded.
    pub(crate) uploaded: Option<Progress>,
    /// Whether it was offered: the session may have it.
    offered: bool,
    /// The trace that began when it was sent off, with a key press or otherwise.
    trace: TraceCarrier,
    /// Goes on until the session has taken the message or refused it.
    span: tracing::Span,
}

/// The messages on their way, oldest first. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Outbox(Arc<Shared>);

#[derive(Default)]
struct Shared {
    // A plain mutex: held to look or change, never across an await.
    queue: Mutex<VecDeque<Outgoing>>,
    changed: Notify,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Outgoing>> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message for `target`.
    pub(crate) fn push(&self, draft: Draft, delivery: Delivery, target: Option<&str>) {
        let target = target.map(str::to_owned);
        let command_id = CommandId::generate();
        let (cx, span) = span!(
            &Context::background(),
            "ui.prompt",
            command = %command_id,
            "error.type" = tracing::field::Empty,
        );
        self.lock().push_back(Outgoing {
            draft,
            delivery,
            command_id,
            target,
            uploaded: None,
            offered: false,
            trace: cx.trace().clone(),
            span,
        });
        self.0.changed.notify_one();
    }

    /// What waits, oldest first.
    pub(crate) fn waiting(&self) -> Vec<Outgoing> {
        self.lock().iter().cloned().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Takes the newest message back, unless the session may have it already.
    pub(crate) fn take_back(&self) -> Option<Draft> {
        let mut queue = self.lock();
        let taken = queue
            .back()
            .is_some_and(|last| !last.offered)
            .then(|| queue.pop_back())?;
        // Its pictures may be on their way.
        self.0.changed.notify_one();
        taken.map(|last| last.draft)
    }

    /// Resolves when a message is not in the outbox any more.
    async fn gone(&self, command_id: &CommandId) {
        loop {
            let changed = self.0.changed.notified();
            if !self.change(command_id, |_| ()) {
                return;
            }
            changed.await;
        }
    }

    fn head(&self) -> Option<Outgoing> {
        self.lock().front().cloned()
    }

    fn finish(&self, command_id: &CommandId) -> Option<Outgoing> {
        let mut queue = self.lock();
        let at = queue
            .iter()
            .position(|outgoing| outgoing.command_id == *command_id)?;
        queue.remove(at)
    }

    /// Changes a message; false where it is not in the outbox any more.
    fn change(&self, command_id: &CommandId, change: impl FnOnce(&mut Outgoing)) -> bool {
        let mut queue = self.lock();
        let found = queue
            .iter_mut()
            .find(|outgoing| outgoing.command_id == *command_id);
        found.map(change).is_some()
    }
}

/// Offers the messages of an outbox to the attached session, one after another.
pub(crate) struct Courier {
    pub(crate) outbox: Outbox,
    pub(crate) chat: ChatClient,
    pub(crate) blobs: BlobsClient,
    pub(crate) management: SessionManagementClient,
    pub(crate) attachment: State<AttachmentState>,
    pub(crate) connection: State<ConnectionState>,
    pub(crate) environment: LaunchEnvironment,
    /// Gets back what was not taken, and why.
    pub(crate) refused: Arc<dyn Fn(Draft, String) + Send + Sync>,
    /// Called when what waits has changed.
    pub(crate) changed: Arc<dyn Fn() + Send + Sync>,
}

/// What became of an offer.
enum Offer {
    Taken,
    Refused(String),
    /// The person took it back while its pictures were uploaded.
    TakenBack,
    /// It is not known whether it was taken; the same command id makes it safe to offer it again.
    Lost,
}

impl Courier {
    /// Delivers until `cx` ends.
    pub(crate) async fn run(self, cx: &Context) {
        let mut attachment = self.attachment.watch();
        let mut connection = self.connection.watch();
        let mut delay = FIRST_RETRY;
        let mut revived = None;
        while !cx.is_cancelled() {
            let Some(outgoing) = self.outbox.head() else {
                delay = FIRST_RETRY;
                self.outbox.0.changed.notified().await;
                continue;
            };
            let state = self.attachment.get();
            if let (Some(wanted), Some(target)) = (&outgoing.target, state.target())
                && wanted != target
            {
                let reason =
                    "the message was not sent: it was written for the session that was open before"
                        .to_owned();
                self.refuse(&outgoing.command_id, reason);
                continue;
            }
            if let ConnectionState::Disconnected {
                reason,
                retry_at: None,
                ..
            } = &*self.connection.get()
            {
                // Nobody will connect again, so nobody would ever take it. The newest first: each comes before
                // what was written after it.
                for outgoing in self.outbox.waiting().iter().rev() {
                    let what = match outgoing.offered {
                        true => "it is not known whether the session has the message",
                        false => "the message was not sent",
                    };
                    self.refuse(&outgoing.command_id, format!("{what}: {reason}"));
                }
                continue;
            }
            match &*state {
                AttachmentState::Attached { target } => {
                    self.outbox.change(&outgoing.command_id, |outgoing| {
                        outgoing.target = Some(target.clone());
                    });
                    match self.offer(cx, &outgoing, target).await {
                        Offer::Taken => {
                            self.outbox.finish(&outgoing.command_id);
                            (self.changed)();
                            delay = FIRST_RETRY;
                            continue;
                        }
                        Offer::Refused(reason) => {
                            self.refuse(&outgoing.command_id, reason);
                            continue;
                        }
                        Offer::TakenBack => continue,
                        Offer::Lost => {}
                    }
                }
                // The worker is gone: asking for the session starts it. Once for each message.
                AttachmentState::Degraded { target }
                    if self.connection.get().is_connected()
                        && revived.as_ref() != Some(&outgoing.command_id) =>
                {
                    revived = Some(outgoing.command_id.clone());
                    self.revive(cx, target).await;
                }
                _ => {}
            }
            tokio::select! {
                _ = attachment.changed() => {}
                _ = connection.changed() => {}
                () = self.outbox.0.changed.notified() => {}
                () = tokio::time::sleep(delay) => delay = (delay * 2).min(LAST_RETRY),
            }
        }
    }

    async fn offer(&self, cx: &Context, outgoing: &Outgoing, target: &str) -> Offer {
        let cx = cx.with_trace(outgoing.trace.clone());
        let content = tokio::select! {
            biased;
            () = self.outbox.gone(&outgoing.command_id) => return Offer::TakenBack,
            content = self.content(&cx, outgoing) => content,
        };
        let content = match content {
            Ok(content) => content,
            Err(TransferError::Call(CallError::Rpc(error))) => return not_sent(error),
            Err(error) => return Offer::Refused(format!("a picture was not sent: {error}")),
        };
        // Uploads take their time: the session may be another one by now.
        if self.attachment.get().target() != Some(target) {
            return Offer::Lost;
        }
        let offered = self.outbox.change(&outgoing.command_id, |outgoing| {
            outgoing.uploaded = None;
            outgoing.offered = true;
        });
        if !offered {
            return Offer::TakenBack;
        }
        let request = PromptRequest {
            command_id: outgoing.command_id.clone(),
            content,
            delivery: outgoing.delivery,
            resume: true,
        };
        match self.chat.prompt(&cx, request).await {
            Ok(reply) if reply.accepted => Offer::Taken,
            Ok(reply) => Offer::Refused(
                reply
                    .error
                    .unwrap_or_else(|| "the session did not take the message".into()),
            ),
            Err(CallError::Service(never)) => match never {},
            Err(CallError::Rpc(error)) => not_sent(error),
        }
    }

    /// The parts of the message. What is large of them is uploaded, as far as the session does not have it.
    async fn content(
        &self,
        cx: &Context,
        outgoing: &Outgoing,
    ) -> Result<Vec<PromptPart>, TransferError> {
        let parts = outgoing.draft.content();
        let size = |part: &Part| match part {
            Part::Picture(picture) => picture.size(),
            Part::Text(_) => 0,
        };
        let total = parts.iter().map(size).sum();
        let (mut content, mut before) = (Vec::new(), 0);
        for part in parts {
            let size = size(&part);
            content.push(match part {
                Part::Text(text) => PromptPart::Text { text },
                Part::Picture(picture) => {
                    let tell = |progress: Progress| {
                        let done = before + progress.done;
                        self.outbox.change(&outgoing.command_id, |outgoing| {
                            outgoing.uploaded = Some(Progress { done, total });
                        });
                        (self.changed)();
                    };
                    picture.part(cx, &self.blobs, tell).await?
                }
            });
            before += size;
        }
        Ok(content)
    }

    async fn revive(&self, cx: &Context, target: &str) {
        let attached = self
            .management
            .attach(cx, SessionId::new(target), Some(self.environment.clone()))
            .await;
        if let Err(error) = attached {
            tracing::debug!(%error, "the session could not be started again");
        }
    }

    fn refuse(&self, command_id: &CommandId, reason: String) {
        if let Some(outgoing) = self.outbox.finish(command_id) {
            outgoing.span.record("error.type", "refused");
            (self.refused)(outgoing.draft, reason);
        }
        (self.changed)();
    }
}

/// What a call that was not answered means for its message.
fn not_sent(error: RpcError) -> Offer {
    match error.code {
        ErrorCode::Disconnected
        | ErrorCode::NotAttached
        | ErrorCode::SessionUnavailable
        | ErrorCode::NotActive => {
            tracing::debug!(%error, "a message waits until the session is there again");
            Offer::Lost
        }
        _ => Offer::Refused(format!("the message was not sent: {}", error.message)),
    }
}
