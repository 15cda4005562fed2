//! What plugins and tools reach of other sessions, over the product's own server and session hosts.

use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_api_session::{Sessions, SessionsError};
use bezel_rewind_contract::RewindError;
use bezel_rpc::{CallError, ErrorCode};
use bezel_sdk::session_api::SessionContext;
use bezel_sdk::{
    Context, CreateChild, ForkRequest, PermissionMode, SessionFacet, SessionId, StageRequest, Tool,
};
use bezel_session_types::{
    CommandId, Delivery, EntryId, HistoryRange, ModelRef, OperationId, ThinkingLevel, UserMessage,
};
use bezel_sessions_contract::{
    ListSessions, RenewError, RenewRequest, Renewal, SessionProcessClient,
};
use bezel_testkit::{FakeModelServer, ModelCall, Script, SeenPart, Turn};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;

use crate::world::{bezel, project};

/// What a test's tool does with the sessions within its reach.
type Act = Arc<dyn Fn(Context, Sessions) -> BoxFuture<'static, String> + Send + Sync>;

/// A tool `act` that may take no longer than a test.
fn act<F, Fut>(act: F) -> Tool
where
    F: Fn(Context, Sessions) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = String> + Send + 'static,
{
    let act: Act = Arc::new(move |cx, sessions| act(cx, sessions).boxed());
    let object = json!({ "type": "object" });
    let tool = Tool::with_schema("act", "Acts.", object, move |_, call| {
        let act = Arc::clone(&act);
        async move {
            let acted = call.with_sessions(move |cx, sessions| act(cx, sessions));
            let acted = tokio::time::timeout(Duration::from_secs(30), acted).await;
            acted
                .map_err(|_| "it hangs".to_owned())?
                .map_err(|error| error.to_string())
        }
    });
    tool.touches_nothing()
}

/// Calls `act` once for each prompt, and says what it answered. A prompt that begins with `write` writes a file.
fn acting() -> Script {
    Script::respond(|call: &ModelCall| match call.parts().last() {
        Some(SeenPart::ToolResult { text, .. }) => Turn::text(text),
        Some(SeenPart::Text(text)) if text.starts_with("write") => {
            let written = json!({ "path": "made.txt", "content": "by the child" });
            Turn::tool_calls([("write", written)])
        }
        Some(SeenPart::Text(text)) if text.starts_with("act") => {
            Turn::tool_calls([("act", json!({}))])
        }
        _ => Turn::text("ok"),
    })
}

async fn model() -> FakeModelServer {
    FakeModelServer::start(acting()).await.unwrap()
}

fn to(message: EntryId) -> StageRequest {
    StageRequest {
        message,
        reach: Default::default(),
        force: false,
    }
}

fn part_of(parent: &SessionId) -> CreateChild {
    CreateChild {
        parent_id: parent.clone(),
        session_id: None,
        title: None,
        agent: None,
        model: None,
        directory: None,
        permission_mode: None,
    }
}

/// Everything that acts on one session, by its name.
async fn runtime(
    cx: &Context,
    sessions: &Sessions,
    id: &SessionId,
) -> Vec<(&'static str, Result<(), SessionsError>)> {
    let (command, message) = (CommandId::new("c"), UserMessage::text("Hello."));
    let operation = OperationId::new("o");
    let prompted = sessions.prompt(cx, id, command.clone(), message.clone(), Delivery::Steer);
    let prompted = prompted.await.map(drop);
    let recorded = sessions.record(cx, id, command, message, Delivery::Steer);
    let recorded = recorded.await.map(drop);
    let fork = ForkRequest::default();
    let stage = to(EntryId::new("m"));
    vec![
        ("prompt", prompted),
        ("record", recorded),
        ("resume", sessions.resume(cx, id).await.map(drop)),
        ("wait", sessions.wait(cx, id).await),
        (
            "outcome",
            sessions.outcome(cx, id, &operation).await.map(drop),
        ),
        ("interrupt", sessions.interrupt(cx, id).await.map(drop)),
        ("compact", sessions.compact(cx, id, None).await.map(drop)),
        ("lane", sessions.lane(cx, id).await.map(drop)),
        ("fork", sessions.fork(cx, id, fork).await.map(drop)),
        (
            "rewind_stage",
            sessions.rewind_stage(cx, id, stage).await.map(drop),
        ),
        (
            "rewind_clear",
            sessions.rewind_clear(cx, id, false).await.map(drop),
        ),
        (
            "rewind_commit",
            sessions.rewind_commit(cx, id).await.map(drop),
        ),
        ("children", sessions.children(cx, id).await.map(drop)),
        ("create", sessions.create(cx, part_of(id)).await.map(drop)),
    ]
}

/// Everything that reads or changes one session's record, by its name.
async fn records(
    cx: &Context,
    sessions: &Sessions,
    id: &SessionId,
) -> Vec<(&'static str, Result<(), SessionsError>)> {
    let entry = EntryId::new("m");
    let model: ModelRef = "local::m".parse().unwrap();
    let thinking = ThinkingLevel::Off;
    let range = HistoryRange::default;
    vec![
        ("get", sessions.get(cx, id).await.map(drop)),
        (
            "message",
            match sessions.message(cx, id, &entry).await {
                // Within reach, and without such an entry.
                Err(SessionsError::Refused(_)) => Ok(()),
                came => came.map(drop),
            },
        ),
        ("messages", sessions.messages(cx, id, 5).await.map(drop)),
        ("final_text", sessions.final_text(cx, id).await.map(drop)),
        ("context", sessions.context(cx, id).await.map(drop)),
        (
            "history",
            sessions.history(cx, id, range(), 5).await.map(drop),
        ),
        ("journal", sessions.journal(cx, id, 0, 5).await.map(drop)),
        ("rename", sessions.rename(cx, id, "Theirs").await.map(drop)),
        (
            "switch_agent",
            sessions.switch_agent(cx, id, None).await.map(drop),
        ),
        (
            "switch_model",
            sessions
                .switch_model(cx, id, model, thinking)
                .await
                .map(drop),
        ),
        ("archive", sessions.archive(cx, id, true).await.map(drop)),
        ("archive", sessions.archive(cx, id, false).await.map(drop)),
        ("remove", sessions.remove(cx, id).await),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_03_whatever_acts_on_a_session_of_another_worker_finds_none_and_records_are_reached_in_the_workspace()
 {
    let model = model().await;
    let (here, elsewhere) = (project(), project());
    let others: Arc<Mutex<Vec<SessionId>>> = Arc::default();
    let told = Arc::clone(&others);
    let tool = act(move |cx, sessions| {
        let others = told.lock().unwrap().clone();
        async move {
            let [beside, outside] = <[SessionId; 2]>::try_from(others).unwrap();
            let unknown = SessionId::generate();
            let none = |id: &SessionId| {
                Err(SessionsError::NotFound {
                    session_id: id.clone(),
                })
            };
            for id in [&beside, &outside, &unknown] {
                for (name, came) in runtime(&cx, &sessions, id).await {
                    assert_eq!(came, none(id), "{name}");
                }
                assert!(sessions.events(id).is_none() && sessions.services(id).is_none());
                assert!(!sessions.active().contains(id));
            }
            for id in [&outside, &unknown] {
                for (name, came) in records(&cx, &sessions, id).await {
                    assert_eq!(came, none(id), "{name}");
                }
            }
            let listed = sessions.list(&cx, ListSessions::default()).await.unwrap();
            let listed: Vec<_> = listed
                .sessions
                .into_iter()
                .map(|one| one.session_id)
                .collect();
            assert!(listed.contains(&beside) && !listed.contains(&outside));
            for (name, came) in records(&cx, &sessions, &beside).await {
                assert_eq!(came, Ok(()), "{name}");
            }
            "all is well".into()
        }
    });
    let bezel = bezel(&model).add_tool(tool).start().await.unwrap();
    let session = bezel.session(here.path()).await.unwrap();
    for place in [&here, &elsewhere] {
        let other = bezel.session(place.path()).await.unwrap();
        others.lock().unwrap().push(other.id().clone());
    }
    let answer = session.prompt("act").await.unwrap();
    assert_eq!(answer.text(), "all is well");
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_copies_its_own_session_while_its_turn_runs_and_is_told_that_it_is_busy_for_a_rewind()
 {
    let model = model().await;
    let place = project();
    let tool = act(|cx, sessions| async move {
        let own = sessions.own().clone();
        let path = sessions
            .fork(&cx, &own, ForkRequest::default())
            .await
            .unwrap();
        let whole = ForkRequest {
            whole_tree: true,
            title: Some("All of it".into()),
            at: None,
        };
        let whole = sessions.fork(&cx, &own, whole).await.unwrap();
        assert_eq!(
            (&path.parent_id, &whole.parent_id),
            (&None, &None),
            "a copy is a root"
        );
        assert_eq!(whole.title, "All of it");
        let tree = sessions.tree(&cx).await.unwrap();
        assert_eq!(tree.len(), 1, "it is of no tree but its own");
        let entries = sessions
            .history(&cx, &own, HistoryRange::default(), 5)
            .await
            .unwrap();
        let said = entries.entries[0].id.clone();
        let staged = sessions.rewind_stage(&cx, &own, to(said)).await;
        assert_eq!(staged, Err(SessionsError::Rewind(RewindError::Busy)));
        let refusals = [RewindError::Busy, RewindError::NothingStaged].map(SessionsError::Rewind);
        for undone in [
            sessions.rewind_clear(&cx, &own, false).await,
            sessions.rewind_commit(&cx, &own).await,
        ] {
            assert!(refusals.contains(&undone.unwrap_err()));
        }
        path.session_id.to_string()
    });
    let bezel = bezel(&model).add_tool(tool).start().await.unwrap();
    let session = bezel.session(place.path()).await.unwrap();
    let answer = session.prompt("act").await.unwrap();
    let copy = bezel.open(SessionId::new(answer.text())).await.unwrap();
    assert_eq!(copy.prompt("Go on.").await.unwrap().text(), "ok");
    let told = model.last_call().parts().count();
    assert!(told > 1, "it knows what was said before");
    // From the program, too.
    let again = session.fork(ForkRequest::default()).await.unwrap();
    assert_eq!(again.prompt("Go on.").await.unwrap().text(), "ok");
    bezel.stop().await.unwrap();
}

/// Begins a child and has it write `made.txt`; its id, and the message that asked for it.
async fn written(cx: &Context, sessions: &Sessions) -> (SessionId, EntryId) {
    let child = sessions
        .create(cx, part_of(sessions.own()))
        .await
        .unwrap()
        .session_id;
    let message = UserMessage::text("write it");
    let asked = sessions
        .prompt(cx, &child, CommandId::new("w"), message, Delivery::Queue)
        .await
        .unwrap();
    sessions
        .outcome(cx, &child, &asked.operation_id)
        .await
        .unwrap();
    (child, asked.message_id.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_rewinds_a_part_of_its_sessions_work_and_copies_it_up_to_an_entry() {
    let model = model().await;
    let place = project();
    let made = place.path().join("made.txt");
    let tool = act(move |cx, sessions| {
        let made = made.clone();
        let content = move || std::fs::read_to_string(&made).ok();
        async move {
            let (child, message) = written(&cx, &sessions).await;
            assert_eq!(content().unwrap(), "by the child");
            let staged = sessions
                .rewind_stage(&cx, &child, to(message.clone()))
                .await
                .unwrap();
            assert_eq!((staged.total, content()), (1, None));
            let cleared = sessions.rewind_clear(&cx, &child, false).await.unwrap();
            assert_eq!(
                (cleared.files, content().unwrap()),
                (1, "by the child".into())
            );
            let up_to = ForkRequest {
                at: Some(message.clone()),
                ..ForkRequest::default()
            };
            let copy = sessions.fork(&cx, &child, up_to).await.unwrap();
            assert_eq!(copy.parent_id, None, "what copies a part is a root");
            let copied = sessions.messages(&cx, &copy.session_id, 10).await.unwrap();
            assert_eq!(copied.len(), 1, "one path up to that entry");
            sessions
                .rewind_stage(&cx, &child, to(message))
                .await
                .unwrap();
            let kept = sessions.rewind_commit(&cx, &child).await.unwrap();
            assert!(kept.conversation && content().is_none());
            assert!(sessions.messages(&cx, &child, 10).await.unwrap().is_empty());
            let again = sessions.rewind_clear(&cx, &child, false).await;
            assert_eq!(
                again,
                Err(SessionsError::Rewind(RewindError::NothingStaged))
            );
            "all is well".into()
        }
    });
    let builder = bezel(&model)
        .permission_mode(PermissionMode::Full)
        .add_tool(tool);
    let bezel = builder.start().await.unwrap();
    let session = bezel.session(place.path()).await.unwrap();
    assert_eq!(session.prompt("act").await.unwrap().text(), "all is well");
    // From the program, too.
    session.prompt("write it").await.unwrap();
    let missing = session
        .rewind_stage(to(EntryId::new("nothing")))
        .await
        .unwrap_err();
    assert!(
        missing.to_string().contains("no message nothing"),
        "{missing}"
    );
    let nothing = session.rewind_clear(false).await.unwrap_err();
    assert!(
        nothing.to_string().contains("nothing is rewound"),
        "{nothing}"
    );
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_the_rewind_plugin_says_so() {
    let model = model().await;
    let place = project();
    let tool = act(|cx, sessions| async move {
        let child = sessions
            .create(&cx, part_of(sessions.own()))
            .await
            .unwrap()
            .session_id;
        let missing = sessions.rewind_commit(&cx, &child).await.unwrap_err();
        let expected = SessionsError::Missing {
            session_id: child,
            service: "rewind",
        };
        assert_eq!(missing, expected);
        missing.to_string()
    });
    let builder = bezel(&model).configuration("[plugins.rewind]\nenabled = false\n");
    let bezel = builder.add_tool(tool).start().await.unwrap();
    let session = bezel.session(place.path()).await.unwrap();
    let answer = session.prompt("act").await.unwrap();
    assert!(
        answer.text().contains("enable the plugin"),
        "{}",
        answer.text()
    );
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_part_gives_way_while_its_parent_works_and_the_parent_does_not() {
    let model = model().await;
    let place = project();
    let tool = act(|cx, sessions| async move {
        let own = sessions.own().clone();
        let child = sessions
            .create(&cx, part_of(&own))
            .await
            .unwrap()
            .session_id;
        sessions.lane(&cx, &child).await.unwrap();
        let renew = async |id: &SessionId| {
            let process: SessionProcessClient = sessions.services(id).unwrap().use_service();
            loop {
                let request = RenewRequest {
                    environment: None,
                    always: true,
                };
                match process.renew(&cx, request).await {
                    // The connection within the process comes a moment after it is asked for.
                    Err(CallError::Rpc(error)) if error.code == ErrorCode::Disconnected => {
                        tokio::task::yield_now().await;
                    }
                    answered => break answered,
                }
            }
        };
        let busy = renew(&own).await.unwrap_err();
        assert!(
            matches!(busy, CallError::Service(RenewError::Busy { .. })),
            "{busy}"
        );
        assert_eq!(renew(&child).await, Ok(Renewal::Ending));
        "all is well".into()
    });
    let bezel = bezel(&model).add_tool(tool).start().await.unwrap();
    let session = bezel.session(place.path()).await.unwrap();
    assert_eq!(session.prompt("act").await.unwrap().text(), "all is well");
    bezel.stop().await.unwrap();
}

/// Asks for everything of its own record while it is set up, and begins a part of its work.
fn early(found: &Arc<Mutex<Vec<String>>>) -> SessionFacet {
    let found = Arc::clone(found);
    SessionFacet::new("early", move |cx: SessionContext| {
        let found = Arc::clone(&found);
        async move {
            let (sessions, own, cx) = (
                cx.session.clone(),
                cx.session.own().clone(),
                Context::background(),
            );
            let record = sessions.get(&cx, &own).await?;
            let messages = sessions.messages(&cx, &own, 10).await?;
            let listed = sessions.list(&cx, ListSessions::default()).await?;
            let mut noted = vec![
                format!("{} messages", messages.len()),
                format!(
                    "listed: {}",
                    listed.sessions.iter().any(|one| one.session_id == own)
                ),
            ];
            if record.parent_id.is_none() {
                sessions.create(&cx, part_of(&own)).await?;
                noted.push(format!(
                    "{} children",
                    sessions.children(&cx, &own).await?.len()
                ));
            }
            let message = UserMessage::text("Hello.");
            let prompted = sessions
                .prompt(&cx, &own, CommandId::new("c"), message, Delivery::Steer)
                .await;
            noted.push(prompted.unwrap_err().to_string());
            found.lock().unwrap().extend(noted);
            Ok(())
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_04_sessions_are_read_and_begun_during_a_plugins_setup() {
    let model = model().await;
    let (home, place) = (project(), project());
    let found = Arc::default();
    let start = |home: &Path| bezel(&model).home(home).plugin(early(&found)).start();
    let first = start(home.path()).await.unwrap();
    let session = first.session(place.path()).await.unwrap();
    session.prompt("Hello.").await.unwrap();
    let id = session.id().clone();
    first.stop().await.unwrap();
    let second = start(home.path()).await.unwrap();
    second.open(id.clone()).await.unwrap();
    second.stop().await.unwrap();
    let refused = format!(
        "the facets of session {id} are not active yet; do this from a task that waits until they are"
    );
    let expected = [
        "0 messages",
        "listed: true",
        "1 children",
        &refused,
        "2 messages",
        "listed: true",
        "2 children",
        &refused,
    ];
    assert_eq!(*found.lock().unwrap(), expected);
}
