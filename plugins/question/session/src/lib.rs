//! The question tool: the agent asks, and whoever is there answers.
//!
//! The tool waits on a durable request, so that neither a lost client nor a dead worker loses the
//! question, and an answer that comes while nobody runs the tool is there when it runs again. What a session asks
//! that this one began stands in this one's list, and is answered here as well.

mod service;
mod tool;

use std::sync::Arc;

use bezel_api_session::{
    DurableRequestDefinition, Facet, FacetError, Gathered, Gathering, SessionContext, SessionFacet,
};
use bezel_question_contract::{
    PendingQuestion, QuestionRequest, QuestionResponse, QuestionsClient, TOOL,
};

use crate::service::QuestionService;
use crate::tool::QuestionTool;

/// What the tool asks, and what it is answered.
const QUESTIONS: DurableRequestDefinition<QuestionRequest, QuestionResponse> =
    DurableRequestDefinition::new("questions");

/// The session facet of questions.
pub fn facet() -> SessionFacet {
    Facet::new("question", setup).provides::<QuestionsClient>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let requests = cx.durable_requests(&QUESTIONS)?;
    let of_all = Gathered::follow(
        &cx.session,
        cx.spawner(),
        requests.pending(),
        Gathering {
            of: |child: &QuestionsClient| child.pending(),
            mark: |question: &mut PendingQuestion, child| {
                question.asker.get_or_insert_with(|| child.clone());
            },
        },
    );
    cx.provide(QuestionsClient::new(QuestionService {
        requests: requests.clone(),
        of_all,
    }));
    let tool = Arc::new(QuestionTool::new(requests));
    cx.tools
        .add(move |draft| draft.set(TOOL, Arc::clone(&tool) as Arc<_>));
    Ok(())
}
