//! Keys and models: what is missing is said, and what comes later is taken.

use bezel_testkit::{FakeModelServer, Script, Turn, WireFormat};
use serde_json::{Value, json};

use crate::home::{Done, Home, finish};

/// A home with a model behind `LOCAL_KEY`, which is not set.
async fn keyless(turns: impl IntoIterator<Item = Turn>) -> (FakeModelServer, Home) {
    let server = FakeModelServer::start(Script::new(turns)).await.unwrap();
    let home = Home::new();
    configure(&home, &server, "LOCAL_KEY");
    (server, home)
}

fn configure(home: &Home, server: &FakeModelServer, variable: &str) {
    home.configure(&format!(
        "model = \"local::m\"\n[providers.local]\nkind = \"openai\"\nbase_url = \"{}\"\napi_key_env = \"{variable}\"\n\
         [[providers.local.models]]\nid = \"m\"\ncontext = 100000\n[retry]\nmax_attempts = 1\n",
        server.base_url(WireFormat::OpenAiChat)
    ));
}

fn with(home: &Home, variables: &[(&str, &str)], arguments: &[&str]) -> Done {
    let mut command = home.command(arguments);
    command.envs(variables.iter().copied());
    finish(command.spawn().unwrap())
}

fn sessions(home: &Home) -> Vec<Value> {
    let listed = home.run(&["session", "list", "--json"]);
    serde_json::from_str(&listed.succeeded().stdout).unwrap()
}

/// The keys that requests to the model carried, in order.
fn keys(server: &FakeModelServer) -> Vec<String> {
    let asked = server
        .requests()
        .into_iter()
        .filter(|request| request.call.is_some());
    asked
        .map(|request| {
            let header = request.header("authorization").unwrap_or_default();
            header.trim_start_matches("Bearer ").to_owned()
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_key_says_so_and_leaves_no_session() {
    let (server, home) = keyless([]).await;
    home.run(&["run", "hi"]).failed(3, "export LOCAL_KEY");
    home.run(&["run", "--json", "hi"]).failed(3, "");
    assert_eq!(sessions(&home), Vec::<Value>::new());
    assert!(keys(&server).is_empty());
    home.run(&["run", "--continue", "hi"])
        .failed(2, "--continue");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_goes_on_takes_the_key_of_the_shell_that_opens_it() {
    let (server, home) = keyless((1..=6).map(|turn| Turn::text(&format!("{turn}.")))).await;
    with(&home, &[("LOCAL_KEY", "one")], &["run", "first"]).succeeded();
    with(
        &home,
        &[("LOCAL_KEY", "two")],
        &["run", "--continue", "second"],
    )
    .succeeded();
    // A shell that has none is no reason to lose the one that is there.
    with(&home, &[], &["run", "--continue", "third"]).succeeded();
    assert_eq!(keys(&server), ["one", "two", "two"]);
    let worker = home.workers();
    with(
        &home,
        &[("LOCAL_KEY", "two"), ("SHLVL", "7")],
        &["run", "--continue", "fourth"],
    )
    .succeeded();
    assert_eq!(home.workers(), worker, "nothing differs");
    // Another configuration counts like another key.
    configure(&home, &server, "OTHER_KEY");
    with(
        &home,
        &[("OTHER_KEY", "three")],
        &["run", "--continue", "fifth"],
    )
    .succeeded();
    assert_eq!(keys(&server)[3..], ["two", "three"]);
    assert_ne!(home.workers(), worker);
    assert_eq!(sessions(&home).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_missing_in_a_session_is_taken_once_it_is_exported() {
    let (server, home) = keyless([Turn::text("1."), Turn::text("2.")]).await;
    with(&home, &[("LOCAL_KEY", "one")], &["run", "first"]).succeeded();
    home.run(&["server", "stop"]).succeeded();
    for _ in 0..2 {
        home.run(&["run", "--continue", "second"])
            .failed(3, "export LOCAL_KEY");
    }
    with(
        &home,
        &[("LOCAL_KEY", "two")],
        &["run", "--continue", "second"],
    )
    .succeeded();
    assert_eq!(keys(&server), ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_in_which_something_runs_is_not_replaced() {
    let background = json!({ "command": "sleep 100", "background": true });
    let (server, home) = keyless([
        Turn::tool_calls([("bash", background)]),
        Turn::text("1."),
        Turn::text("2."),
    ])
    .await;
    with(&home, &[("LOCAL_KEY", "one")], &["run", "first"]).succeeded();
    let worker = home.workers();
    with(
        &home,
        &[("LOCAL_KEY", "two")],
        &["run", "--continue", "second"],
    )
    .succeeded();
    assert_eq!(home.workers(), worker);
    assert_eq!(keys(&server), ["one", "one", "one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_used_is_listed_with_what_is_missing() {
    let (_server, home) = keyless([]).await;
    let listed = home.run(&["models"]);
    assert!(
        listed.succeeded().stdout.contains("* local::m")
            && listed.stdout.contains("no key: export LOCAL_KEY"),
        "{listed:#?}"
    );
    let json: Value = serde_json::from_str(&home.run(&["models", "--json"]).stdout).unwrap();
    assert_eq!(json["without_key"][0]["variables"], json!(["LOCAL_KEY"]));
    let doctor = home.run(&["doctor"]);
    assert_eq!(doctor.status, Some(1), "{doctor:#?}");
    assert!(
        doctor.stdout.contains("BAD   keys") && doctor.stdout.contains("export LOCAL_KEY=…"),
        "{doctor:#?}"
    );
    let listed = with(&home, &[("LOCAL_KEY", "k")], &["models", "--refresh"]);
    assert!(!listed.succeeded().stdout.contains("no key"), "{listed:#?}");
    // Providers that nobody configured are not missed.
    assert_eq!(listed.stderr.matches("warning").count(), 0, "{listed:#?}");
    let doctor = with(&home, &[("LOCAL_KEY", "k")], &["doctor"]);
    assert!(
        doctor.succeeded().stdout.contains("local (LOCAL_KEY)"),
        "{doctor:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_not_there_is_refused_in_new_and_old_sessions_alike() {
    let (server, home) = keyless([Turn::text("1.")]).await;
    let key = [("LOCAL_KEY", "k")];
    with(&home, &key, &["run", "--model", "local::n", "hi"]).failed(3, "did you mean local::m?");
    assert_eq!(sessions(&home), Vec::<Value>::new());
    with(&home, &key, &["run", "hi"]).succeeded();
    with(
        &home,
        &key,
        &["run", "--continue", "--model", "local::n", "hi"],
    )
    .failed(3, "did you mean local::m?");
    with(&home, &key, &["run", "--model", "locl::m", "hi"]).failed(2, "did you mean \"local::m\"?");
    // A provider that lists no models takes any name.
    home.configure(&format!(
        "[providers.open]\nkind = \"openai\"\nbase_url = \"{}\"\n[retry]\nmax_attempts = 1\n",
        server.base_url(WireFormat::OpenAiChat)
    ));
    home.run(&["run", "--model", "open::whatever", "hi"])
        .failed(1, "");
    assert_eq!(server.last_body()["model"], "whatever");
}

#[test]
fn a_session_goes_on_with_the_model_that_it_was_begun_with() {
    let home = Home::new();
    home.run(&["run", "--model", "scripted::tour", "hello"])
        .succeeded();
    let done = home.run(&["run", "--continue", "what next?"]);
    assert!(
        done.succeeded().stdout.contains("Things to try"),
        "{done:#?}"
    );
}
