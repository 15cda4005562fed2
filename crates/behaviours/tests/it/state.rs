//! 13 to 17: state and events as a consumer sees them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_rpc::{Delivery, path};

use crate::over_both;
use crate::probe::ProbeClient;
use crate::world::{Via, World, cx, wait_until};

over_both! {
    async fn b13_two_consumers_share_one_proxy_one_replica_and_one_subscription(world: World) {
        let client = world.client().await;
        let session = client.create(&world.project("p")).await;
        client.attach(&session).await;
        let worker = world.worker(&session);
        let other: ProbeClient = client.link.attached().use_service();
        let states = [client.probe.state(), other.state(), other.clone().state()];
        let _events = [client.probe.events().subscribe(), other.events().subscribe()];
        for state in &states {
            let value = state.ready(&cx()).await.unwrap();
            assert!(Arc::ptr_eq(&value, &states[0].get()), "one replica");
        }
        client.probe.echo(&cx(), "x".into()).await.unwrap();
        assert_eq!(worker.tap.count("subscribe"), 1);
        assert_eq!(client.tap.count("snapshot"), 1);
    }

    async fn b14_an_update_during_hydration_arrives_once_and_after_the_snapshot(world: World) {
        let client = world.client().await;
        let session = client.create(&world.project("p")).await;
        let cell = world.worker(&session).object.state.clone();
        for moment in 0..12 {
            client.attach(&session).await;
            let state = client.probe.state();
            let seen: Arc<Mutex<Vec<String>>> = Arc::default();
            let record = Arc::clone(&seen);
            let _listener = state.subscribe(move |value, _| record.lock().unwrap().push(value.text.clone()));
            let before = cell.get().text.clone();
            for _ in 0..moment {
                tokio::task::yield_now().await;
            }
            for letter in ["a", "b", "c"] {
                cell.append(&cx(), path!["text"], letter).unwrap();
                tokio::task::yield_now().await;
            }
            let end = format!("{before}abc");
            state.wait_for(&cx(), |value| value.text == end).await.unwrap();
            // Each value is longer than the one before: nothing came twice, nothing was left out.
            let seen = std::mem::take(&mut *seen.lock().unwrap());
            assert!(seen.iter().all(|text| end.starts_with(text.as_str())), "{seen:?}");
            client.management.detach(&cx()).await.unwrap();
            client.until(|state| state.target().is_none()).await;
        }
    }

    async fn b15_changing_a_received_value_alters_no_other_listeners(world: World) {
        let client = world.client().await;
        let session = client.create(&world.project("p")).await;
        client.attach(&session).await;
        let state = client.probe.state();
        let mut mine = (*state.ready(&cx()).await.unwrap()).clone();
        mine.text.push_str("mine alone");
        mine.count = 99;
        assert_eq!((state.get().count, state.get().text.as_str()), (0, ""));
        let cell = &world.worker(&session).object.state;
        cell.append(&cx(), path!["text"], "theirs").unwrap();
        let value = state.wait_for(&cx(), |value| !value.text.is_empty()).await.unwrap();
        assert_eq!((value.count, value.text.as_str()), (0, "theirs"), "the patch found its base unchanged");
    }

    async fn b16_a_reconnect_replaces_state_from_a_fresh_snapshot_and_late_frames_are_dropped(world: World) {
        let client = world.client().await;
        let session = client.create(&world.project("p")).await;
        client.attach(&session).await;
        let cell = world.worker(&session).object.state.clone();
        let state = client.probe.state();
        state.ready(&cx()).await.unwrap();
        let seen: Arc<Mutex<Vec<(u64, bool)>>> = Arc::default();
        let (record, staleness) = (Arc::clone(&seen), state.clone());
        let _listener = state.subscribe(move |value, _| {
            record.lock().unwrap().push((value.count, staleness.is_stale()));
        });
        for round in 1..=10u64 {
            // What is on its way when the connection breaks belongs to the old binding.
            cell.update(&cx(), |value| value.count = round * 10);
            client.tap.cut();
            cell.update(&cx(), |value| value.count = round * 10 + 1);
            wait_until("the value is marked stale", || state.is_stale()).await;
            let connection = client.link.connection();
            connection.wait_for(&cx(), |state| state.is_connected()).await.unwrap();
            client.attach(&session).await;
            let value = state.wait_for(&cx(), |value| value.count == round * 10 + 1).await.unwrap();
            assert_eq!(value.count, round * 10 + 1);
            wait_until("it is current", || !state.is_stale()).await;
        }
        let seen = seen.lock().unwrap();
        let counts: Vec<u64> = seen.iter().map(|(count, _)| *count).collect();
        assert!(counts.is_sorted(), "no frame of an old binding came late: {counts:?}");
    }

    async fn b17_events_from_before_a_subscription_are_never_delivered(world: World) {
        let client = world.client().await;
        let session = client.create(&world.project("p")).await;
        client.attach(&session).await;
        let events = world.worker(&session).object.events.clone();
        events.emit(&cx(), 1);
        let mut stream = client.probe.events().subscribe();
        client.probe.state().ready(&cx()).await.unwrap();
        events.emit(&cx(), 2);
        events.emit(&cx(), 3);
        for expected in [2, 3] {
            let next = tokio::time::timeout(Duration::from_secs(20), stream.next()).await.unwrap();
            let Some(Delivery::Event { value, .. }) = next else { panic!("no event") };
            assert_eq!(*value, expected);
        }
        // A second listener begins where it begins.
        let mut late = client.probe.events().subscribe();
        events.emit(&cx(), 4);
        let next = tokio::time::timeout(Duration::from_secs(20), late.next()).await.unwrap();
        assert!(matches!(next, Some(Delivery::Event { value, .. }) if *value == 4));
    }
}
