//! Status, stop, idleness, and workers that outlive their server.

use std::sync::Arc;
use std::time::Duration;

use bezel_host_server::ExitReason;
use bezel_rpc::{Credential, Hello, Link, Role, ServiceTable};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{CommitReport, SessionManagementClient, SessionStatus};
use tempfile::TempDir;

use crate::launcher::{Behaviour, FakeLauncher};
use crate::over_both;
use crate::world::{Client, Via, World, begin_in, cx};

over_both! {
    async fn status_counts_clients_and_workers_and_stop_asks_the_owner_of_the_server(world: World) {
        let client = world.client().await;
        let status = client.control.status();
        status.ready(&cx()).await.unwrap();
        status.wait_for(&cx(), |status| status.clients == 1 && status.workers == 0).await.unwrap();
        let other = world.client().await;
        let id = client.create(&world.project("p")).await.session_id;
        status.wait_for(&cx(), |status| status.clients == 2 && status.workers == 1).await.unwrap();
        other.link.stop().await;
        client.management.remove(&cx(), id).await.unwrap();
        let now = status.wait_for(&cx(), |status| status.clients == 1 && status.workers == 0).await.unwrap();
        assert_eq!((now.version.as_str(), now.pid), ("0.1.0", std::process::id()));
        client.control.stop(&cx()).await.unwrap();
        let reason = cx().run(world.server.exit_requested()).await.unwrap();
        assert_eq!(reason, ExitReason::Requested);
    }

    async fn a_stopped_server_ends_its_workers_and_its_connections(world: World) {
        let client = world.client().await;
        let id = client.create(&world.project("p")).await.session_id;
        client.attach(&id).await;
        let connection = client.link.connection();
        let (_scratch, launcher) = world.stop().await;
        assert!(launcher.worker(&id).has_ended());
        connection.wait_for(&cx(), |state| !state.is_connected()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_nobody_needs_says_so_after_its_time_and_not_while_something_runs() {
    let after = Duration::from_secs(600);
    let world = World::start_with(Via::Loopback, |options| options.idle_after = Some(after)).await;
    let mut idle = world.server.idle();
    let client = world.client().await;
    let id = client.create(&world.project("p")).await.session_id;
    client.until_status(&id, SessionStatus::Idle).await;
    let record = world.launcher.worker(&id).record();
    let report = |running| CommitReport {
        seq: 1,
        running,
        waiting: false,
        title: None,
    };
    record.committed(&cx(), report(true)).await.unwrap();
    client.link.stop().await;
    let early = tokio::time::timeout(after * 3, idle.wait_for(|idle| *idle)).await;
    assert!(early.is_err(), "something runs");
    drop(early);
    record.committed(&cx(), report(false)).await.unwrap();
    let since = tokio::time::Instant::now();
    idle.wait_for(|idle| *idle).await.unwrap();
    assert!(
        since.elapsed() >= after && since.elapsed() < after * 2,
        "{:?}",
        since.elapsed()
    );
    assert_eq!(world.server.exit_requested().await, ExitReason::Idle);
    // Somebody comes before the owner has ended it.
    let _client = world.client().await;
    idle.wait_for(|idle| !*idle).await.unwrap();
}

/// A server on a runtime of its own.
pub async fn apart() -> (tokio::runtime::Runtime, World) {
    let scratch = tempfile::tempdir().unwrap();
    let launcher = Arc::<FakeLauncher>::default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let starting = World::again(scratch, launcher, Via::Socket, |_| ());
    let world = runtime.spawn(starting).await.unwrap().unwrap();
    (runtime, world)
}

/// The server's end as if it were killed: nothing is told, nothing is stopped.
pub async fn kill(
    runtime: tokio::runtime::Runtime,
    world: World,
    client: &Client,
) -> (TempDir, Arc<FakeLauncher>) {
    // The next server starts when this one is gone with all its threads, as after a kill.
    let killed = move || runtime.shutdown_timeout(std::time::Duration::from_secs(10));
    tokio::task::spawn_blocking(killed).await.unwrap();
    client
        .link
        .connection()
        .wait_for(&cx(), |state| !state.is_connected())
        .await
        .unwrap();
    let World {
        scratch, launcher, ..
    } = world;
    (scratch, launcher)
}

/// A killed server, and its one session, whose worker outlives it.
async fn killed_server() -> (TempDir, Arc<FakeLauncher>, SessionId) {
    let (runtime, world) = apart().await;
    let client = world.client().await;
    world.launcher.plan([Behaviour::Survives]);
    let id = client.create(&world.project("p")).await.session_id;
    client.attach(&id).await;
    let (scratch, launcher) = kill(runtime, world, &client).await;
    assert!(!launcher.worker(&id).has_ended());
    (scratch, launcher, id)
}

#[tokio::test]
async fn a_worker_outlives_a_server_that_dies_and_is_taken_over_by_the_next_one() {
    let (scratch, launcher, id) = killed_server().await;
    let world = World::again(scratch, launcher, Via::Socket, |_| ())
        .await
        .unwrap();
    let client = world.client().await;
    client.attach(&id).await;
    assert_eq!(
        client.probe.echo(&cx(), "x".into()).await.unwrap(),
        format!("{id}: x")
    );
    assert_eq!(
        world.launcher.starts().len(),
        1,
        "the same worker serves on"
    );
    client.until_status(&id, SessionStatus::Idle).await;
    client.management.remove(&cx(), id.clone()).await.unwrap();
    assert!(world.launcher.worker(&id).has_ended());
}

#[tokio::test]
async fn a_worker_that_died_with_its_server_is_launched_anew() {
    let (scratch, launcher, id) = killed_server().await;
    launcher.worker(&id).crash();
    let world = World::again(scratch, launcher, Via::Socket, |_| ())
        .await
        .unwrap();
    let client = world.client().await;
    client.attach(&id).await;
    assert_eq!(world.launcher.starts().len(), 2);
}

#[tokio::test]
async fn a_host_of_this_process_that_ends_takes_nothing_of_the_server_with_it() {
    let world = World::start(Via::Loopback).await;
    let client = world.client().await;
    let other = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (connect, project) = (world.connect(), world.project("p"));
    let creating = other.spawn(async move {
        let tasks = bezel_context::TaskScope::new();
        let hello = Hello {
            role: Role::Presentation,
            product_version: "0.1.0".into(),
            credential: Credential::none(),
        };
        let link = Link::start(&tasks.spawner(), connect, hello, ServiceTable::new());
        link.settled(&cx()).await.unwrap();
        let management: SessionManagementClient = link.server().use_service();
        management
            .create(&cx(), begin_in(&project))
            .await
            .unwrap()
            .session_id
    });
    let id = creating.await.unwrap();
    other.shutdown_background();
    client.until_status(&id, SessionStatus::Idle).await;
    world.launcher.worker(&id).crash();
    client.until_status(&id, SessionStatus::Unreachable).await;
}
