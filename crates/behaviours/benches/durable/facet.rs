//! The facet of the measured worker: a scripted model, a tool that asks at once, and who begins turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bezel_api_session::{
    Availability, DurableRequestDefinition, DurableRequests, Facet, FacetError, Lane,
    ProviderEntry, SessionContext, SessionFacet,
};
use bezel_context::Context;
use bezel_question_contract::QuestionResponse;
use bezel_rpc::State;
use bezel_session_types::{
    CommandId, Delivery, ExecutionMode, InvocationId, ModelRef, PendingRequest, Replay,
    SubmitOutcome, ThinkingLevel, Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec,
    UserMessage,
};
use bezel_testkit::{Script, ScriptedProvider, Turn};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::contract::{Asking, AskingClient, AskingError};

const TOOL: &str = "ask";
const REQUESTS: DurableRequestDefinition<String, QuestionResponse> =
    DurableRequestDefinition::new("asked");

/// What the product's question tool is asked with.
fn question(number: u32) -> Value {
    json!({ "question": format!("Which colour has number {number}?"),
            "options": [{ "label": "Red" }, { "label": "Blue" }] })
}

pub fn facet() -> SessionFacet {
    Facet::new("asking", setup).provides::<AskingClient>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let model = ScriptedProvider::new(Script::new([]));
    let entry = ProviderEntry {
        provider: Arc::new(model.clone()),
        models: vec![],
        availability: Availability::Available,
        key_origin: None,
        listing: None,
    };
    cx.providers
        .add(move |draft| draft.set("bench", entry.clone()));
    let lane = cx.agent.main();
    let chosen = ModelRef {
        provider: "bench".into(),
        model_id: "scripted".into(),
    };
    lane.set_model(Some(chosen), ThinkingLevel::Off);
    let requests = cx.durable_requests(&REQUESTS)?;
    let tool = Arc::new(AskTool::new(requests.clone()));
    cx.tools
        .add(move |draft| draft.set(TOOL, Arc::clone(&tool) as Arc<_>));
    cx.provide(AskingClient::new(Asker {
        model,
        lane,
        requests,
        turns: AtomicU64::new(0),
    }));
    Ok(())
}

struct Asker {
    model: ScriptedProvider,
    lane: Lane,
    requests: DurableRequests<String, QuestionResponse>,
    turns: AtomicU64,
}

impl Asking for Asker {
    fn pending(&self) -> State<Vec<PendingRequest<String>>> {
        self.requests.pending()
    }

    async fn echo(
        &self,
        _cx: &Context,
        id: InvocationId,
        _response: QuestionResponse,
    ) -> InvocationId {
        id
    }

    async fn begin(&self, cx: &Context, calls: u32, at_once: bool) -> Result<(), AskingError> {
        let call = |number| match at_once {
            true => (TOOL, json!({ "number": number })),
            false => (bezel_question_contract::TOOL, question(number)),
        };
        self.model.push(Turn::tool_calls((0..calls).map(call)));
        self.model.push(Turn::text("All answered."));
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let command = CommandId::new(format!("turn-{turn}"));
        let said = UserMessage::text("Ask.");
        let admitted = self.lane.prompt(cx, command, said, Delivery::Steer).await;
        admitted.map(drop).map_err(AskingError::of)
    }

    async fn settled(&self, cx: &Context) -> Result<(), AskingError> {
        self.lane.wait_idle(cx).await.map_err(AskingError::of)
    }

    async fn answer(
        &self,
        cx: &Context,
        id: InvocationId,
        response: QuestionResponse,
    ) -> Result<SubmitOutcome, AskingError> {
        let submitted = self.requests.submit(cx, &id, &response).await;
        submitted.map_err(AskingError::of)
    }
}

/// Asks beside others of its kind.
struct AskTool {
    spec: ToolSpec,
    requests: DurableRequests<String, QuestionResponse>,
}

impl AskTool {
    fn new(requests: DurableRequests<String, QuestionResponse>) -> Self {
        AskTool {
            spec: ToolSpec {
                label: "Ask".into(),
                description: "Asks.".into(),
                parameters: Arc::new(json!({ "type": "object" })),
                output: None,
                execution_mode: ExecutionMode::Parallel,
                replay: Replay::Safe,
            },
            requests,
        }
    }
}

impl Tool for AskTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute(
        &self,
        cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let asked = invocation.arguments.to_string();
            let id = &invocation.invocation_id;
            let answer = self.requests.wait(&cx, id, &asked).await?;
            Ok(ToolOutput::text(format!("{answer:?}")))
        })
    }
}
