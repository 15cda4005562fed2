//! A question of the agent, over real processes: answered from elsewhere, by whoever is first, and over the
//! deaths of worker and server.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout};

use bezel_testkit::{FakeModelServer, Script, SeenPart, Turn, WireFormat};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::home::{Done, Home, eventually, finish, signal};
use crate::runs::home_with;

async fn asking() -> (FakeModelServer, Home) {
    let question = json!({
        "question": "Which colour?",
        "options": [
            { "label": "Red", "description": "Warm." },
            { "label": "Blue" },
        ],
    });
    // By what the conversation holds: a request that a death cut off is sent again.
    let script = Script::respond(move |call| {
        let answered = |part: &SeenPart| matches!(part, SeenPart::ToolResult { .. });
        match call.parts().any(answered) {
            true => Turn::text("As you like."),
            false => Turn::tool_calls([("question", question.clone())]),
        }
    });
    let server = FakeModelServer::start(script).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    (server, home)
}

/// A run that asks, its question, and the rest of what it says.
struct Asked {
    run: Child,
    lines: BufReader<ChildStdout>,
    question: Value,
}

impl Asked {
    fn begin(home: &Home) -> Self {
        let mut run = home
            .command(&["run", "--json", "paint it"])
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(run.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains(r#""type":"question""#) {
            line.clear();
            let read = lines.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "{:#?}", finish(run));
        }
        let question = serde_json::from_str(&line).unwrap();
        Asked {
            run,
            lines,
            question,
        }
    }

    fn session(&self) -> &str {
        self.question["session_id"].as_str().unwrap()
    }

    /// What the tool came to.
    #[track_caller]
    fn result(mut self) -> Value {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        let done = finish(self.run);
        assert_eq!(done.status, Some(0), "{rest}{done:#?}");
        let lines = rest
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let lines: Vec<Value> = lines.collect();
        assert_eq!(lines.last().unwrap()["text"], "As you like.", "{rest}");
        let again = lines.iter().filter(|line| line["type"] == "question");
        assert_eq!(again.count(), 0, "it is told once: {rest}");
        let end = lines.iter().find(|line| line["type"] == "tool_end");
        end.unwrap_or_else(|| panic!("{rest}")).clone()
    }
}

fn pending(home: &Home, session: &str) -> Vec<Value> {
    let shown = home.run(&["session", "pending", session, "--json"]);
    let shown: Value = serde_json::from_str(&shown.succeeded().stdout).unwrap();
    shown["questions"].as_array().unwrap().clone()
}

/// What lists say that the session does.
fn status(home: &Home, session: &str) -> String {
    let listed = home.run(&["session", "list", "--json"]);
    let listed: Vec<Value> = serde_json::from_str(&listed.succeeded().stdout).unwrap();
    let found = listed.iter().find(|found| found["session_id"] == session);
    found.unwrap()["status"].as_str().unwrap().to_owned()
}

fn answer(home: &Home, session: &str, with: &[&str]) -> Done {
    let arguments = [&["session", "answer", session], with].concat();
    home.run(&arguments)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_terminal_tells_its_question_and_goes_on_with_the_answer_from_elsewhere() {
    let (server, home) = asking().await;
    let asked = Asked::begin(&home);
    assert_eq!(asked.question["question"], "Which colour?");
    assert_eq!(asked.question["options"][1]["label"], "Blue");
    let session = asked.session().to_owned();
    let waiting = pending(&home, &session);
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0]["id"], asked.question["item"]);
    eventually("lists do not say that it waits", || {
        (status(&home, &session) == "waiting").then_some(())
    });
    answer(&home, &session, &["--option", "3"]).failed(2, "the question has 2");
    answer(&home, &session, &["nobody", "--option", "1"]).failed(2, "no question nobody waits");
    answer(&home, &session, &["--option", "2"]).succeeded();
    let end = asked.result();
    assert_ne!(status(&home, &session), "waiting");
    assert_eq!(end["output"], "User selected: 2. Blue");
    assert_eq!(end["details"]["answer"], "Blue");
    let answered = server.last_body().to_string();
    assert!(answered.contains("User selected: 2. Blue"), "{answered}");
    answer(&home, &session, &["--cancel"]).failed(1, "asks nothing now");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_written_for_people_with_how_to_answer_it() {
    let (_server, home) = asking().await;
    let mut run = home.command(&["run", "paint it"]).spawn().unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap());
    let mut told = String::new();
    while !told.contains("bezel session answer") {
        assert_ne!(lines.read_line(&mut told).unwrap(), 0, "{told}");
    }
    for line in ["? Which colour?\n", "  1. Red  Warm.\n", "  2. Blue\n"] {
        assert!(told.contains(line), "{told}");
    }
    let after = told.split("session answer ").nth(1).unwrap();
    let session = after.split(' ').next().unwrap();
    answer(&home, session, &["--text", "Green"]).succeeded();
    assert_eq!(finish(run).succeeded().stdout, "As you like.\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_answer_at_once_one_is_told_that_it_was_not_the_first() {
    let (_server, home) = asking().await;
    let asked = Asked::begin(&home);
    let session = asked.session();
    let racers = ["Red", "Blue"].map(|text| {
        let arguments = ["session", "answer", session, "--text", text, "--json"];
        (text, home.command(&arguments).spawn().unwrap())
    });
    let done = racers.map(|(text, racer)| (text, finish(racer)));
    let accepted: Vec<&str> = done
        .iter()
        .filter(|(_, done)| done.status == Some(0))
        .map(|(text, _)| *text)
        .collect();
    let [accepted] = accepted[..] else {
        panic!("{done:#?}")
    };
    let (_, other) = done.iter().find(|(text, _)| *text != accepted).unwrap();
    assert_eq!(other.status, Some(1), "{other:#?}");
    assert_eq!(asked.result()["output"], format!("User wrote: {accepted}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_outlives_worker_and_server_and_the_client_that_began_it() {
    let (server, home) = asking().await;
    let mut asked = Asked::begin(&home);
    let (session, item) = (asked.session().to_owned(), asked.question["item"].clone());
    // Everybody dies: nobody is left who knows of the question.
    asked.run.kill().unwrap();
    asked.run.wait().unwrap();
    let daemon = home.server().unwrap();
    let workers = home.workers();
    assert_eq!(workers.len(), 1);
    signal(daemon, Signal::SIGKILL);
    for worker in workers {
        signal(worker, Signal::SIGKILL);
    }
    eventually("the worker is still there", || {
        home.workers().is_empty().then_some(())
    });
    // The same question, under the same id, in processes that were just started.
    let waiting = pending(&home, &session);
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0]["id"], item);
    answer(&home, &session, &["--option", "1"]).succeeded();
    let said = eventually("the turn does not end", || {
        let shown = home.run(&["session", "show", "--json", &session]);
        let shown = shown.succeeded().stdout.clone();
        shown.contains("As you like.").then_some(shown)
    });
    assert!(said.contains("User selected: 1. Red"), "{said}");
    assert_eq!(
        server.requests().len(),
        2,
        "the model was asked once for each step"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_accepted_survives_the_death_of_its_worker_in_the_same_moment() {
    let (_server, home) = asking().await;
    let asked = Asked::begin(&home);
    let session = asked.session().to_owned();
    answer(&home, &session, &["--text", "kept"]).succeeded();
    for worker in home.workers() {
        signal(worker, Signal::SIGKILL);
    }
    let again = answer(&home, &session, &["--text", "other"]);
    assert_eq!(again.status, Some(1), "{again:#?}");
    let result = asked.result();
    assert_eq!(result["output"], "User wrote: kept", "{result}");
}
