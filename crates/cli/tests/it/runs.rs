//! `bezel run` as a person uses it: real processes, a fake model behind them.

use std::os::unix::process::CommandExt as _;
use std::time::Duration;

use bezel_testkit::{FakeModelServer, Script, Step, Turn, WireFormat};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::home::{Done, Home, eventually, finish, signal};

const FORMATS: [(WireFormat, &str); 4] = [
    (WireFormat::OpenAiChat, "openai"),
    (WireFormat::OpenAiResponses, "openai-responses"),
    (WireFormat::Anthropic, "anthropic"),
    (WireFormat::Gemini, "gemini"),
];

/// A home whose model is the fake one.
pub fn home_with(server: &FakeModelServer, format: WireFormat, kind: &str) -> Home {
    let home = Home::new().variable("LOCAL_KEY", "sk-very-secret");
    home.configure(&format!(
        "model = \"local::m\"\n[providers.local]\nkind = \"{kind}\"\nbase_url = \"{}\"\napi_key_env = \"LOCAL_KEY\"\n\
         [[providers.local.models]]\nid = \"m\"\ncontext = 100000\n[retry]\nmax_attempts = 2\nbase_delay_ms = 200\n",
        server.base_url(format)
    ));
    home
}

pub async fn chat(turns: impl IntoIterator<Item = Turn>) -> (FakeModelServer, Home) {
    let server = FakeModelServer::start(Script::new(turns)).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    (server, home)
}

fn types(done: &Done) -> Vec<String> {
    done.lines()
        .iter()
        .map(|line| line["type"].as_str().unwrap().to_owned())
        .collect()
}

fn last(done: &Done) -> Value {
    done.lines().pop().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_prompt_does_the_same_work_through_each_wire_format() {
    for (format, kind) in FORMATS {
        let script = Script::new([
            Turn::tool_calls([(
                "write",
                json!({ "path": "made.txt", "content": "by the agent\n" }),
            )]),
            Turn::text("It is **made**."),
        ]);
        let server = FakeModelServer::start(script).await.unwrap();
        let home = home_with(&server, format, kind);
        let done = home.run(&["run", "make", "the", "file"]);
        assert_eq!(done.succeeded().stdout, "It is **made**.\n", "{kind}");
        assert!(
            done.stderr.contains("· write  made.txt"),
            "{kind}: {done:#?}"
        );
        assert_eq!(
            std::fs::read_to_string(home.project().join("made.txt")).unwrap(),
            "by the agent\n",
            "{kind}"
        );
        assert_eq!(server.requests().len(), 2, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_lines_hold_to_the_published_schema() {
    let (_server, home) = chat([
        Turn::tool_calls([("bash", json!({ "command": "echo out; exit 3" }))]),
        Turn::text("Done."),
    ])
    .await;
    let done = home.run(&["run", "--json", "go"]);
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/run-events.schema.json"
    );
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    for line in done.succeeded().lines() {
        assert!(schema.is_valid(&line), "{line}");
    }
    assert!(!schema.is_valid(&json!({ "v": 1, "type": "nonsense" })));
    assert_eq!(
        types(&done),
        [
            "session",
            "prompt",
            "tool_start",
            "tool_end",
            "text_delta",
            "text",
            "usage",
            "end"
        ]
    );
    assert_eq!(
        last(&done),
        json!({ "v": 1, "type": "end", "status": "done", "exit_status": 0, "text": "Done." })
    );
    assert!(
        !done.stdout.contains("sk-very-secret") && !home.server_log().contains("sk-very-secret")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_the_same_hosts_do_the_same() {
    let (_server, home) = chat([
        Turn::tool_calls([("write", json!({ "path": "made.txt", "content": "x" }))]),
        Turn::text("Done."),
    ])
    .await;
    assert_eq!(
        home.run(&["run", "--standalone", "go"]).succeeded().stdout,
        "Done.\n"
    );
    assert!(home.project().join("made.txt").exists());
    assert_eq!(home.server(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_is_the_prompt_or_joins_it() {
    let (server, home) = chat([Turn::text("1"), Turn::text("2"), Turn::text("3")]).await;
    home.pipe(&["run"], b"from the pipe").succeeded();
    assert!(server.last_body().to_string().contains("from the pipe"));
    home.pipe(&["run", "-"], b"from the dash").succeeded();
    assert!(server.last_body().to_string().contains("from the dash"));
    home.pipe(&["run", "look", "at this"], b"a log").succeeded();
    assert!(
        server
            .last_body()
            .to_string()
            .contains(r"look at this\n\na log")
    );
}

#[test]
fn without_a_model_the_status_is_3_and_the_message_says_what_to_do() {
    let home = Home::new();
    let done = home.run(&["run", "hi"]);
    done.failed(3, "bezel tour");
    let done = home.run(&["run", "--json", "hi"]);
    assert_eq!(
        (done.status, &last(&done)["status"]),
        (Some(3), &json!("no_model"))
    );
    assert_eq!(
        home.run(&["session", "list", "--json"]).succeeded().stdout,
        "[]\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_and_a_model_that_the_provider_refuses_end_with_status_3() {
    let (_server, home) = chat([Turn::status(401), Turn::status(404)]).await;
    let done = home.run(&["run", "hi"]);
    done.failed(3, "error: ");
    assert!(
        done.stderr.contains("key") && !done.stderr.contains("warning"),
        "{done:#?}"
    );
    home.run(&["run", "hi"]).failed(3, "`m`");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_fails_or_cannot_be_reached_ends_with_status_1() {
    let (server, home) = chat([Turn::status(500), Turn::status(529)]).await;
    let done = home.run(&["run", "--json", "hi"]);
    assert_eq!(done.status, Some(1), "{done:#?}");
    assert!(types(&done).contains(&"retry".to_owned()), "{done:#?}");
    assert_eq!(server.requests().len(), 2);
    let address = server.url();
    drop(server);
    home.run(&["run", "hi"])
        .failed(1, &address["http://".len()..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_and_is_listed_shown_renamed_and_deleted() {
    let (server, home) = chat([Turn::text("One."), Turn::text("Two."), Turn::text("Three.")]).await;
    home.run(&["run", "first question"]).succeeded();
    home.run(&["run", "--continue", "second question"])
        .succeeded();
    let body = server.last_body().to_string();
    assert!(
        body.contains("first question")
            && body.contains("One.")
            && body.contains("second question"),
        "{body}"
    );
    let listed: Value =
        serde_json::from_str(&home.run(&["session", "list", "--json"]).succeeded().stdout).unwrap();
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    let id = listed[0]["session_id"].as_str().unwrap();
    home.run(&["run", "--session", &id[..id.len() - 2], "third question"])
        .succeeded();
    let shown = home.run(&["session", "show", &id[id.len() - 6..]]);
    for text in ["> first question", "One.", "> third question", "Three."] {
        assert!(
            shown.succeeded().stdout.contains(text),
            "{text}: {shown:#?}"
        );
    }
    home.run(&["session", "rename", id, "A better name"])
        .succeeded();
    assert!(
        home.run(&["session", "list"])
            .succeeded()
            .stdout
            .contains("A better name")
    );
    home.run(&["session", "rename", id, " "])
        .failed(2, "the title is empty");
    home.run(&["session", "delete", id]).succeeded();
    assert_eq!(
        home.run(&["session", "list", "--json"]).succeeded().stdout,
        "[]\n"
    );
    home.run(&["session", "show", id])
        .failed(2, "there is no session");
    home.run(&["run", "--session", "zzz", "hi"])
        .failed(2, "there is no session");
    home.run(&["run", "--continue", "hi"])
        .failed(2, "--continue");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_plan_mode_nothing_is_changed() {
    let (_server, home) = chat([
        Turn::tool_calls([("write", json!({ "path": "made.txt", "content": "x" }))]),
        Turn::text("I may not."),
    ])
    .await;
    home.run(&["run", "--permission-mode", "plan", "go"])
        .succeeded();
    assert!(!home.project().join("made.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn in_auto_mode_the_project_is_changed_unasked() {
    let (_server, home) = chat([
        Turn::tool_calls([("write", json!({ "path": "made.txt", "content": "x" }))]),
        Turn::tool_calls([("bash", json!({ "command": "mkdir made && ls > made/list" }))]),
        Turn::text("Done."),
    ])
    .await;
    home.run(&["run", "--permission-mode", "auto", "go"])
        .succeeded();
    assert!(home.project().join("made.txt").exists());
    assert!(home.project().join("made/list").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standalone_run_declines_what_nobody_can_be_asked_for_and_says_so_first() {
    let (server, home) = chat([
        Turn::tool_calls([("write", json!({ "path": "made.txt", "content": "x" }))]),
        Turn::text("I may not."),
    ])
    .await;
    let done = home.run(&["run", "--standalone", "--permission-mode", "ask", "go"]);
    assert!(
        done.stderr.starts_with("notice: in mode `ask`"),
        "{done:#?}"
    );
    assert!(done.stderr.contains("declined"), "{done:#?}");
    let done = done.succeeded();
    assert!(done.stdout.contains("I may not."), "{done:#?}");
    assert!(!home.project().join("made.txt").exists());
    let told = format!("{:?}", server.requests().last().unwrap());
    assert!(told.contains("nobody can be asked"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_the_operation_and_the_status_is_130() {
    let (server, home) = chat([Turn::steps([
        Step::Text("Thinking about it".into()),
        Step::Stall,
    ])])
    .await;
    let run = home.command(&["run", "--json", "go"]).spawn().unwrap();
    server.wait_for_requests(1).await.unwrap();
    signal(run.id(), Signal::SIGINT);
    let done = finish(run);
    assert_eq!(
        (done.status, &last(&done)["status"]),
        (Some(130), &json!("interrupted")),
        "{done:#?}"
    );
    server.wait_for_early_close(0).await.unwrap();
    let listed: Value =
        serde_json::from_str(&home.run(&["session", "list", "--json"]).stdout).unwrap();
    assert_ne!(listed[0]["status"], "active");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_ends_the_operation_without_a_word() {
    let (server, home) = chat([Turn::steps([
        Step::Text("one ".into()),
        Step::delay(Duration::from_millis(300)),
        Step::Text("two".into()),
        Step::Stall,
    ])])
    .await;
    let mut run = home.command(&["run", "--json", "go"]).spawn().unwrap();
    server.wait_for_requests(1).await.unwrap();
    drop(run.stdout.take());
    let done = finish(run);
    assert_eq!(
        (done.status, done.stderr.as_str()),
        (Some(0), ""),
        "{done:#?}"
    );
    server.wait_for_early_close(0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_or_server_that_is_killed_does_not_end_the_run() {
    for victim in ["worker", "server"] {
        let slow = || {
            Turn::steps([
                Step::delay(Duration::from_millis(700)),
                Step::Text("Still here.".into()),
            ])
        };
        let (server, home) = chat([slow(), slow()]).await;
        let run = home.command(&["run", "--json", "go"]).spawn().unwrap();
        server.wait_for_requests(1).await.unwrap();
        let killed = match victim {
            "worker" => eventually("there is no worker", || home.workers().first().copied()),
            _ => home.server().unwrap(),
        };
        signal(killed, Signal::SIGKILL);
        let done = finish(run);
        assert_eq!(
            (done.status, &last(&done)["text"]),
            (Some(0), &json!("Still here.")),
            "{victim}: {done:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_another_group_is_not_the_workers_signal() {
    let (server, home) = chat([Turn::steps([
        Step::delay(Duration::from_millis(400)),
        Step::Text("Done.".into()),
    ])])
    .await;
    let run = home
        .command(&["run", "go"])
        .process_group(0)
        .spawn()
        .unwrap();
    server.wait_for_requests(1).await.unwrap();
    let worker = eventually("there is no worker", || home.workers().first().copied());
    let group = |pid: u32| {
        nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(pid.cast_signed()))).unwrap()
    };
    assert_ne!(group(worker), group(run.id()));
    assert_ne!(group(worker), group(home.server().unwrap()));
    finish(run).succeeded();
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_listed_without_leaving_anything() {
    let (_server, home) = chat([]).await;
    let listed = home.run(&["models", "--json"]);
    let listed: Value = serde_json::from_str(&listed.succeeded().stdout).unwrap();
    assert_eq!(
        listed["chosen"],
        json!({ "provider": "local", "model_id": "m" })
    );
    let names: Vec<String> = listed["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| {
            format!(
                "{}::{}",
                model["provider"].as_str().unwrap(),
                model["model_id"].as_str().unwrap()
            )
        })
        .collect();
    assert!(names.contains(&"local::m".to_owned()), "{names:?}");
    assert!(
        home.run(&["models"])
            .succeeded()
            .stdout
            .contains("* local::m")
    );
    assert_eq!(home.server(), None);
    assert_eq!(
        home.run(&["session", "list", "--json"]).succeeded().stdout,
        "[]\n"
    );
}

#[test]
fn without_a_terminal_bezel_plays_the_tour_with_real_tools_and_leaves_nothing() {
    let home = Home::new();
    for arguments in [&[][..], &["tour"]] {
        let done = home.run(arguments);
        assert!(!done.stdout.contains("Ask me"), "nobody can: {done:#?}");
        assert!(
            done.stderr.contains("· todo  0 of 3 done; now: "),
            "{done:#?}"
        );
        assert!(done.succeeded().stdout.contains("Hello, Ada"), "{done:#?}");
        assert!(done.stderr.contains("· bash"), "{done:#?}");
    }
    let json = home.run(&["tour", "--json"]);
    assert_eq!(last(json.succeeded())["status"], "done");
    assert_eq!(home.server(), None);
    assert!(!home.bezel().join("data").exists());
    assert_eq!(std::fs::read_dir(home.project()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_start_says_why() {
    let (_server, home) = chat([Turn::text("One."), Turn::text("Two.")]).await;
    home.run(&["run", "hi"]).succeeded();
    let listed: Value =
        serde_json::from_str(&home.run(&["session", "list", "--json"]).stdout).unwrap();
    let id = listed[0]["session_id"].as_str().unwrap();
    home.run(&["server", "stop"]).succeeded();
    std::fs::create_dir(home.project().join(".bezel")).unwrap();
    std::fs::write(
        home.project().join(".bezel/config.toml"),
        "modle = \"a::b\"\n",
    )
    .unwrap();
    home.run(&["config", "trust"]).succeeded();
    // From elsewhere, where the configuration is good.
    let run = home
        .command(&["run", "--session", id, "--cwd", "/", "go on"])
        .spawn()
        .unwrap();
    finish(run).failed(1, "did you mean `model`?");
    std::fs::remove_file(home.project().join(".bezel/config.toml")).unwrap();
    assert_eq!(
        home.run(&["run", "--session", id, "go on"])
            .succeeded()
            .stdout,
        "Two.\n"
    );
}

#[test]
fn every_kind_of_provider_that_the_schema_names_can_be_configured() {
    let home = Home::new();
    let schema: Value = serde_json::from_str(&home.run(&["config", "schema"]).stdout).unwrap();
    let kinds = schema["$defs"]["ProviderKind"]["enum"].as_array().unwrap();
    let mut config = String::new();
    for kind in kinds.iter().map(|kind| kind.as_str().unwrap()) {
        config.push_str(&format!(
            "[providers.my-{kind}]\nkind = \"{kind}\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
             api_key_command = \"echo key\"\n[[providers.my-{kind}.models]]\nid = \"m\"\n"
        ));
    }
    home.configure(&config);
    let listed: Value =
        serde_json::from_str(&home.run(&["models", "--json"]).succeeded().stdout).unwrap();
    for kind in kinds.iter().map(|kind| kind.as_str().unwrap()) {
        let name = json!(format!("my-{kind}"));
        let mut models = listed["models"].as_array().unwrap().iter();
        assert!(
            models.any(|model| model["provider"] == name),
            "{kind}: {listed}"
        );
    }
}
