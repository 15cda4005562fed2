//! What clients see of the questions.

use bezel_api_session::{DurableRequests, Gathered, SubmitError};
use bezel_context::Context;
use bezel_question_contract::{
    AnswerError, PendingQuestion, QuestionRequest, QuestionResponse, Questions, QuestionsClient,
};
use bezel_rpc::{CallError, State};
use bezel_session_types::{InvocationId, SubmitOutcome};

pub(crate) struct QuestionService {
    pub(crate) requests: DurableRequests<QuestionRequest, QuestionResponse>,
    /// The questions of this session and of those that it began.
    pub(crate) of_all: Gathered<PendingQuestion, QuestionsClient>,
}

impl Questions for QuestionService {
    fn pending(&self) -> State<Vec<PendingQuestion>> {
        self.of_all.state()
    }

    async fn submit_answer(
        &self,
        cx: &Context,
        id: InvocationId,
        response: QuestionResponse,
    ) -> Result<SubmitOutcome, AnswerError> {
        if let Some(child) = self.of_all.whose(|question| question.id == id) {
            let answered = child.submit_answer(cx, id, response).await;
            return answered.map_err(|error| match error {
                CallError::Service(error) => error,
                CallError::Rpc(error) => AnswerError::Storage {
                    message: error.to_string(),
                },
            });
        }
        if let QuestionResponse::Selected { index } = response {
            let pending = self.requests.pending().get();
            let Some(asked) = pending.iter().find(|question| question.id == id) else {
                return Ok(SubmitOutcome::NotPending);
            };
            let count = u32::try_from(asked.request.options.len()).unwrap_or(u32::MAX);
            if index >= count {
                let number = index.saturating_add(1);
                return Err(AnswerError::NoSuchOption { number, count });
            }
        }
        self.requests
            .submit(cx, &id, &response)
            .await
            .map_err(|error| match error {
                SubmitError::Invalid(message) => AnswerError::Invalid { message },
                SubmitError::Cancelled | SubmitError::Storage(_) => AnswerError::Storage {
                    message: error.to_string(),
                },
            })
    }
}
