//! What a commit promises.

use std::sync::Arc;

use bezel_session_types::{
    CommandId, Cost, Delivery, EntryId, LaneName, ModelRef, OperationId, Usage, UserMessage,
};
use bezel_store::{CommitError, NewInboxRow, Receipt, Transaction, UsageRow};
use serde_json::json;

use crate::support::{Place, append, child, child_role, ready_and_wait, user};

fn inbox_row(id: &str) -> NewInboxRow {
    NewInboxRow {
        id: EntryId::new(id),
        lane: LaneName::main(),
        command_id: CommandId::new(format!("command of {id}")),
        operation_id: OperationId::new("operation"),
        delivery: Delivery::Queue,
        resume: true,
        message: UserMessage::text(format!("text of {id}")),
    }
}

fn receipt(command: &str) -> Receipt {
    Receipt {
        command_id: CommandId::new(command),
        digest: [7; 32],
        result: "{}".into(),
    }
}

#[test]
fn a_commit_writes_every_kind_together_and_it_reads_back() {
    let place = Place::new();
    let store = place.open();
    let mut transaction = append("e1", None);
    transaction.append(EntryId::new("e2"), Some(EntryId::new("e1")), user("second"));
    transaction.set_value("name", "value");
    transaction.admit(inbox_row("m1"));
    transaction.receipt(receipt("c1"));
    transaction.journal("run_started", json!({ "operation": "o1" }));
    transaction.usage(UsageRow {
        lane: LaneName::main(),
        operation_id: OperationId::new("o1"),
        purpose: "answer",
        model: ModelRef {
            provider: "p".into(),
            model_id: "m".into(),
        },
        usage: Usage {
            input: 10,
            output: 5,
            ..Usage::default()
        },
        cost: Some(Cost(0.25)),
    });
    let committed = store.commit(transaction).unwrap();
    assert_eq!(
        committed
            .entries
            .iter()
            .map(|entry| entry.seq)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(committed.inbox, [3]);
    drop(store);
    let store = place.open();
    store
        .read(|queries| {
            let second = queries.entry(&EntryId::new("e2"))?.unwrap();
            assert_eq!(
                (&second, second.parent.as_ref().unwrap().as_str()),
                (&*committed.entries[1], "e1")
            );
            assert_eq!(queries.tip(&LaneName::main())?, Some(EntryId::new("e1")));
            assert_eq!(queries.value::<String>("name")?.as_deref(), Some("value"));
            let inbox = queries.inbox(&LaneName::main())?;
            assert_eq!((inbox[0].seq, &inbox[0].row), (3, &inbox_row("m1")));
            assert_eq!(queries.receipt(&CommandId::new("c1"))?, Some(receipt("c1")));
            let journal = queries.journal(0, 10)?;
            assert_eq!(
                (journal[0].kind.as_str(), journal[0].seq),
                ("run_started", 4)
            );
            let usage = queries.usage()?;
            assert_eq!(
                (usage.usage.input, usage.requests, usage.cost),
                (10, 1, Cost(0.25))
            );
            Ok(())
        })
        .unwrap();
}

#[test]
fn opencode_16_a_commit_that_fails_leaves_nothing_of_itself() {
    let place = Place::new();
    let store = place.open();
    let mut first = append("e1", None);
    first.receipt(receipt("c1"));
    store.commit(first).unwrap();
    let mut repeated = append("e2", Some("e1"));
    repeated.set_value("name", "value");
    repeated.receipt(receipt("c1"));
    let error = store.commit(repeated).unwrap_err();
    assert!(matches!(error, CommitError::Duplicate { .. }), "{error}");
    let orphan = store.commit(append("e3", Some("nobody"))).unwrap_err();
    assert!(orphan.to_string().contains("nobody"), "{orphan}");
    store
        .read(|queries| {
            assert_eq!(queries.count()?, 1);
            assert_eq!(queries.value::<String>("name")?, None);
            assert_eq!(queries.tip(&LaneName::main())?, Some(EntryId::new("e1")));
            Ok(())
        })
        .unwrap();
    store.commit(append("e2", Some("e1"))).unwrap();
}

#[test]
fn sequence_numbers_grow_through_rows_that_went_and_files_that_closed() {
    let place = Place::new();
    let store = place.open();
    let mut admitted = Transaction::new();
    admitted.admit(inbox_row("m1"));
    let first = store.commit(admitted).unwrap();
    let mut delivered = append("m1", None);
    delivered.take_out(&EntryId::new("m1"));
    let second = store.commit(delivered).unwrap();
    assert!(second.entries[0].seq > first.inbox[0]);
    drop(store);
    let store = place.open();
    let third = store.commit(append("e2", Some("m1"))).unwrap();
    assert!(third.entries[0].seq > second.seq);
    assert_eq!(*store.committed().borrow(), third.seq);
}

#[test]
fn values_are_replaced_and_removed_one_by_one_and_by_prefix() {
    let place = Place::new();
    let store = place.open();
    let mut transaction = Transaction::new();
    for key in ["memo/a/1", "memo/a/2", "memo/b/1", "memp"] {
        transaction.set_value(key, &1);
    }
    store.commit(transaction).unwrap();
    let mut transaction = Transaction::new();
    transaction.delete_values("memo/a/");
    transaction.set_value("memo/a/3", &2);
    transaction.delete_value("memp");
    store.commit(transaction).unwrap();
    let keys = store.read(|queries| queries.keys("mem")).unwrap();
    assert_eq!(keys, ["memo/a/3", "memo/b/1"]);
}

#[test]
fn a_full_disk_is_a_clear_error_and_the_next_commit_works_once_there_is_room() {
    let place = Place::new();
    let store = place.open();
    store.commit(append("e1", None)).unwrap();
    store.limit_growth(4).unwrap();
    let mut large = append("e2", Some("e1"));
    large.set_value("large", &"x".repeat(1 << 20));
    let error = store.commit(large).unwrap_err();
    assert!(matches!(error, CommitError::Full { .. }), "{error}");
    assert!(error.to_string().contains("disk is full"), "{error}");
    assert_eq!(store.read(|queries| queries.count()).unwrap(), 1);
    store.limit_growth(1 << 20).unwrap();
    store.commit(append("e2", Some("e1"))).unwrap();
    assert_eq!(store.read(|queries| queries.check()).unwrap(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_wait_for_the_disk_together_share_a_sync() {
    let place = Place::new();
    let store = Arc::new(place.open());
    let waits = (0..64).map(|index| {
        let store = Arc::clone(&store);
        async move {
            let committed = store.commit(append(&format!("e{index}"), None)).unwrap();
            store.synced(&committed).await.unwrap();
        }
    });
    // All commit before the first sync ends, because none of them waits before it has committed.
    let mut waits: Vec<_> = waits.map(Box::pin).collect();
    for wait in &mut waits {
        assert!(matches!(poll_once(wait.as_mut()), std::task::Poll::Pending));
    }
    for wait in waits {
        wait.await;
    }
    assert!(store.syncs() <= 2, "{} syncs for 64 commits", store.syncs());
    store.sync().await.unwrap();
    assert!(
        store.syncs() <= 2,
        "what is on the disk is not synced again"
    );
}

#[tokio::test]
async fn commits_that_are_about_to_be_made_share_the_sync_that_a_fast_disk_does_in_place() {
    let place = Place::new();
    let store = Arc::new(place.open());
    // So that it is known how fast the disk is.
    store.commit(append("first", None)).unwrap();
    store.sync().await.unwrap();
    let before = store.syncs();
    let mut waits = tokio::task::JoinSet::new();
    for index in 0..64 {
        let store = Arc::clone(&store);
        waits.spawn(async move {
            let committed = store.commit(append(&format!("e{index}"), None)).unwrap();
            store.synced(&committed).await.unwrap();
        });
    }
    waits.join_all().await;
    let syncs = store.syncs() - before;
    assert!(syncs <= 2, "{syncs} syncs for 64 commits");
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
    future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

#[test]
fn the_log_is_folded_back_while_the_store_is_open() {
    let place = Place::new();
    let store = place.open();
    for index in 0..400 {
        let mut transaction = Transaction::new();
        // Content that stays the same is not written at all.
        let text = index.to_string().repeat(24 * 1024);
        transaction.set_value(format!("value {}", index % 4), &text);
        store.commit(transaction).unwrap();
    }
    let log = place.directory.path().join("session.db-wal");
    let size = std::fs::metadata(log).unwrap().len();
    assert!(
        size < 4 << 20,
        "25 MiB were written and the log holds {size} bytes"
    );
}

#[test]
fn a_stopped_store_takes_no_further_commit() {
    let place = Place::new();
    let store = place.open();
    store.stop_after(1);
    store.commit(append("e1", None)).unwrap();
    let error = store.commit(append("e2", Some("e1"))).unwrap_err();
    assert!(matches!(error, CommitError::Stopped { .. }), "{error}");
    assert_eq!(store.read(|queries| queries.count()).unwrap(), 1);
}

#[test]
fn a_process_that_commits_and_is_killed() {
    let Some(path) = child_role() else { return };
    let store = bezel_store::Store::open(path).unwrap();
    store.commit(append("e1", None)).unwrap();
    ready_and_wait();
}

#[test]
fn what_was_committed_survives_a_kill() {
    let place = Place::new();
    let mut child = child("commits::a_process_that_commits_and_is_killed", &place.path);
    child.kill().unwrap();
    child.wait().unwrap();
    // First beside no owner at all, then by the next owner.
    let reader = bezel_store::Reader::open(&place.path).unwrap();
    assert_eq!(reader.read(|queries| queries.count()).unwrap(), 1);
    assert_eq!(place.open().read(|queries| queries.count()).unwrap(), 1);
}
