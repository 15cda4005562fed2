//! Starting, titles, crashes, restarts, stops.

use bezel_rpc::{AttachmentState, ErrorCode};
use bezel_sessions_contract::{CommitReport, LaunchEnvironment, SessionError, SessionStatus};

use crate::launcher::Behaviour;
use crate::over_both;
use crate::world::{Via, World, begin_in, cx, refused};

fn report(running: bool, title: Option<&str>) -> CommitReport {
    CommitReport {
        seq: 1,
        running,
        waiting: false,
        title: title.map(Into::into),
    }
}

over_both! {
    async fn a_crashed_worker_degrades_its_own_session_alone_and_is_restarted_on_the_next_attach(world: World) {
        let (client, bystander) = (world.client().await, world.client().await);
        let id = client.create(&world.project("a")).await.session_id;
        let other = client.create(&world.project("b")).await.session_id;
        client.attach(&id).await;
        bystander.attach(&other).await;
        client.probe.state().ready(&cx()).await.unwrap();
        let hanging = client.probe.clone();
        let hanging = world.tasks.spawn("hang", async move { hanging.hang(&cx()).await });
        // The call is at the worker once an echo after it has come back.
        client.probe.echo(&cx(), "x".into()).await.unwrap();
        world.launcher.worker(&id).crash();

        let lost = hanging.await.unwrap().unwrap().unwrap_err();
        assert_eq!(lost.code(), Some(ErrorCode::SessionUnavailable));
        client.until_status(&id, SessionStatus::Unreachable).await;
        let degraded = AttachmentState::Degraded { target: id.to_string() };
        assert_eq!(client.until_attachment(|state| *state == degraded).await, degraded);
        let call = client.probe.echo(&cx(), "x".into()).await.unwrap_err();
        assert_eq!(call.code(), Some(ErrorCode::SessionUnavailable));
        assert_eq!(bystander.probe.echo(&cx(), "x".into()).await.unwrap(), format!("{other}: x"));

        client.attach(&id).await;
        assert_eq!(client.probe.echo(&cx(), "back".into()).await.unwrap(), format!("{id}: back"));
        let third = |state: &crate::launcher::ProbeState| state.launch == 3;
        client.probe.state().wait_for(&cx(), third).await.unwrap();
        client.until_status(&id, SessionStatus::Idle).await;
    }

    async fn a_degraded_client_is_attached_again_when_somebody_else_restarts_the_worker(world: World) {
        let (client, other) = (world.client().await, world.client().await);
        let id = client.create(&world.project("a")).await.session_id;
        client.attach(&id).await;
        world.launcher.worker(&id).crash();
        client.until_attachment(|state| matches!(state, AttachmentState::Degraded { .. })).await;
        other.attach(&id).await;
        client.until_attachment(AttachmentState::is_attached).await;
        client.probe.echo(&cx(), "x".into()).await.unwrap();
    }

    async fn a_worker_that_exits_in_order_closes_its_session_and_comes_back_on_demand(world: World) {
        let client = world.client().await;
        let id = client.create(&world.project("a")).await.session_id;
        client.until_status(&id, SessionStatus::Idle).await;
        world.launcher.worker(&id).exit();
        client.until_status(&id, SessionStatus::Closed).await;
        client.attach(&id).await;
        client.until_status(&id, SessionStatus::Idle).await;
        assert_eq!(world.launcher.starts().len(), 2);
    }

    async fn a_worker_that_cannot_be_launched_leaves_no_session_behind(world: World) {
        let client = world.client().await;
        world.launcher.plan([Behaviour::CannotLaunch]);
        let refusal = refused(client.management.create(&cx(), begin_in(&world.project("p"))).await);
        let text = refusal.to_string();
        assert!(text.contains("could not be launched: the program is gone; install it again"), "{text}");
        assert!(client.list().await.is_empty());
    }

    async fn a_launch_that_fails_is_told_also_where_its_session_cannot_be_taken_back(world: World) {
        let client = world.client().await;
        // The record file is made by the first session.
        client.create(&world.project("p")).await;
        let records = rusqlite::Connection::open(world.scratch.path().join("server.db")).unwrap();
        records
            .execute_batch(
                "CREATE TRIGGER refuse BEFORE DELETE ON sessions BEGIN SELECT RAISE(FAIL, 'no more writes'); END",
            )
            .unwrap();
        world.launcher.plan([Behaviour::CannotLaunch]);
        let refusal = refused(client.management.create(&cx(), begin_in(&world.project("p"))).await);
        let text = refusal.to_string();
        assert!(text.contains("could not be launched: the program is gone; install it again"), "{text}");
    }

    async fn a_worker_that_dies_before_it_is_ready_is_told_of_and_the_next_attach_tries_again(world: World) {
        let client = world.client().await;
        world.launcher.plan([Behaviour::Works, Behaviour::ExitsEarly]);
        let id = client.create(&world.project("p")).await.session_id;
        client.until_status(&id, SessionStatus::Idle).await;
        world.launcher.worker(&id).crash();
        client.until_status(&id, SessionStatus::Unreachable).await;
        let refusal = refused(client.management.attach(&cx(), id.clone(), None).await);
        assert!(matches!(refusal, SessionError::Worker { .. }), "{refusal}");
        assert!(refusal.to_string().contains("exited with status 1 before it was ready"), "{refusal}");
        client.attach(&id).await;
    }

    async fn a_worker_that_never_connects_is_ended_after_the_policys_time(world: World) {
        let client = world.client().await;
        world.launcher.plan([Behaviour::NeverConnects]);
        let id = client.create(&world.project("p")).await.session_id;
        let refusal = refused(client.management.attach(&cx(), id.clone(), None).await);
        assert!(refusal.to_string().contains("did not connect within 1 s"), "{refusal}");
        assert!(world.launcher.worker(&id).has_ended());
        client.until_status(&id, SessionStatus::Unreachable).await;
    }

    async fn a_worker_that_does_not_stop_when_asked_is_killed(world: World) {
        let client = world.client().await;
        world.launcher.plan([Behaviour::IgnoresStop]);
        let id = client.create(&world.project("p")).await.session_id;
        client.until_status(&id, SessionStatus::Idle).await;
        client.management.remove(&cx(), id.clone()).await.unwrap();
        assert!(world.launcher.worker(&id).has_ended());
    }

    async fn the_first_commit_report_gives_a_title_and_later_ones_do_not_change_it(world: World) {
        let client = world.client().await;
        let id = client.create(&world.project("p")).await.session_id;
        client.until_status(&id, SessionStatus::Idle).await;
        let record = world.launcher.worker(&id).record();
        record.committed(&cx(), report(true, Some("Make it fast\nand safe"))).await.unwrap();
        record.committed(&cx(), report(true, Some("Another"))).await.unwrap();
        client.until(|directory| directory.sessions[0].title == "Make it fast").await;
        client.management.rename(&cx(), id, "Speed".into()).await.unwrap();
        record.committed(&cx(), report(false, Some("Third"))).await.unwrap();
        assert_eq!(record.current(&cx()).await.unwrap().title, "Speed");
    }

    async fn a_session_is_active_while_its_worker_says_so(world: World) {
        let client = world.client().await;
        let id = client.create(&world.project("p")).await.session_id;
        client.until_status(&id, SessionStatus::Idle).await;
        let record = world.launcher.worker(&id).record();
        record.committed(&cx(), report(true, None)).await.unwrap();
        client.until_status(&id, SessionStatus::Active).await;
        let asks = CommitReport { waiting: true, ..report(true, None) };
        record.committed(&cx(), asks).await.unwrap();
        client.until_status(&id, SessionStatus::Waiting).await;
        record.committed(&cx(), report(true, None)).await.unwrap();
        client.until_status(&id, SessionStatus::Active).await;
        record.committed(&cx(), report(false, None)).await.unwrap();
        client.until_status(&id, SessionStatus::Idle).await;
    }

    async fn a_launch_environment_reaches_the_worker_that_it_was_sent_for(world: World) {
        let client = world.client().await;
        let environment = |value: &str| {
            Some(LaunchEnvironment([("KEY".to_owned(), value.to_owned())].into()))
        };
        let mut options = begin_in(&world.project("p"));
        options.environment = environment("first");
        let id = client.management.create(&cx(), options).await.unwrap().session_id;
        client.until_status(&id, SessionStatus::Idle).await;
        world.launcher.worker(&id).crash();
        client.until_status(&id, SessionStatus::Unreachable).await;
        client.management.attach(&cx(), id.clone(), environment("second")).await.unwrap();
        world.launcher.worker(&id).crash();
        client.until_status(&id, SessionStatus::Unreachable).await;
        client.management.attach(&cx(), id, None).await.unwrap();
        let sent: Vec<Option<String>> = world.launcher.starts().into_iter()
            .map(|start| start.environment.map(|environment| environment.0["KEY"].clone()))
            .collect();
        assert_eq!(sent, [Some("first".into()), Some("second".into()), None]);
    }

    async fn many_clients_that_need_one_worker_at_once_get_one(world: World) {
        let client = world.client().await;
        let id = client.create(&world.project("p")).await.session_id;
        client.until_status(&id, SessionStatus::Idle).await;
        world.launcher.worker(&id).exit();
        client.until_status(&id, SessionStatus::Closed).await;
        let others = futures::future::join_all((0..4).map(|_| world.client())).await;
        futures::future::join_all(others.iter().map(|other| other.attach(&id))).await;
        assert_eq!(world.launcher.starts().len(), 2);
    }

    async fn a_session_whose_directory_is_gone_says_so_when_it_is_opened(world: World) {
        let client = world.client().await;
        let project = world.project("p");
        let id = client.create(&project).await.session_id;
        client.until_status(&id, SessionStatus::Idle).await;
        world.launcher.worker(&id).exit();
        client.until_status(&id, SessionStatus::Closed).await;
        std::fs::remove_dir(&project).unwrap();
        let refusal = refused(client.management.attach(&cx(), id, None).await);
        assert!(refusal.to_string().contains("directory is gone; put it back"), "{refusal}");
    }
}

#[tokio::test]
async fn a_policy_may_forbid_the_restart() {
    let world = World::start_with(Via::Loopback, |options| {
        let policy = options.manifest.entry_mut("policy").unwrap();
        policy.config = serde_json::json!({ "restart": "never" });
    })
    .await;
    let client = world.client().await;
    let id = client.create(&world.project("p")).await.session_id;
    client.until_status(&id, SessionStatus::Idle).await;
    world.launcher.worker(&id).crash();
    client.until_status(&id, SessionStatus::Unreachable).await;
    let refusal = refused(client.management.attach(&cx(), id, None).await);
    assert!(
        refusal.to_string().contains("does not start it again"),
        "{refusal}"
    );
    assert_eq!(world.launcher.starts().len(), 1);
}
