//! What a run tells, and how it ends.

use std::io;
use std::time::Duration;

use bezel_chat_contract::{Activity, FailureKind, OutcomeStatus, Phase};
use bezel_context::Context;
use bezel_host_headless::{
    Choice, EndStatus, HeadlessError, HeadlessOptions, HeadlessOutcome, Printer, Terminals, run,
};
use bezel_session_types::{ModelRef, OperationId};
use bezel_sessions_contract::{LaunchEnvironment, PermissionMode};
use bezel_transcript_contract::{Item, ItemBody, Part, ToolItem, ToolStatus};
use expect_test::expect;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::world::{SESSION, World, ended, model};

pub fn options(choice: Choice) -> HeadlessOptions {
    HeadlessOptions {
        prompt: "do it".into(),
        pictures: Vec::new(),
        choice,
        directory: "/srv".into(),
        environment: LaunchEnvironment::default(),
        switch_model: None,
        unreachable: false,
        stand_in: Some("scripted".into()),
    }
}

pub fn fresh() -> Choice {
    Choice::New {
        model: None,
        agent: Some("plan".into()),
        permission_mode: PermissionMode::Plan,
    }
}

fn item(id: &str, body: ItemBody) -> Item {
    Item {
        id: id.into(),
        at: String::new(),
        body,
    }
}

pub fn user(id: &str) -> Item {
    item(
        id,
        ItemBody::User {
            text: "do it".into(),
            images: 0,
            synthetic: false,
        },
    )
}

pub fn answer(id: &str, text: &str, done: bool) -> Item {
    let parts = vec![
        Part::Thinking { text: "hm".into() },
        Part::Text { text: text.into() },
    ];
    item(
        id,
        ItemBody::Assistant {
            model: model("m"),
            parts,
            done,
            error: None,
            usage: None,
        },
    )
}

pub fn tool(id: &str, status: ToolStatus) -> Item {
    let tool = ToolItem {
        tool: "bash".into(),
        arguments: json!({ "command": "ls" }),
        arguments_text: String::new(),
        status,
        output: "out".into(),
        clipped: false,
        details: Value::Null,
        structured: None,
        ended_at: None,
    };
    item(id, ItemBody::Tool(tool))
}

pub async fn play(
    world: &World,
    options: HeadlessOptions,
    interrupts: &mut UnboundedReceiver<()>,
) -> (HeadlessOutcome, Vec<Value>) {
    let mut out = Vec::new();
    let outcome = run(
        &Context::background(),
        &world.link,
        options,
        interrupts,
        &mut Printer::json(&mut out),
    )
    .await
    .unwrap();
    let lines = String::from_utf8(out).unwrap();
    (
        outcome,
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

fn types(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_run_tells_everything_in_order_and_ends_with_its_answer() {
    let world = World::new().await;
    world.session.script(|session| async move {
        session.show(
            &[
                user("1"),
                answer("2", "Let me see.", true),
                tool("3", ToolStatus::Running),
            ],
            10,
        );
        session.show(
            &[
                user("1"),
                answer("2", "Let me see.", true),
                tool("3", ToolStatus::Done),
                answer("4", "All done.", true),
            ],
            10,
        );
        session.end(ended(OutcomeStatus::Done, None));
    });
    let (_sender, mut interrupts) = unbounded_channel();
    let (outcome, lines) = play(&world, options(fresh()), &mut interrupts).await;
    assert_eq!(outcome.status, EndStatus::Done);
    assert_eq!(outcome.session_id.unwrap().as_str(), SESSION);
    assert!(lines.iter().all(|line| line["v"] == 1));
    assert_eq!(
        types(&lines),
        [
            "session",
            "prompt",
            "thinking",
            "text_delta",
            "text",
            "tool_start",
            "tool_end",
            "thinking",
            "text_delta",
            "text",
            "usage",
            "end"
        ]
    );
    assert_eq!(
        lines[0],
        json!({ "v": 1, "type": "session", "session_id": SESSION, "created": true, "model": "p::m", "thinking": "low" })
    );
    assert_eq!(
        lines.last().unwrap(),
        &json!({ "v": 1, "type": "end", "status": "done", "exit_status": 0, "text": "All done." })
    );
    let created = world.session.created.lock().unwrap();
    assert_eq!(
        (created[0].directory.as_str(), created[0].permission_mode),
        ("/srv", PermissionMode::Plan)
    );
}

#[tokio::test]
async fn the_end_of_a_call_has_the_data_that_the_tool_returned_and_is_silent_where_there_is_none() {
    let world = World::new().await;
    let data = json!({ "files": [1, 2] });
    let returned = data.clone();
    world.session.script(|session| async move {
        let mut with = tool("with", ToolStatus::Done);
        if let ItemBody::Tool(tool) = &mut with.body {
            tool.structured = Some(returned);
        }
        let without = tool("without", ToolStatus::Done);
        session.show(&[user("1"), with, without, answer("2", "Done.", true)], 10);
        session.end(ended(OutcomeStatus::Done, None));
    });
    let (_sender, mut interrupts) = unbounded_channel();
    let (_, lines) = play(&world, options(fresh()), &mut interrupts).await;
    let end = |item: &str| {
        let of = |line: &&Value| line["type"] == "tool_end" && line["item"] == item;
        lines.iter().find(of).unwrap()
    };
    assert_eq!(end("with")["structured"], data);
    assert_eq!(end("without").get("structured"), None);
}

#[tokio::test]
async fn what_a_short_window_of_states_skipped_is_fetched() {
    let world = World::new().await;
    world.session.script(|session| async move {
        let mut items = vec![user("u")];
        for number in 0..950 {
            items.push(tool(&number.to_string(), ToolStatus::Done));
        }
        items.push(answer("a", "All done.", true));
        session.show(&items, 3);
        session.end(ended(OutcomeStatus::Done, None));
    });
    let (_sender, mut interrupts) = unbounded_channel();
    let (_, lines) = play(&world, options(fresh()), &mut interrupts).await;
    let ends: Vec<&str> = lines
        .iter()
        .filter(|line| line["type"] == "tool_end")
        .map(|line| line["item"].as_str().unwrap())
        .collect();
    let expected: Vec<String> = (0..950).map(|number| number.to_string()).collect();
    assert_eq!(ends, expected);
}

#[tokio::test]
async fn items_that_the_outcome_overtook_are_waited_for() {
    let world = World::new().await;
    world.session.script(|session| async move {
        session.show(&[user("1"), answer("2", "Half", true)], 10);
        session.end_early(ended(OutcomeStatus::Done, None));
        tokio::time::sleep(Duration::from_millis(50)).await;
        session.show(
            &[
                user("1"),
                answer("2", "Half", true),
                answer("3", "The other half", true),
            ],
            10,
        );
        session.settle(&OperationId::new("op"));
    });
    let (_sender, mut interrupts) = unbounded_channel();
    let (_, lines) = play(&world, options(fresh()), &mut interrupts).await;
    assert_eq!(lines.last().unwrap()["text"], "The other half");
}

#[tokio::test]
async fn failures_have_their_own_exit_status() {
    for (kind, exit) in [
        (FailureKind::NoModel, 3),
        (FailureKind::Authentication, 3),
        (FailureKind::Provider, 1),
        (FailureKind::Internal, 1),
    ] {
        let world = World::new().await;
        world.session.script(move |session| async move {
            session.end(ended(
                OutcomeStatus::Failed,
                Some((kind, "no luck; try again")),
            ));
        });
        let (_sender, mut interrupts) = unbounded_channel();
        let (outcome, lines) = play(&world, options(fresh()), &mut interrupts).await;
        assert_eq!(outcome.status.exit_status(), exit);
        assert_eq!(lines.last().unwrap()["error"], "no luck; try again");
    }
}

fn stand_in() -> ModelRef {
    ModelRef {
        provider: "scripted".into(),
        model_id: "tour".into(),
    }
}

impl World {
    fn choose(&self, model: Option<ModelRef>) {
        self.session.models.update(&Context::background(), |state| {
            state.configuration.model = model
        });
    }
}

#[tokio::test]
async fn a_run_that_cannot_be_answered_prompts_nothing_and_leaves_no_session() {
    for (chosen, saying) in [
        (None, "bezel tour"),
        (Some(stand_in()), "bezel tour"),
        (Some(model("keyless")), "export P_KEY"),
        (Some(model("unknown")), "unknown model p::unknown"),
    ] {
        let world = World::new().await;
        world.choose(chosen);
        let (_sender, mut interrupts) = unbounded_channel();
        let (outcome, lines) = play(&world, options(fresh()), &mut interrupts).await;
        assert_eq!(outcome.status, EndStatus::NoModel);
        assert!(outcome.error.unwrap().contains(saying), "{saying}");
        assert_eq!((types(&lines), outcome.session_id), (vec!["end"], None));
        assert!(world.session.prompts.lock().unwrap().is_empty());
        assert_eq!(world.session.removed.lock().unwrap().len(), 1);
        // One that was there before stays.
        play(&world, options(Choice::Newest), &mut interrupts).await;
        assert_eq!(world.session.removed.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_session_that_chose_the_stand_in_by_name_goes_on_with_it() {
    let world = World::new().await;
    world.choose(Some(stand_in()));
    *world.session.recorded.lock().unwrap() = Some(stand_in());
    world.session.script(|session| async move {
        session.show(&[user("1"), answer("2", "Done.", true)], 10);
        session.end(ended(OutcomeStatus::Done, None));
    });
    let (_sender, mut interrupts) = unbounded_channel();
    let (outcome, _) = play(&world, options(Choice::Newest), &mut interrupts).await;
    assert_eq!(outcome.status, EndStatus::Done);
}

#[tokio::test]
async fn another_model_is_selected_in_a_session_that_goes_on() {
    let world = World::new().await;
    world.session.script(|session| async move {
        session.show(&[user("1"), answer("2", "Done.", true)], 10);
        session.end(ended(OutcomeStatus::Done, None));
    });
    let (_sender, mut interrupts) = unbounded_channel();
    let go_on = |model: ModelRef| HeadlessOptions {
        switch_model: Some(model),
        unreachable: false,
        ..options(Choice::Newest)
    };
    let (_, lines) = play(&world, go_on(model("other")), &mut interrupts).await;
    assert_eq!(
        (&lines[0]["model"], &lines[0]["created"]),
        (&json!("p::other"), &json!(false))
    );
    let (outcome, _) = play(&world, go_on(model("unknown")), &mut interrupts).await;
    assert_eq!(outcome.status, EndStatus::NoModel);
    assert!(outcome.error.unwrap().contains("p::unknown"));
}

#[tokio::test]
async fn a_session_that_is_not_there_is_named() {
    let world = World::new().await;
    let (_sender, mut interrupts) = unbounded_channel();
    let (outcome, lines) = play(&world, options(Choice::Id("zzz".into())), &mut interrupts).await;
    assert_eq!(outcome.status.exit_status(), 2);
    assert!(lines[0]["error"].as_str().unwrap().contains("zzz"));
    let elsewhere = HeadlessOptions {
        directory: "/elsewhere".into(),
        ..options(Choice::Newest)
    };
    let (outcome, _) = play(&world, elsewhere, &mut interrupts).await;
    assert!(outcome.error.unwrap().contains("--continue"));
}

#[tokio::test]
async fn a_prompt_that_the_session_refuses_is_a_failure_with_its_reason() {
    let world = World::new().await;
    *world.session.refuse.lock().unwrap() = Some("the disk is full; free some space".into());
    let (_sender, mut interrupts) = unbounded_channel();
    let (outcome, _) = play(&world, options(fresh()), &mut interrupts).await;
    assert_eq!(outcome.status, EndStatus::Failed);
    assert!(outcome.error.unwrap().contains("the disk is full"));
}

#[tokio::test]
async fn a_first_interrupt_ends_the_operation_durably_and_a_second_leaves() {
    let world = World::new().await;
    let (sender, mut interrupts) = unbounded_channel();
    let press = sender.clone();
    world
        .session
        .script(move |_| async move { press.send(()).unwrap() });
    let (outcome, _) = play(&world, options(fresh()), &mut interrupts).await;
    assert_eq!(outcome.status, EndStatus::Interrupted);
    assert_eq!(*world.session.aborts.borrow(), [OperationId::new("op")]);

    let world = World::new().await;
    world.session.ignore_aborts();
    world.session.script(move |session| async move {
        sender.send(()).unwrap();
        session
            .aborts
            .subscribe()
            .wait_for(|aborts| !aborts.is_empty())
            .await
            .unwrap();
        sender.send(()).unwrap();
    });
    let (outcome, _) = play(&world, options(fresh()), &mut interrupts).await;
    assert_eq!(outcome.status.exit_status(), 130);
    assert_eq!(world.session.aborts.borrow().len(), 1);
}

#[tokio::test]
async fn a_retry_is_told_once() {
    let world = World::new().await;
    world.session.script(|session| async move {
        for _ in 0..3 {
            session.chat.update(&Context::background(), |state| {
                let (operation_id, since) = (OperationId::new("op"), state.queue.len().to_string());
                let phase = Phase::Retrying {
                    attempt: 2,
                    at: "soon".into(),
                    reason: "overloaded".into(),
                };
                state.activity = Activity::Running {
                    operation_id,
                    since,
                    phase,
                    cancelling: false,
                };
            });
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        session.show(&[user("1"), answer("2", "Done.", true)], 10);
        session.end(ended(OutcomeStatus::Done, None));
    });
    let (_sender, mut interrupts) = unbounded_channel();
    let (_, lines) = play(&world, options(fresh()), &mut interrupts).await;
    let retries: Vec<&Value> = lines
        .iter()
        .filter(|line| line["type"] == "retry")
        .collect();
    assert_eq!(
        retries,
        [&json!({ "v": 1, "type": "retry", "attempt": 2, "at": "soon", "reason": "overloaded" })]
    );
}

/// Takes a number of writes and then reports that its reader has gone.
struct Closing(usize);

impl io::Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.0 -= 1;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn when_nobody_reads_any_more_the_operation_is_ended() {
    let world = World::new().await;
    world.session.script(|session| async move {
        session.show(&[user("1"), answer("2", "Hello", false)], 10)
    });
    let (_sender, mut interrupts) = unbounded_channel();
    let mut out = Closing(0);
    let mut activity = Vec::new();
    let mut printer = Printer::text(&mut out, &mut activity, Terminals::default());
    let error = run(
        &Context::background(),
        &world.link,
        options(fresh()),
        &mut interrupts,
        &mut printer,
    )
    .await
    .unwrap_err();
    let HeadlessError::Output(error) = error;
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(world.session.aborts.borrow().len(), 1);
}

/// Takes a number of whole lines and then reports that its reader has gone.
struct ClosingAfter(usize);

impl io::Write for ClosingAfter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
        self.0 = self.0.saturating_sub(ends);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn whenever_the_reader_leaves_no_prompt_that_was_sent_goes_on_running() {
    let mut sent = 0;
    // All that the run says: its session, its prompt, the two items.
    for lines in 0..4 {
        let world = World::new().await;
        world.session.script(|session| async move {
            session.show(&[user("1"), answer("2", "Hello", false)], 10)
        });
        let (_sender, mut interrupts) = unbounded_channel();
        let mut out = ClosingAfter(lines);
        let mut printer = Printer::json(&mut out);
        run(
            &Context::background(),
            &world.link,
            options(fresh()),
            &mut interrupts,
            &mut printer,
        )
        .await
        .unwrap_err();
        let prompts = world.session.prompts.lock().unwrap().len();
        let aborts = world.session.aborts.borrow().len();
        assert_eq!(aborts, prompts, "after {lines} lines");
        sent += prompts;
    }
    assert_eq!(sent, 3, "the first line comes before the prompt");
}

#[tokio::test]
async fn text_for_a_person_streams_to_one_side_and_activity_to_the_other() {
    let world = World::new().await;
    world.session.script(|session| async move {
        session.show(
            &[
                user("1"),
                answer("2", "Let me see.", true),
                tool("3", ToolStatus::Failed),
                answer("4", "Done.", true),
            ],
            10,
        );
        session.end(ended(
            OutcomeStatus::Failed,
            Some((FailureKind::Provider, "overloaded; try later")),
        ));
    });
    let (_sender, mut interrupts) = unbounded_channel();
    let (mut out, mut activity) = (Vec::new(), Vec::new());
    let mut printer = Printer::text(&mut out, &mut activity, Terminals::default());
    run(
        &Context::background(),
        &world.link,
        options(fresh()),
        &mut interrupts,
        &mut printer,
    )
    .await
    .unwrap();
    expect![[r#"
        Let me see.

        Done.
    "#]]
    .assert_eq(&String::from_utf8(out).unwrap());
    expect![[r#"
        · bash  ls
          bash failed: out
        error: overloaded; try later
    "#]]
    .assert_eq(&String::from_utf8(activity).unwrap());
}
