//! What was said and done in sessions whose process does not run, and what is done to their records.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bezel_session_types::{
    AssistantContent, AssistantMessage, Compaction, CompactionReason, EntryBody, EntryId,
    HistoryRange, LaneName, Message, SessionId, StopReason, ThinkingLevel, ToolCall, Usage,
    UserContent, UserMessage,
};
use bezel_sessions_contract::{
    Archived, CommitReport, CreateSession, ListSessions, SessionError, SessionNews, SessionStatus,
};
use bezel_store::{ForkOrigin, ForkScope, Store, Transaction};
use serde_json::json;

use crate::children::{begun, hosted, root};
use crate::over_both;
use crate::world::{Client, Via, World, begin_in, cx, refused};

/// A session without a worker, and where its database is to be.
async fn closed(world: &World, client: &Client) -> (SessionId, std::path::PathBuf) {
    let id = client.create(&world.project("p")).await.session_id;
    client.until_status(&id, SessionStatus::Idle).await;
    world.launcher.worker(&id).exit();
    client.until_status(&id, SessionStatus::Closed).await;
    let starts = world.launcher.starts();
    let start = starts.iter().find(|start| start.session_id == id).unwrap();
    (id, start.database.clone())
}

fn user(text: &str) -> Message {
    Message::User(UserMessage::text(text))
}

/// Appends one entry to the main lane.
fn append(store: &Store, id: &str, parent: Option<&str>, body: impl Into<EntryBody>) {
    let mut transaction = Transaction::new();
    transaction.append(EntryId::new(id), parent.map(EntryId::new), body);
    transaction.set_tip(&LaneName::main(), Some(&EntryId::new(id)));
    store.commit(transaction).unwrap();
}

fn line(store: &Store, ids: &[&str]) {
    let mut parent = None;
    for id in ids {
        append(store, id, parent, user(id));
        parent = Some(id);
    }
}

fn texts(messages: &[Arc<Message>]) -> Vec<String> {
    let text = |message: &Arc<Message>| match &**message {
        Message::User(user) => match &user.content[0] {
            UserContent::Text { text } => text.clone(),
            other => panic!("{other:?}"),
        },
        Message::Assistant(_) => "an answer".into(),
        Message::ToolResult(result) => format!("the result of {}", result.call_id),
    };
    messages.iter().map(text).collect()
}

fn ids(entries: &[bezel_session_types::Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.id.as_str()).collect()
}

over_both! {
    async fn a_session_is_read_and_changed_whole_while_no_process_of_it_runs(world: World) {
        let client = world.client().await;
        let (id, database) = closed(&world, &client).await;
        let (directory, management) = (&client.directory, &client.management);
        // Before anything was written there is nothing, and it is no error.
        assert_eq!(directory.context(&cx(), id.clone()).await.unwrap().messages, []);
        assert_eq!(directory.history(&cx(), id.clone(), HistoryRange::default(), 5).await.unwrap().entries, []);
        let unknown = refused(directory.message(&cx(), id.clone(), EntryId::new("none")).await);
        assert!(matches!(unknown, SessionError::UnknownEntry { .. }), "{unknown:?}");
        let store = Store::open(&database).unwrap();
        line(&store, &["one", "two", "three"]);
        drop(store);

        assert_eq!(directory.get(&cx(), id.clone()).await.unwrap().status, SessionStatus::Closed);
        let entry = directory.message(&cx(), id.clone(), EntryId::new("two")).await.unwrap();
        assert_eq!((entry.parent.unwrap().as_str(), entry.body), ("one", user("two").into()));
        let view = directory.context(&cx(), id.clone()).await.unwrap();
        assert_eq!(texts(&view.messages), ["one", "two", "three"]);
        assert_eq!(view.tip, Some(EntryId::new("three")));

        management.rename(&cx(), id.clone(), "Later".into()).await.unwrap();
        management.switch_agent(&cx(), id.clone(), Some("explore".into())).await.unwrap();
        let model: bezel_session_types::ModelRef = "local::large".parse().unwrap();
        management.switch_model(&cx(), id.clone(), model.clone(), ThinkingLevel::High).await.unwrap();
        let archived = management.archive(&cx(), id.clone(), true).await.unwrap();
        assert_eq!((archived.title.as_str(), archived.agent.as_deref(), archived.model), ("Later", Some("explore"), Some(model)));
        assert!(archived.archived_at.is_some());
        for wrong in ["", "two words"] {
            let refusal = refused(management.switch_agent(&cx(), id.clone(), Some(wrong.into())).await);
            assert!(refusal.to_string().contains("one word"), "{refusal}");
        }
        assert_eq!(management.switch_agent(&cx(), id.clone(), None).await.unwrap().agent, None);
        assert_eq!(world.launcher.starts().len(), 1, "nothing of it starts a worker");
        management.remove(&cx(), id.clone()).await.unwrap();
        let gone = refused(directory.get(&cx(), id.clone()).await);
        assert_eq!(gone, SessionError::NotAuthorized { session_id: id });
    }

    async fn the_context_is_what_the_model_would_be_given(world: World) {
        let client = world.client().await;
        let (id, database) = closed(&world, &client).await;
        let store = Store::open(&database).unwrap();
        line(&store, &["one", "two", "kept"]);
        let compaction = Compaction {
            summary: "they said one and two".into(),
            first_kept: Some(EntryId::new("kept")),
            tokens_before: 9,
            reason: CompactionReason::Manual,
        };
        append(&store, "compaction", Some("kept"), EntryBody::Compaction(compaction));
        append(&store, "after", Some("compaction"), user("after"));
        let call = ToolCall { id: "c1".into(), name: "bash".into(), arguments: json!({}), signature: None };
        let answer = AssistantMessage {
            content: vec![AssistantContent::ToolCall(call)],
            model: "local::small".parse().unwrap(),
            usage: Usage::default(),
            stop_reason: StopReason::ToolUse,
            error: None,
        };
        append(&store, "answer", Some("after"), Message::Assistant(answer));
        let view = client.directory.context(&cx(), id.clone()).await.unwrap();
        let texts = texts(&view.messages);
        assert!(texts[0].contains("they said one and two"), "{texts:?}");
        assert_eq!(texts[1..], ["kept", "after", "an answer", "the result of c1"]);
        assert_eq!(view.compaction, Some(EntryId::new("compaction")));
    }

    async fn history_is_paged_both_ways_over_the_active_path_alone(world: World) {
        let client = world.client().await;
        let (id, database) = closed(&world, &client).await;
        let store = Store::open(&database).unwrap();
        line(&store, &["a", "b", "left"]);
        append(&store, "c", Some("b"), user("c"));
        append(&store, "d", Some("c"), user("d"));
        let page = async |range: HistoryRange, limit| {
            let page = client.directory.history(&cx(), id.clone(), range, limit).await.unwrap();
            (ids(&page.entries).join(" "), page.more)
        };
        let before = |id: &str| HistoryRange { before: Some(EntryId::new(id)), after: None };
        let after = |id: &str| HistoryRange { before: None, after: Some(EntryId::new(id)) };
        assert_eq!(page(HistoryRange::default(), 3).await, ("b c d".into(), true));
        assert_eq!(page(before("b"), 3).await, ("a".into(), false));
        assert_eq!(page(before("a"), 3).await, (String::new(), false));
        assert_eq!(page(after("a"), 2).await, ("b c".into(), true));
        assert_eq!(page(after("c"), 2).await, ("d".into(), false));
        assert_eq!(page(after("d"), 2).await, (String::new(), false));
        let between = HistoryRange { before: Some(EntryId::new("d")), after: Some(EntryId::new("a")) };
        assert_eq!(page(between, 9).await, ("b c".into(), false));
        let turned = HistoryRange { before: Some(EntryId::new("a")), after: Some(EntryId::new("d")) };
        assert_eq!(page(turned, 9).await, (String::new(), false));
        for range in [before("left"), after("left"), before("nothing")] {
            let refusal = refused(client.directory.history(&cx(), id.clone(), range, 3).await);
            assert!(refusal.to_string().contains("from its newest entries on"), "{refusal}");
        }
        for limit in [0, 501] {
            let refusal = refused(client.directory.history(&cx(), id.clone(), HistoryRange::default(), limit).await);
            assert!(refusal.to_string().contains("within 1 to 500"), "{refusal}");
        }
    }

    async fn o18_a_follower_of_the_journal_misses_nothing_and_gets_nothing_twice_while_it_is_written(world: World) {
        const FACTS: u64 = 300;
        let client = world.client().await;
        let (id, database) = closed(&world, &client).await;
        let done = Arc::new(AtomicBool::new(false));
        let (store, written) = (Store::open(&database).unwrap(), Arc::clone(&done));
        let writer = std::thread::spawn(move || {
            let mut parent: Option<EntryId> = None;
            for number in 0..FACTS {
                let mut transaction = Transaction::new();
                if number % 3 == 1 {
                    let id = EntryId::generate();
                    transaction.append(id.clone(), parent.replace(id), user("x"));
                }
                transaction.journal("noted", json!({ "number": number }));
                store.commit(transaction).unwrap();
            }
            written.store(true, Ordering::Release);
        });
        let (mut told, mut cursor, mut entries): (Vec<u64>, u64, u64) = (Vec::new(), 0, 0);
        loop {
            // Looked at before the page: an empty one is the end then.
            let ended = done.load(Ordering::Acquire);
            let page = client.directory.journal(&cx(), id.clone(), cursor, 7).await.unwrap();
            assert_eq!(page.gap, None);
            for fact in &page.events {
                assert!(fact.seq > cursor, "in order");
                cursor = fact.seq;
                match &*fact.kind {
                    "entry_added" => entries += 1,
                    _ => told.push(fact.body["number"].as_u64().unwrap()),
                }
            }
            cursor = page.next;
            if ended && page.events.is_empty() {
                break;
            }
        }
        writer.join().unwrap();
        assert_eq!(told, (0..FACTS).collect::<Vec<_>>());
        assert_eq!(entries, FACTS / 3, "each entry is a fact");
    }

    async fn what_is_ahead_of_a_session_is_a_gap_that_says_where_to_go_on(world: World) {
        let client = world.client().await;
        let (original, source) = closed(&world, &client).await;
        let store = Store::open(&source).unwrap();
        line(&store, &["one", "two"]);
        let (id, database) = closed(&world, &client).await;
        let origin = ForkOrigin { session_id: original, entry: EntryId::new("two") };
        bezel_store::fork(&source, &database, ForkScope::Path, &origin).unwrap();
        let journal = async |after| client.directory.journal(&cx(), id.clone(), after, 10).await.unwrap();
        // What was written elsewhere is told of too: an entry is its own fact.
        let page = journal(0).await;
        let told: Vec<_> = page.events.iter().map(|fact| (&*fact.kind, &fact.body)).collect();
        assert_eq!(told[..2], [
            ("entry_added", &json!({ "entry": "one", "kind": "message", "role": "user" })),
            ("entry_added", &json!({ "entry": "two", "parent": "one", "kind": "message", "role": "user" })),
        ]);
        assert_eq!((told.len(), told[2].0, page.gap.clone()), (3, "session_forked", None));
        let store = Store::open(&database).unwrap();
        let mut transaction = Transaction::new();
        transaction.journal("noted", json!({}));
        store.commit(transaction).unwrap();
        let on = journal(page.next).await;
        assert_eq!((on.events.len(), on.gap), (1, None));
        // Ahead of the session: it came back from an older copy.
        let ahead = journal(on.next + 1).await;
        let gap = ahead.gap.unwrap();
        assert_eq!((gap.snapshot, gap.tip), (on.next, Some(EntryId::new("two"))));
        assert_eq!(ahead.next, on.next);
        let end = journal(on.next).await;
        assert_eq!((end.events.len(), end.next, end.gap), (0, on.next, None));
        for limit in [0, 1001] {
            let refusal = refused(client.directory.journal(&cx(), id.clone(), 0, limit).await);
            assert!(refusal.to_string().contains("within 1 to 1000"), "{refusal}");
        }
    }

    async fn a_session_is_followed_without_its_process_and_resumed_where_it_was(world: World) {
        let client = world.client().await;
        let (id, database) = closed(&world, &client).await;
        let (directory, management) = (&client.directory, &client.management);
        let follow = async |after: Option<&str>| {
            directory.follow(&cx(), id.clone(), after.map(str::to_owned), 2).await.unwrap()
        };
        let kinds = |news: &SessionNews| news.facts.iter().map(|fact| fact.kind.clone()).collect::<Vec<_>>();
        let begun = follow(None).await;
        let snapshot = begun.snapshot.unwrap();
        assert_eq!((snapshot.session.session_id, snapshot.tip, snapshot.seq), (id.clone(), None, 0));
        let store = Store::open(&database).unwrap();
        line(&store, &["one", "two", "three"]);
        let first = follow(Some(&begun.next)).await;
        assert_eq!(kinds(&first), ["entry_added", "entry_added"]);
        let second = follow(Some(&first.next)).await;
        assert_eq!((second.facts.len(), &second.facts[0].body["entry"]), (1, &json!("three")));
        assert_eq!((second.session, second.snapshot), (None, None));

        // It waits, and what is changed while it waits is told; so is what was changed while nobody did.
        let own = cx();
        let renamed = management.rename(&own, id.clone(), "Later".into());
        let (told, renamed) = tokio::join!(follow(Some(&second.next)), renamed);
        assert_eq!((told.session.unwrap().title, renamed.unwrap().title), ("Later".into(), "Later".into()));
        management.switch_agent(&cx(), id.clone(), Some("explore".into())).await.unwrap();
        management.archive(&cx(), id.clone(), true).await.unwrap();
        let told = follow(Some(&told.next)).await;
        let session = told.session.unwrap();
        assert_eq!((session.agent.as_deref(), session.archived_at.is_some()), (Some("explore"), true));
        let all = follow(Some("0")).await;
        assert_eq!((kinds(&all).len(), all.session.unwrap().title), (2, "Later".to_owned()));

        for unknown in ["99.x", "no cursor", "-1"] {
            let gap = follow(Some(unknown)).await;
            let snapshot = gap.snapshot.unwrap();
            assert_eq!((snapshot.tip, gap.facts.len()), (Some(EntryId::new("three")), 0), "{unknown}");
            append(&store, unknown, Some("three"), user("after the gap"));
            let on = follow(Some(&gap.next)).await;
            assert_eq!(on.facts[0].body["entry"], unknown);
            let mut transaction = Transaction::new();
            transaction.set_tip(&LaneName::main(), Some(&EntryId::new("three")));
            store.commit(transaction).unwrap();
        }
        let end = follow(None).await;
        let (last, removed) = tokio::join!(follow(Some(&end.next)), management.remove(&own, id.clone()));
        removed.unwrap();
        assert!(last.deleted && last.facts.is_empty(), "{last:?}");
        let gone = refused(directory.follow(&cx(), id.clone(), None, 2).await);
        assert_eq!(gone, SessionError::NotAuthorized { session_id: id.clone() });
        assert_eq!(world.launcher.starts().len(), 1, "nothing of it starts a worker");
    }

    async fn an_archived_session_is_out_of_sight_with_its_children_until_it_is_worked_with(world: World) {
        let (via, client) = (world.via, world.client().await);
        let parent = root(&world, &client).await;
        let child = begun(&world, &parent).await.session_id;
        let host = hosted(&world, &parent, &child).await;
        let other = client.create(&world.project("p")).await.session_id;
        for id in [&parent, &child, &other] {
            client.until_status(id, SessionStatus::Idle).await;
        }
        let report = |running| CommitReport { seq: 1, running, waiting: false, title: None };
        let worker = host.record();
        worker.committed(&cx(), report(true)).await.unwrap();
        let refusal = refused(client.management.archive(&cx(), parent.clone(), true).await);
        assert!(refusal.to_string().contains(child.as_str()), "{refusal}");
        worker.committed(&cx(), report(false)).await.unwrap();

        let listed = async |archived, children| {
            let query = ListSessions { archived, children, ..ListSessions::default() };
            let page = client.directory.list(&cx(), query).await.unwrap();
            page.sessions.into_iter().map(|session| session.session_id).collect::<Vec<_>>()
        };
        let updated = client.directory.get(&cx(), parent.clone()).await.unwrap().updated_at;
        let archived = client.management.archive(&cx(), parent.clone(), true).await.unwrap();
        assert_eq!(archived.updated_at, updated, "nobody worked in it");
        client.until(|state| state.sessions.len() == 1 && state.sessions[0].session_id == other).await;
        assert_eq!(listed(Archived::Exclude, true).await, *std::slice::from_ref(&other));
        assert_eq!(listed(Archived::Only, false).await, *std::slice::from_ref(&parent));
        assert_eq!(listed(Archived::Only, true).await.len(), 2);
        assert_eq!(listed(Archived::Include, false).await.len(), 2);
        let project = world.project("p").display().to_string();
        let newest = client.directory.newest_in(&cx(), project).await.unwrap();
        assert_eq!(newest.unwrap().session_id, other);

        // A child that begins to run takes its parent back too; opening does the same.
        worker.committed(&cx(), report(true)).await.unwrap();
        client.until(|state| state.sessions.len() == 3).await;
        worker.committed(&cx(), report(false)).await.unwrap();
        client.management.archive(&cx(), parent.clone(), true).await.unwrap();
        client.attach(&parent).await;
        client.until(|state| state.sessions.len() == 3).await;
        client.management.archive(&cx(), other.clone(), true).await.unwrap();
        client.link.stop().await;
        let (scratch, launcher) = world.stop().await;
        let world = World::again(scratch, launcher, via, |_| ()).await.unwrap();
        let client = world.client().await;
        assert_eq!(client.list().await.len(), 2, "it is on record");
        let back = client.management.archive(&cx(), other, false).await.unwrap();
        assert_eq!(back.archived_at, None);
        assert_eq!(client.list().await.len(), 3);
    }

    async fn a_worker_follows_its_own_record_and_no_other_of_its_workspace(world: World) {
        let client = world.client().await;
        let [mine, other] = [client.create(&world.project("p")).await, client.create(&world.project("p")).await]
            .map(|session| session.session_id);
        for id in [&mine, &other] {
            client.until_status(id, SessionStatus::Idle).await;
        }
        let [own, theirs] = [&mine, &other].map(|id| world.launcher.worker(id).record().state());
        for (state, id) in [(&own, &mine), (&theirs, &other)] {
            state.ready(&cx()).await.unwrap();
            client.management.rename(&cx(), id.clone(), format!("of {id}")).await.unwrap();
        }
        for (state, id) in [(&own, &mine), (&theirs, &other)] {
            let title = format!("of {id}");
            state.wait_for(&cx(), |record| record.title == title).await.unwrap();
        }
        let model: bezel_session_types::ModelRef = "local::large".parse().unwrap();
        client.management.switch_model(&cx(), mine.clone(), model.clone(), ThinkingLevel::Low).await.unwrap();
        client.management.switch_agent(&cx(), mine.clone(), Some("plan".into())).await.unwrap();
        let followed = own.wait_for(&cx(), |record| record.agent.is_some()).await.unwrap();
        assert_eq!((followed.model.clone(), followed.thinking_level), (Some(model), ThinkingLevel::Low));
        assert_eq!(theirs.get().model, None);
        let outsider: bezel_sessions_contract::SessionRecordClient = client.link.server().use_service();
        let nothing = outsider.state().ready(&cx()).await.unwrap();
        assert_eq!(*nothing, bezel_sessions_contract::WorkerRecord::default());
    }
}

#[tokio::test]
async fn a_list_is_narrowed_by_title_workspace_directory_and_parent() {
    let world = World::start(Via::Loopback).await;
    let client = world.client().await;
    let titled = async |title: &str, directory: &Path| {
        let options = CreateSession {
            title: Some(title.into()),
            ..begin_in(directory)
        };
        client.management.create(&cx(), options).await.unwrap()
    };
    let (p, q) = (world.project("p"), world.project("q"));
    let first = titled("Fix the ÄRGER", &p).await;
    let second = titled("Write docs", &q).await;
    let options = CreateSession {
        title: Some("A part".into()),
        parent_id: Some(first.session_id.clone()),
        ..CreateSession::default()
    };
    let child = client.management.create(&cx(), options).await.unwrap();
    let titles = async |query: ListSessions| {
        let page = client.directory.list(&cx(), query).await.unwrap();
        let titles: Vec<String> = page.sessions.into_iter().map(|one| one.title).collect();
        titles.join(", ")
    };
    let all = ListSessions::default;
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        titles(ListSessions {
            text: text("ärger"),
            ..all()
        })
        .await,
        "Fix the ÄRGER"
    );
    assert_eq!(
        titles(ListSessions {
            text: text("none"),
            ..all()
        })
        .await,
        ""
    );
    let workspace_id = Some(second.workspace_id.clone());
    assert_eq!(
        titles(ListSessions {
            workspace_id,
            ..all()
        })
        .await,
        "Write docs"
    );
    let directory = Some(q.display().to_string());
    assert_eq!(
        titles(ListSessions { directory, ..all() }).await,
        "Write docs"
    );
    let parent_id = Some(first.session_id.clone());
    assert_eq!(
        titles(ListSessions { parent_id, ..all() }).await,
        child.title
    );
    let parent_id = Some(SessionId::new("unknown"));
    assert_eq!(titles(ListSessions { parent_id, ..all() }).await, "");
    for (query, saying) in [
        (
            ListSessions {
                limit: Some(0),
                ..all()
            },
            "within 1 to 500",
        ),
        (
            ListSessions {
                limit: Some(501),
                ..all()
            },
            "within 1 to 500",
        ),
        (
            ListSessions {
                after: text("x"),
                ..all()
            },
            "`next` of the page before",
        ),
    ] {
        let refusal = refused(client.directory.list(&cx(), query).await);
        assert!(refusal.to_string().contains(saying), "{refusal}");
    }
}
