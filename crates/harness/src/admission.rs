//! Taking messages in: on the disk before anyone is told, once per command id.

use bezel_context::{Cancelled, Context, TraceCarrier};
use bezel_session_types::{
    CommandId, Delivery, EntryId, ImageContent, OperationId, QueuedMessage, UserContent,
    UserMessage,
};
use bezel_store::{CommitError, InboxRow, NewInboxRow, ReadError, Receipt};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::events::EventKind;
use crate::lane::Lane;
use crate::operation::{Operation, OperationKind};
use crate::state::{LaneState, Step};

/// A message to admit.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptRequest {
    /// The caller's id of this command. The same id with the same input is admitted once.
    pub command_id: CommandId,
    /// What is said.
    pub message: UserMessage,
    /// When it enters the conversation.
    pub delivery: Delivery,
    /// Whether to start a run for it where none runs.
    pub resume: bool,
}

/// A message that is on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// The operation that answers it.
    pub operation_id: OperationId,
    /// The id that its entry has, or will have once it is delivered.
    pub message_id: EntryId,
}

/// A message that was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// It says nothing.
    #[error("the prompt is empty: write something or attach a picture")]
    Empty,
    /// A picture is too large.
    #[error("picture {index} of the prompt is larger than {limit_mib} MiB: attach a smaller one")]
    ImageTooLarge {
        /// Which, from 1.
        index: usize,
        /// The limit.
        limit_mib: usize,
    },
    /// The id was used for something else.
    #[error("command id {command_id} was used for another prompt: use a new id")]
    Conflict {
        /// The id.
        command_id: CommandId,
    },
    /// The session is closed.
    #[error("the session is closed: open it again")]
    Closed,
    /// The caller stopped waiting. The message may have been admitted: the same id tells.
    #[error(
        "the prompt was not waited for ({0}); it may be admitted: send it again with the same id to know"
    )]
    Cancelled(Cancelled),
    /// It could not be written.
    #[error("the prompt was not admitted: {0}")]
    Storage(#[from] CommitError),
    /// The database could not be read.
    #[error("the prompt was not admitted: {0}")]
    Read(#[from] ReadError),
}

/// A waiting message that could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// It is in the conversation already.
    #[error("message {id} was delivered already: it cannot be changed any more")]
    Delivered {
        /// The message.
        id: EntryId,
    },
    /// There is none.
    #[error("no message {id} waits here")]
    Unknown {
        /// The message.
        id: EntryId,
    },
    /// The new text cannot be admitted.
    #[error(transparent)]
    Refused(PromptError),
    /// The change could not be written.
    #[error("message {id} was not changed: {source}")]
    Storage {
        /// The message.
        id: EntryId,
        /// Why.
        source: CommitError,
    },
    /// The database could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Lane {
    /// Admits a message: on the disk, with a receipt, when this returns. Then starts a run, or joins
    /// the one that goes on. Ending `cx` ends the waiting alone.
    pub async fn prompt(
        &self,
        cx: &Context,
        request: PromptRequest,
    ) -> Result<Admission, PromptError> {
        check(&request.message)?;
        cx.status().map_err(PromptError::Cancelled)?;
        let (lane, trace) = (self.clone(), cx.trace().clone());
        let admission = self.session.spawner.spawn("prompt admission", async move {
            lane.admit(request, trace).await
        });
        match cx.run(admission).await {
            Ok(Some(Ok(outcome))) => outcome,
            Ok(Some(Err(_)) | None) => Err(PromptError::Closed),
            Err(cancelled) => Err(PromptError::Cancelled(cancelled)),
        }
    }

    async fn admit(
        &self,
        request: PromptRequest,
        trace: TraceCarrier,
    ) -> Result<Admission, PromptError> {
        if self.session.closed() {
            return Err(PromptError::Closed);
        }
        let digest = self.digest(&request);
        let store = &self.session.store;
        let (committed, row, joined) = {
            let state = self.core.lock();
            if let Some(receipt) = store.read(|queries| queries.receipt(&request.command_id))? {
                drop(state);
                if receipt.digest != digest {
                    return Err(PromptError::Conflict {
                        command_id: request.command_id,
                    });
                }
                // The first attempt may still be on its way to the disk.
                store.sync().await?;
                let stored = store.read(|queries| queries.receipt(&request.command_id))?;
                return parse_receipt(&stored.unwrap_or(receipt));
            }
            let joined = state.operation_for(request.delivery);
            let row = NewInboxRow {
                id: EntryId::generate(),
                lane: (*self.core.name).clone(),
                command_id: request.command_id,
                operation_id: joined.clone().unwrap_or_else(OperationId::generate),
                delivery: request.delivery,
                resume: request.resume,
                message: request.message,
            };
            let mut step = Step::default();
            step.transaction.admit(row.clone());
            step.transaction.receipt(Receipt {
                command_id: row.command_id.clone(),
                digest,
                result: receipt_text(&row),
            });
            step.transaction.journal(
                "prompt_admitted",
                serde_json::json!({ "lane": row.lane, "message": row.id, "operation": row.operation_id }),
            );
            match store.commit(step.transaction) {
                Ok(committed) => (committed, row, joined.is_some()),
                Err(CommitError::Duplicate { .. }) => {
                    return Err(PromptError::Conflict {
                        command_id: row.command_id,
                    });
                }
                Err(error) => return Err(error.into()),
            }
        };
        store.synced(&committed).await?;
        let seq = committed.inbox.first().copied().unwrap_or(committed.seq);
        Ok(self.enter(InboxRow { seq, row }, trace, joined))
    }

    /// Shows a message that is on the disk to the lane, and wakes it.
    fn enter(&self, mut waiting: InboxRow, trace: TraceCarrier, joined: bool) -> Admission {
        let mut state = self.core.lock();
        // What it was admitted to may have ended, or another begun, while the disk was busy.
        let belongs_to = match state.operation_for(waiting.row.delivery) {
            Some(now) => (now != waiting.row.operation_id).then_some(now),
            None => joined.then(OperationId::generate),
        };
        if let Some(operation_id) = belongs_to {
            self.reassign(&mut waiting.row, operation_id);
        }
        let admission = Admission {
            operation_id: waiting.row.operation_id.clone(),
            message_id: waiting.row.id.clone(),
        };
        let (resume, steers) = (waiting.row.resume, waiting.row.delivery == Delivery::Steer);
        state.traces.insert(waiting.row.id.clone(), trace);
        let at = state.inbox.partition_point(|other| other.seq < waiting.seq);
        state.inbox.insert(at, waiting);
        self.publish(EventKind::QueueUpdate {
            queued: state.queued(),
        });
        // A queued message needs no wake while something runs: the end of the run looks for it.
        if resume && let Err(error) = self.wake(&mut state, steers) {
            self.fault(Some(admission.operation_id.clone()), &error.into());
        }
        admission
    }

    /// Gives a message that is on the disk to another operation. Where that cannot be written it
    /// keeps its old one: it is admitted either way.
    fn reassign(&self, row: &mut NewInboxRow, operation_id: OperationId) {
        let reassigned = NewInboxRow {
            operation_id,
            ..row.clone()
        };
        let mut step = Step::default();
        step.transaction
            .reassign_admitted(&row.id, &reassigned.operation_id);
        step.transaction
            .update_receipt(&row.command_id, receipt_text(&reassigned));
        match self.session.store.commit(step.transaction) {
            Ok(_) => *row = reassigned,
            Err(error) => self.fault(None, &error.into()),
        }
    }

    /// In the commit that ends an operation: what still waits for it belongs to the next one.
    pub(crate) fn reassign_waiting(
        &self,
        state: &LaneState,
        step: &mut Step,
    ) -> Option<OperationId> {
        let ended = &state.operation.as_ref()?.id;
        let mut waits = state
            .inbox
            .iter()
            .filter(|waiting| waiting.row.operation_id == *ended)
            .peekable();
        waits.peek()?;
        let next = OperationId::generate();
        for waiting in waits {
            let row = NewInboxRow {
                operation_id: next.clone(),
                ..waiting.row.clone()
            };
            step.transaction.reassign_admitted(&row.id, &next);
            step.transaction
                .update_receipt(&row.command_id, receipt_text(&row));
        }
        Some(next)
    }

    /// Takes a waiting message back.
    pub async fn withdraw(&self, cx: &Context, id: &EntryId) -> Result<QueuedMessage, EditError> {
        self.change_waiting(cx, id, None).await
    }

    /// Changes what a waiting message says.
    pub async fn edit(
        &self,
        cx: &Context,
        id: &EntryId,
        message: UserMessage,
    ) -> Result<QueuedMessage, EditError> {
        check(&message).map_err(EditError::Refused)?;
        self.change_waiting(cx, id, Some(message)).await
    }

    /// Lets a waiting message steer: it enters at the next step boundary, and runs where nothing runs.
    pub async fn promote(&self, cx: &Context, id: &EntryId) -> Result<QueuedMessage, EditError> {
        cx.status()
            .map_err(|cancelled| EditError::Refused(PromptError::Cancelled(cancelled)))?;
        let failed = |source| EditError::Storage {
            id: id.clone(),
            source,
        };
        let (committed, promoted) = {
            let mut state = self.core.lock();
            let index = self.waiting(&state, id)?;
            let mut row = state.inbox[index].row.clone();
            let joined = state.operation_for(Delivery::Steer);
            (row.delivery, row.resume) = (Delivery::Steer, true);
            let mut step = Step::default();
            step.transaction.promote_admitted(id);
            if let Some(operation_id) = joined.filter(|joined| *joined != row.operation_id) {
                row.operation_id = operation_id;
                step.transaction.reassign_admitted(id, &row.operation_id);
                step.transaction
                    .update_receipt(&row.command_id, receipt_text(&row));
            }
            step.transaction.journal(
                "prompt_promoted",
                serde_json::json!({ "lane": *self.core.name, "message": id }),
            );
            let committed = self.commit(&mut state, step).map_err(failed)?;
            state.inbox[index].row = row;
            let queued = state.queued();
            let promoted = queued[index].clone();
            self.publish(EventKind::QueueUpdate { queued });
            if let Err(error) = self.wake(&mut state, true) {
                self.fault(Some(promoted.operation_id.clone()), &error.into());
            }
            (committed, promoted)
        };
        let synced = self.session.store.synced(&committed).await;
        synced.map_err(failed)?;
        Ok(promoted)
    }

    /// The place of a message that waits.
    fn waiting(&self, state: &LaneState, id: &EntryId) -> Result<usize, EditError> {
        let place = state.inbox.iter().position(|waiting| waiting.row.id == *id);
        if let Some(place) = place {
            return Ok(place);
        }
        let store = &self.session.store;
        let delivered = store.read(|queries| queries.entry(id))?.is_some();
        let id = id.clone();
        Err(if delivered {
            EditError::Delivered { id }
        } else {
            EditError::Unknown { id }
        })
    }

    async fn change_waiting(
        &self,
        cx: &Context,
        id: &EntryId,
        message: Option<UserMessage>,
    ) -> Result<QueuedMessage, EditError> {
        cx.status()
            .map_err(|cancelled| EditError::Refused(PromptError::Cancelled(cancelled)))?;
        let (committed, changed) = {
            let mut state = self.core.lock();
            let index = self.waiting(&state, id)?;
            let mut changed = state.queued()[index].clone();
            let mut step = Step::default();
            let kind = match &message {
                Some(message) => {
                    step.transaction.edit_admitted(id, message);
                    changed.message = message.clone();
                    "prompt_edited"
                }
                None => {
                    step.taken.push(id.clone());
                    "prompt_withdrawn"
                }
            };
            step.transaction.journal(
                kind,
                serde_json::json!({ "lane": *self.core.name, "message": id }),
            );
            let failed = |source| EditError::Storage {
                id: id.clone(),
                source,
            };
            let committed = self.commit(&mut state, step).map_err(failed)?;
            if let Some(message) = message {
                state.inbox[index].row.message = message;
                self.publish(EventKind::QueueUpdate {
                    queued: state.queued(),
                });
            }
            (committed, changed)
        };
        let synced = self.session.store.synced(&committed).await;
        synced.map_err(|source| EditError::Storage {
            id: id.clone(),
            source,
        })?;
        Ok(changed)
    }

    /// What a command's input comes down to, for telling a repetition from another command.
    fn digest(&self, request: &PromptRequest) -> [u8; 32] {
        let input = (
            &*self.core.name,
            &request.message,
            request.delivery,
            request.resume,
        );
        let text = serde_json::to_vec(&input).expect("a prompt has text keys");
        Sha256::digest(text).into()
    }
}

impl LaneState {
    /// The operation that a message of this delivery joins; none where it needs one of its own.
    fn operation_for(&self, delivery: Delivery) -> Option<OperationId> {
        if delivery == Delivery::Queue {
            return None;
        }
        let running = self.operation.as_ref();
        if let Some(Operation {
            id,
            kind: OperationKind::Run,
            ..
        }) = running
        {
            return Some(id.clone());
        }
        let mut steers = self
            .inbox
            .iter()
            .filter(|waiting| waiting.row.delivery == Delivery::Steer);
        steers
            .next()
            .map(|waiting| waiting.row.operation_id.clone())
    }
}

fn receipt_text(row: &NewInboxRow) -> String {
    let admission = Admission {
        operation_id: row.operation_id.clone(),
        message_id: row.id.clone(),
    };
    serde_json::to_string(&admission).expect("a receipt has text keys")
}

fn parse_receipt(receipt: &Receipt) -> Result<Admission, PromptError> {
    serde_json::from_str(&receipt.result).map_err(|source| {
        PromptError::Read(ReadError::Row {
            path: Default::default(),
            row: format!("receipt of command {}", receipt.command_id),
            source,
        })
    })
}

fn check(message: &UserMessage) -> Result<(), PromptError> {
    let says = |part: &UserContent| match part {
        UserContent::Text { text } => !text.trim().is_empty(),
        UserContent::Image(_) => true,
    };
    if !message.content.iter().any(says) {
        return Err(PromptError::Empty);
    }
    let images = message.content.iter().filter_map(|part| match part {
        UserContent::Image(image) => Some(image),
        UserContent::Text { .. } => None,
    });
    for (index, image) in images.enumerate() {
        let padding = image.data.bytes().rev().take_while(|byte| *byte == b'=');
        let bytes = (image.data.len() / 4 * 3).saturating_sub(padding.count().min(2));
        if bytes > ImageContent::MAX_BYTES {
            let limit_mib = ImageContent::MAX_BYTES / 1024 / 1024;
            return Err(PromptError::ImageTooLarge {
                index: index + 1,
                limit_mib,
            });
        }
    }
    Ok(())
}
