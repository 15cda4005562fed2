//! Rewind as a presentation uses it: over a connection, with the session that the test plays.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

mod recording;

use std::path::PathBuf;

use bezel_api_session::{ApproveTool, Departure, EventBody, NavigationError, Outcome};
use bezel_rewind_contract::{
    Availability, ChangeKind, Reach, RewindClient, RewindError, RewindState, StageRequest,
};
use bezel_rpc::{CallError, Context};
use bezel_session_types::{
    Access, Entry, EntryId, InvocationId, Message, OperationId, RunOutcome, RunPhase, RunState,
    UserMessage,
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
    start_at(folder, path, 2).await
}

/// The conversation has so many messages.
async fn start_at(folder: TempDir, path: Option<&str>, messages: usize) -> Place {
    let root = folder.path().to_owned();
    let mut options = FakeSessionOptions::default();
    let path = path.map_or_else(|| std::env::var("PATH").unwrap(), ToOwned::to_owned);
    options.environment.insert("PATH".into(), path);
    options.prepare = Some(Box::new(move |agent| {
        let mut entries = vec![
            said("m1", None, "first", 1),
            said("m2", Some("m1"), "second", 2),
        ];
        entries.truncate(messages);
        agent.set_entries(entries);
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
        self.call(Some(vec![Access::edit(self.root.join(name))]))
            .await;
        std::fs::write(self.root.join(name), content).unwrap();
        self.end().await;
    }

    /// A tool that says this of what it touches is about to run.
    async fn call(&self, accesses: Option<Vec<Access>>) {
        self.begin("call", accesses).await;
    }

    async fn begin(&self, call: &str, accesses: Option<Vec<Access>>) {
        let agent = &self.session.agent;
        let call = InvocationId::new(call);
        let verdict = agent.approve_tool(&self.cx, &call, "tool", json!({}), accesses);
        assert_eq!(verdict.await, ApproveTool::Allow);
    }

    /// The messages with the number of files that their turns changed, once the second has `files`.
    async fn changed(&self, files: u32) -> RewindState {
        self.until(|state| state.points.iter().any(|point| point.files == files))
            .await
    }

    /// The tool has ended, and the run with it.
    async fn end(&self) {
        self.ended("call").await;
        self.run_ended();
    }

    async fn ended(&self, call: &str) {
        let agent = &self.session.agent;
        let call = InvocationId::new(call);
        agent.end_tool(&self.cx, &call, "tool").await.unwrap();
    }

    fn run_ended(&self) {
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

fn files(message: &str) -> StageRequest {
    StageRequest {
        reach: Reach::Files,
        ..both(message)
    }
}

fn both(message: &str) -> StageRequest {
    StageRequest {
        message: EntryId::new(message),
        reach: Reach::FilesAndConversation,
        force: false,
    }
}

fn before(message: Option<&str>) -> Option<Departure> {
    let from = message.map(EntryId::new);
    Some(Departure { from })
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

    let staged = place.rewind.stage(&place.cx, files("m1")).await.unwrap();
    assert_eq!((staged.files.len(), staged.text.as_str()), (1, "first"));
    assert_eq!(place.read("a").as_deref(), Some("0\n"));
    place.until(|state| state.staged.is_some()).await;

    assert_eq!(place.rewind.clear(&place.cx, false).await.unwrap().files, 1);
    assert_eq!(place.read("a").as_deref(), Some("1\n"));
    place.until(|state| state.staged.is_none()).await;
}

#[tokio::test]
async fn opencode_20_a_running_session_is_busy_for_stage_clear_and_commit() {
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
        refusal(place.rewind.stage(&place.cx, both("m2")).await),
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
    place.rewind.stage(&place.cx, files("m2")).await.unwrap();
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
    place.begin("one", None).await;
    place.run_ended();
    std::fs::write(place.root.join("a"), "1").unwrap();
    place.ended("one").await;
    place.call(None).await;
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
    place.rewind.stage(&place.cx, files("m2")).await.unwrap();
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
        refusal(place.rewind.stage(&place.cx, both("elsewhere")).await),
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
    let refused = refusal(place.rewind.stage(&place.cx, files("m1")).await);
    assert!(
        matches!(refused, RewindError::Unavailable { .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn what_a_tool_says_that_it_touches_decides_whether_there_is_a_checkpoint() {
    let place = start(tempfile::tempdir().unwrap(), None).await;
    std::fs::write(place.root.join("a"), "0").unwrap();
    let store = place.root.join(".output/rewind");
    let web = Access {
        action: Access::WEB.into(),
        ..Access::read("/")
    };
    let outside = Access::edit("/nowhere/b");
    for harmless in [vec![], vec![Access::read("/a"), web], vec![outside]] {
        place.call(Some(harmless)).await;
    }
    assert!(
        !store.join("turns").exists(),
        "what changes nothing here is not recorded"
    );
    let own = Access {
        action: "deploy".into(),
        ..Access::read("/a")
    };
    for (number, changing) in [
        Some(vec![Access::read("/a"), Access::edit(place.root.join("b"))]),
        Some(vec![Access::shell("ls", "/")]),
        Some(vec![own]),
        None,
    ]
    .into_iter()
    .enumerate()
    {
        place.call(changing).await;
        let turns = std::fs::read_dir(store.join("turns")).unwrap().count();
        assert_eq!(turns, number + 1);
        place.end().await;
        std::fs::write(place.root.join(format!("f{number}")), "").unwrap();
        place
            .rewind
            .preview(&place.cx, EntryId::new("m2"))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn keeping_moves_the_conversation_to_before_the_message_and_undoing_leaves_it() {
    let place = start(tempfile::tempdir().unwrap(), None).await;
    std::fs::write(place.root.join("a"), "0").unwrap();
    place.turn("a", "1").await;
    place.changed(1).await;
    let agent = &place.session.agent;
    let staged = place.rewind.stage(&place.cx, both("m2")).await.unwrap();
    assert_eq!(
        (staged.said.as_str(), staged.reach),
        ("second", Reach::FilesAndConversation)
    );
    assert_eq!(agent.departure(), before(Some("m1")));

    place.rewind.clear(&place.cx, false).await.unwrap();
    assert_eq!(agent.departure(), None);
    assert_eq!(place.read("a").as_deref(), Some("1"));

    place.rewind.stage(&place.cx, both("m1")).await.unwrap();
    assert_eq!(agent.departure(), before(None));
    place.rewind.stage(&place.cx, files("m1")).await.unwrap();
    assert_eq!(agent.departure(), None, "the files alone");
    place.rewind.stage(&place.cx, both("m2")).await.unwrap();
    let kept = place.rewind.commit(&place.cx).await.unwrap();
    assert_eq!((kept.files, kept.conversation), (1, true));
    let targets: Vec<_> = agent
        .navigations()
        .into_iter()
        .map(|to| to.target)
        .collect();
    assert_eq!(targets, [Some(EntryId::new("m1"))]);
    let state = place.until(|state| state.points.len() == 1).await;
    assert_eq!(
        (state.points[0].text.as_str(), state.staged),
        ("first", None)
    );
    assert_eq!(place.read("a").as_deref(), Some("0"));
}

#[tokio::test]
async fn the_next_message_keeps_what_is_staged_with_the_conversation() {
    let place = start(tempfile::tempdir().unwrap(), None).await;
    std::fs::write(place.root.join("a"), "0").unwrap();
    place.turn("a", "1").await;
    place.changed(1).await;
    place.rewind.stage(&place.cx, both("m2")).await.unwrap();
    place.until(|state| state.staged.is_some()).await;
    place.session.agent.depart();
    let state = place.until(|state| state.staged.is_none()).await;
    assert_eq!(state.points.len(), 1);
    assert_eq!(place.read("a").as_deref(), Some("0"));
    assert_eq!(
        refusal(place.rewind.clear(&place.cx, true).await),
        RewindError::NothingStaged
    );
}

#[tokio::test]
async fn a_conversation_that_cannot_go_along_is_told_and_the_files_are_staged_alone() {
    let place = start(tempfile::tempdir().unwrap(), None).await;
    std::fs::write(place.root.join("a"), "0").unwrap();
    place.turn("a", "1").await;
    place.changed(1).await;
    let agent = &place.session.agent;
    agent.refuse_navigations(NavigationError::Busy("it is busy with something".into()));
    let staged = place.rewind.stage(&place.cx, both("m2")).await.unwrap();
    assert_eq!(staged.reach, Reach::Files);
    let state = place.until(|state| state.staged.is_some()).await;
    assert!(state.problem.unwrap().contains("busy with something"));
    let kept = place.rewind.commit(&place.cx).await.unwrap();
    assert!(!kept.conversation);
}

/// What a crash leaves between the two places that are written, and what the next process makes of it.
#[tokio::test]
async fn whatever_a_crash_left_of_files_and_conversation_is_brought_together() {
    let place = start(tempfile::tempdir().unwrap(), None).await;
    std::fs::write(place.root.join("a"), "0").unwrap();
    place.turn("a", "1").await;
    place.changed(1).await;
    place.rewind.stage(&place.cx, both("m2")).await.unwrap();
    let record = place.root.join(".output/rewind/staged.json");
    let told = std::fs::read_to_string(&record).unwrap();
    let untold = told.replace(r#""conversation":"departs""#, r#""conversation":"wanted""#);
    assert_ne!(told, untold);
    let Place {
        session, folder, ..
    } = place;
    session.stop().await;

    // It was written down and the session not told.
    std::fs::write(&record, untold).unwrap();
    let place = start(folder, None).await;
    place
        .until(|state| state.staged.is_some() && state.loaded)
        .await;
    assert_eq!(place.session.agent.departure(), before(Some("m1")));
    let Place {
        session, folder, ..
    } = place;
    session.stop().await;

    // It was told, and has gone: the message is not of the conversation any more.
    let place = start_at(folder, None, 1).await;
    place
        .until(|state| state.staged.is_none() && state.loaded)
        .await;
    assert_eq!(place.read("a").as_deref(), Some("0"));
    assert!(!record.exists());
    let Place {
        session, folder, ..
    } = place;
    session.stop().await;

    // It was told, and was led elsewhere on the same path: the files alone are staged.
    std::fs::write(&record, told).unwrap();
    let place = start(folder, None).await;
    let state = place.until(|state| state.staged.is_some()).await;
    assert_eq!(state.staged.unwrap().reach, Reach::Files);
    assert_eq!(place.session.agent.departure(), None);
}
