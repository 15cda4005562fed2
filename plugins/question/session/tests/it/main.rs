//! The question tool and its service over a played session.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bezel_context::Context;
use bezel_question_contract::{AnswerError, QuestionResponse, QuestionsClient};
use bezel_rpc::CallError;
use bezel_session_types::{
    ExecutionMode, InvocationId, MemoError, OperationId, Progress, Replay, ResultContent,
    SessionId, SubmitOutcome, Tool, ToolError, ToolHost, ToolInvocation, ToolOutput,
};
use bezel_testkit::{FakeSession, FakeSessionOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Offers nothing: the tool asks through its channel alone.
struct NoHost(Mutex<HashMap<String, Value>>);

impl ToolHost for NoHost {
    fn directory(&self) -> &Path {
        Path::new("/")
    }

    fn progress(&self, _progress: Progress) {}

    fn output_file(&self, invocation: &InvocationId) -> PathBuf {
        PathBuf::from(invocation.as_str())
    }

    fn memo(&self, name: &str) -> Result<Option<Value>, MemoError> {
        Ok(self.0.lock().unwrap().get(name).cloned())
    }

    fn set_memo(&self, _name: &str, _value: Option<&Value>) -> Result<(), MemoError> {
        Ok(())
    }
}

struct Fixture {
    session: FakeSession,
    questions: QuestionsClient,
    tool: Arc<dyn Tool>,
    _directory: TempDir,
}

async fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let facets = vec![bezel_question_session::facet()];
    let session = FakeSession::start(facets, directory.path(), FakeSessionOptions::default());
    let session = session.await.unwrap();
    session.connected().await;
    let questions: QuestionsClient = session.remote().use_service();
    questions
        .pending()
        .ready(&Context::background())
        .await
        .unwrap();
    let tool = Arc::clone(&session.tools.current().tools[0].tool);
    Fixture {
        session,
        questions,
        tool,
        _directory: directory,
    }
}

fn arguments() -> Value {
    json!({
        "question": "Which one?",
        "options": [
            { "label": "The left", "description": "It is nearer." },
            { "label": "The right" },
        ],
    })
}

impl Fixture {
    fn call(
        &self,
        id: &str,
        arguments: Value,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + use<> {
        let tool = Arc::clone(&self.tool);
        let invocation = ToolInvocation {
            invocation_id: InvocationId::new(id),
            operation_id: OperationId::new("operation"),
            session_id: SessionId::new("session"),
            tool: "question".into(),
            arguments: Arc::new(arguments),
            accesses: None,
            host: Arc::new(NoHost(Mutex::default())),
        };
        async move { tool.execute(Context::background(), invocation).await }
    }

    async fn answered(&self, response: QuestionResponse) -> ToolOutput {
        let call = self.call("call", arguments());
        let answer = async {
            let pending = self.questions.pending();
            pending
                .wait_for(&Context::background(), |pending| !pending.is_empty())
                .await
                .unwrap();
            let asked = pending.get()[0].clone();
            assert_eq!(asked.id.as_str(), "call");
            assert_eq!(asked.request.options[1].description, None);
            let outcome = self
                .questions
                .submit_answer(&Context::background(), asked.id, response)
                .await;
            assert_eq!(outcome, Ok(SubmitOutcome::Accepted));
        };
        let (output, ()) = tokio::join!(call, answer);
        output.unwrap()
    }
}

fn text(output: &ToolOutput) -> &str {
    match &output.content[..] {
        [ResultContent::Text { text }] => text,
        other => panic!("{other:?}"),
    }
}

fn details(answer: Option<&str>, custom: bool) -> Value {
    json!({
        "question": "Which one?",
        "options": ["The left", "The right"],
        "answer": answer,
        "wasCustom": custom,
    })
}

#[tokio::test]
async fn the_tool_is_sequential_and_safe_to_replay() {
    let spec = fixture().await.tool.spec().clone();
    assert_eq!(spec.execution_mode, ExecutionMode::Sequential);
    assert_eq!(spec.replay, Replay::Safe);
    assert_eq!(&*spec.label, "Question");
}

#[tokio::test]
async fn a_selected_option_is_named_with_its_number() {
    let output = fixture()
        .await
        .answered(QuestionResponse::Selected { index: 1 })
        .await;
    assert_eq!(text(&output), "User selected: 2. The right");
    assert_eq!(output.details, details(Some("The right"), false));
}

#[tokio::test]
async fn a_written_answer_is_passed_on() {
    let answer = "Neither".to_owned();
    let output = fixture()
        .await
        .answered(QuestionResponse::Custom { answer })
        .await;
    assert_eq!(text(&output), "User wrote: Neither");
    assert_eq!(output.details, details(Some("Neither"), true));
}

#[tokio::test]
async fn a_cancelled_question_is_a_result_and_no_error() {
    let output = fixture().await.answered(QuestionResponse::Cancelled).await;
    assert_eq!(text(&output), "User cancelled the question");
    assert_eq!(output.details, details(None, false));
}

#[tokio::test]
async fn without_options_nothing_is_asked() {
    let fixture = fixture().await;
    let call = fixture.call("call", json!({ "question": "Which one?", "options": [] }));
    let output = call.await.unwrap();
    assert_eq!(text(&output), "No options provided");
    assert_eq!(output.details["answer"], Value::Null);
    assert!(fixture.questions.pending().get().is_empty());
}

#[tokio::test]
async fn an_option_that_there_is_not_is_refused_and_the_question_waits_on() {
    let fixture = fixture().await;
    let cx = Context::background();
    let call = fixture.call("call", arguments());
    let answers = async {
        let pending = fixture.questions.pending();
        pending
            .wait_for(&cx, |pending| !pending.is_empty())
            .await
            .unwrap();
        let id = pending.get()[0].id.clone();
        let submit = |id: InvocationId, index| {
            let response = QuestionResponse::Selected { index };
            fixture.questions.submit_answer(&cx, id, response)
        };
        let refused = submit(id.clone(), 2).await;
        let expected = AnswerError::NoSuchOption {
            number: 3,
            count: 2,
        };
        assert_eq!(refused, Err(CallError::Service(expected)));
        assert_eq!(pending.get().len(), 1);
        let unknown = submit(InvocationId::new("unknown"), 0).await;
        assert_eq!(unknown, Ok(SubmitOutcome::NotPending));
        assert_eq!(submit(id.clone(), 0).await, Ok(SubmitOutcome::Accepted));
        let late = fixture
            .questions
            .submit_answer(&cx, id, QuestionResponse::Cancelled)
            .await;
        assert_eq!(late, Ok(SubmitOutcome::NotPending));
    };
    let (output, ()) = tokio::join!(call, answers);
    assert_eq!(text(&output.unwrap()), "User selected: 1. The left");
}

#[tokio::test]
async fn an_interrupted_call_is_interrupted_and_its_question_goes() {
    let fixture = fixture().await;
    let cx = Context::background();
    let call = fixture.call("call", arguments());
    let settled = async {
        let pending = fixture.questions.pending();
        pending
            .wait_for(&cx, |pending| !pending.is_empty())
            .await
            .unwrap();
        fixture.session.agent.settle(&InvocationId::new("call"));
        pending
            .wait_for(&cx, |pending| pending.is_empty())
            .await
            .unwrap();
    };
    let (output, ()) = tokio::join!(call, settled);
    assert_eq!(output, Err(ToolError::Interrupted));
}
