//! Rewind as a presentation uses it: over a connection, with the session that the test plays.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::path::PathBuf;

use bezel_api_session::{BeforeTool, EventBody, Outcome};
use bezel_rewind_contract::{Availability, ChangeKind, RewindClient, RewindError, RewindState};
use bezel_rpc::{CallError, Context};
use bezel_session_types::{
    Entry, EntryId, Message, OperationId, RunOutcome, RunPhase, RunState, UserMessage,
};
use bezel_testkit::{FakeSession, FakeSessionOptions};
use serde_json::json;
use tempfile::TempDir;

struct Place {
    session: FakeSession,
    rewind: RewindClient,
    cx: Context,
    root: PathBuf,
    folder: TempDir,
}

fn said(id: &str, parent: Option<&str>, text: &str, seq: u64) -> Entry {
    Entry {
        id: EntryId::new(id),
        parent: parent.map(EntryId::new),
        seq,
        created_at: 5,
        body: Message::User(UserMessage::text(text)).into(),
    }
}

async fn start(folder: TempDir, path: Option<&str>) -> Place {
    let root = folder.path().to_owned();
    let mut options = FakeSessionOptions::default();
    let path = path.map_or_else(|| std::env::var("PATH").unwrap(), ToOwned::to_owned);
    options.environment.insert("PATH".into(), path);
    options.prepare = Some(Box::new(|agent| {
        agent.set_entries(vec![
            said("m1", None, "first", 1),
            said("m2", Some("m1"), "second", 2),
        ]);
    }));
    let facets = vec![bezel_rewind_session::facet()];
    let session = FakeSession::start(facets, &root, options).await.unwrap();
    let rewind: RewindClient = session.remote().use_service();
    let cx = Context::background();
    rewind.state().ready(&cx).await.unwrap();
    Place {
        session,
        rewind,
        cx,
        root,
        folder,
    }
}

impl Place {
    /// A turn of the newest message in which the agent writes a file.
    async fn turn(&self, name: &str, content: &str) {
        let verdict = self.session.agent.before_tool("write", json!({})).await;
        assert_eq!(verdict, BeforeTool::Continue);
        std::fs::write(self.root.join(name), content).unwrap();
        self.end().await;
    }

    async fn end(&self) {
        self.session.agent.emit(EventBody::RunEnded(Outcome {
            operation_id: OperationId::new("run"),
            outcome: RunOutcome::Completed,
        }));
    }

    async fn until(&self, holds: impl Fn(&RewindState) -> bool) -> RewindState {
        let state = self.rewind.state();
        let state = state.wait_for(&self.cx, holds).await.unwrap();
        RewindState::clone(&state)
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(name)).ok()
    }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, CallError<RewindError>>) -> RewindError {
    match result.unwrap_err() {
        CallError::Service(error) => error,
        error => panic!("{error}"),
    }
}

#[tokio::test]
async fn the_first_changing_tool_of_a_turn_makes_a_point_to_go_back_to() {
    let place = start(tempfile::tempdir().unwrap(), None).await;
    std::fs::write(place.root.join("a"), "0\n").unwrap();
    place.turn("a", "1\n").await;
    let state = place
        .until(|state| state.points.iter().any(|point| point.files == 1))
        .await;
    let shown: Vec<_> = state
        .points
        .iter()
        .map(|point| (point.text.as_str(), point.files, point.files_since))
        .collect();
    assert_eq!(shown, [("first", 0, 1), ("second", 1, 1)]);

    let preview = place
        .rewind
        .preview(&place.cx, EntryId::new("m2"))
        .await
        .unwrap();
    assert_eq!(preview.files[0].kind, ChangeKind::Changed);
    assert!(preview.files[0].patch.contains("-1\n+0\n"), "{preview:?}");
    assert_eq!(place.read("a").as_deref(), Some("1\n"));

    let staged = place
        .rewind
        .stage(&place.cx, EntryId::new("m1"), false)
        .await
        .unwrap();
    assert_eq!((staged.files.len(), staged.text.as_str()), (1, "first"));
    assert_eq!(place.read("a").as_deref(), Some("0\n"));
    place.until(|state| state.staged.is_some()).await;

    assert_eq!(place.rewind.clear(&place.cx, false).await.unwrap().files, 1);
    assert_eq!(place.read("a").as_deref(), Some("1\n"));
    place.until(|state| state.staged.is_none()).await;
}

#[tokio::test]
async fn a_running_session_is_busy_for_stage_clear_and_commit() {
    let place = start(tempfile::tempdir().unwrap(), None).await;
    std::fs::write(place.root.join("a"), "0").unwrap();
    place.turn("a", "1").await;
    place
        .until(|state| state.points.iter().any(|point| point.files == 1))
        .await;
    place.session.agent.set_activity(RunState::Running {
        operation_id: OperationId::new("run"),
        since: 0,
        phase: RunPhase::Streaming,
        aborting: false,
    });
    let message = EntryId::new("m2");
    assert_eq!(
        refusal(place.rewind.stage(&place.cx, message.clone(), true).await),
        RewindError::Busy
    );
    assert_eq!(
        refusal(place.rewind.preview(&place.cx, message).await),
        RewindError::Busy
    );
    assert_eq!(
        refusal(place.rewind.clear(&place.cx, true).await),
        RewindError::Busy
    );
    assert_eq!(
        refusal(place.rewind.commit(&place.cx).await),
        RewindError::Busy
    );
    assert_eq!(place.read("a").as_deref(), Some("1"));
}

#[tokio::test]
async fn a_run_that_goes_on_with_the_same_message_is_another_turn_of_it() {
    let place = start(tempfile::tempdir().unwrap(), None).await;
    std::fs::write(place.root.join("a"), "0").unwrap();
    place.turn("a", "1").await;
    place
        .until(|state| state.points.iter().any(|point| point.files == 1))
        .await;
    place.turn("b", "1").await;
    place
        .until(|state| state.points.iter().any(|point| point.files == 2))
        .await;
    place
        .rewind
        .stage(&place.cx, EntryId::new("m2"), false)
        .await
        .unwrap();
    assert_eq!(
        (place.read("a").as_deref(), place.read("b")),
        (Some("0"), None)
    );
}

#[tokio::test]
async fn the_end_of_one_run_does_not_end_the_turn_of_the_next() {
    let place = start(tempfile::tempdir().unwrap(), None).await;
    std::fs::write(place.root.join("a"), "0").unwrap();
    place.session.agent.set_activity(RunState::Running {
        operation_id: OperationId::new("next"),
        since: 0,
        phase: RunPhase::Streaming,
        aborting: false,
    });
    place.session.agent.before_tool("write", json!({})).await;
    place.end().await;
    std::fs::write(place.root.join("a"), "1").unwrap();
    place.session.agent.before_tool("write", json!({})).await;
    std::fs::write(place.root.join("b"), "1").unwrap();
    place.session.agent.set_activity(RunState::Idle);
    place.end().await;
    place
        .until(|state| state.points.iter().any(|point| point.files == 2))
        .await;
}

#[tokio::test]
async fn what_is_staged_is_there_after_the_worker_was_restarted() {
    let place = start(tempfile::tempdir().unwrap(), None).await;
    std::fs::write(place.root.join("a"), "0").unwrap();
    place.turn("a", "1").await;
    place
        .until(|state| state.points.iter().any(|point| point.files == 1))
        .await;
    place
        .rewind
        .stage(&place.cx, EntryId::new("m2"), false)
        .await
        .unwrap();
    let Place {
        session, folder, ..
    } = place;
    assert!(session.stop().await.is_empty());
    let place = start(folder, None).await;
    let state = place.until(|state| state.staged.is_some()).await;
    assert_eq!(state.staged.unwrap().files[0].path, "a");
    place.rewind.clear(&place.cx, false).await.unwrap();
    assert_eq!(place.read("a").as_deref(), Some("1"));
}

#[tokio::test]
async fn a_message_that_is_not_of_this_conversation_and_nothing_staged_are_refused() {
    let place = start(tempfile::tempdir().unwrap(), None).await;
    let message = EntryId::new("elsewhere");
    assert_eq!(
        refusal(place.rewind.stage(&place.cx, message.clone(), false).await),
        RewindError::UnknownMessage { message }
    );
    assert_eq!(
        refusal(place.rewind.clear(&place.cx, false).await),
        RewindError::NothingStaged
    );
    assert_eq!(
        refusal(place.rewind.commit(&place.cx).await),
        RewindError::NothingStaged
    );
}

#[tokio::test]
async fn without_git_tools_run_and_the_state_says_why_there_is_no_way_back() {
    let place = start(tempfile::tempdir().unwrap(), Some("/nowhere")).await;
    let unavailable = |state: &RewindState| matches!(&state.availability, Availability::Unavailable { reason } if reason.contains("git"));
    place.until(unavailable).await;
    place.turn("a", "1").await;
    assert_eq!(place.read("a").as_deref(), Some("1"));
    let refused = refusal(
        place
            .rewind
            .stage(&place.cx, EntryId::new("m1"), false)
            .await,
    );
    assert!(
        matches!(refused, RewindError::Unavailable { .. }),
        "{refused}"
    );
}
