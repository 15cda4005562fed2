//! Agents over real processes: what the model is given, what a restart keeps, which files count.

use bezel_testkit::{FakeModelServer, ModelCall, Script, Turn, WireFormat};
use serde_json::{Value, json};

use crate::home::Home;
use crate::runs::{chat, home_with};
use crate::subagents::{is_child, result};

const REVIEW: &str = "---\ndescription: Reads what changed\nmode: primary\ntools: [read, grep, bash]\npermissions:\n  \
    - {action: shell, resource: 'touch *', effect: deny}\n---\nYou are the reviewer of this project.\n";

fn write(home: &Home, file: &str, text: &str) {
    let file = home.project().parent().unwrap().join(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

fn tools(call: &ModelCall) -> Vec<&str> {
    call.tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn listed(home: &Home) -> Value {
    let done = home.run(&["agents", "--json"]);
    serde_json::from_str(&done.succeeded().stdout).unwrap()
}

fn names(listed: &Value) -> Vec<&str> {
    let agents = listed["agents"].as_array().unwrap();
    agents
        .iter()
        .map(|agent| agent["name"].as_str().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_gives_the_model_its_prompt_and_tools_and_keeps_what_it_denies_over_a_restart() {
    let touch =
        |file: &str| Turn::tool_calls([("bash", json!({ "command": format!("touch {file}") }))]);
    let (server, home) = chat([
        touch("one"),
        Turn::text("First."),
        touch("two"),
        Turn::text("Second."),
    ])
    .await;
    write(&home, "b/agents/review.md", REVIEW);
    let done = home.run(&["run", "--json", "--agent", "review", "look"]);
    done.succeeded();
    let first = &server.calls()[0];
    let mut given = tools(first);
    given.sort_unstable();
    assert_eq!(given, ["bash", "grep", "read"]);
    assert!(
        first
            .system
            .contains("You are the reviewer of this project."),
        "{}",
        first.system
    );
    assert!(!home.project().join("one").exists());

    home.run(&["server", "stop"]).succeeded();
    home.run(&["run", "--continue", "again"]).succeeded();
    let call = &server.calls()[2];
    assert!(
        call.system.contains("You are the reviewer"),
        "{}",
        call.system
    );
    assert!(!home.project().join("two").exists());
}

/// A model that calls `bash` whenever it may, and `stubborn` one also where it may not.
async fn caller(stubborn: bool) -> (FakeModelServer, Home) {
    let script = Script::respond(move |call| match call.forbids_tools && !stubborn {
        true => Turn::text("This is where I am."),
        false => Turn::tool_calls([("bash", json!({ "command": "echo x >> ran" }))]),
    });
    let server = FakeModelServer::start(script).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    write(
        &home,
        "b/agents/brief.md",
        "---\nmode: primary\nsteps: 3\n---\n",
    );
    (server, home)
}

fn ran(home: &Home) -> usize {
    let ran = std::fs::read_to_string(home.project().join("ran"));
    ran.unwrap_or_default().lines().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_its_steps_used_up_answers_in_text_and_has_them_again_when_it_is_asked_again()
{
    let (server, home) = caller(false).await;
    let done = home.run(&["run", "--agent", "brief", "do it"]);
    assert_eq!(done.succeeded().stdout, "This is where I am.\n");
    let calls = server.calls();
    let forbids: Vec<bool> = calls.iter().map(|call| call.forbids_tools).collect();
    assert_eq!((forbids, ran(&home)), (vec![false, false, true], 2));
    let told = calls[2].last_user_text();
    assert!(told.contains("last of the 3 steps"), "{told}");
    home.run(&["run", "--continue", "go on"]).succeeded();
    let calls = server.calls();
    let forbids = calls[3..].iter().map(|call| call.forbids_tools);
    assert_eq!(forbids.collect::<Vec<_>>(), [false, false, true]);
    // What it was told is no part of the conversation.
    let told_again = calls[5].parts().filter(|part| {
        matches!(part, bezel_testkit::SeenPart::Text(text) if text.contains("last of the 3 steps"))
    });
    assert_eq!((told_again.count(), ran(&home)), (1, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_calls_tools_all_the_same_when_its_steps_are_used_up_runs_none() {
    let (server, home) = caller(true).await;
    let done = home.run(&["run", "--json", "--agent", "brief", "do it"]);
    let lines = &done.succeeded().stdout;
    assert_eq!((server.calls().len(), ran(&home)), (3, 2));
    assert!(lines.contains("to answer without tools"), "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configured_agent_serves_where_none_is_named() {
    let (server, home) = chat([Turn::text("Planned."), Turn::text("Built.")]).await;
    let config = std::fs::read_to_string(home.bezel().join("config.toml")).unwrap();
    home.configure(&format!("agent = \"plan\"\n{config}"));
    home.run(&["run", "one"]).succeeded();
    assert!(
        server.calls()[0]
            .system
            .contains("You are the planning agent")
    );
    home.run(&["run", "--agent", "build", "two"]).succeeded();
    assert!(!server.calls()[1].system.contains("planning agent"));
    assert_eq!(listed(&home)["current"], "plan");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_a_project_count_only_once_it_is_trusted() {
    let (server, home) = chat([Turn::text("Done.")]).await;
    write(&home, "project/.bezel/agents/review.md", REVIEW);
    assert_eq!(names(&listed(&home)), ["build", "plan", "explore"]);
    let untrusted = home.run(&["agents"]);
    assert!(
        untrusted.succeeded().stderr.contains("bezel config trust"),
        "{untrusted:#?}"
    );
    home.run(&["run", "--agent", "review", "look"])
        .failed(2, "there is no agent `review` here");
    assert_eq!(server.calls().len(), 0);
    home.run(&["config", "trust"]).succeeded();
    assert_eq!(
        names(&listed(&home)),
        ["build", "plan", "explore", "review"]
    );
    home.run(&["run", "--agent", "review", "look"]).succeeded();
    assert!(server.calls()[0].system.contains("You are the reviewer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_is_told_with_its_line_and_disturbs_nothing() {
    let (_server, home) = chat([Turn::text("Done.")]).await;
    write(
        &home,
        "b/agents/bad.md",
        "---\nmode: primary\nmodle: a::b\n---\n",
    );
    write(&home, "b/agents/review.md", REVIEW);
    let shown = home.run(&["agents"]);
    assert!(
        shown.succeeded().stderr.contains("bad.md:3: `modle`"),
        "{shown:#?}"
    );
    assert!(shown.stdout.contains("review.md"), "{shown:#?}");
    let done = home.run(&["run", "--agent", "review", "look"]);
    assert!(
        done.succeeded().stderr.contains("bad.md:3: `modle`"),
        "{done:#?}"
    );
    home.run(&["run", "--agent", "bad", "look"])
        .failed(2, "which files were left out");
    home.run(&["run", "--agent", "explore", "look"]).failed(
        2,
        "parts of another agent's work and begins no session; it is built in",
    );
    home.run(&["run", "--continue", "--agent", "plan", "look"])
        .failed(2, "belongs to a new session");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_agent_is_gone_runs_nothing_and_says_why() {
    let (server, home) = chat([Turn::text("Done."), Turn::text("Never.")]).await;
    write(&home, "b/agents/review.md", REVIEW);
    home.run(&["run", "--agent", "review", "look"]).succeeded();
    std::fs::remove_file(home.bezel().join("agents/review.md")).unwrap();
    let done = home.run(&["run", "--continue", "again"]);
    assert_ne!(done.status, Some(0), "{done:#?}");
    assert!(done.stderr.contains("no agent `review`"), "{done:#?}");
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subagent_has_its_own_agent_and_no_more_than_the_one_that_began_it() {
    let script = Script::respond(|call| {
        let begun = json!({ "description": "look", "prompt": "CHILD: look", "agent": "helper" });
        match (is_child(call), result(call)) {
            (true, None) => Turn::tool_calls([("bash", json!({ "command": "touch made" }))]),
            (true, Some(result)) => Turn::text(&format!("I was told: {result}")),
            (false, None) => Turn::tool_calls([("subagent", begun)]),
            (false, Some(result)) => Turn::text(&result),
        }
    });
    let server = FakeModelServer::start(script).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    let lead = REVIEW.replace("bash]", "bash, subagent]");
    write(&home, "b/agents/lead.md", &lead);
    write(
        &home,
        "b/agents/helper.md",
        "---\nmode: subagent\ntools:\n  read: false\npermissions: allow\n---\nYou help.\n",
    );
    let done = home.run(&["run", "--agent", "lead", "look"]);
    assert!(
        done.succeeded().stdout.contains("`shell touch *`"),
        "{done:#?}"
    );
    assert!(!home.project().join("made").exists());
    let calls = server.calls();
    let child = calls.iter().find(|call| is_child(call)).unwrap();
    let mut given = tools(child);
    given.sort_unstable();
    assert_eq!(given, ["bash", "grep"]);
    assert!(child.system.contains("You help.") && !child.system.contains("the reviewer"));
}
