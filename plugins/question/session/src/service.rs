//! What clients see of the questions.

use bezel_api_session::{DurableRequests, SubmitError};
use bezel_context::Context;
use bezel_question_contract::{
    AnswerError, PendingQuestion, QuestionRequest, QuestionResponse, Questions,
};
use bezel_rpc::State;
use bezel_session_types::{InvocationId, SubmitOutcome};

pub(crate) struct QuestionService(pub(crate) DurableRequests<QuestionRequest, QuestionResponse>);

impl Questions for QuestionService {
    fn pending(&self) -> State<Vec<PendingQuestion>> {
        self.0.pending()
    }

    async fn submit_answer(
        &self,
        cx: &Context,
        id: InvocationId,
        response: QuestionResponse,
    ) -> Result<SubmitOutcome, AnswerError> {
        if let QuestionResponse::Selected { index } = response {
            let pending = self.0.pending().get();
            let Some(asked) = pending.iter().find(|question| question.id == id) else {
                return Ok(SubmitOutcome::NotPending);
            };
            let count = u32::try_from(asked.request.options.len()).unwrap_or(u32::MAX);
            if index >= count {
                let number = index.saturating_add(1);
                return Err(AnswerError::NoSuchOption { number, count });
            }
        }
        self.0
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
