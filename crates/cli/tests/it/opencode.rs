//! Behaviours of the list that this product took over, by their numbers: over HTTP, through a server and workers that
//! are processes of their own.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bezel_testkit::{ModelCall, Script, Step, Turn};
use serde_json::{Value, json};

use crate::following::{asked, begin};
use crate::home::{Home, eventually, read, signal};
use crate::http::{ANYWHERE, Answer, Asking, token};
use crate::remote::Serving;

/// A session of a server, as a program asks for it.
struct Session<'a> {
    server: &'a Serving,
    token: &'a str,
    id: String,
}

impl<'a> Session<'a> {
    fn begin(server: &'a Serving, token: &'a str, home: &Home) -> Self {
        let id = begin(&mut Asking::of(server, token), home);
        Session { server, token, id }
    }

    fn ask(&self, member: &str, arguments: Value) -> Value {
        let path = format!("/v1/sessions/{}/chat/{member}", self.id);
        let Answer { status, body } = Asking::of(self.server, self.token).post(&path, &arguments);
        assert_eq!(status, 200, "{member}: {body}");
        body
    }

    fn say(&self, words: &str, delivery: &str, resume: bool) {
        let admitted = self.ask(
            "prompt",
            json!({ "request": {
                "command_id": words,
                "content": [{ "type": "text", "text": words }],
                "delivery": delivery,
                "resume": resume,
            } }),
        );
        assert_eq!(admitted["accepted"], true, "{admitted}");
    }

    fn wait(&self) {
        self.ask("wait_idle", json!({}));
    }

    fn state(&self) -> Value {
        let path = format!("/v1/sessions/{}/chat/state", self.id);
        Asking::of(self.server, self.token).get(&path).body
    }

    /// Waits for a state, which comes some time after what it tells.
    #[track_caller]
    fn until(&self, what: &str, is: impl Fn(&Value) -> bool) {
        eventually(what, || is(&self.state()).then_some(()));
    }

    /// What was said, in order.
    fn said(&self) -> Vec<String> {
        let arguments = json!({ "session_id": self.id, "limit": 100 });
        let path = "/v1/server/session-directory/messages";
        let messages = Asking::of(self.server, self.token)
            .post(path, &arguments)
            .body;
        let texts = messages.as_array().unwrap().iter();
        // An answer that was cut off before it began has none.
        let texts = texts.filter_map(|message| message["content"][0]["text"].as_str());
        texts.map(str::to_owned).collect()
    }
}

fn kill_workers(home: &Home) {
    for pid in home.workers() {
        signal(pid, nix::sys::signal::Signal::SIGKILL);
        eventually("the worker is gone", || {
            read(pid, "cmdline").is_empty().then_some(())
        });
    }
}

/// Answers what it was asked last: slowly where that is said to be slow, and never where it is stuck.
fn answering(call: &ModelCall) -> Turn {
    let words = call.last_user_text().to_owned();
    let answer = Step::Text(format!("re {words}"));
    match () {
        () if words.starts_with("slow") => {
            Turn::steps([Step::delay(Duration::from_millis(1_500)), answer])
        }
        () if words.starts_with("stuck") => Turn::steps([Step::Text("…".into()), Step::Stall]),
        () => Turn::steps([answer]),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_2_equivalent_refs_boot_one_location_once_even_when_all_come_at_once() {
    let (_model, home) = asked(Script::respond(answering)).await;
    let server = Serving::start(&home, ANYWHERE);
    let token = token(&server, &server.code);
    let project = home.project();
    std::fs::create_dir(project.join("inner")).unwrap();
    let link = project.parent().unwrap().join("link");
    std::os::unix::fs::symlink(&project, &link).unwrap();
    let project = project.to_str().unwrap();
    let spellings = [
        project.to_owned(),
        format!("{project}/"),
        format!("{project}/."),
        format!("{project}/inner/.."),
        link.to_str().unwrap().to_owned(),
        format!("{}/inner/../", link.display()),
    ];
    // All at once, and all under one id: one session, in one location, in one process.
    let id = bezel_session_types::SessionId::generate().to_string();
    let made = std::thread::scope(|scope| {
        let make = |directory: &String| {
            let options = json!({ "options": { "session_id": id, "directory": directory } });
            let mut asking = Asking::of(&server, &token);
            scope.spawn(move || asking.post("/v1/server/session-management/create", &options))
        };
        let made: Vec<_> = spellings.iter().map(make).collect();
        let made = made.into_iter().map(|made| made.join().unwrap());
        made.collect::<Vec<Answer>>()
    });
    let workspaces: BTreeSet<String> = made
        .iter()
        .map(|made| {
            assert_eq!(made.status, 200, "{}", made.body);
            assert_eq!(made.body["session_id"], id.as_str());
            made.body["workspace_id"].to_string()
        })
        .collect();
    assert_eq!(workspaces.len(), 1, "{workspaces:?}");
    // Its first use by many at once, where no process is there any more.
    let session = Session {
        server: &server,
        token: &token,
        id,
    };
    session.wait();
    assert_eq!(home.workers().len(), 1);
    kill_workers(&home);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                eventually("it answers", || {
                    let path = format!("/v1/sessions/{}/chat/state", session.id);
                    let answer = Asking::of(&server, &token).get(&path);
                    assert!(matches!(answer.status, 200 | 503), "{}", answer.body);
                    (answer.status == 200).then_some(())
                });
            });
        }
    });
    assert_eq!(home.workers().len(), 1);
    // Another session under any spelling is in the same workspace.
    let other = home.run(&["run", "--cwd", &spellings[5], "hello"]);
    other.succeeded();
    let listed = home.run(&["session", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.succeeded().stdout).unwrap();
    let of = |session: &Value| session["workspace_id"].to_string();
    let all: BTreeSet<String> = listed.as_array().unwrap().iter().map(of).collect();
    assert_eq!(all, workspaces);
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_09_10_11_12_13_14_15_hold_over_a_server_and_workers_of_their_own() {
    let (model, home) = asked(Script::respond(answering)).await;
    let server = Serving::start(&home, ANYWHERE);
    let token = token(&server, &server.code);
    let session = Session::begin(&server, &token, &home);
    let runs = |state: &Value| state["activity"]["status"] == "running";
    let idle_with = |state: &Value, waiting: Value| {
        let queue = state["queue"].as_array().into_iter().flatten();
        let queue: Value = queue.map(|waiting| waiting["text"].clone()).collect();
        state["activity"]["status"] == "idle" && queue == waiting
    };

    // 9: steers at the next boundary and in order, what is queued when nothing runs, one at a time.
    session.say("slow one", "steer", true);
    session.until("it runs", runs);
    session.say("later", "queue", true);
    session.say("last", "queue", true);
    session.say("two", "steer", true);
    session.say("three", "steer", true);
    session.wait();
    let said = [
        "slow one",
        "re slow one",
        "two",
        "three",
        "re three",
        "later",
        "re later",
        "last",
        "re last",
    ];
    assert_eq!(session.said(), said, "9");
    // 12: what came during the run caused one more pass, not one each.
    assert_eq!(model.calls().len(), 4, "12");

    // 10, 14, 15: what is only recorded starts nothing, nor does a wait, nor the next process.
    session.say("noted", "steer", false);
    session.wait();
    session.until("10", |state| idle_with(state, json!(["noted"])));
    kill_workers(&home);
    eventually("the next process is there", || {
        let path = format!("/v1/sessions/{}/chat/state", session.id);
        (Asking::of(&server, &token).get(&path).status == 200).then_some(())
    });
    session.wait();
    session.until("15", |state| idle_with(state, json!(["noted"])));
    assert_eq!(model.calls().len(), 4, "14");

    // 11: two resumes share one run, and another session does not wait for it.
    session.say("slow two", "steer", false);
    let since = Instant::now();
    assert_eq!(session.ask("resume", json!({})), true);
    assert_eq!(session.ask("resume", json!({})), true);
    let other = Session::begin(&server, &token, &home);
    other.say("beside it", "steer", true);
    other.wait();
    assert_eq!(other.said(), ["beside it", "re beside it"], "11");
    session.wait();
    assert!(since.elapsed() >= Duration::from_millis(1_400), "11");
    assert_eq!(
        session.said()[9..],
        ["noted", "slow two", "re slow two"],
        "11"
    );

    // 13: an interrupt comes back at once, keeps what waits, and is nothing while nothing runs.
    assert_eq!(session.ask("interrupt", json!({})), Value::Null, "13");
    session.say("stuck", "steer", true);
    session.until("it runs", runs);
    session.say("kept", "queue", true);
    let since = Instant::now();
    assert_ne!(session.ask("interrupt", json!({})), Value::Null, "13");
    assert!(since.elapsed() < Duration::from_secs(5), "13");
    session.wait();
    session.until("13", |state| idle_with(state, json!(["kept"])));
    // 14: a wait lasts until nothing follows either.
    session.say("slow three", "steer", true);
    session.wait();
    assert_eq!(session.said().last().unwrap(), "re kept", "14");
    session.until("14", |state| idle_with(state, json!([])));
}
