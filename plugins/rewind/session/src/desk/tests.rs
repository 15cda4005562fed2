//! Calls that wait for their turn with the files longer than they may.

use bezel_api_session::{Facet, SessionContext};
use bezel_session_types::{Entry, Message, UserMessage};
use bezel_testkit::{FakeSession, FakeSessionOptions};
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::record::Turn;

struct Place {
    desk: Arc<Desk>,
    root: std::path::PathBuf,
    _session: FakeSession,
    _folder: TempDir,
}

/// A conversation of one message, `m`, and the desk of its session.
async fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("work");
    std::fs::create_dir(&root).unwrap();
    let setting = Setting {
        root: root.clone(),
        without: Vec::new(),
        records: folder.path().join("rewind"),
        born: 0,
        path: std::env::var_os("PATH"),
        most_entries: 1_000,
        most_bytes: 1 << 20,
    };
    let made = Arc::new(Mutex::new(None));
    let making = Arc::clone(&made);
    let facet = Facet::new("desk", move |cx: SessionContext| {
        let cell = cx.state_cell(RewindState::default());
        let history = History::new(cx.agent.tree());
        let desk = Desk::new(cx.agent.main(), history, cell, setting.clone());
        *making.lock().unwrap() = Some(Arc::new(desk));
        async { Ok(()) }
    });
    let options = FakeSessionOptions {
        prepare: Some(Box::new(|agent| {
            agent.set_entries(vec![Entry {
                id: EntryId::new("m"),
                parent: None,
                seq: 1,
                created_at: 5,
                body: Message::User(UserMessage::text("go")).into(),
            }]);
        })),
        ..FakeSessionOptions::default()
    };
    let session = FakeSession::start(vec![facet], &root, options)
        .await
        .unwrap();
    let desk = made.lock().unwrap().take().unwrap();
    Place {
        desk,
        root,
        _session: session,
        _folder: folder,
    }
}

impl Place {
    /// A call that may change anything is about to run.
    async fn begin(&self, call: &InvocationId) {
        let call = ToolApproval {
            invocation: call.clone(),
            tool: "tool".into(),
            arguments: Arc::new(Value::Null),
            accesses: None,
            evaluation: bezel_api_session::Evaluation::Nothing,
        };
        self.desk.before_call(&Context::background(), &call).await;
    }

    async fn turns(&self) -> Vec<Turn> {
        match &*self.desk.rewinder.lock().await {
            Slot::Open(rewinder) => rewinder.turns().to_vec(),
            Slot::Closed | Slot::Off(_) => self.desk.records().turns().unwrap(),
        }
    }
}

#[tokio::test]
async fn a_call_whose_end_had_no_turn_in_time_goes_on_and_is_written_down_as_not_known() {
    let (place, call) = (place().await, InvocationId::new("call"));
    place.begin(&call).await;
    std::fs::write(place.root.join("a"), "1").unwrap();
    tokio::time::pause();
    let others = place.desk.rewinder.lock().await;
    let began = tokio::time::Instant::now();
    place.desk.after_call(call.clone()).await;
    // The clock counts in milliseconds.
    let waited = began.elapsed().as_secs();
    assert_eq!(waited, PATIENCE.as_secs(), "the wait for the turn counts");
    drop(others);
    tokio::time::resume();
    place.desk.settled(call).await;
    let turn = place.turns().await.pop().unwrap();
    let problem = turn.problem.unwrap();
    assert!(problem.contains("could not be recorded"), "{problem}");
    assert!(turn.open.is_empty(), "nothing later is taken for its work");
}

#[tokio::test]
async fn a_call_whose_beginning_had_no_turn_in_time_is_written_down_once_it_is_settled() {
    let place = place().await;
    let (first, late) = (InvocationId::new("first"), InvocationId::new("late"));
    place.begin(&first).await;
    place.desk.after_call(first.clone()).await;
    place.desk.settled(first).await;
    tokio::time::pause();
    let others = place.desk.rewinder.lock().await;
    let began = tokio::time::Instant::now();
    place.begin(&late).await;
    let waited = began.elapsed().as_secs();
    assert_eq!(waited, (PATIENCE + GRACE).as_secs());
    drop(others);
    tokio::time::resume();
    place.desk.settled(late).await;
    let turn = place.turns().await.pop().unwrap();
    assert_eq!(turn.problem.as_deref(), Some(TOO_LATE));
    let slot = place.desk.rewinder.lock().await;
    assert!(matches!(&*slot, Slot::Off(_)), "no more are made");
}
