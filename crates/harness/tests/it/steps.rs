//! Which step of a turn a request is, and answers that are to be made without tools.

use std::sync::{Arc, Mutex};

use bezel_harness::{PromptRequest, RequestPatch};
use bezel_session_types::{ProviderErrorKind, StopReason, ToolChoice};
use serde_json::json;
use tokio::sync::Notify;

use crate::model::{Act, Reply, end, text};
use crate::support::{
    Model, Place, Session, TestTool, call, calls, model_spec, prompt_request, registration, says,
};

/// Notes the step of each request, and has those from `limit` on answered without tools.
fn note(session: &Session, limit: u32) -> (Arc<Mutex<Vec<u32>>>, bezel_harness::HookGuard) {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&steps);
    let guard = session
        .harness
        .hooks()
        .before_request("agents", move |_, request| {
            noted.lock().unwrap().push(request.step);
            let mut options = request.options;
            if request.step >= limit {
                options.tool_choice = ToolChoice::None;
            }
            async move {
                Ok(RequestPatch {
                    options: Some(options),
                    ..RequestPatch::default()
                })
            }
        });
    (steps, guard)
}

fn open(place: &Place, model: &Arc<Model>) -> Session {
    place.open(model, vec![registration("echo", TestTool::echo())])
}

fn echo(id: &str) -> Act {
    call(id, "echo", json!({}))
}

/// A call that the model makes once it is let.
fn held(gate: &Arc<Notify>, id: &str) -> Reply {
    vec![
        Act::Gate(Arc::clone(gate)),
        echo(id),
        end(StopReason::ToolUse),
    ]
}

#[tokio::test(start_paused = true)]
async fn steps_are_counted_anew_when_a_person_says_something_and_not_when_a_plugin_does() {
    let (place, gate) = (Place::new(), Arc::new(Notify::new()));
    let model = Model::scripted([
        calls([echo("a")]),
        held(&gate, "b"),
        held(&gate, "c"),
        says("Done."),
        says("Again."),
    ]);
    let session = open(&place, &model);
    let (steps, _guard) = note(&session, u32::MAX);
    let asked = async |count| {
        while model.asked() < count {
            tokio::task::yield_now().await;
        }
    };
    session.prompt("go").await;
    asked(2).await;
    session.prompt("and this").await;
    gate.notify_one();
    asked(3).await;
    let mut word = prompt_request("word", "a plugin's word");
    word.message.synthetic = true;
    let word: PromptRequest = word;
    session.lane.prompt(&session.cx, word).await.unwrap();
    gate.notify_one();
    session.idle().await;
    session.turn("once more").await;
    assert_eq!(*steps.lock().unwrap(), [1, 2, 1, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_tried_again_is_the_same_step_also_after_a_kill() {
    let place = Place::new();
    let busy = bezel_session_types::ProviderError {
        kind: ProviderErrorKind::Overloaded,
        message: "busy".into(),
        status: None,
        retry_after: None,
    };
    let model = Model::scripted([
        calls([echo("a")]),
        vec![Act::Fail(busy)],
        vec![text("half"), Act::Hang],
        says("Done."),
    ]);
    let session = open(&place, &model);
    let (steps, _guard) = note(&session, u32::MAX);
    session.prompt("go").await;
    while model.asked() < 3 {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    assert_eq!(*steps.lock().unwrap(), [1, 2, 2]);
    session.kill().await;
    let session = place.open_with(
        &model,
        vec![registration("echo", TestTool::echo())],
        model_spec(),
        Default::default(),
    );
    let (steps, _guard) = note(&session, u32::MAX);
    session.lane.resume(&session.cx).await.unwrap();
    session.idle().await;
    assert_eq!(*steps.lock().unwrap(), [2]);
}

#[tokio::test(start_paused = true)]
async fn calls_of_an_answer_that_was_to_be_made_without_tools_are_not_run_and_leave_it() {
    let place = Place::new();
    let stubborn = vec![text("I must look."), echo("b"), end(StopReason::ToolUse)];
    let model = Model::scripted([calls([echo("a")]), stubborn, says("Well.")]);
    let session = open(&place, &model);
    let (_, guard) = note(&session, 2);
    session.turn("go").await;
    assert_eq!(model.asked(), 2, "the turn ends with its last step");
    let request = model.request(1);
    assert_eq!(request.options.tool_choice, ToolChoice::None);
    assert_eq!(request.tools.len(), 1, "the tools are told of all the same");
    assert_eq!(session.results().len(), 1);
    let answers = session.answers();
    assert_eq!(answers[1].to_text(), "I must look.");
    assert_eq!(answers[1].tool_calls().count(), 0);
    let error = answers[1].error.as_deref().unwrap();
    assert!(error.contains("called 1 all the same"), "{error}");
    // The next turn goes on from there; the fake checks that its history is whole.
    drop(guard);
    session.turn("then without").await;
    assert_eq!(session.answers()[2].to_text(), "Well.");
}
