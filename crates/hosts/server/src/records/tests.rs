//! What is written, when it is seen, and what a failed write leaves.

use std::sync::{Arc, Mutex};

use bezel_context::Context;
use jiff::ToSpan;

use super::*;
use crate::options::Clock;

struct Fixture {
    scratch: tempfile::TempDir,
    now: Arc<Mutex<jiff::Timestamp>>,
}

impl Fixture {
    fn new() -> Self {
        let now = "2025-01-01T00:00:00Z".parse().unwrap();
        Fixture {
            scratch: tempfile::tempdir().unwrap(),
            now: Arc::new(Mutex::new(now)),
        }
    }

    fn records(&self) -> Records {
        self.records_in("server.db")
    }

    fn records_in(&self, database: &str) -> Records {
        let now = Arc::clone(&self.now);
        let clock = Clock::new(move || *now.lock().unwrap());
        let path = |name| self.scratch.path().join(name);
        Records::load(&path(database), path("sessions"), clock)
            .unwrap()
            .0
    }

    fn pass(&self, seconds: i64) {
        let mut now = self.now.lock().unwrap();
        *now += seconds.seconds();
    }
}

fn cx() -> Context {
    Context::background()
}

fn options() -> CreateManaged {
    CreateManaged {
        session_id: None,
        owner: "me".into(),
        title: None,
        directory: "/project".into(),
        parent_id: None,
        agent: None,
        model: Some("local::small".parse().unwrap()),
        permission_mode: Some(bezel_session_types::PermissionMode::Plan),
        environment: None,
    }
}

async fn create(records: &Records) -> Result<ManagedSession, FleetError> {
    let location = Location {
        directory: "/project/src".into(),
        root: "/project".into(),
    };
    let recorded = records.create(&cx(), options(), location, |_| true).await;
    recorded.map(|recorded| recorded.session)
}

fn commit(running: bool) -> Commit {
    Commit {
        seq: 1,
        running,
        waiting: false,
        title: None,
    }
}

#[tokio::test]
async fn a_record_reads_back_as_it_was_written() {
    let fixture = Fixture::new();
    let records = fixture.records();
    let created = create(&records).await.unwrap();
    let change = |record: &mut Record| {
        record.title = "A ‘title’".into();
        record.thinking_level = Some(bezel_session_types::ThinkingLevel::High);
    };
    let changed = records
        .update(&cx(), &created.session_id, change)
        .await
        .unwrap();
    drop(records);
    assert_eq!(fixture.records().snapshot(), [changed]);
}

#[tokio::test]
async fn of_two_who_create_one_session_at_once_one_is_told_that_it_is_new() {
    let fixture = Fixture::new();
    let records = fixture.records();
    let asked = CreateManaged {
        session_id: Some(SessionId::generate()),
        ..options()
    };
    let cx = cx();
    let create = || async {
        let location = Location {
            directory: "/project/src".into(),
            root: "/project".into(),
        };
        let created = records.create(&cx, asked.clone(), location, |_| true);
        created.await.unwrap()
    };
    let (one, other) = tokio::join!(create(), create());
    assert_eq!(one.session.session_id, other.session.session_id);
    assert_eq!([one.is_new, other.is_new], [true, false]);
}

#[tokio::test]
async fn a_running_session_touches_its_record_when_it_starts_when_it_ends_and_every_few_seconds() {
    let fixture = Fixture::new();
    let records = fixture.records();
    let id = create(&records).await.unwrap().session_id;
    records.mark(&id, WorkerNow::Connected);
    let told = Arc::new(Mutex::new(0));
    let counting = Arc::clone(&told);
    let _subscription = records.on_changed(Arc::new(move |_, _| *counting.lock().unwrap() += 1));
    records.tell();
    let mut touched = Vec::new();
    for (seconds, running) in [
        (1, true),
        (1, true),
        (1, true),
        (3, true),
        (1, true),
        (0, false),
        (9, false),
    ] {
        fixture.pass(seconds);
        touched.push(records.commit(&cx(), &id, &commit(running)));
    }
    assert_eq!(touched, [true, false, false, true, false, true, true]);
    assert_eq!(
        *told.lock().unwrap(),
        5,
        "what is not touched is not told; the mark is"
    );
    records.persist(&id).await.unwrap();
    let written = records.get(&id).unwrap().updated_at;
    drop(records);
    assert_eq!(fixture.records().get(&id).unwrap().updated_at, written);
}

#[tokio::test]
async fn a_change_that_cannot_be_written_is_not_seen() {
    let fixture = Fixture::new();
    let records = fixture.records_in("missing/server.db");
    let error = create(&records).await.unwrap_err().to_string();
    assert!(
        error.contains("missing/server.db") && error.contains("writable"),
        "{error}"
    );
    assert!(records.snapshot().is_empty());
    assert_eq!(records.workspace(Path::new("/project")), None);
}

#[tokio::test]
async fn a_workspace_out_of_reach_is_neither_used_nor_registered() {
    let fixture = Fixture::new();
    let records = fixture.records();
    let location = Location {
        directory: "/project".into(),
        root: "/project".into(),
    };
    let refused = records
        .create(&cx(), options(), location, |_| false)
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("outside the workspaces"),
        "{refused}"
    );
    assert_eq!(records.workspace(Path::new("/project")), None);
}

#[tokio::test]
async fn the_newest_change_comes_first() {
    let fixture = Fixture::new();
    let records = fixture.records();
    let first = create(&records).await.unwrap().session_id;
    fixture.pass(1);
    let second = create(&records).await.unwrap().session_id;
    let order = |records: &Records| -> Vec<SessionId> {
        records
            .snapshot()
            .into_iter()
            .map(|session| session.session_id)
            .collect()
    };
    assert_eq!(order(&records), [second.clone(), first.clone()]);
    fixture.pass(1);
    records
        .update(&cx(), &first, |record| record.title = "x".into())
        .await
        .unwrap();
    assert_eq!(order(&records), [first, second]);
}

#[tokio::test]
async fn what_a_crash_left_of_a_deletion_is_deleted_and_not_adopted() {
    let fixture = Fixture::new();
    let records = fixture.records();
    let session = create(&records).await.unwrap();
    records.prepare(&session).await.unwrap();
    let database = records.files().database(&session.session_id);
    drop(bezel_store::Store::open(&database).unwrap());
    records.files().withdraw(&session.session_id).unwrap();
    records.adopt("me").await.unwrap();
    assert_eq!(
        std::fs::read_dir(fixture.scratch.path().join("sessions"))
            .unwrap()
            .count(),
        0
    );
    assert_eq!(
        records.snapshot(),
        [],
        "the deletion is ended, its record included"
    );
}

#[tokio::test]
async fn a_copy_is_out_of_sight_until_it_is_placed_and_then_a_session_like_its_source() {
    let fixture = Fixture::new();
    let records = fixture.records();
    let source = create(&records).await.unwrap();
    let named = |record: &mut Record| record.title = "Fix the parser".into();
    let source = records
        .update(&cx(), &source.session_id, named)
        .await
        .unwrap();
    let (id, database) = records.begin_copy(&source).await.unwrap();
    assert!(records.get(&id).is_none() && database.parent().unwrap().is_dir());
    // Nothing was written there: it cannot become a session, and its place is used up.
    let nothing = records.place_copy(&cx(), &source, id.clone(), None).await;
    assert!(
        matches!(nothing, Err(FleetError::Storage(_))),
        "{nothing:?}"
    );
    let (id, database) = records.begin_copy(&source).await.unwrap();
    std::fs::write(&database, "whole").unwrap();
    let stranger = create(&records).await.unwrap();
    let not_yours = records.place_copy(&cx(), &stranger, id.clone(), None).await;
    assert!(
        matches!(not_yours, Err(FleetError::NotAuthorized { .. })),
        "{not_yours:?}"
    );
    let placed = records
        .place_copy(&cx(), &source, id.clone(), None)
        .await
        .unwrap();
    assert_eq!(placed.title, "Fix the parser (fork)");
    assert_eq!(placed.model, source.model);
    assert_eq!(placed.directory, source.directory);
    assert_eq!(
        std::fs::read(records.files().database(&id)).unwrap(),
        b"whole"
    );
    assert!(!database.exists());
    // The next life of the server knows it.
    drop(records);
    assert_eq!(fixture.records().get(&id).unwrap().title, placed.title);
}

#[tokio::test]
async fn what_was_begun_and_not_placed_goes_with_its_worker_or_at_the_next_start() {
    let fixture = Fixture::new();
    let records = fixture.records();
    let source = create(&records).await.unwrap();
    let (_, of_worker) = records.begin_copy(&source).await.unwrap();
    std::fs::write(&of_worker, "half").unwrap();
    records.abandon_copies(&source.session_id).await;
    assert!(!of_worker.parent().unwrap().exists());
    let (id, of_server) = records.begin_copy(&source).await.unwrap();
    std::fs::write(&of_server, "half").unwrap();
    drop(records);
    let records = fixture.records();
    records.adopt("me").await.unwrap();
    assert!(!of_server.parent().unwrap().exists());
    assert!(records.get(&id).is_none(), "half a session is none");
}
