//! Going back with `bezel session rewind`, over a real server, and whoever is killed meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use bezel_testkit::{FakeModelServer, Script, Turn, WireFormat};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::home::{Home, eventually, finish};
use crate::runs::home_with;

/// A session whose only turn ran this command, and its id.
async fn after_command(command: &str) -> (FakeModelServer, Home, String) {
    let script = Script::new([
        Turn::tool_calls([("bash", json!({ "command": command }))]),
        Turn::text("Done."),
    ]);
    let server = FakeModelServer::start(script).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    std::fs::write(home.project().join("kept.txt"), "by the person\n").unwrap();
    for index in 0..FILES {
        std::fs::write(home.project().join(format!("f{index}")), "before").unwrap();
    }
    home.run(&["run", "change", "the", "files"]).succeeded();
    let sessions = home.run(&["session", "list", "--json"]);
    let sessions: Value = serde_json::from_str(&sessions.succeeded().stdout).unwrap();
    let id = sessions[0]["session_id"].as_str().unwrap().to_owned();
    (server, home, id)
}

const FILES: usize = 40;
const COMMAND: &str = "for i in f*; do printf after > $i; done; rm f0; printf new > new.txt";

/// What the session says of itself. Whoever asks while its process dies asks again.
fn state(home: &Home, id: &str) -> Value {
    eventually("the session says how it stands", || {
        let asked = home.run(&["session", "rewind", id, "--json"]);
        let state = serde_json::from_str(&asked.stdout).ok();
        state.filter(|_| asked.status == Some(0))
    })
}

/// The state once the turn is recorded: that comes after the run.
fn settled(home: &Home, id: &str) -> Value {
    eventually("the turn is recorded", || {
        let state = state(home, id);
        let files = state["points"][0]["files"].as_u64();
        files.is_some_and(|files| files > 0).then_some(state)
    })
}

/// What stands in the files of the test: one word where they are all alike.
fn contents(home: &Home) -> BTreeSet<String> {
    let read =
        |name: String| std::fs::read_to_string(home.project().join(name)).unwrap_or_default();
    (1..FILES).map(|index| read(format!("f{index}"))).collect()
}

fn only(word: &str) -> BTreeSet<String> {
    BTreeSet::from([word.to_owned()])
}

/// Kills, where the process is still there.
fn kill(pid: u32) {
    let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
    nix::sys::signal::kill(pid, Signal::SIGKILL).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_back_stay_so_over_a_killed_worker_and_server_and_come_again() {
    let (_model, home, id) = after_command(COMMAND).await;
    let before = settled(&home, &id);
    assert_eq!(before["points"][0]["files_since"], FILES + 1);
    let message = before["points"][0]["message"].as_str().unwrap();
    let staged = home.run(&["session", "rewind", &id, "--to", message]);
    assert!(staged.succeeded().stdout.contains("-after"), "{staged:#?}");
    assert_eq!(contents(&home), only("before"));
    assert!(home.project().join("f0").exists() && !home.project().join("new.txt").exists());

    for pid in home.workers().into_iter().chain(home.server()) {
        kill(pid);
    }
    assert_eq!(
        state(&home, &id)["staged"]["files"]
            .as_array()
            .unwrap()
            .len(),
        FILES + 1
    );
    home.run(&["session", "rewind", &id, "--clear"]).succeeded();
    assert_eq!(contents(&home), only("after"));
    assert!(!home.project().join("f0").exists() && home.project().join("new.txt").exists());
    let kept = std::fs::read_to_string(home.project().join("kept.txt")).unwrap();
    assert_eq!(kept, "by the person\n");
    let again = home.run(&["session", "rewind", &id, "--clear"]);
    assert!(again.stderr.contains("nothing is rewound"), "{again:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_while_files_go_back_or_come_again_leaves_no_half() {
    let (_model, home, id) = after_command(COMMAND).await;
    let message = settled(&home, &id)["points"][0]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    for round in 0..8u64 {
        let back = state(&home, &id)["staged"].is_null();
        let arguments: &[&str] = match back {
            true => &["session", "rewind", &id, "--to", &message],
            false => &["session", "rewind", &id, "--clear"],
        };
        let child = home.command(arguments).spawn().unwrap();
        // The moment of death is what is tried out.
        std::thread::sleep(Duration::from_millis(20 + 25 * round));
        for pid in home.workers() {
            kill(pid);
        }
        finish(child);
        // Whoever opens the session next finds one or the other.
        let word = eventually("the files are all alike", || {
            let staged = !state(&home, &id)["staged"].is_null();
            let word = if staged { "before" } else { "after" };
            (contents(&home) == only(word)).then_some(word)
        });
        assert_eq!(home.project().join("new.txt").exists(), word == "after");
    }
}
