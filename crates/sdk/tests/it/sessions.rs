//! Sessions, prompts, and the end of an instance.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bezel_chat_contract::ChatClient;
use bezel_sdk::{Bezel, Error, PromptError, QuestionResponse, RunEvent, Tool};
use bezel_sessions_contract::SessionManagementClient;
use bezel_testkit::Turn;
use serde_json::json;

use crate::twenty_lines;
use crate::world::{Runs, bezel, model, project, results, shelf};

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_twenty_lines_asks_a_model_that_asks_its_tool() {
    let model = model([
        Turn::tool_calls([("shelf", json!({ "number": 2 }))]),
        Turn::text("Moby-Dick and Typee."),
    ])
    .await;
    let answer = twenty_lines::ask(bezel(&model)).await.unwrap();
    assert_eq!(answer, "Moby-Dick and Typee.");
    let told = results(&model.last_call());
    assert_eq!(told, [("Moby-Dick, Typee".to_owned(), false)]);
}

#[test]
fn the_example_is_twenty_lines_of_code() {
    let text = include_str!("../../examples/twenty_lines.rs");
    let body = &text[text.find("pub async fn ask").unwrap()..];
    let code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let lines = body.lines().filter(code).count();
    assert!(lines <= 20, "{lines} lines");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_goes_on_over_prompts_and_instances_of_one_home() {
    let model = model([Turn::text("One."), Turn::text("Two."), Turn::text("Three.")]).await;
    let (home, project) = (project(), project());
    let start = || bezel(&model).home(home.path()).start();
    let first = start().await.unwrap();
    let session = first.session(project.path()).await.unwrap();
    assert_eq!(session.prompt("First.").await.unwrap().text(), "One.");
    assert_eq!(session.prompt("Second.").await.unwrap().text(), "Two.");
    let taken = start().await.err().unwrap();
    assert!(taken.to_string().contains("BEZEL_HOME"), "{taken}");
    let id = session.id().clone();
    first.stop().await.unwrap();
    let second = start().await.unwrap();
    let sessions = second.sessions().await.unwrap();
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].session_id, id);
    let session = second.open(id).await.unwrap();
    assert_eq!(session.prompt("Third.").await.unwrap().text(), "Three.");
    assert_eq!(
        model.last_call().messages.len(),
        5,
        "it knows what was said"
    );
    second.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_what_happens_and_the_answer_comes_after_them() {
    let model = model([
        Turn::tool_calls([("shelf", json!({ "number": 2 }))]),
        Turn::text("Two books."),
    ])
    .await;
    let (runs, project) = (Runs::default(), project());
    let builder = bezel(&model).add_tool(shelf(&runs).touches_nothing());
    let bezel = builder.start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    let mut events = session.prompt("Go.").events();
    let (mut text, mut tools) = (String::new(), Vec::new());
    while let Some(event) = events.next().await {
        match event {
            RunEvent::TextDelta { text: more, .. } => text.push_str(&more),
            RunEvent::ToolStart { tool, .. } => tools.push(tool),
            RunEvent::ToolEnd { output, .. } => tools.push(output),
            _ => {}
        }
    }
    assert_eq!(tools, ["shelf", "books of shelf 2"]);
    assert_eq!(text, "Two books.");
    assert_eq!(events.answer().await.unwrap().text(), "Two books.");
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_by_the_program_or_ends_the_turn_with_what_was_asked() {
    let question =
        json!({ "question": "Which one?", "options": [{ "label": "Red" }, { "label": "Blue" }] });
    let asks = || Turn::tool_calls([("question", question.clone())]);
    let model = model([
        asks(),
        Turn::text("Blue it is."),
        asks(),
        asks(),
        Turn::text("Red."),
    ])
    .await;
    let project = project();
    let bezel = bezel(&model).start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    let answer = session.prompt("Go.").on_question(|question| async move {
        let index = question
            .options
            .iter()
            .position(|option| option.label == "Blue");
        QuestionResponse::Selected {
            index: u32::try_from(index.unwrap()).unwrap(),
        }
    });
    assert_eq!(answer.await.unwrap().text(), "Blue it is.");
    assert!(results(&model.last_call())[0].0.contains("Blue"));
    let error = session.prompt("Go.").await.unwrap_err();
    assert!(
        matches!(&error, PromptError::NeedsAnswer { question, .. } if question == "Which one?"),
        "{error}"
    );
    // With the events, whoever reads them answers.
    let mut events = session.prompt("Go.").events();
    while let Some(event) = events.next().await {
        if let RunEvent::Question { item, .. } = event {
            let red = QuestionResponse::Selected { index: 0 };
            session.answer(&item, red).await.unwrap();
        }
    }
    assert_eq!(events.answer().await.unwrap().text(), "Red.");
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stopped_instance_had_is_gone_and_what_is_asked_of_it_fails_with_words() {
    let model = model([Turn::tool_calls([("look", json!({}))]), Turn::text("ok")]).await;
    let (seen, project) = (Arc::new(Mutex::new(PathBuf::new())), project());
    let place = Arc::clone(&seen);
    let object = json!({ "type": "object" });
    let look = Tool::with_schema("look", "Looks.", object, move |_, call| {
        let invocation = call.invocation();
        *place.lock().unwrap() = invocation.host.output_file(&invocation.invocation_id);
        async { Ok::<_, String>("") }
    });
    let builder = bezel(&model).add_tool(look.touches_nothing());
    let bezel = builder.start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    session.prompt("Go.").await.unwrap();
    assert_ne!(threads(), Vec::<String>::new());
    let kept = seen.lock().unwrap().clone();
    let home = kept.ancestors().find(|path| path.join("data").is_dir());
    let home = home.unwrap().to_owned();
    bezel.stop().await.unwrap();
    no_thread_is_left().await;
    assert!(!home.exists(), "{} is left", home.display());
    assert_eq!(project.path().read_dir().unwrap().count(), 0);
    let asked = Instant::now();
    let error = session.prompt("Go.").await.unwrap_err();
    assert!(matches!(error, PromptError::Connection(_)), "{error}");
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(5), "it waited for {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_is_dropped_ends_as_well() {
    let model = model([Turn::text("ok")]).await;
    let project = project();
    let bezel = bezel(&model).start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    session.prompt("Go.").await.unwrap();
    drop(bezel);
    no_thread_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_and_one_that_is_missing_are_told_apart() {
    let model = model([Turn::status(400).saying("no such thing")]).await;
    let project = project();
    let bezel = bezel(&model).start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    let error = session.prompt("Go.").await.unwrap_err();
    assert!(
        matches!(&error, PromptError::Failed(reason) if reason.contains("no such thing")),
        "{error}"
    );
    bezel.stop().await.unwrap();
    let bezel = Bezel::builder().start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    let error = session.prompt("Go.").await.unwrap_err();
    assert!(matches!(error, PromptError::NoModel(_)), "{error}");
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn contracts_reach_whatever_has_no_method_here() {
    let model = model([Turn::text("ok")]).await;
    let project = project();
    let bezel = bezel(&model).start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    let cx = bezel_sdk::Context::background();
    let management: SessionManagementClient = bezel.service();
    let renamed = management.rename(&cx, session.id().clone(), "Mine".into());
    assert_eq!(renamed.await.unwrap().title, "Mine");
    let chat: ChatClient = session.service();
    assert_eq!(chat.interrupt(&cx).await.unwrap(), None);
    let nowhere = bezel.session(project.path().join("nowhere")).await;
    assert!(matches!(nowhere, Err(Error::Directory { .. })));
    bezel.stop().await.unwrap();
}

/// A session's thread says that it has ended, and then ends.
async fn no_thread_is_left() {
    let end = Instant::now() + Duration::from_secs(5);
    while threads() != Vec::<String>::new() {
        assert!(Instant::now() < end, "{:?} are left", threads());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The threads of hosts in this process.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("bezel-")).collect()
}
