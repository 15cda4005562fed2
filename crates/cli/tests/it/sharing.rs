//! Several runs in one session.

use std::io::{BufRead as _, BufReader};
use std::process::Child;
use std::time::Duration;

use bezel_testkit::{FakeModelServer, Script, Step, Turn, WireFormat};
use nix::sys::signal::Signal;

use crate::home::{Home, finish, signal};
use crate::runs::home_with;

async fn playing(turns: impl IntoIterator<Item = Turn>) -> (FakeModelServer, Home) {
    let server = FakeModelServer::start(Script::new(turns)).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    (server, home)
}

/// A run in the newest session, whose prompt is admitted; and the rest of what it says.
fn admitted(home: &Home, prompt: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let command = &mut home.command(&["run", "--continue", "--json", prompt]);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(r#""type":"prompt""#) {
        line.clear();
        assert_ne!(
            lines.read_line(&mut line).unwrap(),
            0,
            "{:#?}",
            finish(child)
        );
    }
    (child, lines)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_that_waits_takes_its_prompt_back_and_spares_the_turn_of_the_other() {
    let long = Turn::steps([
        Step::Text("One".into()),
        Step::delay(Duration::from_millis(1500)),
        Step::Text(" and all.".into()),
    ]);
    let (server, home) = playing([long, Turn::text("After.")]).await;
    let other = home.command(&["run", "first"]).spawn().unwrap();
    server.wait_for_requests(1).await.unwrap();
    let (waiting, _lines) = admitted(&home, "never meant");
    signal(waiting.id(), Signal::SIGINT);
    assert_eq!(finish(waiting).status, Some(130));
    assert_eq!(finish(other).succeeded().stdout, "One and all.\n");
    home.run(&["run", "--continue", "next"]).succeeded();
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert!(!server.last_body().to_string().contains("never meant"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_a_turn_which_is_interrupted_gets_a_turn_of_its_own() {
    let stalled = Turn::steps([Step::Text("One".into()), Step::Stall]);
    let (server, home) = playing([stalled, Turn::text("Two.")]).await;
    let other = home.command(&["run", "first"]).spawn().unwrap();
    server.wait_for_requests(1).await.unwrap();
    let (waiting, mut lines) = admitted(&home, "second");
    signal(other.id(), Signal::SIGINT);
    assert_eq!(finish(other).status, Some(130));
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut lines, &mut rest).unwrap();
    let done = finish(waiting);
    assert_eq!(done.status, Some(0), "{rest}{done:#?}");
    assert!(rest.contains(r#""text":"Two.""#), "{rest}");
    assert!(server.last_body().to_string().contains("second"));
}
