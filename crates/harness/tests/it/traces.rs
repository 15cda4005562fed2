//! A run continues the trace of the prompt that it answers, also in another process.

use std::sync::{Arc, Mutex};

use bezel_context::Context;
use bezel_harness::ToolRegistration;
use bezel_session_types::ToolOutput;
use serde_json::json;

use crate::support::{Act, Model, Place, TestTool, call, calls, registration, says};

type Traces = Arc<Mutex<Vec<u128>>>;

/// A tool that notes whose trace it runs in.
fn noting(traces: &Traces) -> Vec<ToolRegistration> {
    let traces = Arc::clone(traces);
    let tool = TestTool::new(move |cx, _| {
        traces.lock().unwrap().push(cx.trace().trace_id());
        async { Ok(ToolOutput::text("noted")) }
    });
    vec![registration("note", tool)]
}

#[tokio::test(start_paused = true)]
async fn a_tool_runs_in_the_trace_of_the_prompt_that_asked_for_it() {
    let (place, traces) = (Place::new(), Traces::default());
    let one_call = || calls([call("a", "note", json!({}))]);
    let model = Model::scripted([one_call(), says("One."), one_call(), says("Two.")]);
    let mut session = place.open(&model, noting(&traces));
    let mut prompts = Vec::new();
    for words in ["first", "second"] {
        session.cx = Context::background();
        prompts.push(session.cx.trace().trace_id());
        session.turn(words).await;
    }
    assert_ne!(prompts[0], prompts[1]);
    assert_eq!(*traces.lock().unwrap(), prompts);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_another_process_takes_up_stays_in_its_trace() {
    let (place, traces) = (Place::new(), Traces::default());
    let model = Model::scripted([
        vec![Act::Hang],
        calls([call("a", "note", json!({}))]),
        says("Done."),
    ]);
    let session = place.open(&model, noting(&traces));
    let prompt = session.cx.trace().trace_id();
    session.prompt("go").await;
    while model.asked() == 0 {
        tokio::task::yield_now().await;
    }
    session.kill().await;
    let session = place.open(&model, noting(&traces));
    session.lane.resume(&session.cx).await.unwrap();
    session.idle().await;
    assert_ne!(session.cx.trace().trace_id(), prompt);
    assert_eq!(*traces.lock().unwrap(), [prompt]);
}
