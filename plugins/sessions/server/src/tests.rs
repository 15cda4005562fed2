//! The facet alone, over a fleet that the test plays.

use std::collections::BTreeSet;

use bezel_api_server::FleetError;
use bezel_context::{ClientId, Principal, Scopes, WorkspaceId, Workspaces};
use bezel_rpc::{CallError, Context, Delivery};
use bezel_sessions_contract::{
    CommitReport, CreateSession, DirectoryEvent, SessionDirectoryClient, SessionError,
    SessionManagementClient, SessionRecordClient,
};
use bezel_testkit::{FakeServerHost, FakeServerOptions};

fn owner(name: &str, workspaces: Workspaces) -> Principal {
    Principal {
        client: ClientId::new("replaced by the connection"),
        owner: name.into(),
        workspaces,
        scopes: Scopes::all(),
        credential: None,
    }
}

async fn host() -> FakeServerHost {
    FakeServerHost::start(vec![crate::facet()], FakeServerOptions::default())
        .await
        .unwrap()
}

#[tokio::test]
async fn each_client_sees_the_sessions_in_its_reach_and_no_owner_or_directory() {
    let host = host().await;
    let cx = Context::background();
    host.fleet.add("me", "/secret-place/one");
    host.fleet.add("me", "/secret-place/two");
    host.fleet.add("you", "/secret-place/three");
    let only = Workspaces::Only(BTreeSet::from([WorkspaceId::new("/secret-place/one")]));
    for (principal, sees) in [
        (owner("me", Workspaces::All), vec!["two", "one"]),
        (owner("me", only), vec!["one"]),
        (owner("you", Workspaces::All), vec!["three"]),
        (owner("nobody", Workspaces::All), vec![]),
    ] {
        let link = host.client(principal).await;
        let directory = link.server().use_service::<SessionDirectoryClient>();
        let state = directory.state().ready(&cx).await.unwrap();
        let names: Vec<_> = state
            .sessions
            .iter()
            .map(|session| &*session.workspace_name)
            .collect();
        assert_eq!(names, sees);
        for session in &state.sessions {
            let shown = format!(
                "{} {} {}",
                session.session_id, session.title, session.workspace_name
            );
            assert!(!shown.contains("secret-place"), "{shown}");
        }
    }
}

#[tokio::test]
async fn an_unknown_session_and_one_of_another_owner_get_the_same_answer() {
    let host = host().await;
    let cx = Context::background();
    let theirs = host.fleet.add("you", "/theirs");
    let link = host.client(owner("me", Workspaces::All)).await;
    let management = link.server().use_service::<SessionManagementClient>();
    let unknown = bezel_session_types::SessionId::new("no-such");
    for id in [theirs.session_id.clone(), unknown] {
        let refused = |error: CallError<SessionError>| matches!(error, CallError::Service(SessionError::NotAuthorized { session_id }) if session_id == id);
        assert!(refused(
            management.remove(&cx, id.clone()).await.unwrap_err()
        ));
        assert!(refused(
            management
                .rename(&cx, id.clone(), "mine".into())
                .await
                .unwrap_err()
        ));
        assert!(refused(
            management.attach(&cx, id.clone(), None).await.unwrap_err()
        ));
    }
    assert_eq!(host.fleet.started(), []);
}

#[tokio::test]
async fn attaching_starts_the_worker_first_and_one_that_does_not_start_changes_nothing() {
    let host = host().await;
    let cx = Context::background();
    let link = host.client(owner("me", Workspaces::All)).await;
    let management = link.server().use_service::<SessionManagementClient>();
    let [first, second] = ["/a", "/b"].map(|directory| host.fleet.add("me", directory).session_id);
    management.attach(&cx, first.clone(), None).await.unwrap();
    let client = link.client_id().unwrap();
    assert_eq!(host.fleet.bound(&client), Some(first.clone()));

    host.fleet.fail_next(FleetError::Worker {
        session_id: second.clone(),
        reason: "did not start".into(),
    });
    let error = management
        .attach(&cx, second.clone(), None)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("did not start"), "{error}");
    assert_eq!(host.fleet.bound(&client), Some(first.clone()));
    assert_eq!(host.fleet.started(), [(first, None)]);

    management.detach(&cx).await.unwrap();
    assert_eq!(host.fleet.bound(&client), None);
}

#[tokio::test]
async fn a_new_session_belongs_to_whoever_asked() {
    let host = host().await;
    let cx = Context::background();
    let link = host.client(owner("me", Workspaces::All)).await;
    let management = link.server().use_service::<SessionManagementClient>();
    let options = CreateSession {
        directory: "/project".into(),
        ..CreateSession::default()
    };
    let created = management.create(&cx, options).await.unwrap();
    let other = host.client(owner("you", Workspaces::All)).await;
    let other = other.server().use_service::<SessionManagementClient>();
    other
        .remove(&cx, created.session_id.clone())
        .await
        .unwrap_err();
    management.remove(&cx, created.session_id).await.unwrap();
}

#[tokio::test]
async fn only_a_sessions_own_worker_may_use_its_record() {
    let host = host().await;
    let cx = Context::background();
    let session = host.fleet.add("me", "/a").session_id;
    let link = host.client(owner("me", Workspaces::All)).await;
    let record = link.server().use_service::<SessionRecordClient>();
    let report = CommitReport {
        seq: 7,
        running: true,
        waiting: false,
        title: None,
    };
    let refused = record.committed(&cx, report.clone()).await.unwrap_err();
    assert!(refused.to_string().contains("own worker"), "{refused}");

    host.fleet.set_worker(&link.client_id().unwrap(), &session);
    record.committed(&cx, report).await.unwrap();
    let commits = host.fleet.commits();
    assert!(commits.len() == 1 && commits[0].0 == session && commits[0].1.seq == 7);
}

#[tokio::test]
async fn a_client_hears_only_of_sessions_in_its_reach_and_of_their_end_too() {
    let host = host().await;
    let cx = Context::background();
    let one = Workspaces::Only(BTreeSet::from([WorkspaceId::new("/one")]));
    let mut heard = Vec::new();
    for principal in [
        owner("me", Workspaces::All),
        owner("me", one),
        owner("you", Workspaces::All),
    ] {
        let link = host.client(principal).await;
        let directory = link.server().use_service::<SessionDirectoryClient>();
        let stream = directory.events().subscribe();
        // One subscription feeds state and events: with the state they are active too.
        directory.state().ready(&cx).await.unwrap();
        heard.push((link, directory, stream));
    }
    let mut expected = [Vec::new(), Vec::new(), Vec::new()];
    for (name, directory, hears) in [
        ("nobody", "/one", &[][..]),
        ("you", "/two", &[2]),
        ("me", "/two", &[0]),
        ("me", "/one", &[0, 1]),
        ("you", "/one", &[2]),
    ] {
        let created = host.fleet.add(name, directory);
        let id = created.session_id.to_string();
        host.fleet
            .change(&created.session_id, |session| session.title = "x".into());
        let link = host.client(owner(name, Workspaces::All)).await;
        let management = link.server().use_service::<SessionManagementClient>();
        management.remove(&cx, created.session_id).await.unwrap();
        for at in hears {
            for kind in ["created", "changed", "deleted"] {
                expected[*at].push(format!("{kind} {id}"));
            }
        }
    }
    for ((_, _, stream), expected) in heard.iter_mut().zip(expected) {
        for expected in expected {
            let Some(Delivery::Event { value, .. }) = stream.next().await else {
                panic!("nothing was lost: {expected}");
            };
            let told = match &*value {
                DirectoryEvent::Created { session } => format!("created {}", session.session_id),
                DirectoryEvent::Changed { session } => format!("changed {}", session.session_id),
                DirectoryEvent::Deleted { session_id } => format!("deleted {session_id}"),
            };
            assert_eq!(told, expected);
        }
    }
}

mod retention {
    use bezel_api_server::{ServerContext, SessionStatus};
    use bezel_plugin::Facet;
    use bezel_session_types::SessionId;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::retention::{Settings, once};

    /// A facet that gives its context out, so that a pass can be made without waiting for its time.
    async fn context() -> (FakeServerHost, ServerContext) {
        let given: Arc<Mutex<Option<ServerContext>>> = Arc::default();
        let giving = Arc::clone(&given);
        let facet = Facet::new("probe", move |cx: ServerContext| {
            *giving.lock().unwrap() = Some(cx);
            async { Ok(()) }
        });
        let options = FakeServerOptions::default();
        let host = FakeServerHost::start(vec![facet], options).await.unwrap();
        let context = given.lock().unwrap().take().unwrap();
        (host, context)
    }

    fn settings(text: serde_json::Value) -> Settings {
        serde_json::from_value(text).unwrap()
    }

    /// Four sessions without a worker, the oldest first, of 100 bytes each.
    fn four(host: &FakeServerHost) -> Vec<SessionId> {
        let ids: Vec<SessionId> = (0..4)
            .map(|number| host.fleet.add("me", &format!("/srv/{number}")).session_id)
            .collect();
        for id in &ids {
            host.fleet
                .change(id, |session| session.status = SessionStatus::Closed);
            host.fleet.files().sizes.insert(id.clone(), 100);
        }
        ids
    }

    #[tokio::test]
    async fn without_settings_and_within_them_everything_is_kept() {
        let (host, cx) = context().await;
        four(&host);
        for text in [
            serde_json::json!({}),
            serde_json::json!({ "max_bytes": 400 }),
            serde_json::json!({ "keep_days": 36_500 }),
        ] {
            assert_eq!(once(&cx, &settings(text)).await.unwrap(), []);
        }
    }

    #[tokio::test]
    async fn beyond_the_bytes_the_oldest_go_until_the_rest_fits() {
        let (host, cx) = context().await;
        let ids = four(&host);
        let deleted = once(&cx, &settings(serde_json::json!({ "max_bytes": 250 }))).await;
        assert_eq!(deleted.unwrap(), ids[..2]);
    }

    #[tokio::test]
    async fn what_runs_or_waits_is_never_deleted_however_old_it_is() {
        let (host, cx) = context().await;
        let ids = four(&host);
        for (id, status) in ids
            .iter()
            .zip([SessionStatus::Active, SessionStatus::Unreachable])
        {
            host.fleet.change(id, |session| session.status = status);
        }
        host.fleet.files().pending.push(ids[2].clone());
        // The sessions are from 1970.
        let text = serde_json::json!({ "keep_days": 1, "max_bytes": 1 });
        assert_eq!(once(&cx, &settings(text)).await.unwrap(), [ids[3].clone()]);
    }
}

#[tokio::test]
async fn files_are_for_clients_of_the_same_machine_alone() {
    use bezel_context::CredentialId;
    use bezel_sessions_contract::{ImportSession, SessionUpkeepClient};
    let host = host().await;
    let cx = Context::background();
    let session = host.fleet.add("me", "/srv/one");
    host.fleet
        .files()
        .sizes
        .insert(session.session_id.clone(), 5);
    let import = ImportSession {
        file: "/there/file".into(),
        directory: None,
        fallback: "/srv/two".into(),
    };
    let near = host.client(owner("me", Workspaces::All)).await;
    let upkeep = near.server().use_service::<SessionUpkeepClient>();
    let id = session.session_id.clone();
    upkeep
        .export(
            &cx,
            id.clone(),
            "/there/out".into(),
            Some(bezel_session_types::ExportFormat::Markdown),
        )
        .await
        .unwrap();
    // A client of the first version names no format.
    upkeep
        .export(&cx, id.clone(), "/there/whole".into(), None)
        .await
        .unwrap();
    let formats: Vec<_> = {
        let files = host.fleet.files();
        files.exported.iter().map(|(.., format)| *format).collect()
    };
    use bezel_session_types::ExportFormat::{Bezel, Markdown};
    assert_eq!(formats, [Markdown, Bezel]);
    let imported = upkeep.import(&cx, import.clone()).await.unwrap();
    assert_eq!(imported.session.workspace_name, "two");
    let relative = upkeep
        .export(&cx, id.clone(), "out".into(), None)
        .await
        .unwrap_err();
    assert!(format!("{relative:?}").contains("absolute"), "{relative:?}");
    let mut far = owner("me", Workspaces::All);
    far.credential = Some(CredentialId::new("paired"));
    let far = host.client(far).await;
    let upkeep = far.server().use_service::<SessionUpkeepClient>();
    let refused = [
        format!(
            "{:?}",
            upkeep
                .export(&cx, id.clone(), "/x".into(), None)
                .await
                .unwrap_err()
        ),
        format!("{:?}", upkeep.import(&cx, import).await.unwrap_err()),
    ];
    for error in refused {
        assert!(error.contains("own machine"), "{error}");
    }
    assert_eq!(upkeep.sizes(&cx).await.unwrap()[0].total(), 5);
    assert_eq!(upkeep.check(&cx, id).await.unwrap().problems, []);
    let stray = bezel_session_types::SessionId::new("no record");
    assert!(upkeep.check(&cx, stray).await.is_err());
}

#[tokio::test]
async fn everything_that_is_read_or_changed_of_anothers_session_is_answered_as_if_it_were_unknown()
{
    use bezel_session_types::{EntryId, HistoryRange, SessionId, ThinkingLevel};
    let host = host().await;
    let cx = Context::background();
    let theirs = host.fleet.add("you", "/theirs").session_id;
    let link = host.client(owner("me", Workspaces::All)).await;
    let directory = link.server().use_service::<SessionDirectoryClient>();
    let management = link.server().use_service::<SessionManagementClient>();
    for id in [theirs, SessionId::new("no-such")] {
        let own = || id.clone();
        let model = "a::b".parse().unwrap();
        let level = ThinkingLevel::Off;
        let range = HistoryRange::default();
        // A wrong limit does not tell that there is such a session either.
        let refusals = [
            directory.get(&cx, own()).await.err(),
            directory.messages(&cx, own(), 0).await.err(),
            directory.message(&cx, own(), EntryId::new("e")).await.err(),
            directory.context(&cx, own()).await.err(),
            directory.history(&cx, own(), range, 0).await.err(),
            directory.journal(&cx, own(), 0, 0).await.err(),
            directory.follow(&cx, own(), None, 0).await.err(),
            management.switch_agent(&cx, own(), None).await.err(),
            management
                .switch_model(&cx, own(), model, level)
                .await
                .err(),
            management.archive(&cx, own(), true).await.err(),
        ];
        for (number, refusal) in refusals.into_iter().enumerate() {
            let Some(CallError::Service(SessionError::NotAuthorized { session_id })) = refusal
            else {
                panic!("{number}: {refusal:?}")
            };
            assert_eq!(session_id, id);
        }
    }
    let everything = bezel_sessions_contract::ListSessions {
        archived: bezel_sessions_contract::Archived::Include,
        children: true,
        ..Default::default()
    };
    assert_eq!(directory.list(&cx, everything).await.unwrap().sessions, []);
}

mod paging {
    use bezel_api_server::ManagedSession;
    use bezel_sessions_contract::ListSessions;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::listing;

    /// What happens between two pages.
    #[derive(Debug, Clone)]
    enum Between {
        Touch(usize),
        Add,
        Remove(usize),
    }

    fn between() -> impl Strategy<Value = Between> {
        prop_oneof![
            (0..40_usize).prop_map(Between::Touch),
            Just(Between::Add),
            (0..40_usize).prop_map(Between::Remove),
        ]
    }

    struct Sessions {
        all: Vec<ManagedSession>,
        like: ManagedSession,
        now: i64,
        made: u64,
    }

    impl Sessions {
        fn add(&mut self, at: i64) {
            self.made += 1;
            self.all.push(ManagedSession {
                session_id: bezel_session_types::SessionId::new(format!("s{}", self.made)),
                updated_at: jiff::Timestamp::from_millisecond(at).unwrap(),
                ..self.like.clone()
            });
        }

        /// Which it concerned.
        fn change(&mut self, between: &Between) -> Option<String> {
            self.now += 1;
            let len = self.all.len();
            match between {
                Between::Add => self.add(self.now),
                _ if len == 0 => {}
                Between::Touch(at) => {
                    let session = &mut self.all[at % len];
                    session.updated_at = jiff::Timestamp::from_millisecond(self.now).unwrap();
                    return Some(session.session_id.to_string());
                }
                Between::Remove(at) => {
                    return Some(self.all.remove(at % len).session_id.to_string());
                }
            }
            None
        }
    }

    proptest! {
        #[test]
        fn a_session_that_does_not_change_between_pages_is_listed_exactly_once(
            times in prop::collection::vec(0..6_i64, 0..40),
            limit in 1..9_u32,
            steps in prop::collection::vec(prop::collection::vec(between(), 0..4), 0..60),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let like = runtime.block_on(async { host().await.fleet.add("me", "/a") });
            let mut sessions = Sessions { all: Vec::new(), like, now: 100, made: 0 };
            // Many at the same time.
            times.iter().for_each(|at| sessions.add(*at));
            let before: BTreeSet<String> =
                sessions.all.iter().map(|session| session.session_id.to_string()).collect();
            let (mut seen, mut changed) = (BTreeMap::<String, u32>::new(), BTreeSet::new());
            let mut steps = steps.into_iter();
            let mut query = ListSessions { limit: Some(limit), ..Default::default() };
            loop {
                let page = listing::page(sessions.all.clone(), &query).unwrap();
                prop_assert!(page.sessions.len() <= limit as usize);
                for session in page.sessions {
                    *seen.entry(session.session_id.to_string()).or_default() += 1;
                }
                query.after = page.next;
                if query.after.is_none() {
                    break;
                }
                for step in steps.next().into_iter().flatten() {
                    changed.extend(sessions.change(&step));
                }
            }
            prop_assert!(seen.values().all(|times| *times == 1), "{seen:?}");
            for id in before.difference(&changed) {
                prop_assert!(seen.contains_key(id), "{id} was lost");
            }
        }
    }
}

#[tokio::test]
async fn who_follows_a_session_hears_of_what_its_worker_commits() {
    use bezel_session_types::JournalFact;
    let host = host().await;
    let cx = Context::background();
    let session = host.fleet.add("me", "/a").session_id;
    let worker = host.client(owner("me", Workspaces::All)).await;
    host.fleet
        .set_worker(&worker.client_id().unwrap(), &session);
    let record = worker.server().use_service::<SessionRecordClient>();
    let link = host.client(owner("me", Workspaces::All)).await;
    let directory = link.server().use_service::<SessionDirectoryClient>();
    let begun = directory.follow(&cx, session.clone(), None, 10).await;
    let begun = begun.unwrap();
    let waiting = directory.follow(&cx, session.clone(), Some(begun.next), 10);
    let committed = async {
        let fact = JournalFact {
            seq: 7,
            created_at: 1,
            kind: "run_started".into(),
            body: serde_json::json!({}),
        };
        host.fleet.set_journal(&session, vec![fact]);
        let report = CommitReport {
            seq: 7,
            running: true,
            waiting: false,
            title: None,
        };
        record.committed(&cx, report).await
    };
    let (news, reported) = tokio::join!(waiting, committed);
    reported.unwrap();
    assert_eq!(news.unwrap().facts[0].kind, "run_started");
}
