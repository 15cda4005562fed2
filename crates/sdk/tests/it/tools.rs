//! Tools of the program: behaviour 34, and what holds for every tool.

use std::future::pending;
use std::path::Path;
use std::sync::Arc;

use bezel_sdk::session_api::{BeforeTool, SessionContext};
use bezel_sdk::{Error, Json, PermissionMode, PromptError, Reply, SessionFacet, Tool, ToolOutput};
use bezel_testkit::{FakeModelServer, Script, Turn};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

use crate::world::{Runs, Shelf, bezel, model, offered, project, results, shelf};

fn call(arguments: Value) -> Turn {
    Turn::tool_calls([("shelf", arguments)])
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_34_a_tool_of_the_program_gets_valid_arguments_and_its_result_reaches_the_model() {
    let model = model([call(json!({ "number": 2 })), Turn::text("Two books.")]).await;
    let (runs, project) = (Runs::default(), project());
    let builder = bezel(&model).add_tool(shelf(&runs).touches_nothing());
    let bezel = builder.start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    let answer = session.prompt("What is there?").await.unwrap();
    assert_eq!((answer.text(), runs.count()), ("Two books.", 1));
    assert!(answer.operation_id().is_some());
    let last = model.last_call();
    assert_eq!(results(&last), [("books of shelf 2".to_owned(), false)]);
    let told = last.tools.iter().find(|tool| tool.name == "shelf").unwrap();
    assert_eq!(told.description, "Says what stands there.");
    let number = &told.parameters["properties"]["number"];
    assert_eq!(number["description"], "Which shelf, from 1.");
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_34_arguments_that_do_not_fit_never_reach_the_program() {
    let model = model([call(json!({ "number": "two" })), Turn::text("Sorry.")]).await;
    let (runs, project) = (Runs::default(), project());
    let builder = bezel(&model).add_tool(shelf(&runs).touches_nothing());
    let bezel = builder.start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    assert_eq!(session.prompt("Go.").await.unwrap().text(), "Sorry.");
    assert_eq!(runs.count(), 0);
    let told = &results(&model.last_call())[0].0;
    assert!(
        told.contains("/number") && told.contains("corrected"),
        "{told}"
    );
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_34_an_error_and_a_panic_of_a_tool_are_read_by_the_model_which_goes_on() {
    let model = model([
        Turn::tool_calls([
            ("fails", json!({ "number": 9 })),
            ("panics", json!({ "number": 9 })),
        ]),
        Turn::text("I see."),
        Turn::text("Still here."),
    ])
    .await;
    let project = project();
    let fails = Tool::new("fails", "Fails.", |shelf: Shelf, _| async move {
        Err::<String, _>(format!("there is no shelf {}: say 1 or 2", shelf.number))
    });
    let panics = Tool::new("panics", "Panics.", |shelf: Shelf, _| async move {
        assert_ne!(shelf.number, 9, "the shelf broke");
        Ok::<_, String>("")
    });
    let builder = bezel(&model).add_tool(fails.touches_nothing());
    let builder = builder.add_tool(panics.touches_nothing());
    let bezel = builder.start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    assert_eq!(session.prompt("Go.").await.unwrap().text(), "I see.");
    let told = results(&model.last_call());
    assert_eq!(told[0].0, "there is no shelf 9: say 1 or 2");
    assert!(told[1].0.contains("panic"), "{told:?}");
    assert_eq!(session.prompt("And?").await.unwrap().text(), "Still here.");
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_34_two_instances_side_by_side_see_their_own_tools_alone() {
    let models = [
        model([Turn::text("a")]).await,
        model([Turn::text("b")]).await,
    ];
    let (runs, project) = (Runs::default(), project());
    let named = |name| Tool::new(name, "It.", |_: Shelf, _| async { Ok::<_, String>("") });
    let one = bezel(&models[0])
        .add_tool(named("one"))
        .start()
        .await
        .unwrap();
    let two = bezel(&models[1])
        .add_tool(named("two"))
        .start()
        .await
        .unwrap();
    one.add_tool(shelf(&runs)).unwrap();
    for bezel in [&one, &two] {
        let session = bezel.session(project.path()).await.unwrap();
        session.prompt("Go.").await.unwrap();
    }
    let has = |model: &FakeModelServer| {
        let offered = offered(&model.last_call());
        ["one", "two", "shelf"].map(|name| offered.iter().any(|offered| offered == name))
    };
    assert_eq!(has(&models[0]), [true, false, true]);
    assert_eq!(has(&models[1]), [false, true, false]);
    one.stop().await.unwrap();
    // What is gone took nothing of the other along.
    let session = two.session(project.path()).await.unwrap();
    models[1].push(Turn::text("c"));
    assert_eq!(session.prompt("Go.").await.unwrap().text(), "c");
    two.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_34_a_tool_is_in_every_location_that_boots_after_it_came_and_in_none_before() {
    let model = model((0..4).map(|_| Turn::text("ok"))).await;
    let (runs, project) = (Runs::default(), project());
    let bezel = bezel(&model).start().await.unwrap();
    let offers = || offered(&model.last_call()).contains(&"shelf".to_owned());
    let before = bezel.session(project.path()).await.unwrap();
    bezel.add_tool(shelf(&runs)).unwrap();
    before.prompt("Go.").await.unwrap();
    assert!(!offers(), "it booted before");
    let after = bezel.session(project.path()).await.unwrap();
    after.prompt("Go.").await.unwrap();
    assert!(offers(), "it booted after");
    assert!(bezel.remove_tool("shelf") && !bezel.remove_tool("shelf"));
    after.prompt("Go.").await.unwrap();
    assert!(offers(), "what runs stays as it booted");
    let later = bezel.session(project.path()).await.unwrap();
    later.prompt("Go.").await.unwrap();
    assert!(!offers(), "it booted after the tool had gone");
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_34_two_directories_in_parallel_call_the_same_tool_each_from_its_own() {
    let script = Script::respond(|call| match call.last_results().is_empty() {
        true => Turn::tool_calls([("where", json!({}))]),
        false => Turn::text(&results(call)[0].0),
    });
    let model = FakeModelServer::start(script).await.unwrap();
    // Both calls run at once, or neither ends.
    let both = Arc::new(tokio::sync::Barrier::new(2));
    let place = Tool::with_schema(
        "where",
        "Says where.",
        json!({ "type": "object" }),
        move |_, call| {
            let both = Arc::clone(&both);
            async move {
                both.wait().await;
                Ok::<_, String>(Json(json!({ "in": call.directory() })))
            }
        },
    );
    let builder = bezel(&model).add_tool(place.touches_nothing());
    let bezel = builder.start().await.unwrap();
    let projects = [project(), project()];
    let ask = async |directory: &Path| {
        let session = bezel.session(directory).await.unwrap();
        session.prompt("Where?").await.unwrap().into_text()
    };
    let answers = tokio::join!(ask(projects[0].path()), ask(projects[1].path()));
    let wanted = projects.each_ref().map(|project| {
        let path = project.path().canonicalize().unwrap();
        json!({ "in": path }).to_string()
    });
    assert_eq!([answers.0, answers.1], wanted);
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_34_a_child_session_has_the_tools_of_the_program_too() {
    let script = Script::respond(|call| {
        let child = call.last_user_text().contains("a part of it");
        match (child, call.last_results().is_empty()) {
            (false, true) => Turn::tool_calls([(
                "subagent",
                json!({ "description": "a part", "prompt": "Do a part of it." }),
            )]),
            (true, true) => Turn::tool_calls([("shelf", json!({ "number": 7 }))]),
            (_, false) => Turn::text(&results(call)[0].0),
        }
    });
    let model = FakeModelServer::start(script).await.unwrap();
    let (runs, project) = (Runs::default(), project());
    let builder = bezel(&model).add_tool(shelf(&runs).touches_nothing());
    let bezel = builder.start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    let answer = session.prompt("Do it.").await.unwrap();
    assert!(answer.text().contains("books of shelf 7"), "{answer:?}");
    assert_eq!(runs.count(), 1);
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_27_long_output_of_a_tool_is_bounded_and_the_whole_is_kept() {
    let model = model([Turn::tool_calls([("long", json!({}))]), Turn::text("Long.")]).await;
    let long = Tool::with_schema(
        "long",
        "Is long.",
        json!({ "type": "object" }),
        |_, _| async { Ok::<_, String>("a line of it\n".repeat(20_000)) },
    );
    let project = project();
    let bezel = bezel(&model).add_tool(long.touches_nothing());
    let bezel = bezel.start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    session.prompt("Go.").await.unwrap();
    let told = &results(&model.last_call())[0].0;
    assert!(told.len() < 60 * 1024, "{} bytes", told.len());
    let words = told.split_whitespace();
    let path =
        words.map(|word| word.trim_matches(|end: char| !end.is_alphanumeric() && end != '/'));
    let kept = path
        .filter(|word| word.starts_with('/'))
        .find_map(|path| std::fs::read(path).ok());
    assert_eq!(kept.map(|kept| kept.len()), Some(13 * 20_000), "{told}");
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_30_a_tool_that_does_not_say_what_it_touches_needs_a_permission() {
    let again = || call(json!({ "number": 1 }));
    let model = model([
        again(),
        again(),
        Turn::text("Once."),
        again(),
        Turn::text("No."),
    ])
    .await;
    let (runs, project) = (Runs::default(), project());
    let bezel = bezel(&model).add_tool(shelf(&runs)).start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    let error = session.prompt("Go.").await.unwrap_err();
    let PromptError::NeedsPermission { tool, asked, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (tool.as_str(), asked[0].action.as_str()),
        ("shelf", "shelf")
    );
    assert!(
        error.to_string().contains("Prompt::on_permission"),
        "{error}"
    );
    assert_eq!(runs.count(), 0);
    let once = |_| async { Reply::Once };
    let answer = session.prompt("Go.").on_permission(once).await.unwrap();
    assert_eq!((answer.text(), runs.count()), ("Once.", 1));
    let message = Some("not that shelf".to_owned());
    let reject = move |_| {
        let message = message.clone();
        async move { Reply::Reject { message } }
    };
    let answer = session.prompt("Go.").on_permission(reject).await.unwrap();
    assert_eq!((answer.text(), runs.count()), ("No.", 1));
    assert!(results(&model.last_call())[0].0.contains("not that shelf"));
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_30_hooks_of_a_plugin_hold_for_a_tool_of_the_program() {
    let model = model([
        call(json!({ "number": 1 })),
        call(json!({ "number": 2 })),
        Turn::text("ok"),
    ])
    .await;
    let (runs, project) = (Runs::default(), project());
    let careful = SessionFacet::new("careful", |cx: SessionContext| async move {
        cx.agent.hooks().before_tool(|_, call| async move {
            Ok(match call.arguments["number"].as_u64() {
                Some(1) => BeforeTool::Block("shelf 1 is closed".into()),
                _ => BeforeTool::Continue,
            })
        });
        cx.agent.hooks().after_tool(|_, call, output| async move {
            let text = format!("{} said {:?}", call.tool, output.content);
            Ok(ToolOutput::text(text))
        });
        Ok(())
    });
    let builder = bezel(&model).plugin(careful);
    let builder = builder.add_tool(shelf(&runs).touches_nothing());
    let bezel = builder.start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    session.prompt("Go.").await.unwrap();
    assert_eq!(runs.count(), 1);
    let all = model.calls();
    assert!(results(&all[1])[0].0.contains("shelf 1 is closed"));
    let told = &results(&all[2])[0].0;
    assert!(
        told.starts_with("shelf said") && told.contains("books of shelf 2"),
        "{told}"
    );
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_31_what_a_rule_denies_no_program_allows() {
    let turns = || [call(json!({ "number": 1 })), Turn::text("ok")];
    let model = model(turns().into_iter().chain(turns())).await;
    let (runs, project) = (Runs::default(), project());
    let denied = "[[permissions.rules]]\naction = \"shelf\"\nresource = \"*\"\neffect = \"deny\"\n";
    for (rules, expected) in [("", 1), (denied, 1)] {
        let builder = bezel(&model).configuration(rules).allow("shelf");
        let builder = builder.permission_mode(PermissionMode::Ask);
        let bezel = builder.add_tool(shelf(&runs)).start().await.unwrap();
        let session = bezel.session(project.path()).await.unwrap();
        session.prompt("Go.").await.unwrap();
        assert_eq!(runs.count(), expected, "{rules:?}");
        bezel.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_configuration_lets_sessions_do_holds_where_the_program_says_nothing() {
    let turns = || [call(json!({ "number": 1 })), Turn::text("ok")];
    let model = model(turns().into_iter().chain(turns())).await;
    let (runs, project) = (Runs::default(), project());
    for (configured, expected) in [
        ("permission_mode = \"plan\"\n", 0),
        ("permission_mode = \"full\"\n", 1),
    ] {
        let builder = bezel(&model)
            .configuration(configured)
            .add_tool(shelf(&runs));
        let bezel = builder.start().await.unwrap();
        let session = bezel.session(project.path()).await.unwrap();
        session.prompt("Go.").await.unwrap();
        assert_eq!(runs.count(), expected, "{configured}");
        bezel.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_29_interrupting_drops_the_function_that_runs() {
    let model = model([Turn::tool_calls([("waits", json!({}))]), Turn::text("On.")]).await;
    let begun = Arc::new(Notify::new());
    let (sender, dropped) = oneshot::channel::<()>();
    let held = std::sync::Mutex::new(Some(sender));
    let waiting = Arc::clone(&begun);
    let waits = Tool::with_schema(
        "waits",
        "Waits.",
        json!({ "type": "object" }),
        move |_, _| {
            let (held, begun) = (held.lock().unwrap().take(), Arc::clone(&waiting));
            async move {
                let _held = held;
                begun.notify_one();
                pending::<Result<String, String>>().await
            }
        },
    );
    let project = project();
    let builder = bezel(&model).add_tool(waits.touches_nothing());
    let bezel = builder.start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    let prompt = session.prompt("Go.").events();
    begun.notified().await;
    assert!(session.interrupt().await.unwrap());
    assert_eq!(prompt.answer().await, Err(PromptError::Interrupted));
    assert!(dropped.await.is_err(), "nobody holds it any more");
    assert!(!session.interrupt().await.unwrap(), "nothing runs");
    assert_eq!(session.prompt("On.").await.unwrap().text(), "On.");
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_33_an_interrupted_parent_reads_which_session_its_child_was() {
    let script = Script::respond(|call| {
        let said = format!("{:?}", call.messages);
        match (said.contains("CHILD"), call.last_results().is_empty()) {
            (true, true) if !said.contains("Go.") => Turn::tool_calls([("waits", json!({}))]),
            (false, true) => Turn::tool_calls([(
                "subagent",
                json!({ "description": "a part", "prompt": "CHILD: wait." }),
            )]),
            _ => Turn::text("On."),
        }
    });
    let model = FakeModelServer::start(script).await.unwrap();
    let begun = Arc::new(Notify::new());
    let waiting = Arc::clone(&begun);
    let schema = json!({ "type": "object" });
    let waits = Tool::with_schema("waits", "Waits.", schema, move |_, _| {
        waiting.notify_one();
        pending::<Result<String, String>>()
    });
    let project = project();
    let builder = bezel(&model).add_tool(waits.touches_nothing());
    let bezel = builder.start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    let prompt = session.prompt("Go.").events();
    begun.notified().await;
    assert!(session.interrupt().await.unwrap());
    assert_eq!(prompt.answer().await, Err(PromptError::Interrupted));
    session.prompt("On.").await.unwrap();
    let read = format!("{:?}", model.calls().last().unwrap().messages);
    assert!(read.contains("Interrupted while it ran"), "{read}");
    assert!(read.contains("session_id: "), "{read}");
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_may_take_the_place_of_another_where_it_says_so() {
    let model = model([
        Turn::tool_calls([("read", json!({ "number": 3 }))]),
        Turn::text("ok"),
    ])
    .await;
    let project = project();
    let read = Tool::new("read", "Reads a shelf.", |shelf: Shelf, _| async move {
        Ok::<_, String>(format!("shelf {} was read", shelf.number))
    });
    let read = read.touches_nothing().replacing();
    let bezel = bezel(&model).add_tool(read).start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    session.prompt("Go.").await.unwrap();
    assert_eq!(results(&model.last_call())[0].0, "shelf 3 was read");
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_a_session_that_is_not_begun_is_named() {
    let model = model([]).await;
    let project = project();
    let read = Tool::new("read", "Mine.", |_: Shelf, _| async { Ok::<_, String>("") });
    let bezel = bezel(&model).add_tool(read).start().await.unwrap();
    let error = bezel.session(project.path()).await.err().unwrap();
    assert!(matches!(error, Error::Tool(_)), "{error}");
    assert!(error.to_string().contains("choose another name"), "{error}");
    assert_eq!(bezel.sessions().await.unwrap(), []);
    bezel.stop().await.unwrap();
}
