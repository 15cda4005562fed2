//! Hooks of a program's plugin in sessions that sessions began, in hosts that were started as any child's is.

use std::sync::{Arc, Mutex};

use bezel_sdk::SessionFacet;
use bezel_sdk::session_api::{CompactionVerdict, SessionContext};
use bezel_session_types::Usage;
use bezel_testkit::{FakeModelServer, Script, Step, Turn};
use serde_json::json;

use crate::world::{Runs, bezel, project, results, shelf};

/// More than is kept of the newest when the older is summarised.
fn long(words: &str) -> String {
    words.repeat(120_000 / words.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_30_hooks_around_requests_answers_and_compactions_fire_in_child_sessions_too() {
    let script = Script::respond(|call| {
        let said = format!("{:?}", call.messages);
        if call.system.contains("summarise") {
            return Turn::text("A part is done.");
        }
        match (call.last_results().is_empty(), said.contains("CHILD")) {
            (false, _) => Turn::text(&results(call)[0].0),
            (true, false) => Turn::tool_calls([(
                "subagent",
                json!({ "description": "a part", "prompt": long("CHILD: do a part of it. ") }),
            )]),
            // So much that what came before it has to be summarised.
            (true, true) => Turn::text(&long("I look at it. "))
                .then([Step::call("shelf", json!({ "number": 7 }))])
                .usage(Usage {
                    input: 95_000,
                    output: 10,
                    ..Usage::default()
                }),
        }
    });
    let model = FakeModelServer::start(script).await.unwrap();
    let (runs, project) = (Runs::default(), project());
    let fired: Arc<Mutex<Vec<(&str, bool)>>> = Arc::default();
    let noted = Arc::clone(&fired);
    let noting = SessionFacet::new("noting", move |cx: SessionContext| {
        let in_child = cx.agent.identity().parent_id.is_some();
        let noted = Arc::clone(&noted);
        let note = move |hook| noted.lock().unwrap().push((hook, in_child));
        let hooks = cx.agent.hooks();
        let (request, answer, compaction) = (note.clone(), note.clone(), note);
        hooks.before_request(move |_, draft| {
            request("before_request");
            async { Ok(draft) }
        });
        hooks.after_response(move |_, message| {
            answer("after_response");
            async { Ok(message) }
        });
        hooks.before_compaction(move |_, _| {
            compaction("before_compaction");
            async { Ok(CompactionVerdict::Proceed) }
        });
        async { Ok(()) }
    });
    let builder = bezel(&model).plugin(noting);
    let builder = builder.add_tool(shelf(&runs).touches_nothing());
    let bezel = builder.start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    let answer = session.prompt("Go.").await.unwrap();
    assert!(answer.text().contains("books of shelf 7"), "{answer:?}");
    assert_eq!(runs.count(), 1);
    let fired = fired.lock().unwrap().clone();
    let times = |hook, in_child| fired.iter().filter(|one| **one == (hook, in_child)).count();
    assert_eq!(times("before_request", true), 2, "{fired:?}");
    assert_eq!(times("after_response", true), 2, "{fired:?}");
    assert_eq!(times("before_compaction", true), 1, "{fired:?}");
    assert_eq!(times("before_request", false), 2, "{fired:?}");
    assert_eq!(times("before_compaction", false), 0, "{fired:?}");
    bezel.stop().await.unwrap();
}
