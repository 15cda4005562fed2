//! Hooks, deadlines and bounds around tools, as plugins meet them. The numbers are those of the list of behaviours
//! that this product took over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bezel_api_session::{
    ApproveTool, BeforeTool, EventBody, Facet, FacetError, SessionContext, SessionFacet, ToolDraft,
};
use bezel_session_types::{
    CommandId, Delivery, RunOutcome, ToolOutput, ToolResultMessage, UserMessage,
};
use bezel_testkit::{Script, ScriptedProvider, Turn};
use serde_json::json;
use tokio::sync::watch;

use crate::world::{Kept, Place, changed, says, text_of, tools};

type Log = Arc<Mutex<Vec<String>>>;

fn one_call(name: &str) -> ScriptedProvider {
    let turns = [Turn::tool_calls([(name, json!({}))]), Turn::text("Done.")];
    ScriptedProvider::new(Script::new(turns))
}

fn hooking(
    plugin: &'static str,
    register: impl Fn(&SessionContext) + Send + Sync + 'static,
) -> SessionFacet {
    Facet::new(plugin, move |cx: SessionContext| {
        register(&cx);
        async { Ok::<(), FacetError>(()) }
    })
}

fn whole(words: &str) -> String {
    format!("{words}\n").repeat(10_000)
}

/// The text is short, and the file that it names has all of `whole`.
fn assert_bounded(place: &Place, result: &ToolResultMessage, whole: &str) {
    let text = text_of(result);
    assert!(text.len() <= 50 * 1024, "{} bytes", text.len());
    let files = std::fs::read_dir(place.output()).unwrap();
    let path = files
        .map(|file| file.unwrap().path())
        .find(|path| text.contains(path.to_str().unwrap()));
    let path = path.unwrap_or_else(|| panic!("it names no file: {text}"));
    assert!(std::fs::read_to_string(path).unwrap() == whole);
}

#[tokio::test(start_paused = true)]
async fn opencode_27_output_is_bounded_in_one_place_for_every_tool_and_again_after_hooks() {
    let (place, kept) = (Place::new(), Kept::default());
    let model = ScriptedProvider::new(Script::new([
        Turn::tool_calls([("long", json!({})), ("short", json!({}))]),
        Turn::text("Done."),
    ]));
    let one = tools("one", &kept, |draft: &mut ToolDraft| {
        draft.set("long", says(&whole("long")))
    });
    let other = tools("other", &kept, |draft: &mut ToolDraft| {
        draft.set("short", says("short"))
    });
    let hook = hooking("hook", |cx| {
        cx.agent.hooks().after_tool(|_, call, output| async move {
            Ok(match &*call.tool {
                "short" => ToolOutput::text(whole("hook")),
                _ => output,
            })
        });
    });
    let session = place.open_facets(&model, vec![one, other, hook]).await;
    session.turn("do it").await;
    let results = session.results().await;
    assert_bounded(&place, &results[0], &whole("long"));
    assert_bounded(&place, &results[1], &whole("hook"));
    assert!(results.iter().all(|result| !result.is_error));
    session.dies().await;
}

#[tokio::test(start_paused = true)]
async fn opencode_28_a_call_whose_output_cannot_be_saved_fails() {
    let (place, kept, model) = (Place::new(), Kept::default(), one_call("long"));
    std::fs::write(place.output(), "in the way").unwrap();
    let long = tools("long", &kept, |draft: &mut ToolDraft| {
        draft.set("long", says(&whole("long")))
    });
    let session = place.open_facets(&model, vec![long]).await;
    session.turn("do it").await;
    let result = session.results().await.remove(0);
    assert!(
        result.is_error && text_of(&result).contains("could not be saved"),
        "{result:?}"
    );
    session.dies().await;
}

/// A plugin that notes each hook of a tool call, with whose session it was.
fn noting(log: &Log) -> SessionFacet {
    let log = Arc::clone(log);
    hooking("noting", move |cx| {
        let session = cx.agent.identity().session_id.to_string();
        let note = {
            let log = Arc::clone(&log);
            move |hook: &str| log.lock().unwrap().push(format!("{hook} in {session}"))
        };
        let hooks = cx.agent.hooks();
        let (before, approve, after) = (note.clone(), note.clone(), note);
        hooks.before_tool(move |_, _| {
            before("before");
            async { Ok(BeforeTool::Continue) }
        });
        hooks.approve_tool(move |_, _| {
            approve("approve");
            async { Ok(ApproveTool::Allow) }
        });
        hooks.after_tool(move |_, _, output| {
            after("after");
            async { Ok(output) }
        });
    })
}

#[tokio::test(start_paused = true)]
async fn opencode_30_hooks_around_tools_fire_in_child_sessions_too() {
    let (place, kept, log) = (Place::new(), Kept::default(), Log::default());
    let facets = || {
        let read = tools("reads", &kept, |draft: &mut ToolDraft| {
            draft.set("read", says("read"))
        });
        vec![read, noting(&log)]
    };
    let parent = place.open_facets(&one_call("read"), facets()).await;
    let child = place
        .open_child(&parent, &one_call("read"), facets(), BTreeMap::new())
        .await;
    child.turn("a part of it").await;
    let noted = ["before in child", "approve in child", "after in child"];
    assert_eq!(*log.lock().unwrap(), noted);
    parent.turn("do it").await;
    assert_eq!(log.lock().unwrap().len(), 6);
    assert_eq!(child.read().await, ["read"]);
    child.dies().await;
    parent.dies().await;
}

/// What a plugin hears of what is wrong with others.
fn hearing(log: &watch::Sender<Vec<String>>) -> SessionFacet {
    let log = log.clone();
    hooking("hearing", move |cx| {
        let log = log.clone();
        cx.agent.events().subscribe(move |events| {
            let heard = events.iter().filter_map(|event| match &event.body {
                EventBody::HandlerFailed { plugin, hook, .. } => Some(format!("{plugin}: {hook}")),
                EventBody::ContributionRefused { plugin, .. } => {
                    Some(format!("{plugin}: contribution"))
                }
                _ => None,
            });
            log.send_modify(|log| log.extend(heard));
        });
    })
}

#[tokio::test(start_paused = true)]
async fn what_fails_of_plugins_is_told_to_the_subscribers_of_the_session_once_where_it_stays_so() {
    let (place, kept, log) = (Place::new(), Kept::default(), watch::Sender::default());
    let read = tools("reads", &kept, |draft: &mut ToolDraft| {
        draft.set("read", says("read"))
    });
    let broken = tools("broken", &kept, |_: &mut ToolDraft| panic!("a bug"));
    let taken = tools("taken", &kept, |draft: &mut ToolDraft| {
        draft.set("read", says("taken"))
    });
    let fails = hooking("fails", |cx| {
        let hooks = cx.agent.hooks();
        hooks.session_start(|_, _| async { Err("no".into()) });
        hooks.after_tool(|_, _, _| async { Err("no".into()) });
    });
    let facets = vec![hearing(&log), read, broken, taken, fails];
    let session = place.open_facets(&one_call("read"), facets).await;
    changed(&kept, 0);
    session.turn("do it").await;
    changed(&kept, 0);
    assert_eq!(session.read().await, ["read"]);
    let mut heard = log.subscribe();
    let all = |heard: &Vec<String>| heard.len() >= 4;
    let mut heard = heard.wait_for(all).await.unwrap().clone();
    heard.sort_unstable();
    let expected = [
        "broken: contribution",
        "fails: after_tool",
        "fails: session_start",
        "taken: contribution",
    ];
    assert_eq!(heard, expected);
    session.dies().await;
}

#[tokio::test(start_paused = true)]
async fn opencode_31_no_other_hook_overrides_a_denial_wherever_it_stands() {
    for denies_first in [true, false] {
        let (place, kept, model) = (Place::new(), Kept::default(), one_call("read"));
        let read = tools("reads", &kept, |draft: &mut ToolDraft| {
            draft.set("read", says("read"))
        });
        let denies = hooking("denies", |cx| {
            cx.agent.hooks().approve_tool(|_, _| async {
                Ok(ApproveTool::Deny("the configuration says no".into()))
            });
        });
        let allows = hooking("allows", |cx| {
            let hooks = cx.agent.hooks();
            hooks.before_tool(|_, _| async {
                Ok(BeforeTool::Arguments(json!({ "allowed": true })))
            });
            hooks.approve_tool(|_, _| async { Ok(ApproveTool::Allow) });
            hooks.after_tool(|_, _, _| async { Ok(ToolOutput::text("it ran")) });
        });
        let mut facets = vec![read, denies, allows];
        if !denies_first {
            facets.swap(1, 2);
        }
        let session = place.open_facets(&model, facets).await;
        session.turn("do it").await;
        let result = session.results().await.remove(0);
        assert!(result.is_error);
        assert_eq!(text_of(&result), "the configuration says no");
        session.dies().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_a_plugin_does_not_let_begin_is_refused_in_its_words_and_is_no_failure_of_the_session()
 {
    let place = Place::new();
    let model = ScriptedProvider::new(Script::new([Turn::text("Never.")]));
    let hook = hooking("gate", |cx| {
        cx.agent
            .hooks()
            .before_pass(|_, _| async { Err(FacetError::from("there is no agent `nope` here")) });
    });
    let session = place.open_facets(&model, vec![hook]).await;
    let admitted = session
        .lane
        .prompt(
            &session.cx,
            CommandId::new("1"),
            UserMessage::text("do it"),
            Delivery::Steer,
        )
        .await
        .unwrap();
    // While it is about to stop, and after it has.
    for _ in 0..2 {
        let ended = session.lane.wait(&session.cx, &admitted.operation_id).await;
        let RunOutcome::Failed { code, message } = ended.unwrap().outcome else {
            panic!("it is let begin");
        };
        assert_eq!(code, "session.refused");
        assert!(
            message.contains("gate does not let it begin: there is no agent `nope` here"),
            "{message}"
        );
        assert!(!message.contains("send a message"), "{message}");
    }
    session.dies().await;
}
