//! Going back with `bezel session rewind`, over a real server, and whoever is killed meanwhile.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bezel_testkit::{FakeModelServer, ModelCall, Script, SeenPart, SeenRole, Turn, WireFormat};
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

/// Runs a command for each prompt that names one, and says a word then.
fn as_prompted(call: &ModelCall) -> Turn {
    let prompt = call.last_user_text().to_owned();
    let asked = call.parts().any(|part| {
        matches!(part, SeenPart::ToolCall { arguments, .. } if arguments.to_string().contains(&prompt))
    });
    match asked || !prompt.starts_with("echo") {
        true => Turn::text("Done."),
        false => Turn::tool_calls([("bash", json!({ "command": prompt }))]),
    }
}

async fn prompted(path: Option<&std::path::Path>) -> (FakeModelServer, Home) {
    let script = Script::respond(as_prompted);
    let server = FakeModelServer::start(script).await.unwrap();
    let mut home = home_with(&server, WireFormat::OpenAiChat, "openai");
    if let Some(path) = path {
        let usual = std::env::var("PATH").unwrap_or_default();
        home = home.variable("PATH", &format!("{}:{usual}", path.display()));
    }
    std::fs::write(home.project().join("effects"), "before\n").unwrap();
    (server, home)
}

fn only_session(home: &Home) -> String {
    let sessions = home.run(&["session", "list", "--json"]);
    let sessions: Value = serde_json::from_str(&sessions.succeeded().stdout).unwrap();
    sessions[0]["session_id"].as_str().unwrap().to_owned()
}

fn effects(home: &Home) -> String {
    std::fs::read_to_string(home.project().join("effects")).unwrap()
}

/// A `git` that, once, ends the process that started it when a checkpoint is in the store.
fn deadly_git(folder: &std::path::Path) {
    let real = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|folder| folder.join("git"))
        .find(|git| git.is_file())
        .unwrap();
    let mark = folder.join("killed");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *fast-import*) if [ ! -e {0} ]; then : > {0}; {1} \"$@\"; kill -9 $PPID; exit 1; fi;; esac\nexec {1} \"$@\"\n",
        mark.display(),
        real.display()
    );
    std::fs::write(folder.join("git"), script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.join("git"), mode).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_between_checkpoint_and_tool_runs_the_tool_once_and_after_a_checkpoint()
 {
    let tools = tempfile::tempdir().unwrap();
    deadly_git(tools.path());
    let (_model, home) = prompted(Some(tools.path())).await;
    home.run(&["run", "echo after >> effects"]);
    assert!(
        tools.path().join("killed").exists(),
        "the worker was killed"
    );
    home.run(&["run", "--continue", "go on"]).succeeded();
    assert_eq!(effects(&home), "before\nafter\n");
    let id = only_session(&home);
    let state = settled(&home, &id);
    assert_eq!(state["points"][0]["problem"], Value::Null);
    let message = state["points"][0]["message"].as_str().unwrap();
    home.run(&["session", "rewind", &id, "--to", message, "--files-only"])
        .succeeded();
    assert_eq!(effects(&home), "before\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_takes_its_worker_with_it_can_be_taken_back() {
    let (_model, home) = prompted(None).await;
    home.run(&["run", "echo after >> effects; kill -9 $PPID"]);
    home.run(&["run", "--continue", "go on"]).succeeded();
    assert_eq!(effects(&home), "before\nafter\n", "it ran once");
    let id = only_session(&home);
    let state = settled(&home, &id);
    let message = state["points"][0]["message"].as_str().unwrap();
    home.run(&["session", "rewind", &id, "--to", message])
        .succeeded();
    assert_eq!(effects(&home), "before\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_staged_outlives_kills_and_the_next_message_goes_on_from_before() {
    let (model, home) = prompted(None).await;
    home.run(&["run", "echo after >> effects"]).succeeded();
    let id = only_session(&home);
    let message = settled(&home, &id)["points"][0]["message"].clone();
    let message = message.as_str().unwrap();
    let staged = home.run(&["session", "rewind", &id, "--to", message]);
    let told = &staged.succeeded().stdout;
    assert!(
        told.contains("goes back with --commit or the next message"),
        "{told}"
    );
    for pid in home.workers().into_iter().chain(home.server()) {
        kill(pid);
    }
    let after = state(&home, &id);
    assert_eq!(after["staged"]["reach"], "files_and_conversation");
    assert_eq!(
        after["points"][0]["message"], message,
        "it has not gone yet"
    );

    home.run(&["run", "--continue", "something else"])
        .succeeded();
    let asked = model.last_call();
    let said = asked
        .messages
        .iter()
        .filter(|said| said.role == SeenRole::User);
    assert_eq!(said.count(), 1, "{asked:#?}");
    let state = eventually("the files are kept with it", || {
        Some(state(&home, &id)).filter(|state| state["staged"].is_null())
    });
    assert_eq!(state["points"].as_array().unwrap().len(), 1);
    assert_eq!(state["points"][0]["text"], "something else");
    assert_eq!(effects(&home), "before\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_while_it_keeps_a_rewind_leaves_files_and_conversation_at_one_place()
 {
    let (_model, home) = prompted(None).await;
    home.run(&["run", "hello"]).succeeded();
    let id = only_session(&home);
    for round in 0..8u64 {
        let prompt = format!("echo {round} >> effects");
        home.run(&["run", "--continue", &prompt]).succeeded();
        let last = |state: &Value| state["points"].as_array().unwrap().last().unwrap().clone();
        let message = eventually("the turn is recorded", || {
            let last = last(&state(&home, &id));
            (last["files"] == 1).then(|| last["message"].as_str().unwrap().to_owned())
        });
        home.run(&["session", "rewind", &id, "--to", &message])
            .succeeded();
        let child = home
            .command(&["session", "rewind", &id, "--commit"])
            .spawn()
            .unwrap();
        // The moment of death is what is tried out.
        std::thread::sleep(Duration::from_millis(15 + 12 * round));
        for pid in home.workers() {
            kill(pid);
        }
        finish(child);
        // Both are staged still, or both are kept.
        let is_kept = eventually("files and conversation agree", || {
            let state = state(&home, &id);
            let is_there = last(&state)["message"] == message.as_str();
            (state["staged"].is_null() != is_there).then_some(!is_there)
        });
        if !is_kept {
            let kept = home.run(&["session", "rewind", &id, "--commit"]);
            assert!(
                kept.succeeded()
                    .stdout
                    .contains("conversation has gone back"),
                "{kept:#?}"
            );
        }
        let state = state(&home, &id);
        assert_eq!(
            (state["points"].as_array().unwrap().len(), &state["staged"]),
            (1, &Value::Null)
        );
        assert_eq!(effects(&home), "before\n");
    }
}

/// A turn of several calls, with a person who works in the same directory whenever the model is asked.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_does_during_a_turn_stays_and_its_turn_is_listed_at_once() {
    let project: Arc<OnceLock<PathBuf>> = Arc::default();
    let place = Arc::clone(&project);
    let script = Script::respond(move |call| {
        let project = place.get().unwrap();
        let mine = |name: &str, content: &str| std::fs::write(project.join(name), content).unwrap();
        let done = call
            .parts()
            .filter(|part| matches!(part, SeenPart::ToolCall { .. }));
        let write = |name: &str| {
            Turn::tool_calls([("write", json!({ "path": name, "content": "agent\n" }))])
        };
        match done.count() {
            0 => write("a.txt"),
            1 => {
                mine("mine.txt", "USERMID\n");
                mine("important.txt", "IMPORTANT\n");
                Turn::tool_calls([("bash", json!({ "command": "echo agent > b.txt; exit 3" }))])
            }
            2 => {
                std::fs::create_dir_all(project.join("notes")).unwrap();
                mine("notes/between.txt", "BETWEEN\n");
                write("notes/c.txt")
            }
            3 => {
                mine("mine.txt", "USERLATE\n");
                Turn::tool_calls([("bash", json!({ "command": "rm gone.txt" }))])
            }
            _ => {
                mine("tail.txt", "TAIL\n");
                Turn::text("Done.")
            }
        }
    });
    let server = FakeModelServer::start(script).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    project.set(home.project()).unwrap();
    let read = |name: &str| std::fs::read_to_string(home.project().join(name)).ok();
    for (name, content) in [("mine.txt", "first\n"), ("gone.txt", "first\n")] {
        std::fs::write(home.project().join(name), content).unwrap();
    }
    home.run(&["run", "--permission-mode", "full", "work"])
        .succeeded();
    let id = only_session(&home);
    // The first look, without waiting for anything.
    let asked = home.run(&["session", "rewind", &id, "--json"]);
    let listed: Value = serde_json::from_str(&asked.succeeded().stdout).unwrap();
    assert_eq!(listed["points"][0]["files"], 4, "{listed}");
    let message = listed["points"][0]["message"].as_str().unwrap();
    let staged = home.run(&["session", "rewind", &id, "--to", message]);
    let told = &staged.succeeded().stdout;
    assert!(told.contains("4 files are as before"), "{told}");
    assert!(
        told.contains("changed while a command ran") && told.contains(": b.txt, gone.txt"),
        "{told}"
    );
    let persons = || {
        let names = ["mine.txt", "important.txt", "notes/between.txt", "tail.txt"];
        names.map(|name| read(name).unwrap_or_default())
    };
    let mine = ["USERLATE\n", "IMPORTANT\n", "BETWEEN\n", "TAIL\n"].map(ToOwned::to_owned);
    assert_eq!(persons(), mine);
    let agents = || ["a.txt", "b.txt", "notes/c.txt", "gone.txt"].map(read);
    let first = Some("first\n".to_owned());
    assert_eq!(agents(), [None, None, None, first.clone()]);
    home.run(&["session", "rewind", &id, "--commit"])
        .succeeded();
    assert_eq!(persons(), mine);
    assert_eq!(agents(), [None, None, None, first]);
}

/// What a person wrote into files that were put back is kept when they are overwritten on request.
#[tokio::test(flavor = "multi_thread")]
async fn edits_after_a_rewind_come_back_or_are_kept_where_it_is_said() {
    let (_model, home) = prompted(None).await;
    home.run(&["run", "echo after >> effects"]).succeeded();
    let id = only_session(&home);
    let message = settled(&home, &id)["points"][0]["message"].clone();
    let message = message.as_str().unwrap();
    let back = ["session", "rewind", &id, "--to", message];
    home.run(&back).succeeded();
    let edit = |text: &str| std::fs::write(home.project().join("effects"), text).unwrap();
    edit("USEREDIT\n");
    let forced = home.run(&["session", "rewind", &id, "--to", message, "--force"]);
    assert_eq!(effects(&home), "before\n", "{forced:#?}");
    home.run(&["session", "rewind", &id, "--clear"]).succeeded();
    assert_eq!(effects(&home), "USEREDIT\n");

    edit("before\nafter\n");
    home.run(&back).succeeded();
    edit("USEREDIT again\n");
    let refused = home.run(&["session", "rewind", &id, "--clear"]);
    assert!(refused.stderr.contains("edited since"), "{refused:#?}");
    let cleared = home.run(&["session", "rewind", &id, "--clear", "--force"]);
    let told = &cleared.succeeded().stdout;
    assert_eq!(effects(&home), "before\nafter\n");
    let copy = told
        .lines()
        .find_map(|line| line.strip_prefix("set aside: effects: "));
    assert_eq!(
        std::fs::read_to_string(copy.unwrap()).unwrap(),
        "USEREDIT again\n"
    );
}

/// Many files, and a worker that is killed in the middle: the next one finishes, and says how far it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_of_many_files_that_was_cut_off_is_finished_while_the_command_waits() {
    let many = "mkdir many && for i in $(seq 3000); do echo $i > many/f$i; done";
    let script = Script::new([
        Turn::tool_calls([("bash", json!({ "command": many }))]),
        Turn::text("Made."),
        Turn::tool_calls([("bash", json!({ "command": "rm -r many" }))]),
        Turn::text("Gone."),
    ]);
    let server = FakeModelServer::start(script).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    home.run(&["run", "make"]).succeeded();
    home.run(&["run", "--continue", "remove"]).succeeded();
    let id = only_session(&home);
    let message = state(&home, &id)["points"][1]["message"].clone();
    let arguments = ["session", "rewind", &id, "--to", message.as_str().unwrap()];
    let child = home.command(&arguments).spawn().unwrap();
    let many = home.project().join("many");
    eventually("files come back", || many.exists().then_some(()));
    for pid in home.workers() {
        kill(pid);
    }
    finish(child);
    let cleared = home.run(&["session", "rewind", &id, "--json"]);
    let now: Value = serde_json::from_str(&cleared.succeeded().stdout).unwrap();
    assert_eq!(now["staged"]["total"], 3000, "{now}");
    assert_eq!(std::fs::read_dir(&many).unwrap().count(), 3000);
    home.run(&["session", "rewind", &id, "--clear"]).succeeded();
    assert!(!many.exists());
}
