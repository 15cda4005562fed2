//! Real processes that are killed at random.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bezel_session_types::{Message, ToolOutput};
use serde_json::json;

use crate::support::{
    Act, Model, Place, Reply, Session, TestTool, call, calls, model_spec, outline, prompt_request,
    registration, says, text,
};

const ROLE: &str = "BEZEL_HARNESS_TEST_PLACE";
const PROMPTS: usize = 12;

/// What a real tool does to the world: one line in a file, by call.
fn recording(place: &Path, name: &'static str) -> TestTool {
    let file = place.join(name);
    TestTool::new(move |_, invocation| {
        let file = file.clone();
        async move {
            let mut file = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(file)
                .unwrap();
            writeln!(file, "{}", invocation.invocation_id).unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok(ToolOutput::text("recorded"))
        }
    })
}

/// In a process of its own: takes the session up and prompts until all prompts are answered.
#[tokio::test]
async fn a_process_that_works_until_it_is_killed() {
    let Some(directory) = std::env::var_os(ROLE).map(PathBuf::from) else {
        return;
    };
    let model = Model::new(|request, _| {
        let since = request
            .messages
            .iter()
            .rev()
            .take_while(|message| !matches!(***message, Message::User(_)));
        let reply: Reply = match since.count() {
            0 => calls([
                text("Working."),
                Act::Wait(Duration::from_millis(2)),
                call("a", "once", json!({})),
                call("b", "safe", json!({})),
                call("c", "once", json!({})),
            ]),
            _ => says("Done."),
        };
        reply
    });
    let tools = vec![
        registration("once", recording(&directory, "once.log")),
        registration("safe", recording(&directory, "safe.log").replay_safe()),
    ];
    let database = directory.join("session.db");
    let session = Session::open_at(
        &database,
        &directory,
        &model,
        tools,
        model_spec(),
        Default::default(),
    );
    println!("ready");
    session.lane.resume(&session.cx).await.unwrap();
    session.idle().await;
    for index in 0..PROMPTS {
        let command = format!("command {index}");
        let request = prompt_request(&command, &format!("prompt {index}"));
        session.lane.prompt(&session.cx, request).await.unwrap();
        println!("admitted prompt {index}");
        session.idle().await;
    }
    println!("finished");
}

#[test]
fn a_session_killed_at_random_loses_no_admitted_prompt_and_runs_no_unsafe_tool_twice() {
    let place = Place::new();
    let mut admitted = std::collections::BTreeSet::new();
    let mut finished = false;
    let mut kills = 0;
    for round in 0_u64.. {
        assert!(round < 400, "the work never ends");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::a_process_that_works_until_it_is_killed"])
            .args(["--nocapture", "--test-threads=1"])
            .env(ROLE, place.directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        assert!(
            lines.any(|line| line.contains("ready")),
            "the process did not come up"
        );
        // Different in every round, from before the first step to well into a run.
        let patience = Duration::from_micros(500 + (round * 7_919) % 40_000);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(patience);
            // It may have finished by itself.
            drop(child.kill());
            child.wait().unwrap();
        });
        for line in lines {
            if let Some(at) = line.find("admitted ") {
                admitted.insert(line[at + "admitted ".len()..].to_owned());
            }
            finished |= line.contains("finished");
        }
        killer.join().unwrap();
        if finished {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 5, "only {kills} kills");
    let reader = bezel_store::Reader::open(place.database()).unwrap();
    let entries = reader
        .read(|queries| queries.entries_after(0, 100_000))
        .unwrap();
    let prompts: Vec<String> = outline(&entries)
        .into_iter()
        .filter_map(|line| line.strip_prefix("user: ").map(str::to_owned))
        .collect();
    assert_eq!(prompts.len(), PROMPTS, "{prompts:?}");
    for prompt in &admitted {
        assert_eq!(
            prompts.iter().filter(|found| *found == prompt).count(),
            1,
            "{prompt}"
        );
    }
    let results: BTreeMap<&str, bool> = entries
        .iter()
        .filter_map(|entry| match entry.message() {
            Some(Message::ToolResult(result)) => {
                Some((result.invocation_id.as_str(), result.is_error))
            }
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), PROMPTS * 3);
    let mut effects: BTreeMap<String, usize> = BTreeMap::new();
    for line in std::fs::read_to_string(place.directory.path().join("once.log"))
        .unwrap()
        .lines()
    {
        *effects.entry(line.to_owned()).or_default() += 1;
    }
    for (invocation, times) in &effects {
        assert_eq!(*times, 1, "{invocation} took effect {times} times");
        assert!(
            results.contains_key(invocation.as_str()),
            "{invocation} has no result"
        );
    }
    let safe = std::fs::read_to_string(place.directory.path().join("safe.log")).unwrap();
    for (invocation, failed) in results {
        let recorded = effects.contains_key(invocation) || safe.contains(invocation);
        assert!(
            failed || recorded,
            "{invocation} is said to have succeeded and had no effect"
        );
    }
}
