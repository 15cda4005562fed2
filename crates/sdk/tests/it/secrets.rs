//! A key that a program gives is the provider's and nobody else's.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use bezel_sdk::{PermissionMode, RunEvent};
use bezel_testkit::Turn;
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::world::{KEY, bezel, model, project, results};

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The files below `directory` that hold the key.
fn holders(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in directory.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holders(&path));
        } else if path.is_file() && holds(&std::fs::read(&path).unwrap()) {
            found.push(path.display().to_string());
        }
    }
    found
}

fn holds(bytes: &[u8]) -> bool {
    bytes
        .windows(KEY.len())
        .any(|window| window == KEY.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_in_no_record_no_log_no_event_and_no_environment() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_span_events(FmtSpan::FULL)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let look = "env; cat /proc/self/environ; tr '\\0' '\\n' < /proc/$PPID/environ";
    let child = json!({ "description": "look", "prompt": "Look too.", "background": false });
    let model = model([
        Turn::tool_calls([("bash", json!({ "command": look }))]),
        Turn::tool_calls([("subagent", child)]),
        Turn::tool_calls([("bash", json!({ "command": look }))]),
        Turn::text("Child: nothing."),
        Turn::text("Nothing."),
    ])
    .await;
    let (home, project) = (project(), project());
    let builder = bezel(&model)
        .home(home.path())
        .permission_mode(PermissionMode::Full);
    let bezel = builder.start().await.unwrap();
    let session = bezel.session(project.path()).await.unwrap();
    let mut events = session.prompt("Go.").events();
    let (mut told, mut calls) = (String::new(), 0);
    while let Some(event) = events.next().await {
        calls += usize::from(matches!(event, RunEvent::ToolEnd { .. }));
        told += &serde_json::to_string(&event).unwrap();
    }
    assert_eq!(events.answer().await.unwrap().text(), "Nothing.");
    assert_eq!(calls, 2);
    let requests = model.requests();
    assert_eq!(requests.len(), 5);
    for request in &requests {
        let authorization = request.header("authorization");
        assert_eq!(authorization, Some(&*format!("Bearer {KEY}")));
        assert!(!request.body.to_string().contains(KEY));
    }
    let seen = results(requests[1].call.as_ref().unwrap());
    assert!(seen[0].0.contains("PATH="), "{seen:?}");
    assert!(!told.contains(KEY), "it is in an event");
    assert!(std::env::vars().all(|(_, value)| value != KEY));
    assert_eq!(holders(home.path()), Vec::<String>::new());
    bezel.stop().await.unwrap();
    assert_eq!(holders(home.path()), Vec::<String>::new());
    assert_eq!(holders(project.path()), Vec::<String>::new());
    let log = log.0.lock().unwrap();
    assert!(log.len() > 10_000, "only {} bytes were logged", log.len());
    assert!(!holds(&log), "it is in the log");
}
