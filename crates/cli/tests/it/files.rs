//! Sessions as files: taken along and in, checked, measured, deleted for good.

use std::path::{Path, PathBuf};

use bezel_testkit::Turn;
use serde_json::Value;

use crate::home::Home;
use crate::runs::chat;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Everything below a directory.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(below(&path));
        }
        found.push(path);
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_travels_to_another_home_as_one_file_and_goes_on_there() {
    let (_server, home) = chat([Turn::text("A secret number: 4711.")]).await;
    home.run(&["run", "tell me"]).succeeded();
    let listed = json(&home.run(&["session", "list", "--json"]).succeeded().stdout);
    let id = listed[0]["session_id"].as_str().unwrap();
    // Its worker runs still.
    home.run(&["session", "export", id, "taken.bezel"])
        .succeeded();
    home.run(&["session", "export", id, "taken.bezel"])
        .failed(1, "is there already");
    let file = home.project().join("taken.bezel");

    let (server, other) = chat([Turn::text("It was 4711.")]).await;
    let imported = other.run(&["session", "import", file.to_str().unwrap(), "--json"]);
    let imported = json(&imported.succeeded().stdout);
    let new = imported["session"]["session_id"].as_str().unwrap();
    assert_ne!(new, id);
    assert_eq!(imported["summary"]["origin"], id);
    assert_eq!(imported["session"]["title"], "tell me");
    assert_eq!(
        imported["session"]["status"], "closed",
        "nothing runs by itself"
    );
    other
        .run(&["run", "--session", new, "which was it?"])
        .succeeded();
    let body = server.last_body().to_string();
    assert!(body.contains("4711") && body.contains("tell me"), "{body}");
    other.run(&["session", "check", "--all"]).succeeded();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_file_of_another_program_is_taken_in_and_what_is_none_is_refused() {
    let (server, home) = chat([Turn::text("Yes.")]).await;
    let file = home.project().join("rollout.jsonl");
    let line = |kind: &str, payload: Value| {
        serde_json::json!({ "timestamp": "2026-01-02T03:04:05Z", "type": kind, "payload": payload })
            .to_string()
    };
    let call = serde_json::json!({ "type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1" });
    let said = serde_json::json!({ "type": "message", "role": "user",
        "content": [ { "type": "input_text", "text": "list the moons" } ] });
    let lines = [
        line(
            "session_meta",
            serde_json::json!({ "id": "x", "cwd": "/nowhere/at/all" }),
        ),
        line("response_item", said),
        line("response_item", call),
        "{ torn".to_owned(),
    ];
    std::fs::write(&file, lines.join("\n")).unwrap();
    let told = home.run(&["session", "import", "rollout.jsonl"]);
    let told = &told.succeeded().stdout;
    for text in [
        "list the moons",
        "Codex",
        "1 × unreadable line",
        "bezel --session ",
    ] {
        assert!(told.contains(text), "{text}: {told}");
    }
    home.run(&["run", "--continue", "are there more?"])
        .succeeded();
    let body = server.last_body().to_string();
    assert!(
        body.contains("list the moons") && body.contains("is not known"),
        "{body}"
    );

    std::fs::write(&file, "nothing of the kind").unwrap();
    home.run(&["session", "import", "rollout.jsonl"])
        .failed(1, "rollout.jsonl is no session that Bezel knows");
    home.run(&["session", "import", "missing.jsonl"])
        .failed(1, "missing.jsonl");
    let sessions = home.bezel().join("data/sessions");
    let left = std::fs::read_dir(sessions).unwrap().count();
    assert_eq!(left, 1, "what was not taken in has left something");
}

/// The database of the home's only session.
fn database(home: &Home) -> PathBuf {
    let mut files = below(&home.bezel().join("data/sessions")).into_iter();
    files.find(|path| path.ends_with("session.db")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_session_is_found_by_a_check_that_changes_nothing() {
    let (_server, home) = chat([Turn::text("One.")]).await;
    home.run(&["run", "hello"]).succeeded();
    let whole = home.run(&["session", "check", "--all"]);
    assert!(whole.succeeded().stdout.contains("whole"), "{whole:#?}");
    // One that was taken in is in its file alone; of another a part is in its log.
    let listed = json(&home.run(&["session", "list", "--json"]).succeeded().stdout);
    let id = listed[0]["session_id"].as_str().unwrap();
    home.run(&["session", "export", id, "packed"]).succeeded();
    home.run(&["session", "delete", id]).succeeded();
    home.run(&["session", "import", "packed"]).succeeded();
    home.run(&["server", "stop"]).succeeded();
    let database = &database(&home);
    let mut bytes = std::fs::read(database).unwrap();
    bytes.truncate(bytes.len() / 2);
    std::fs::write(database, &bytes).unwrap();
    let found = home.run(&["session", "check", "--all"]);
    assert_eq!(found.status, Some(1), "{found:#?}");
    assert!(
        found.stdout.contains("damaged") && found.stdout.contains("restore"),
        "{found:#?}"
    );
    assert_eq!(
        std::fs::read(database).unwrap(),
        bytes,
        "the check changed the file"
    );
    let report = json(&home.run(&["session", "check", "--all", "--json"]).stdout);
    assert_eq!(report[0]["problems"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_database_was_emptied_is_not_begun_anew() {
    let (_server, home) = chat([Turn::text("One."), Turn::text("Two.")]).await;
    home.run(&["run", "hello"]).succeeded();
    let listed = json(&home.run(&["session", "list", "--json"]).succeeded().stdout);
    let id = listed[0]["session_id"].as_str().unwrap();
    home.run(&["server", "stop"]).succeeded();
    let database = &database(&home);
    std::fs::write(database, "").unwrap();
    let refused = || {
        let gone = "is gone or empty";
        let found = home.run(&["session", "check", id]);
        assert_eq!(found.status, Some(1), "{found:#?}");
        assert!(found.stdout.contains(gone), "{found:#?}");
        home.run(&["session", "show", id]).failed(1, gone);
        home.run(&["run", "--session", id, "again"]).failed(1, gone);
    };
    refused();
    assert_eq!(std::fs::metadata(database).unwrap().len(), 0);
    std::fs::remove_file(database).unwrap();
    refused();
    assert!(!database.exists());
    home.run(&["run", "another session"]).succeeded();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_leaves_nothing_and_does_not_come_back() {
    let (_server, home) = chat([Turn::text("One.")]).await;
    home.run(&["run", "hello zanzibar"]).succeeded();
    let listed = json(&home.run(&["session", "list", "--json"]).succeeded().stdout);
    let id = listed[0]["session_id"].as_str().unwrap();
    let sizes = json(&home.run(&["session", "size", "--json"]).succeeded().stdout);
    assert_eq!(sizes[0]["session_id"], id);
    assert!(sizes[0]["database"].as_u64().unwrap() > 0, "{sizes}");
    assert!(
        home.run(&["session", "size"])
            .succeeded()
            .stdout
            .contains("in 1 sessions")
    );
    let scratch = std::env::temp_dir().join(format!("bezel-commands-{id}-left"));
    std::fs::create_dir(&scratch).unwrap();
    // Its worker still runs.
    home.run(&["session", "delete", id]).succeeded();
    let named: Vec<_> = below(&home.bezel())
        .into_iter()
        .filter(|path| path.to_string_lossy().contains(id))
        .collect();
    assert_eq!(named, Vec::<PathBuf>::new());
    assert!(!scratch.exists());
    assert!(home.workers().is_empty());
    let holds = |path: &PathBuf, word: &str| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(word.len()).any(|at| at == word.as_bytes())
    };
    let left: Vec<_> = below(&home.bezel().join("data"))
        .into_iter()
        .filter(|path| path.is_file())
        .filter(|path| holds(path, id) || holds(path, "zanzibar"))
        .collect();
    assert_eq!(left, Vec::<PathBuf>::new(), "what was said is in no file");
    home.run(&["server", "stop"]).succeeded();
    assert_eq!(
        home.run(&["session", "list", "--json"]).succeeded().stdout,
        "[]\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_a_crash_cut_off_is_ended_by_the_next_start() {
    let (_server, home) = chat([Turn::text("One.")]).await;
    home.run(&["run", "hello"]).succeeded();
    let listed = json(&home.run(&["session", "list", "--json"]).succeeded().stdout);
    let id = listed[0]["session_id"].as_str().unwrap();
    home.run(&["server", "stop"]).succeeded();
    // The files are out of sight already, the record is there still; something else was being taken in.
    let sessions = home.bezel().join("data/sessions");
    std::fs::rename(sessions.join(id), sessions.join(format!(".removed-{id}"))).unwrap();
    std::fs::create_dir(sessions.join(format!(".coming-{id}"))).unwrap();
    assert_eq!(
        home.run(&["session", "list", "--json"]).succeeded().stdout,
        "[]\n"
    );
    assert_eq!(below(&sessions), Vec::<PathBuf>::new());
}

#[test]
fn old_sessions_are_kept_unless_the_configuration_says_otherwise() {
    let home = Home::new();
    home.configure("[session]\nkeep_days = 0\n");
    home.run(&["config", "check"]).failed(2, "keep_days");
    home.configure("[session]\nkeep_days = 30\nmax_bytes = 1000000000\n");
    home.run(&["config", "check"]).succeeded();
    let shown = home.run(&["config", "show"]);
    assert!(shown.succeeded().stdout.contains("keep_days"), "{shown:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_goes_on_by_itself_from_where_it_was_made() {
    let turns = ["It was 4711.", "Still 4711."].map(Turn::text);
    let (server, home) = chat(turns).await;
    home.run(&["run", "tell me"]).succeeded();
    // Whether its process runs or not.
    home.run(&["server", "stop"]).succeeded();
    let listed = json(&home.run(&["session", "list", "--json"]).succeeded().stdout);
    let id = listed[0]["session_id"].as_str().unwrap();
    home.run(&["session", "fork", id, "--at", "nowhere"])
        .failed(2, "no entry nowhere");
    let forked = home.run(&["session", "fork", id, "--title", "a copy", "--json"]);
    let forked = json(&forked.succeeded().stdout);
    let copy = forked["session_id"].as_str().unwrap();
    assert_eq!(forked["title"], "a copy");
    home.run(&["run", "--session", copy, "which was it?"])
        .succeeded();
    let body = server.last_body().to_string();
    assert!(body.contains("4711") && body.contains("tell me"), "{body}");
    let kept = home.run(&["session", "show", id, "--json"]);
    assert!(
        !kept.succeeded().stdout.contains("which was it?"),
        "{kept:#?}"
    );
    home.run(&["session", "check", "--all"]).succeeded();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_written_out_for_people_and_for_programs() {
    let turns = [
        Turn::tool_calls([("bash", serde_json::json!({ "command": "echo 4711" }))]),
        Turn::text("It is **4711**."),
    ];
    let (_server, home) = chat(turns).await;
    home.run(&["run", "which number?"]).succeeded();
    let listed = json(&home.run(&["session", "list", "--json"]).succeeded().stdout);
    let id = listed[0]["session_id"].as_str().unwrap();
    let export = |format: &str| home.run(&["session", "export", id, "--format", format]);
    export("markdown").succeeded();
    let text = std::fs::read_to_string(home.project().join(format!("{id}.md"))).unwrap();
    for part in [
        "# which number?\n",
        "\nwhich number?\n",
        "\n## local::m\n\n**bash**\n",
        "echo 4711",
        "<details><summary>Result of bash: ",
        "\nIt is **4711**.\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    export("markdown").failed(1, "is there already");
    export("jsonl").succeeded();
    let lines = std::fs::read_to_string(home.project().join(format!("{id}.jsonl"))).unwrap();
    let lines: Vec<Value> = lines.lines().map(json).collect();
    assert_eq!(lines[0]["session_id"], id);
    assert_eq!(lines[0]["tip"], lines.last().unwrap()["id"]);
    let roles: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["message"]["role"].as_str())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool_result", "assistant"]);
    export("html").failed(2, "markdown");
}
