//! Sessions that are parts of others: they live in their root's worker.

use bezel_session_types::SessionId;
use bezel_sessions_contract::{
    ChildEnd, ChildrenState, CreateChild, PermissionMode, SessionError, SessionStatus,
    SessionSummary,
};

use crate::launcher::{Behaviour, FakeWorker, ProbeClient};
use crate::lifetime::{apart, kill};
use crate::over_both;
use crate::world::{Client, Via, World, begin_in, cx, refused};

fn part_of(parent: &SessionId) -> CreateChild {
    CreateChild {
        parent_id: parent.clone(),
        session_id: None,
        title: Some("look around".into()),
        agent: None,
        model: None,
        directory: None,
        permission_mode: None,
    }
}

fn ended() -> ChildEnd {
    ChildEnd {
        orderly: true,
        description: "was not used any more".into(),
    }
}

pub async fn root(world: &World, client: &Client) -> SessionId {
    let root = client.create(&world.project("p")).await.session_id;
    client.until_status(&root, SessionStatus::Idle).await;
    root
}

pub async fn begun(world: &World, root: &SessionId) -> SessionSummary {
    let children = world.launcher.worker(root).children();
    children.create(&cx(), part_of(root)).await.unwrap()
}

pub async fn hosted(world: &World, root: &SessionId, child: &SessionId) -> FakeWorker {
    let worker = world.launcher.worker(root);
    let start = worker.children().claim(&cx(), child.clone()).await.unwrap();
    worker.host(start, world.connect())
}

over_both! {
    async fn a_claimed_child_has_a_connection_of_its_own_and_no_process(world: World) {
        let client = world.client().await;
        let root = root(&world, &client).await;
        let child = begun(&world, &root).await;
        assert_eq!((child.parent_id.as_ref(), child.status), (Some(&root), SessionStatus::Closed));
        let _host = hosted(&world, &root, &child.session_id).await;
        client.until_status(&child.session_id, SessionStatus::Idle).await;
        assert_eq!(world.launcher.starts().len(), 1, "only the root was launched");
        assert_eq!(world.server.status().workers, 1, "a tree has one worker");
        client.attach(&child.session_id).await;
        let probe: ProbeClient = client.link.attached().use_service();
        let said = probe.echo(&cx(), "hello".into()).await.unwrap();
        assert_eq!(said, format!("{}: hello", child.session_id));
    }

    async fn a_child_that_somebody_opens_is_wanted_of_its_roots_worker(world: World) {
        let client = world.client().await;
        let root = root(&world, &client).await;
        let child = begun(&world, &root).await.session_id;
        let children = world.launcher.worker(&root).children();
        let state = children.state();
        let opens = client.attach(&child);
        let hosts = async {
            let wants = |state: &ChildrenState| state.wanted == [child.clone()];
            state.wait_for(&cx(), wants).await.unwrap();
            hosted(&world, &root, &child).await
        };
        let ((), host) = tokio::join!(opens, hosts);
        state.wait_for(&cx(), |state| state.wanted.is_empty()).await.unwrap();
        assert!(!host.has_ended());
    }

    async fn what_is_wanted_of_one_tree_no_other_hears_of_although_both_are_in_one_project(world: World) {
        let client = world.client().await;
        let (one, other) = (root(&world, &client).await, root(&world, &client).await);
        let theirs = world.launcher.worker(&other).children().state();
        // It follows before there is anything, as a worker does.
        theirs.ready(&cx()).await.unwrap();
        let own = world.launcher.worker(&one).children().state();
        own.ready(&cx()).await.unwrap();
        let child = begun(&world, &one).await.session_id;
        let opens = client.attach(&child);
        let hosts = async {
            own.wait_for(&cx(), |state| state.wanted == [child.clone()]).await.unwrap();
            let host = hosted(&world, &one, &child).await;
            // A later wish of its own tells that the other one has heard all that is for it.
            let second = begun(&world, &other).await.session_id;
            let client = world.client().await;
            let cx = cx();
            let opens = client.management.attach(&cx, second.clone(), None);
            let heard = async {
                let heard = theirs.wait_for(&cx, |state| !state.wanted.is_empty()).await.unwrap();
                assert_eq!(heard.wanted, std::slice::from_ref(&second));
                hosted(&world, &other, &second).await
            };
            let (opened, other_host) = tokio::join!(opens, heard);
            opened.unwrap();
            (host, other_host)
        };
        let ((), hosts) = tokio::join!(opens, hosts);
        assert!(!hosts.0.has_ended() && !hosts.1.has_ended());
    }

    async fn opening_a_child_of_a_closed_tree_starts_the_roots_worker(world: World) {
        let client = world.client().await;
        let root = root(&world, &client).await;
        let child = begun(&world, &root).await.session_id;
        world.launcher.worker(&root).exit();
        client.until_status(&root, SessionStatus::Closed).await;
        let opens = client.attach(&child);
        let hosts = async {
            client.until_status(&root, SessionStatus::Idle).await;
            hosted(&world, &root, &child).await
        };
        let ((), _host) = tokio::join!(opens, hosts);
        assert_eq!(world.launcher.starts().len(), 2);
        assert!(world.launcher.starts().iter().all(|start| start.session_id == root));
    }

    async fn a_released_child_is_closed_and_can_be_claimed_again(world: World) {
        let client = world.client().await;
        let root = root(&world, &client).await;
        let child = begun(&world, &root).await.session_id;
        let children = world.launcher.worker(&root).children();
        for _ in 0..2 {
            let _host = hosted(&world, &root, &child).await;
            client.until_status(&child, SessionStatus::Idle).await;
            let again = refused(children.claim(&cx(), child.clone()).await);
            assert!(matches!(again, SessionError::Invalid { .. }), "{again:?}");
            children.released(&cx(), child.clone(), ended()).await.unwrap();
            client.until_status(&child, SessionStatus::Closed).await;
        }
    }

    async fn a_claim_whose_answer_was_lost_is_answered_again(world: World) {
        let client = world.client().await;
        let root = root(&world, &client).await;
        let child = begun(&world, &root).await.session_id;
        let children = world.launcher.worker(&root).children();
        let first = children.claim(&cx(), child.clone()).await.unwrap();
        assert_eq!(children.claim(&cx(), child).await.unwrap(), first);
        assert_eq!(format!("{first:?}"), "ChildStart(hidden)");
    }

    async fn the_end_of_the_roots_worker_is_the_end_of_all(world: World) {
        let client = world.client().await;
        let root = root(&world, &client).await;
        let child = begun(&world, &root).await.session_id;
        let _host = hosted(&world, &root, &child).await;
        client.until_status(&child, SessionStatus::Idle).await;
        world.launcher.worker(&root).crash();
        client.until_status(&child, SessionStatus::Unreachable).await;
        client.until_status(&root, SessionStatus::Unreachable).await;
        assert_eq!(world.server.status().workers, 0);
    }

    async fn another_tree_is_like_none_and_a_presentation_hosts_nothing(world: World) {
        let client = world.client().await;
        let (one, other) = (root(&world, &client).await, root(&world, &client).await);
        let child = begun(&world, &one).await.session_id;
        let theirs = world.launcher.worker(&other).children();
        for foreign in [child.clone(), one.clone(), other.clone(), SessionId::generate()] {
            let refusal = refused(theirs.claim(&cx(), foreign.clone()).await);
            assert_eq!(refusal, SessionError::NotAuthorized { session_id: foreign });
        }
        for parent in [&one, &child] {
            let refusal = refused(theirs.create(&cx(), part_of(parent)).await);
            assert_eq!(refusal, SessionError::NotAuthorized { session_id: parent.clone() });
        }
        let refusal = refused(theirs.released(&cx(), child.clone(), ended()).await);
        assert!(matches!(refusal, SessionError::NotAuthorized { .. }), "{refusal:?}");
        assert_eq!(theirs.tree(&cx()).await.unwrap().len(), 1);
        let presentation: bezel_sessions_contract::SessionChildrenClient =
            client.link.server().use_service();
        let refusal = refused(presentation.claim(&cx(), child).await);
        assert!(matches!(refusal, SessionError::Invalid { .. }), "{refusal:?}");
    }

    async fn a_child_may_never_do_more_unasked_than_its_parent(world: World) {
        let client = world.client().await;
        let options = bezel_sessions_contract::CreateSession {
            permission_mode: PermissionMode::Ask,
            ..begin_in(&world.project("p"))
        };
        let root = client.management.create(&cx(), options).await.unwrap().session_id;
        client.until_status(&root, SessionStatus::Idle).await;
        let children = world.launcher.worker(&root).children();
        for (asked, gets) in [
            (Some(PermissionMode::Full), "ask"),
            (Some(PermissionMode::Plan), "plan"),
            (None, "ask"),
        ] {
            let options = CreateChild { permission_mode: asked, ..part_of(&root) };
            let child = children.create(&cx(), options).await.unwrap().session_id;
            let start = children.claim(&cx(), child).await.unwrap();
            assert_eq!(start.0["permission_mode"], gets, "{asked:?}");
        }
    }

    async fn a_mode_that_is_narrowed_narrows_what_was_begun_whether_it_is_hosted_or_not(world: World) {
        let client = world.client().await;
        let options = bezel_sessions_contract::CreateSession {
            permission_mode: PermissionMode::Full,
            ..begin_in(&world.project("p"))
        };
        let root = client.management.create(&cx(), options).await.unwrap().session_id;
        client.until_status(&root, SessionStatus::Idle).await;
        let child = begun(&world, &root).await.session_id;
        let worker = world.launcher.worker(&root);
        worker.record().switch_permission_mode(&cx(), PermissionMode::Ask).await.unwrap();
        let start = worker.children().claim(&cx(), child.clone()).await.unwrap();
        assert_eq!(start.0["permission_mode"], "ask");
        let host = worker.host(start, world.connect());
        client.until_status(&child, SessionStatus::Idle).await;
        let wider = host.record().switch_permission_mode(&cx(), PermissionMode::Auto).await;
        let refusal = refused(wider);
        assert!(refusal.to_string().contains("in mode ask"), "{refusal}");
        host.record().switch_permission_mode(&cx(), PermissionMode::Plan).await.unwrap();
    }

    async fn children_are_told_the_oldest_first(world: World) {
        let client = world.client().await;
        let root = root(&world, &client).await;
        let mut begun_so = Vec::new();
        for _ in 0..8 {
            begun_so.push(begun(&world, &root).await.session_id);
        }
        let tree = world.launcher.worker(&root).children().tree(&cx()).await.unwrap();
        let told: Vec<SessionId> = tree.into_iter().map(|session| session.session_id).skip(1).collect();
        assert_eq!(told, begun_so);
    }
}

#[tokio::test]
async fn hosted_children_are_found_again_by_the_next_server_and_others_are_closed() {
    let (runtime, world) = apart().await;
    world.launcher.plan([Behaviour::Survives]);
    let client = world.client().await;
    let root = root(&world, &client).await;
    let (kept, lost) = (
        begun(&world, &root).await.session_id,
        begun(&world, &root).await.session_id,
    );
    let _kept_host = hosted(&world, &root, &kept).await;
    let lost_host = hosted(&world, &root, &lost).await;
    for child in [&kept, &lost] {
        client.until_status(child, SessionStatus::Idle).await;
    }
    let (scratch, launcher) = kill(runtime, world, &client).await;
    drop(lost_host);
    let world = World::again(scratch, launcher, Via::Socket, |_| ())
        .await
        .unwrap();
    let client = world.client().await;
    for session in [&kept, &root] {
        client.until_status(session, SessionStatus::Idle).await;
    }
    let children = world.launcher.worker(&root).children();
    children.hosted(&cx(), vec![kept.clone()]).await.unwrap();
    client.until_status(&lost, SessionStatus::Closed).await;
    client.until_status(&kept, SessionStatus::Idle).await;
}

#[tokio::test]
async fn a_child_that_is_deleted_is_to_be_let_go_first() {
    let world = World::start_with(Via::Socket, |options| {
        let policy = options.manifest.entry_mut("policy").unwrap();
        // Longer than it takes to say so: without a grace it is cut off instead.
        policy.config = serde_json::json!({ "stop_grace_seconds": 60 });
    })
    .await;
    let client = world.client().await;
    let root = root(&world, &client).await;
    let child = begun(&world, &root).await.session_id;
    let _host = hosted(&world, &root, &child).await;
    client.until_status(&child, SessionStatus::Idle).await;
    let children = world.launcher.worker(&root).children();
    let state = children.state();
    let cx = cx();
    let deletes = client.management.remove(&cx, child.clone());
    let releases = async {
        let unwanted = |state: &ChildrenState| state.unwanted == [child.clone()];
        state.wait_for(&cx, unwanted).await.unwrap();
        children
            .released(&cx, child.clone(), ended())
            .await
            .unwrap();
    };
    let (deleted, ()) = tokio::join!(deletes, releases);
    deleted.unwrap();
    assert_eq!(client.list().await.len(), 1);
    assert_eq!(children.tree(&cx).await.unwrap().len(), 1);
}
