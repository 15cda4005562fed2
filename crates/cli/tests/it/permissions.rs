//! A call that waits for permission, over real processes: answered from elsewhere, and over the death of its worker.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout};

use bezel_testkit::{FakeModelServer, Script, Turn, WireFormat};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::home::{Done, Home, eventually, finish, signal};
use crate::runs::home_with;

async fn touching() -> (FakeModelServer, Home) {
    let turns = [
        Turn::tool_calls([(
            "bash",
            json!({ "command": "touch made.txt && sh -c 'touch other.txt'" }),
        )]),
        Turn::text("That is that."),
    ];
    let server = FakeModelServer::start(Script::new(turns)).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    (server, home)
}

/// A run whose call waits, what it asks for, and the rest of what it says.
struct Asked {
    run: Child,
    lines: BufReader<ChildStdout>,
    ask: Value,
}

impl Asked {
    fn begin(home: &Home) -> Self {
        let arguments = ["run", "--json", "--permission-mode", "ask", "go"];
        let mut run = home.command(&arguments).spawn().unwrap();
        let mut lines = BufReader::new(run.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains(r#""type":"permission""#) {
            line.clear();
            let read = lines.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "{:#?}", finish(run));
        }
        let ask = serde_json::from_str(&line).unwrap();
        Asked { run, lines, ask }
    }

    fn session(&self) -> String {
        self.ask["session_id"].as_str().unwrap().to_owned()
    }

    fn finish(mut self) -> (Done, String) {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        (finish(self.run), rest)
    }
}

fn permit(home: &Home, session: &str, with: &[&str]) -> Done {
    home.run(&[&["session", "permit", session], with].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_for_permission_and_runs_once_it_is_given_from_elsewhere() {
    let (_server, home) = touching().await;
    let asked = Asked::begin(&home);
    let resources: Vec<&str> = asked.ask["asked"]
        .as_array()
        .unwrap()
        .iter()
        .map(|asked| asked["resource"].as_str().unwrap())
        .collect();
    assert_eq!(resources, ["touch made.txt", "touch other.txt"]);
    assert_eq!(asked.ask["declined"], false);
    assert!(!home.project().join("made.txt").exists());
    let session = asked.session();
    let shown = permit(&home, &session, &[]);
    assert!(
        shown.succeeded().stdout.contains("touch made.txt"),
        "{shown:#?}"
    );
    // The list of all that waits has it too, with how to answer.
    let waiting = home.run(&["session", "pending", &session]);
    let waiting = &waiting.succeeded().stdout;
    let item = asked.ask["item"].as_str().unwrap();
    let how =
        format!("→ bezel session permit {session} {item} --reply once | session | always | reject");
    for line in ["bash", "  shell touch made.txt: ", how.as_str()] {
        assert!(waiting.contains(line), "{line}: {waiting}");
    }
    let waiting = home.run(&["session", "pending", &session, "--json"]);
    let waiting: Value = serde_json::from_str(&waiting.succeeded().stdout).unwrap();
    assert_eq!(waiting["asks"][0]["id"], asked.ask["item"]);
    assert_eq!(
        waiting["asks"][0]["request"]["asked"][0]["resource"],
        "touch made.txt"
    );
    assert_eq!(waiting["questions"], json!([]));
    // Who takes it for a question is told what it is.
    home.run(&["session", "answer", &session, "--option", "1"])
        .failed(2, &format!("`bezel session permit {session} --reply once`"));
    permit(&home, &session, &["--reply", "always"]).succeeded();
    let waiting = home.run(&["session", "pending", &session]);
    assert_eq!(waiting.succeeded().stdout, "Nothing is asked\n");
    let (done, rest) = asked.finish();
    assert_eq!(done.status, Some(0), "{rest}{done:#?}");
    assert!(home.project().join("other.txt").exists());
    // Kept for the project, outside of it.
    let kept = std::fs::read_to_string(home.bezel().join("data/approvals.json")).unwrap();
    assert!(kept.contains("touch made.txt"), "{kept}");
    permit(&home, &session, &["--reply", "once"]).failed(1, "no such call waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_ends_the_turn_and_nothing_runs() {
    let (server, home) = touching().await;
    let asked = Asked::begin(&home);
    permit(&home, &asked.session(), &["--reply", "reject"]).succeeded();
    let (done, rest) = asked.finish();
    assert_ne!(done.status, Some(0), "{rest}{done:#?}");
    assert!(!home.project().join("made.txt").exists());
    assert_eq!(server.calls().len(), 1, "the model was not asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_survives_its_worker_and_is_answered_to_the_next() {
    let (_server, home) = touching().await;
    let asked = Asked::begin(&home);
    let session = asked.session();
    for worker in home.workers() {
        signal(worker, Signal::SIGKILL);
    }
    eventually("the ask is not there any more", || {
        let shown = permit(&home, &session, &["--json"]);
        shown.stdout.contains("touch made.txt").then_some(())
    });
    permit(&home, &session, &["--reply", "once"]).succeeded();
    let (done, rest) = asked.finish();
    assert_eq!(done.status, Some(0), "{rest}{done:#?}");
    assert!(home.project().join("made.txt").exists());
}
