//! Replicated state and events over a connection.

use std::sync::{Arc, Mutex};

use bezel_rpc::{Context, Delivery, ServiceClient, StateCell, path};

use crate::contract::{ModelRef, ModelsClient, ModelsEvent};
use crate::stage::{Stage, count, on_every_transport, wait_until, within};

on_every_transport! {
    async fn a_subscriber_sees_the_initial_value_then_the_snapshot_then_updates(stage: Stage) {
        let client = stage.client_unsettled("ann");
        let cx = Context::background();
        let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
        let record = Arc::clone(&seen);
        let state = client.models.state();
        assert!(!state.is_ready());
        let _subscription = state.subscribe(move |value, _| record.lock().expect("lock").push(value.notes.len()));
        assert_eq!(*seen.lock().expect("lock"), vec![0]);
        client.connected().await;
        stage.catalogue.state.append(&cx, path!["notes"], "x").expect("a text");
        within(state.wait_for(&cx, |value| value.notes.len() == 1)).await.expect("no deadline");
        assert!(state.is_ready() && !state.is_stale());
        stage.catalogue.state.append(&cx, path!["notes"], "y").expect("a text");
        within(state.wait_for(&cx, |value| value.notes == "xy")).await.expect("no deadline");
        let seen = seen.lock().expect("lock").clone();
        assert!(seen.is_sorted() && seen.last() == Some(&2), "{seen:?}");
    }

    async fn all_cells_of_a_service_come_in_one_snapshot_over_one_subscription(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        stage.catalogue.log.set(&cx, vec!["line".into()]);
        let again: ModelsClient = client.link.server().use_service();
        let states = [client.models.state(), again.state(), client.models.clone().state()];
        let log = again.log();
        let _events = again.events();
        within(log.ready(&cx)).await.expect("no deadline");
        for state in &states {
            assert!(state.is_ready());
            assert_eq!(state.get().available.len(), 2);
            assert!(Arc::ptr_eq(&state.get(), &states[0].get()), "one replica");
        }
        assert_eq!(*log.get(), vec!["line".to_owned()]);
        assert_eq!(count(&stage.received.lock().expect("lock"), "subscribe"), 1);
        assert_eq!(count(&client.tap.received(), "snapshot"), 1);
        drop((states, log, _events, again, client.models));
        wait_until("the last handle unsubscribes", || count(&stage.received.lock().expect("lock"), "unsubscribe") == 1).await;
    }

    async fn an_update_during_hydration_comes_after_the_snapshot_exactly_once(stage: Stage) {
        let cx = Context::background();
        for round in 0..20 {
            let client = stage.client("ann").await;
            let log = client.models.log();
            // Races with the subscription on its way.
            let writer = stage.catalogue.log.clone();
            let base = writer.get().len();
            for step in 0..10 {
                let line = format!("{round}.{step}");
                writer.splice(&cx, path![], base + step, 0, [line]).expect("an array");
                tokio::task::yield_now().await;
            }
            let value = within(log.wait_for(&cx, |log| log.len() == base + 10)).await.expect("no deadline");
            assert_eq!(*value, *writer.get());
            client.link.stop().await;
        }
    }

    async fn changing_a_received_value_alters_no_other(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        let state = client.models.state();
        let mut mine = (*within(state.ready(&cx)).await.expect("no deadline")).clone();
        mine.available.clear();
        assert_eq!(state.get().available.len(), 2);
        assert_eq!(stage.catalogue.state.get().available.len(), 2);
        stage.catalogue.state.append(&cx, path!["notes"], "x").expect("a text");
        assert_eq!(within(state.wait_for(&cx, |value| value.notes == "x")).await.expect("no deadline").available.len(), 2);
    }

    async fn a_reconnect_replaces_stale_state_with_a_fresh_snapshot(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        let state = client.models.state();
        within(state.ready(&cx)).await.expect("no deadline");
        client.tap.refuse(true);
        client.tap.cut();
        wait_until("the value is marked stale", || state.is_stale()).await;
        assert_eq!(state.get().available.len(), 2, "the last value stays");
        stage.catalogue.state.update(&cx, |value| value.available.push(ModelRef::new("local", "new")));
        client.tap.refuse(false);
        let value = within(state.ready(&cx)).await.expect("no deadline");
        assert_eq!(value.available.len(), 3);
        assert_eq!(count(&client.tap.received(), "snapshot"), 2);
    }

    async fn state_that_a_call_changed_is_there_when_it_answers(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        let state = client.models.state();
        within(state.ready(&cx)).await.expect("no deadline");
        for round in 0..50 {
            let model = ModelRef::new("local", if round % 2 == 0 { "large" } else { "small" });
            client.models.select(&cx, model.clone()).await.expect("it is available");
            assert_eq!(state.get().selected, Some(model));
        }
    }

    async fn an_unchanged_value_is_not_sent(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        within(client.models.state().ready(&cx)).await.expect("no deadline");
        client.tap.forget();
        let same = (*stage.catalogue.state.get()).clone();
        stage.catalogue.state.set(&cx, same);
        stage.catalogue.state.update(&cx, |_| ());
        client.models.echo(&cx, "after".into()).await.expect("echoes");
        assert_eq!(count(&client.tap.received(), "state"), 0);
    }

    async fn twenty_thousand_appends_travel_in_few_small_frames(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        let state = client.models.state();
        within(state.ready(&cx)).await.expect("no deadline");
        client.tap.forget();
        for step in 0..20_000 {
            stage.catalogue.state.append(&cx, path!["notes"], "0123456789").expect("a text");
            if step % 100 == 0 {
                tokio::task::yield_now().await;
            }
        }
        within(state.wait_for(&cx, |value| value.notes.len() == 200_000)).await.expect("no deadline");
        let frames = client.tap.received();
        let bytes: usize = frames.iter().map(|(header, payload)| header.len() + payload.len()).sum();
        assert!(count(&frames, "state") < 2_000, "{}", count(&frames, "state"));
        assert!(bytes < 500_000, "{bytes}");
        // Only a whole value has no base.
        assert!(frames.iter().filter(|(header, _)| header.contains("\"k\":\"state\"")).all(|(header, _)| header.contains("\"b\":")));
    }

    async fn a_stalled_client_gets_the_latest_value_not_the_history(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        let state = client.models.state();
        within(state.ready(&cx)).await.expect("no deadline");
        client.tap.forget();
        client.tap.stall(true);
        for step in 0..200 {
            stage.catalogue.state.update(&cx, |value| value.notes = format!("{step:>20000}"));
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        client.tap.stall(false);
        within(state.wait_for(&cx, |value| value.notes.trim_start() == "199")).await.expect("no deadline");
        let bytes: usize = client.tap.received().iter().map(|(_, payload)| payload.len()).sum();
        // One window, and what follows its widening; four megabytes were written.
        assert!(bytes < 700_000, "{bytes}");
    }

    async fn a_delivery_runs_under_the_trace_of_its_source_and_never_its_context(stage: Stage) {
        let client = stage.client("ann").await;
        let (cx, cancel) = Context::background().with_value("mine".to_owned()).with_cancel();
        let state = client.models.state();
        let mut events = client.models.events().subscribe();
        within(state.ready(&cx)).await.expect("no deadline");
        let traces: Arc<Mutex<Vec<u128>>> = Arc::default();
        let record = Arc::clone(&traces);
        let _subscription = state.subscribe(move |_, cx| {
            assert!(cx.value::<String>().is_none() && !cx.is_cancelled());
            record.lock().expect("lock").push(cx.trace().trace_id());
        });
        client.models.select(&cx, ModelRef::new("local", "large")).await.expect("it is available");
        cancel.cancel();
        let traces = traces.lock().expect("lock").clone();
        assert_ne!(traces[0], cx.trace().trace_id(), "a snapshot is the subscription's");
        assert_eq!(traces[1], cx.trace().trace_id());
        let Some(Delivery::Event { cx: delivered, .. }) = within(events.next()).await else { panic!("no event") };
        assert_eq!(delivered.trace().trace_id(), cx.trace().trace_id());
        assert!(!delivered.is_cancelled());
    }

    async fn events_from_before_a_subscription_are_never_delivered(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        stage.catalogue.events.emit(&cx, ModelsEvent::Refreshed { count: 1 });
        let events = client.models.events();
        let mut stream = events.subscribe();
        let refreshed: Arc<Mutex<Vec<u64>>> = Arc::default();
        let record = Arc::clone(&refreshed);
        let _listener = events.on("refreshed", move |event, _| {
            if let ModelsEvent::Refreshed { count } = **event {
                record.lock().expect("lock").push(count);
            }
        });
        within(client.models.state().ready(&cx)).await.expect("no deadline");
        stage.catalogue.events.emit(&cx, ModelsEvent::Refreshed { count: 2 });
        client.models.select(&cx, ModelRef::new("local", "large")).await.expect("it is available");
        stage.catalogue.events.emit(&cx, ModelsEvent::Refreshed { count: 3 });
        let mut got = Vec::new();
        for _ in 0..3 {
            let Some(Delivery::Event { value, .. }) = within(stream.next()).await else { panic!("no event") };
            got.push((*value).clone());
        }
        let selected = ModelsEvent::Selected { model: ModelRef::new("local", "large") };
        assert_eq!(got, vec![ModelsEvent::Refreshed { count: 2 }, selected, ModelsEvent::Refreshed { count: 3 }]);
        assert_eq!(*refreshed.lock().expect("lock"), vec![2, 3]);
    }

    async fn a_slow_subscriber_learns_in_place_how_many_events_it_lost(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        let mut stream = client.models.events().subscribe();
        within(client.models.state().ready(&cx)).await.expect("no deadline");
        client.tap.stall(true);
        let total = 20_000u64;
        for count in 0..total {
            stage.catalogue.events.emit(&cx, ModelsEvent::Refreshed { count });
            if count % 1000 == 0 {
                tokio::task::yield_now().await;
            }
        }
        client.tap.stall(false);
        let (mut next, mut lost) = (0, 0);
        while next < total {
            match within(stream.next()).await.expect("the source lives") {
                Delivery::Event { value, .. } => {
                    let ModelsEvent::Refreshed { count } = *value else { panic!("not emitted") };
                    assert_eq!(count, next);
                    next += 1;
                }
                Delivery::Lost { count } => {
                    next += count;
                    lost += count;
                }
            }
        }
        assert!(lost > 0 && lost < total, "{lost}");
        stage.catalogue.events.emit(&cx, ModelsEvent::Refreshed { count: total });
        assert!(matches!(within(stream.next()).await, Some(Delivery::Event { .. })), "the stream goes on");
    }

    async fn a_withdrawn_services_state_is_stale_until_it_is_provided_again(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        let state = client.models.state();
        within(state.ready(&cx)).await.expect("no deadline");
        stage.table.withdraw("models");
        wait_until("the value is marked stale", || state.is_stale()).await;
        stage.catalogue.state.append(&cx, path!["notes"], "meanwhile").expect("a text");
        stage.table.provide(ModelsClient::new(stage.catalogue.clone()).exposed()).expect("it is free");
        assert_eq!(within(state.ready(&cx)).await.expect("no deadline").notes, "meanwhile");
    }

    async fn a_projected_cell_shows_each_principal_its_own_part(stage: Stage) {
        use bezel_rpc::service;
        #[service("directory", version = "1.0")]
        trait Directory {
            fn names(&self) -> bezel_rpc::State<Vec<String>>;
        }
        struct Everyone(StateCell<Vec<String>>);
        impl Directory for Everyone {
            fn names(&self) -> bezel_rpc::State<Vec<String>> {
                self.0.state()
            }
        }
        let cx = Context::background();
        let cell = StateCell::projected(vec!["owner-ann/1".to_owned(), "owner-bob/1".to_owned()], |all, who| {
            all.iter().filter(|name| name.starts_with(&who.owner)).cloned().collect()
        });
        stage.table.provide(DirectoryClient::new(Everyone(cell.clone())).exposed()).expect("it is the first");
        let (ann, bob) = (stage.client("ann").await, stage.client("bob").await);
        let names = |client: &crate::stage::Client| client.link.server().use_service::<DirectoryClient>().names();
        let (anns, bobs) = (names(&ann), names(&bob));
        assert_eq!(*within(anns.ready(&cx)).await.expect("no deadline"), vec!["owner-ann/1"]);
        within(bobs.ready(&cx)).await.expect("no deadline");
        bob.tap.forget();
        cell.update(&cx, |all| all.push("owner-ann/2".into()));
        within(anns.wait_for(&cx, |names| names.len() == 2)).await.expect("no deadline");
        cell.update(&cx, |all| all.push("owner-bob/2".into()));
        assert_eq!(*within(bobs.wait_for(&cx, |names| names.len() == 2)).await.expect("no deadline"), vec!["owner-bob/1", "owner-bob/2"]);
        assert!(!bob.tap.received().iter().any(|(_, payload)| payload.contains("owner-ann")));
        assert_eq!(count(&bob.tap.received(), "state"), 1);
    }

    async fn a_cell_projected_to_each_follows_what_the_projection_looks_at(stage: Stage) {
        use std::collections::BTreeMap;
        use std::sync::{Arc, Mutex};
        use bezel_rpc::service;
        #[service("own", version = "1.0")]
        trait Own {
            fn name(&self) -> bezel_rpc::State<String>;
        }
        struct Names(StateCell<String>);
        impl Own for Names {
            fn name(&self) -> bezel_rpc::State<String> {
                self.0.state()
            }
        }
        let cx = Context::background();
        let known: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
        let looked = Arc::clone(&known);
        let cell = StateCell::projected_to_each(String::new(), move |_, who| {
            looked.lock().expect("nobody panics").get(who.client.as_str()).cloned().unwrap_or_default()
        });
        stage.table.provide(OwnClient::new(Names(cell.clone())).exposed()).expect("it is the first");
        // The same rights, two connections.
        let (one, two) = (stage.client("ann").await, stage.client("ann").await);
        let name = |client: &crate::stage::Client| client.link.server().use_service::<OwnClient>().name();
        let (ones, twos) = (name(&one), name(&two));
        for state in [&ones, &twos] {
            assert_eq!(*within(state.ready(&cx)).await.expect("no deadline"), "");
        }
        two.tap.forget();
        let id = one.link.client_id().expect("it is connected").to_string();
        known.lock().expect("nobody panics").insert(id, "one's".into());
        cell.refresh(&cx);
        assert_eq!(*within(ones.wait_for(&cx, |name| !name.is_empty())).await.expect("no deadline"), "one's");
        let id = two.link.client_id().expect("it is connected").to_string();
        known.lock().expect("nobody panics").insert(id, "two's".into());
        cell.refresh(&cx);
        assert_eq!(*within(twos.wait_for(&cx, |name| !name.is_empty())).await.expect("no deadline"), "two's");
        assert!(!two.tap.received().iter().any(|(_, payload)| payload.contains("one's")));
        assert_eq!(*ones.get(), "one's");
    }
}
