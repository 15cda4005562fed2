//! Subagents over real processes: a child in its parent's worker, over deaths, interrupts and restarts.

use bezel_testkit::{FakeModelServer, ModelCall, Script, SeenPart, Turn, WireFormat};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::home::{Home, eventually, finish, signal};
use crate::runs::home_with;

const TASK: &str = "CHILD: count the files";

/// Whether a request is a subagent's.
pub fn is_child(call: &ModelCall) -> bool {
    call.parts()
        .any(|part| matches!(part, SeenPart::Text(text) if text.starts_with("CHILD:")))
}

/// The result of a tool call in a request.
pub fn result(call: &ModelCall) -> Option<String> {
    call.parts().find_map(|part| match part {
        SeenPart::ToolResult { text, .. } => Some(text.clone()),
        _ => None,
    })
}

fn subagent(more: Value) -> Value {
    let mut arguments = json!({ "description": "count files", "prompt": TASK });
    for (name, value) in more.as_object().into_iter().flatten() {
        arguments[name] = value.clone();
    }
    arguments
}

/// A parent that begins one subagent and repeats what it answers; the child does what `child` says.
async fn world(
    more: Value,
    child: impl Fn(&ModelCall) -> Turn + Send + Sync + 'static,
) -> (FakeModelServer, Home) {
    let arguments = subagent(more);
    let script = Script::respond(move |call| match (is_child(call), result(call)) {
        (true, _) => child(call),
        (false, None) => Turn::tool_calls([("subagent", arguments.clone())]),
        (false, Some(result)) => Turn::text(&format!("It says: {result}")),
    });
    let server = FakeModelServer::start(script).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    (server, home)
}

fn sessions(home: &Home) -> Vec<Value> {
    let listed = home.run(&["session", "list", "--json", "--children", "--all"]);
    let listed: Value = serde_json::from_str(&listed.succeeded().stdout).unwrap();
    listed.as_array().unwrap().clone()
}

fn child_of(home: &Home) -> Value {
    let sessions = sessions(home);
    let child = sessions
        .iter()
        .find(|session| session["parent_id"].is_string());
    child.unwrap_or_else(|| panic!("{sessions:#?}")).clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subagent_works_in_its_parents_process_and_its_answer_is_the_calls_result() {
    let (server, home) = world(json!({}), |_| Turn::text("There are 42.")).await;
    let done = home.run(&["run", "how many files?"]);
    let said = &done.succeeded().stdout;
    assert!(said.contains("It says: There are 42."), "{said}");
    assert_eq!(home.workers().len(), 1, "one process for the tree");
    let child = child_of(&home);
    assert_eq!(child["title"], "count files");
    let id = child["session_id"].as_str().unwrap();
    assert!(said.contains(&format!("session_id: {id}")), "{said}");
    let shown = home.run(&["session", "show", id]);
    assert!(
        shown.succeeded().stdout.contains("There are 42."),
        "{shown:#?}"
    );
    let calls = server.calls();
    let child = calls.iter().find(|call| is_child(call)).unwrap();
    assert!(
        !child.tools.iter().any(|tool| tool.name == "subagent"),
        "a subagent has none of its own"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_while_a_subagent_works_goes_on_with_the_same_one() {
    // The child's second command leaves a mark each time that it runs, and then waits for the file `go`.
    let command = "echo x >> marks; until [ -e go ]; do sleep 0.05; done; cat marks | wc -l";
    let (_server, home) = world(json!({}), move |call| {
        let is_result = |part: &&SeenPart| matches!(part, SeenPart::ToolResult { .. });
        match call.parts().filter(is_result).count() {
            0 => Turn::tool_calls([("bash", json!({ "command": "true" }))]),
            1 => Turn::tool_calls([("bash", json!({ "command": command }))]),
            _ => Turn::text("saw it"),
        }
    })
    .await;
    let marks = home.project().join("marks");
    let run = home
        .command(&["run", "--json", "how many files?"])
        .spawn()
        .unwrap();
    eventually("the child's command", || marks.exists().then_some(()));
    let child = child_of(&home)["session_id"].clone();
    signal(home.workers()[0], Signal::SIGKILL);
    std::fs::write(home.project().join("go"), "").unwrap();
    let done = finish(run);
    let said = &done.succeeded().stdout;
    assert!(said.contains("It says: saw"), "{done:#?}");
    let lines = done.lines();
    let ended = lines
        .iter()
        .find(|line| line["type"] == "tool_end")
        .unwrap();
    // They count, in whichever process they were.
    assert_eq!(ended["details"]["tool_calls"], 2, "{ended}");
    assert_eq!(ended["details"]["last_tool"], "bash", "{ended}");
    assert_eq!(
        std::fs::read_to_string(&marks).unwrap(),
        "x\n",
        "no effect is doubled"
    );
    let children: Vec<Value> = sessions(&home)
        .into_iter()
        .filter(|session| session["parent_id"].is_string())
        .collect();
    assert_eq!(children.len(), 1, "{children:#?}");
    assert_eq!(children[0]["session_id"], child);
    // In the list for people a child says whose it is.
    let parent = children[0]["parent_id"].as_str().unwrap();
    let begun = format!("(begun by {})", &parent[parent.len() - 8..]);
    let listed = home.run(&["session", "list", "--children"]);
    let marked = listed
        .succeeded()
        .stdout
        .lines()
        .filter(|line| line.contains(&begun));
    assert_eq!(marked.count(), 1, "{listed:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_33_who_interrupts_the_parent_interrupts_the_child_that_it_waits_for() {
    let (_server, home) = world(json!({}), |_| {
        Turn::tool_calls([(
            "bash",
            json!({ "command": "echo begun > begun; sleep 600" }),
        )])
    })
    .await;
    let run = home.command(&["run", "how many files?"]).spawn().unwrap();
    let begun = home.project().join("begun");
    eventually("the child's command", || begun.exists().then_some(()));
    signal(run.id(), Signal::SIGINT);
    assert_eq!(finish(run).status, Some(130));
    eventually("the child's end", || {
        let idle = sessions(&home)
            .iter()
            .all(|session| session["status"] != "active");
        idle.then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_subagent_tells_its_end_in_a_message_that_enters_the_conversation() {
    let script = Script::respond(move |call| {
        let texts: Vec<String> = call
            .parts()
            .filter_map(|part| match part {
                SeenPart::Text(text) => Some(text.clone()),
                _ => None,
            })
            .collect();
        let told = texts
            .iter()
            .find(|text| text.contains("in the background has ended"));
        match (is_child(call), result(call), told) {
            (true, ..) => Turn::text("There are 42."),
            (false, None, _) => {
                Turn::tool_calls([("subagent", subagent(json!({ "background": true })))])
            }
            (false, Some(_), None) => Turn::text("I go on."),
            (false, Some(_), Some(told)) => Turn::text(&format!("Told: {told}")),
        }
    });
    let server = FakeModelServer::start(script).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    let done = home.run(&["run", "how many files?"]);
    assert!(
        !done.succeeded().stderr.contains("did not arrive"),
        "{}",
        done.stderr
    );
    let parent = eventually("what the parent was told", || {
        let sessions = sessions(&home);
        let parent = sessions
            .iter()
            .find(|session| !session["parent_id"].is_string())?;
        let id = parent["session_id"].as_str()?.to_owned();
        let shown = home
            .run(&["session", "show", &id])
            .succeeded()
            .stdout
            .clone();
        shown
            .contains("Told: A subagent that you began in the background has ended")
            .then_some(shown)
    });
    assert!(parent.contains("There are 42."), "{parent}");
}

/// A parent whose child works in the background until the file `go` is there, in a worker that is killed meanwhile
/// and comes again when the session is opened. Returns what the parent's conversation tells in the end.
async fn told_after_a_kill(child: impl Fn(&str) -> Turn + Send + Sync + 'static) -> String {
    let command = "echo x >> marks; until [ -e go ]; do sleep 0.05; done";
    let script = Script::respond(move |call| {
        let told = call.parts().any(|part| {
            matches!(part, SeenPart::Text(text) if text.contains("in the background has ended"))
        });
        match (is_child(call), result(call)) {
            (true, None) => Turn::tool_calls([("bash", json!({ "command": command }))]),
            (true, Some(result)) => child(&result),
            (false, None) => {
                Turn::tool_calls([("subagent", subagent(json!({ "background": true })))])
            }
            (false, Some(_)) if told => Turn::text("I was told."),
            (false, Some(_)) => Turn::text("I go on."),
        }
    });
    let server = FakeModelServer::start(script).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    home.run(&["run", "how many files?"]).succeeded();
    let marks = home.project().join("marks");
    eventually("the child's command", || marks.exists().then_some(()));
    let worker = home.workers()[0];
    signal(worker, Signal::SIGKILL);
    eventually("the worker's end", || {
        (!home.workers().contains(&worker)).then_some(())
    });
    std::fs::write(home.project().join("go"), "").unwrap();
    home.run(&["run", "--continue", "and now?"]).succeeded();
    let parent = sessions(&home)
        .iter()
        .find(|session| !session["parent_id"].is_string())
        .and_then(|session| session["session_id"].as_str().map(str::to_owned))
        .unwrap();
    let told = eventually("what the parent was told", || {
        let shown = home
            .run(&["session", "show", &parent])
            .succeeded()
            .stdout
            .clone();
        shown.contains("I was told.").then_some(shown)
    });
    let ends = told.matches("in the background has ended").count();
    assert_eq!(ends, 1, "it is told once: {told}");
    assert_eq!(std::fs::read_to_string(&marks).unwrap(), "x\n");
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_subagent_whose_worker_is_killed_goes_on_and_tells_what_it_came_to() {
    let told = told_after_a_kill(|_| Turn::text("There are 42.")).await;
    assert!(told.contains("There are 42."), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_subagent_that_fails_after_its_worker_was_killed_tells_that_it_failed() {
    let told = told_after_a_kill(|_| Turn::status(400).saying("no such thing")).await;
    assert!(
        told.contains("could not go on") && told.contains("no such thing"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subagent_runs_as_the_agent_that_is_named_and_an_unknown_one_is_refused_with_those_there_are()
 {
    let (server, home) = world(json!({ "agent": "explore" }), |_| {
        Turn::text("There are 42.")
    })
    .await;
    let done = home.run(&["run", "how many files?"]);
    assert!(
        done.succeeded().stdout.contains("There are 42."),
        "{done:#?}"
    );
    assert_eq!(child_of(&home)["agent"], "explore");
    let calls = server.calls();
    let child = calls.iter().find(|call| is_child(call)).unwrap();
    assert!(
        !child.tools.iter().any(|tool| tool.name == "write"),
        "it only looks"
    );
    let parent = calls.iter().find(|call| !is_child(call)).unwrap();
    let offered = parent
        .tools
        .iter()
        .find(|tool| tool.name == "subagent")
        .unwrap();
    assert!(
        offered.description.contains("- explore: "),
        "{}",
        offered.description
    );
    let (_server, home) = world(json!({ "agent": "explorer" }), |_| Turn::text("never")).await;
    let done = home.run(&["run", "how many files?"]);
    let said = &done.succeeded().stdout;
    assert!(
        said.contains("there is no agent `explorer`") && said.contains("explore"),
        "{said}"
    );
    assert!(
        sessions(&home)
            .iter()
            .all(|session| !session["parent_id"].is_string())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_subagent_is_an_error_that_names_its_session_and_another_ones_child_is_refused() {
    let (_server, home) = world(json!({}), |_| Turn::status(400).saying("no such thing")).await;
    let done = home.run(&["run", "how many files?"]);
    let said = &done.succeeded().stdout;
    let id = child_of(&home)["session_id"].as_str().unwrap().to_owned();
    assert!(
        said.contains("could not go on") && said.contains(&format!("session_id: {id}")),
        "{said}"
    );
    let (_server, home) = world(json!({ "session_id": id }), |_| Turn::text("never")).await;
    let done = home.run(&["run", "how many files?"]);
    assert!(
        done.succeeded()
            .stdout
            .contains("is none of yours; yours are: none"),
        "{done:#?}"
    );
}

/// A run in which the child does what needs a person, and what the run told of it.
fn begin(home: &Home, arguments: &[&str], kind: &str) -> (std::process::Child, Value) {
    use std::io::BufRead as _;
    let mut run = home.command(arguments).spawn().unwrap();
    let mut lines = std::io::BufReader::new(run.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(&format!(r#""type":"{kind}""#)) {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "{:#?}", finish(run));
    }
    // The rest is read, so that the run is not held up by a full pipe.
    std::thread::spawn(move || lines.lines().count());
    (run, serde_json::from_str(&line).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_32_what_a_child_asks_reaches_the_clients_of_its_root_and_is_answered_there() {
    let question =
        json!({ "question": "Which?", "options": [{ "label": "Red" }, { "label": "Blue" }] });
    let (_server, home) = world(json!({}), move |call| match result(call) {
        None => Turn::tool_calls([("question", question.clone())]),
        Some(result) => Turn::text(&format!("child heard: {result}")),
    })
    .await;
    let (run, told) = begin(&home, &["run", "--json", "how many files?"], "question");
    let root = told["session_id"].as_str().unwrap().to_owned();
    let child = child_of(&home)["session_id"].as_str().unwrap().to_owned();
    assert_ne!(root, child, "the run tells of its own session");
    home.run(&["session", "answer", &root, "--option", "2"])
        .succeeded();
    assert_eq!(finish(run).status, Some(0));
    let shown = home.run(&["session", "show", &root]);
    assert!(
        shown
            .succeeded()
            .stdout
            .contains("child heard: User selected: 2. Blue"),
        "{shown:#?}"
    );
}

/// A run whose child asks whether it may write, and the run's own session.
async fn asking_to_write() -> (FakeModelServer, Home, std::process::Child, String) {
    let (server, home) = world(json!({}), move |call| match result(call) {
        None => Turn::tool_calls([("write", json!({ "path": "made.txt", "content": "x" }))]),
        Some(result) => Turn::text(&format!("child heard: {result}")),
    })
    .await;
    let arguments = [
        "run",
        "--json",
        "--permission-mode",
        "ask",
        "how many files?",
    ];
    let (run, told) = begin(&home, &arguments, "permission");
    let root = told["session_id"].as_str().unwrap().to_owned();
    (server, home, run, root)
}

/// Lets the child write, which it does then.
#[track_caller]
fn permit(home: &Home, run: std::process::Child, root: &str) {
    home.run(&["session", "permit", root, "--reply", "once"])
        .succeeded();
    assert_eq!(finish(run).status, Some(0));
    assert_eq!(
        std::fs::read_to_string(home.project().join("made.txt")).unwrap(),
        "x"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_32_what_a_child_needs_leave_for_is_asked_at_its_root() {
    let (_server, home, run, root) = asking_to_write().await;
    assert!(!home.project().join("made.txt").exists());
    permit(&home, run, &root);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_child_asked_is_answered_at_its_root_as_soon_as_a_dead_worker_is_there_again() {
    let question = json!({ "question": "Which?", "options": [{ "label": "Red" }] });
    for (with_server, background) in [(false, false), (true, false), (false, true)] {
        let question = question.clone();
        let (_server, home) = world(
            json!({ "background": background }),
            move |call| match result(call) {
                None => Turn::tool_calls([("question", question.clone())]),
                Some(result) => Turn::text(&format!("child heard: {result}")),
            },
        )
        .await;
        let run = match background {
            true => {
                home.run(&["run", "how many files?"]).succeeded();
                None
            }
            false => Some(begin(&home, &["run", "--json", "how many files?"], "question").0),
        };
        let child = child_of(&home);
        let [root, child] = ["parent_id", "session_id"].map(|id| child[id].as_str().unwrap());
        eventually("the child's question", || {
            let pending = home.run(&["session", "pending", root]);
            pending.stdout.contains("Which?").then_some(())
        });
        let killed = home.server().filter(|_| with_server);
        for pid in killed.into_iter().chain(home.workers()) {
            signal(pid, Signal::SIGKILL);
        }
        let answered = home.run(&["session", "answer", root, "--option", "1"]);
        assert_eq!(answered.succeeded().stdout.trim(), "answered");
        if let Some(run) = run {
            assert_eq!(finish(run).status, Some(0));
        }
        eventually("the child goes on with the answer", || {
            let shown = home.run(&["session", "show", child]);
            let heard = "child heard: User selected: 1. Red";
            shown.succeeded().stdout.contains(heard).then_some(())
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_child_needs_leave_for_is_permitted_at_its_root_as_soon_as_a_dead_worker_is_there_again()
 {
    let (_server, home, run, root) = asking_to_write().await;
    signal(home.workers()[0], Signal::SIGKILL);
    permit(&home, run, &root);
}

/// The same home with limits of its own.
fn limit(home: &Home, limits: &str) {
    let file = home.bezel().join("config.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    home.configure(&format!("{before}\n[plugins.subagent.config]\n{limits}\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subagent_that_has_ended_goes_on_with_another_prompt_in_its_own_session() {
    let script = Script::respond(move |call| {
        let results: Vec<String> = call
            .parts()
            .filter_map(|part| match part {
                SeenPart::ToolResult { text, .. } => Some(text.clone()),
                _ => None,
            })
            .collect();
        let prompts = call
            .parts()
            .filter(|part| matches!(part, SeenPart::Text(text) if text.starts_with("CHILD:")))
            .count();
        match (prompts, results.as_slice()) {
            (0, []) => Turn::tool_calls([("subagent", subagent(json!({})))]),
            (0, [first]) => {
                let id = first.rsplit("session_id: ").next().unwrap().trim();
                Turn::tool_calls([("subagent", subagent(json!({ "session_id": id })))])
            }
            (0, [.., last]) => Turn::text(&format!("It says: {last}")),
            // What it was told first it still knows.
            (prompts, _) => Turn::text(&format!("prompt {prompts}")),
        }
    });
    let server = FakeModelServer::start(script).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    let done = home.run(&["run", "how many files?"]);
    assert!(
        done.succeeded().stdout.contains("It says: prompt 2"),
        "{done:#?}"
    );
    let children = sessions(&home)
        .into_iter()
        .filter(|session| session["parent_id"].is_string());
    assert_eq!(children.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_subagents_than_may_run_wait_their_turn() {
    let both = [
        subagent(json!({ "description": "one" })),
        subagent(json!({ "description": "two" })),
    ];
    let command = "mkdir busy || echo overlap >> overlaps; sleep 0.3; rmdir busy; echo x >> ran";
    let script = Script::respond(move |call| match (is_child(call), result(call)) {
        (true, None) => Turn::tool_calls([("bash", json!({ "command": command }))]),
        (true, Some(_)) => Turn::text("done"),
        (false, None) => Turn::tool_calls(both.iter().map(|call| ("subagent", call.clone()))),
        (false, Some(_)) => Turn::text("Both are done."),
    });
    let server = FakeModelServer::start(script).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    limit(&home, "max_running = 1");
    home.run(&["run", "how many files?"]).succeeded();
    assert_eq!(
        std::fs::read_to_string(home.project().join("ran")).unwrap(),
        "x\nx\n"
    );
    assert!(
        !home.project().join("overlaps").exists(),
        "they ran at once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn subagents_are_as_deep_as_the_configuration_lets_them() {
    for (depth, offered) in [(0, 0), (1, 1), (2, 2)] {
        let script = Script::respond(move |call| {
            let has = call.tools.iter().any(|tool| tool.name == "subagent");
            match (has, result(call)) {
                (true, None) => Turn::tool_calls([("subagent", subagent(json!({})))]),
                _ => Turn::text("done"),
            }
        });
        let server = FakeModelServer::start(script).await.unwrap();
        let home = home_with(&server, WireFormat::OpenAiChat, "openai");
        limit(&home, &format!("max_depth = {depth}"));
        home.run(&["run", "how many files?"]).succeeded();
        let children = sessions(&home)
            .iter()
            .filter(|session| session["parent_id"].is_string())
            .count();
        assert_eq!(children, offered, "max_depth = {depth}");
    }
}
