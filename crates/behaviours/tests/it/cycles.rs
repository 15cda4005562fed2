//! Long use: thousands of attachments, switches and connections leave nothing behind.

use std::sync::Arc;

use bezel_session_types::SessionId;

use crate::allocations;
use crate::world::{Client, Via, World, cx, wait_until};

/// What one cycle leaves may not grow with their number; caches and queues may still fill a little.
const SLACK: isize = 16 * 1024;

/// Attaches, uses everything, switches with things under way, and detaches.
async fn cycle(client: &Client, sessions: &[SessionId; 2], thorough: bool) {
    let context = cx();
    let attach = |session: &SessionId| client.management.attach(&context, session.clone(), None);
    attach(&sessions[0]).await.unwrap();
    if thorough {
        client.until(|state| state.is_attached()).await;
        let state = client.probe.state();
        let there = state.wait_for(&context, |state| state.session == sessions[0].as_str());
        there.await.unwrap();
        let job = client.probe.work(&context).await.unwrap();
        job.done().ready(&context).await.unwrap();
        let _events = client.probe.events().subscribe();
        let mut hanging = Box::pin(client.probe.hang(&context));
        assert!(futures::poll!(&mut hanging).is_pending());
        attach(&sessions[1]).await.unwrap();
        assert!(hanging.await.is_err());
    } else {
        attach(&sessions[1]).await.unwrap();
    }
    client.management.detach(&context).await.unwrap();
}

/// Runs `cycles` in ten parts; between the parts everything that counts must be where it was.
async fn run(world: &World, cycles: usize, thorough: bool) {
    let client = world.client().await;
    let sessions = [
        client.create(&world.project("a")).await,
        client.create(&world.project("b")).await,
    ];
    let workers = [world.worker(&sessions[0]), world.worker(&sessions[1])];
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let quiet = async || {
        client.until(|state| state.target().is_none()).await;
        let calm = || workers.iter().all(|worker| worker.object.hanging() == 0);
        wait_until("no invocation is left", calm).await;
        for tap in [&client.tap, &workers[0].tap, &workers[1].tap] {
            tap.forget();
        }
        // Nobody follows, so a change is sent to nobody.
        for worker in &workers {
            worker.object.state.update(&cx(), |state| state.count += 1);
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        assert_eq!(client.tap.count("state"), 0);
    };
    for _ in 0..cycles / 10 {
        cycle(&client, &sessions, thorough).await;
    }
    quiet().await;
    let (held, alive, open) = (allocations::live(), tasks(), descriptors());
    for _ in 0..9 {
        for _ in 0..cycles / 10 {
            cycle(&client, &sessions, thorough).await;
        }
        quiet().await;
        wait_until("no task is left", || tasks() <= alive).await;
        wait_until("no descriptor is left", || descriptors() <= open).await;
        for worker in &workers {
            // The object itself, and who provides it: no reference and no call keeps it any longer.
            assert!(Arc::strong_count(&worker.object.hanging) <= 2);
        }
        let spared = || allocations::live() - held < SLACK;
        wait_until("memory is given back", spared).await;
    }
}

#[tokio::test]
async fn ten_thousand_attachments_and_switches_leave_nothing_behind() {
    run(&World::start(Via::Loopback).await, 10_000, false).await;
}

#[tokio::test]
async fn a_thousand_attachments_with_everything_under_way_leave_nothing_behind() {
    run(&World::start(Via::Loopback).await, 1000, true).await;
}

#[tokio::test]
async fn attachments_over_a_socket_leave_no_descriptor_behind() {
    run(&World::start(Via::Socket).await, 500, true).await;
}

#[tokio::test]
async fn a_thousand_connections_leave_no_task_and_no_descriptor_behind() {
    let world = World::start(Via::Socket).await;
    let first = world.client().await;
    let session = first.create(&world.project("a")).await;
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let mut before = None;
    for _ in 0..10 {
        for _ in 0..100 {
            let client = world.client().await;
            client.attach(&session).await;
            client.probe.state().ready(&cx()).await.unwrap();
            client.link.stop().await;
        }
        wait_until("the server let them go", || {
            world.server.status().clients == 1
        })
        .await;
        first.tap.forget();
        world.worker(&session).tap.forget();
        let (held, alive, open) =
            *before.get_or_insert((allocations::live(), tasks(), descriptors()));
        wait_until("no task is left", || tasks() <= alive).await;
        wait_until("no descriptor is left", || descriptors() <= open).await;
        let spared = || allocations::live() - held < SLACK;
        wait_until("memory is given back", spared).await;
    }
}
