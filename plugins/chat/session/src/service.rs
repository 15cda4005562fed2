//! The chat service over a lane.

use bezel_api_session::{Admission, Lane, LaneError, Local, PromptError};
use bezel_blobs_contract::BlobShelf;
use bezel_chat_contract::{
    Chat, ChatError, ChatState, Outcome, PromptPart, PromptReply, PromptRequest,
};
use bezel_context::span;
use bezel_rpc::{Context, State};
use bezel_session_types::{EntryId, NextRequest, OperationId, UserContent, UserMessage};

use crate::{parts, view};

pub(crate) struct ChatService {
    pub(crate) lane: Lane,
    /// Where pictures are that a prompt names as blobs; none where the plugin is not there.
    pub(crate) blobs: Option<Local<BlobShelf>>,
    pub(crate) state: State<ChatState>,
}

impl Chat for ChatService {
    fn state(&self) -> State<ChatState> {
        self.state.clone()
    }

    async fn prompt(&self, cx: &Context, request: PromptRequest) -> PromptReply {
        let blank = request.content.iter().all(|part| match part {
            PromptPart::Text { text } => text.trim().is_empty(),
            PromptPart::Image(_) | PromptPart::UploadedImage(_) => false,
        });
        if blank {
            return reply(Err(PromptError::Refused(
                "the message is empty; write something".into(),
            )));
        }
        if request.command_id.as_str().trim().is_empty() {
            // It would be the same command for whoever leaves it empty.
            return reply(Err(PromptError::Refused(
                "the command id is empty; send the message under an id of your own".into(),
            )));
        }
        let (cx, span) = span!(
            cx,
            "chat.prompt",
            command = %request.command_id,
            operation = tracing::field::Empty,
            "error.type" = tracing::field::Empty,
        );
        let (id, delivery) = (request.command_id, request.delivery);
        let admitted = match parts::resolved(self.blobs.as_ref(), request.content).await {
            Ok(content) => {
                let message = UserMessage {
                    content,
                    synthetic: false,
                };
                match request.resume {
                    true => self.lane.prompt(&cx, id, message, delivery).await,
                    false => self.lane.record(&cx, id, message, delivery).await,
                }
            }
            Err(error) => Err(PromptError::Refused(error.to_string())),
        };
        match &admitted {
            Ok(admission) => span.record(
                "operation",
                tracing::field::display(&admission.operation_id),
            ),
            Err(_) => span.record("error.type", "refused"),
        };
        reply(admitted)
    }

    async fn request_abort(
        &self,
        cx: &Context,
        operation_id: OperationId,
    ) -> Result<bool, ChatError> {
        self.lane
            .request_abort(cx, &operation_id)
            .await
            .map_err(chat_error)
    }

    async fn compact(&self, cx: &Context, instructions: Option<String>) -> PromptReply {
        reply(self.lane.compact(cx, instructions).await)
    }

    async fn resume(&self, cx: &Context) -> Result<bool, ChatError> {
        self.lane.resume(cx).await.map_err(chat_error)
    }

    async fn interrupt(&self, cx: &Context) -> Result<Option<OperationId>, ChatError> {
        self.lane.interrupt(cx).await.map_err(chat_error)
    }

    async fn edit(&self, cx: &Context, id: EntryId, text: String) -> Result<bool, ChatError> {
        let queue = self.lane.queue().borrow().clone();
        let Some(waiting) = queue.iter().find(|waiting| waiting.id == id) else {
            return Ok(false);
        };
        let pictures = waiting.message.content.iter();
        let pictures = pictures.filter(|part| matches!(part, UserContent::Image(_)));
        let said = (!text.trim().is_empty()).then_some(UserContent::Text { text });
        let content: Vec<UserContent> = said.into_iter().chain(pictures.cloned()).collect();
        if content.is_empty() {
            let message = "the message is empty: write something, or take it back".into();
            return Err(ChatError::Refused { message });
        }
        let message = UserMessage {
            content,
            synthetic: waiting.message.synthetic,
        };
        self.lane.edit(cx, &id, message).await.map_err(chat_error)
    }

    async fn promote(&self, cx: &Context, id: EntryId) -> Result<bool, ChatError> {
        self.lane.promote(cx, &id).await.map_err(chat_error)
    }

    async fn withdraw(&self, cx: &Context, id: EntryId) -> Result<bool, ChatError> {
        self.lane.withdraw(cx, &id).await.map_err(chat_error)
    }

    async fn wait(&self, cx: &Context, operation_id: OperationId) -> Result<Outcome, ChatError> {
        let outcome = self
            .lane
            .wait(cx, &operation_id)
            .await
            .map_err(chat_error)?;
        Ok(view::outcome(&outcome))
    }

    async fn wait_idle(&self, cx: &Context) -> Result<(), ChatError> {
        let idle = self.lane.wait_idle(cx).await;
        idle.map_err(|_| chat_error(LaneError::Cancelled))
    }

    async fn next_request(&self, cx: &Context) -> Result<NextRequest, ChatError> {
        self.lane.next_request(cx).await.map_err(chat_error)
    }
}

fn reply(result: Result<Admission, PromptError>) -> PromptReply {
    match result {
        Ok(admission) => PromptReply {
            accepted: true,
            operation_id: Some(admission.operation_id),
            message_id: admission.message_id,
            error: None,
        },
        Err(error) => PromptReply {
            accepted: false,
            operation_id: None,
            message_id: None,
            error: Some(error.to_string()),
        },
    }
}

fn chat_error(error: LaneError) -> ChatError {
    match error {
        LaneError::UnknownOperation(operation_id) => ChatError::UnknownOperation { operation_id },
        LaneError::Refused(message) => ChatError::Refused { message },
        LaneError::Unsupported(_) => ChatError::Unsupported {
            message: error.to_string(),
        },
        LaneError::Cancelled | LaneError::Storage(_) => ChatError::Storage {
            message: error.to_string(),
        },
    }
}
