//! The fake model server as a program.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::client::post;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fake-model-server");

fn file(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("bezel-fake-{}-{name}", std::process::id()))
}

#[tokio::test]
async fn it_serves_a_script_file_logs_requests_and_ends_with_its_parent() {
    let (script, log) = (file("script.json"), file("log.jsonl"));
    let turn = json!({ "answer": { "steps": [{ "text": "from the file" }] } });
    std::fs::write(&script, json!({ "turns": [turn] }).to_string()).unwrap();
    let mut program = Command::new(PROGRAM);
    program
        .arg(&script)
        .arg("--log")
        .arg(&log)
        .arg("--until-stdin-ends");
    let mut child = program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut port = String::new();
    lines.read_line(&mut port).unwrap();
    let address = format!("127.0.0.1:{}", port.trim()).parse().unwrap();
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hello" }] });
    let answered = post(address, "/v1/chat/completions", &body).await;
    assert!(answered.body.contains("from the file"), "{}", answered.body);
    let logged = loop {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        if let Some(line) = text.lines().next() {
            break serde_json::from_str::<Value>(line).unwrap();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(
        (&logged["path"], &logged["body"]),
        (&json!("/v1/chat/completions"), &body)
    );
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    std::fs::remove_file(&script).unwrap();
    std::fs::remove_file(&log).unwrap();
}

#[test]
fn a_script_that_is_none_fails_and_says_where() {
    let script = file("broken.json");
    let mut writer = std::fs::File::create(&script).unwrap();
    writer
        .write_all(br#"{ "turns": [ { "asnwer": {} } ] }"#)
        .unwrap();
    let mut child = Command::new(PROGRAM)
        .arg(&script)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(said.contains("asnwer") && said.contains("line 1"), "{said}");
    std::fs::remove_file(&script).unwrap();
}

#[test]
fn it_says_how_it_is_used() {
    let helped = Command::new(PROGRAM).arg("--help").output().unwrap();
    let said = String::from_utf8(helped.stdout).unwrap();
    assert!(
        helped.status.success() && said.contains("--until-stdin-ends"),
        "{said}"
    );
    let wrong = Command::new(PROGRAM).output().unwrap();
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(!wrong.status.success() && said.contains("usage:"), "{said}");
}
