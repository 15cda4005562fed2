//! The tour, played against tools that really write and run.

#![expect(clippy::unwrap_used, reason = "what a test cannot do, fails it")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bezel_context::Context;
use bezel_scripted_session::{Audience, Part, Tour, answer, model};
use bezel_session_types::{
    AssistantContent, AssistantMessage, InvocationId, Message, ModelEvent, ModelRequest, Provider,
    ProviderErrorKind, RequestOptions, ResultContent, StopReason, ToolCall, ToolDefinition,
    ToolResultMessage, Usage, UserMessage,
};
use futures::StreamExt;
use serde_json::{Value, json};

const TOOLS: [&str; 5] = ["read", "write", "edit", "bash", "todo"];

/// A conversation with the tour, in a directory of its own.
struct Conversation {
    directory: PathBuf,
    tools: Vec<&'static str>,
    messages: Vec<Message>,
}

impl Drop for Conversation {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.directory).unwrap();
    }
}

impl Conversation {
    fn new(tools: &[&'static str]) -> Self {
        let directory =
            std::env::temp_dir().join(format!("bezel tour's {}", InvocationId::generate()));
        std::fs::create_dir_all(&directory).unwrap();
        Conversation {
            directory,
            tools: tools.to_vec(),
            messages: Vec::new(),
        }
    }

    fn request(&self) -> ModelRequest {
        let tool = |name: &&str| ToolDefinition {
            name: (*name).into(),
            description: "".into(),
            parameters: Arc::new(json!({ "type": "object" })),
        };
        ModelRequest {
            model: model().model,
            system: "".into(),
            messages: self.messages.iter().cloned().map(Arc::new).collect(),
            tools: self.tools.iter().map(tool).collect(),
            options: RequestOptions::default(),
        }
    }

    fn say(&mut self, prompt: &str) {
        self.messages.push(Message::User(UserMessage::text(prompt)));
    }

    /// Plays a turn to its end; returns the calls of each step and the last text.
    async fn play(
        &mut self,
        prompt: &str,
        mut run: impl FnMut(&Path, &ToolCall) -> Result<String, String>,
    ) -> (Vec<Vec<String>>, String) {
        self.say(prompt);
        let tour = Tour::new(&self.directory, false);
        let mut steps = Vec::new();
        loop {
            let stream = tour
                .stream(&Context::background(), self.request())
                .await
                .unwrap();
            let events: Vec<_> = stream.map(Result::unwrap).collect().await;
            let mut content = Vec::new();
            let mut text = String::new();
            for event in &events {
                match event {
                    ModelEvent::Text(piece) => text.push_str(piece),
                    ModelEvent::ToolCall(call) => {
                        content.push(AssistantContent::ToolCall(call.clone()))
                    }
                    _ => {}
                }
            }
            content.insert(0, AssistantContent::Text { text: text.clone() });
            let Some(ModelEvent::End { stop_reason, .. }) = events.last() else {
                panic!("{events:?}")
            };
            let answer = AssistantMessage {
                content,
                model: model().model,
                usage: Usage::default(),
                stop_reason: *stop_reason,
                error: None,
            };
            let calls: Vec<_> = answer.tool_calls().cloned().collect();
            assert_eq!(*stop_reason == StopReason::ToolUse, !calls.is_empty());
            self.messages.push(Message::Assistant(answer));
            if calls.is_empty() {
                return (steps, text);
            }
            assert!(steps.len() < 10, "the tour must end");
            steps.push(calls.iter().map(|call| call.name.clone()).collect());
            for call in calls {
                let outcome = run(&self.directory, &call);
                self.messages.push(Message::ToolResult(ToolResultMessage {
                    call_id: call.id,
                    invocation_id: InvocationId::generate(),
                    tool: call.name,
                    is_error: outcome.is_err(),
                    content: vec![ResultContent::text(outcome.unwrap_or_else(|error| error))],
                    structured: None,
                    details: Value::Null,
                }));
            }
        }
    }
}

/// What the real tools do, in few lines.
fn run(_directory: &Path, call: &ToolCall) -> Result<String, String> {
    let arguments = &call.arguments;
    let path = || arguments["path"].as_str().unwrap();
    match call.name.as_str() {
        "write" => std::fs::write(path(), arguments["content"].as_str().unwrap())
            .map(|()| "written".into()),
        "read" => std::fs::read_to_string(path()),
        "edit" => std::fs::read_to_string(path()).and_then(|text| {
            let (old, new) = (
                &arguments["edits"][0]["old_text"],
                &arguments["edits"][0]["new_text"],
            );
            assert_eq!(
                text.matches(old.as_str().unwrap()).count(),
                1,
                "the text to replace is unique"
            );
            std::fs::write(
                path(),
                text.replace(old.as_str().unwrap(), new.as_str().unwrap()),
            )
            .map(|()| "edited".into())
        }),
        "bash" => Command::new("sh")
            .arg("-c")
            .arg(arguments["command"].as_str().unwrap())
            .output()
            .map(|output| {
                assert!(output.status.success(), "{output:?}");
                String::from_utf8(output.stdout).unwrap()
            }),
        "todo" => Ok("noted".into()),
        other => panic!("{other}"),
    }
    .map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_tour_writes_runs_and_changes_a_real_program() {
    let mut conversation = Conversation::new(&TOOLS);
    let (steps, summary) = conversation.play("whatever", run).await;
    assert_eq!(
        steps,
        [
            vec!["todo", "write"],
            vec!["read", "bash"],
            vec!["edit"],
            vec!["bash", "todo"]
        ]
    );
    assert!(
        summary.contains("Hello, Ada, from "),
        "it reads what the program printed: {summary}"
    );
    for part in [
        "```diff\n-echo",
        "```toml",
        "[providers.local]",
        "ANTHROPIC_API_KEY",
        "greet.sh",
    ] {
        assert!(summary.contains(part), "{part} is missing in {summary}");
    }
    let program = std::fs::read_to_string(conversation.directory.join("greet.sh")).unwrap();
    assert!(program.contains("uname -s"), "{program}");
}

#[tokio::test]
async fn later_prompts_get_an_answer_that_fits() {
    let mut conversation = Conversation::new(&TOOLS);
    conversation.play("hi", run).await;
    for (prompt, expected) in [
        ("what next?", "Things to try"),
        ("How do I configure a model?", "[providers.local]"),
        ("Refactor\nmy code", "> Refactor\n> my code"),
    ] {
        let (steps, said) = conversation.play(prompt, run).await;
        assert!(steps.is_empty(), "{prompt}");
        assert!(said.contains(expected), "{prompt}: {said}");
    }
    let (steps, _) = conversation.play("the tour, please", run).await;
    assert_eq!(steps.len(), 4, "the tour can be seen again");
}

#[tokio::test]
async fn a_file_of_an_earlier_tour_is_read_before_it_is_written() {
    let mut conversation = Conversation::new(&TOOLS);
    let mut was_read = false;
    let careful = |directory: &Path, call: &ToolCall| match call.name.as_str() {
        "write" if !was_read => Err("Did not write: it exists and you have not read it.".into()),
        "read" => {
            was_read = true;
            Ok("#!/bin/sh".into())
        }
        _ => run(directory, call),
    };
    let (steps, summary) = conversation.play("hi", careful).await;
    assert_eq!(
        steps[..3],
        [vec!["todo", "write"], vec!["read"], vec!["write"]]
    );
    assert!(summary.contains("Hello, Ada, from "), "{summary}");
}

#[tokio::test]
async fn where_nothing_can_be_written_the_tour_says_so_and_ends() {
    let mut conversation = Conversation::new(&TOOLS);
    let refuse = |_: &Path, call: &ToolCall| Err(format!("no {} for you ```", call.name));
    let (steps, said) = conversation.play("hi", refuse).await;
    assert!(steps.len() <= 3, "{steps:?}");
    assert!(
        said.contains("no write for you '''") && said.contains("[providers.local]"),
        "{said}"
    );
}

#[tokio::test]
async fn in_plan_mode_the_tour_says_that_nothing_may_be_changed() {
    let mut conversation = Conversation::new(&TOOLS);
    let refuse = |_: &Path, call: &ToolCall| match call.name.as_str() {
        "todo" => Ok("noted".into()),
        name => Err(format!(
            "`{name}` is blocked: the session is in plan mode, in which nothing may be changed"
        )),
    };
    let (steps, said) = conversation.play("hi", refuse).await;
    assert_eq!(steps, [vec!["todo", "write"]]);
    assert!(
        said.contains("plan mode") && !said.contains("earlier tour"),
        "{said}"
    );
}

#[test]
fn the_tour_asks_for_nothing_that_its_audience_cannot_do() {
    let mut conversation = Conversation::new(&[]);
    conversation.say("hi");
    let said = |audience| match &answer(&conversation.request(), Path::new("x"), audience)[0] {
        Part::Text(text) => text.clone(),
        Part::Call { name, .. } => panic!("{name}"),
    };
    let (here, elsewhere) = (
        said(Audience::default()),
        said(Audience {
            installed: false,
            ..Audience::default()
        }),
    );
    assert!(!here.contains("cargo xtask run --"), "{here}");
    assert!(elsewhere.contains("cargo xtask run --"), "{elsewhere}");
    assert!(here.contains("bezel config path"), "{here}");
}

#[tokio::test]
async fn who_cannot_answer_is_not_asked_to() {
    let (_, said) = Conversation::new(&TOOLS).play("hi", run).await;
    assert!(
        said.contains("`bezel tour`") && !said.contains("Ask me"),
        "{said}"
    );
}

#[tokio::test]
async fn it_makes_do_with_the_tools_that_there_are() {
    let (steps, said) = Conversation::new(&[]).play("hi", run).await;
    assert!(
        steps.is_empty() && said.contains("neither `write` nor `bash`"),
        "{said}"
    );
    let (steps, _) = Conversation::new(&["write", "bash"]).play("hi", run).await;
    assert_eq!(steps, [vec!["write"], vec!["bash"]]);
}

#[test]
fn the_same_conversation_gets_the_same_answer() {
    let mut conversation = Conversation::new(&TOOLS);
    conversation.say("hi");
    let scratch = Path::new("scratch");
    let first = answer(&conversation.request(), scratch, Audience::default());
    assert_eq!(
        first,
        answer(&conversation.request(), scratch, Audience::default())
    );
    let Part::Call { name, arguments } = &first[2] else {
        panic!("{first:?}")
    };
    assert_eq!(
        (*name, &arguments["path"]),
        ("write", &json!("scratch/greet.sh"))
    );
}

#[tokio::test]
async fn an_empty_or_odd_conversation_does_not_upset_it() {
    let mut conversation = Conversation::new(&TOOLS);
    assert!(matches!(
        answer(&conversation.request(), Path::new("x"), Audience::default())[0],
        Part::Text(_)
    ));
    conversation.play("hi", run).await;
    let (_, said) = conversation.play(&"é".repeat(10_000), run).await;
    assert!(
        said.contains('…') && said.len() < 5_000,
        "a long prompt is not repeated whole"
    );
}

#[tokio::test(start_paused = true)]
async fn a_paced_tour_takes_its_time_and_stops_when_told() {
    let mut conversation = Conversation::new(&TOOLS);
    conversation.say("hi");
    let tour = Tour::paced("x", Duration::from_millis(10));
    let began = tokio::time::Instant::now();
    let (cx, cancel) = Context::background().with_cancel();
    let mut stream = tour.stream(&cx, conversation.request()).await.unwrap();
    for _ in 0..5 {
        assert!(matches!(
            stream.next().await.unwrap().unwrap(),
            ModelEvent::Text(_)
        ));
    }
    assert_eq!(began.elapsed(), Duration::from_millis(50));
    cancel.cancel();
    assert_eq!(
        stream.next().await.unwrap().unwrap_err().kind,
        ProviderErrorKind::Cancelled
    );
    assert!(stream.next().await.is_none());
}
