//! Clients and workers of one server: attachments, switches, lost workers, several clients at once.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use bezel_rpc::{
    AttachmentState, Context, ErrorCode, ServiceClient, ServiceTable, State, StateCell,
    WorkerEvent, path, service,
};

use crate::contract::{ModelRef, ModelsClient};
use crate::provider::Catalogue;
use crate::stage::{Stage, count, on_every_transport, wait_until, within};

/// A contract that only the worker and the client load.
#[service("notes", version = "2.1")]
trait Notes {
    fn text(&self) -> State<String>;
    async fn write(&self, cx: &Context, text: String) -> u64;
}

struct Notebook(StateCell<String>);

impl Notes for Notebook {
    fn text(&self) -> State<String> {
        self.0.state()
    }

    async fn write(&self, cx: &Context, text: String) -> u64 {
        self.0.set(cx, text);
        self.0.get().len() as u64
    }
}

fn hanging(worker: &crate::stage::Worker) -> usize {
    worker.catalogue.hanging.load(Ordering::SeqCst)
}

on_every_transport! {
    async fn the_server_routes_a_service_whose_contract_it_never_loaded(stage: Stage) {
        let worker = stage.worker("S0").await;
        worker.table.provide(NotesClient::new(Notebook(StateCell::new(String::new()))).exposed()).expect("it is the first");
        let client = stage.client("ann").await;
        client.attach(&stage, "S0").await;
        let notes: NotesClient = client.link.attached().use_service();
        let cx = Context::background();
        within(async {
            while client.link.attached().check::<NotesClient>().is_err() {
                tokio::task::yield_now().await;
            }
        }).await;
        assert_eq!(notes.write(&cx, "hello".into()).await, Ok(5));
        assert_eq!(*within(notes.text().ready(&cx)).await.expect("no deadline"), "hello");
        let own = client.link.server().check::<NotesClient>().expect_err("the server itself has none");
        assert_eq!(own.code, ErrorCode::UnknownService);
    }

    async fn a_handle_from_before_the_attachment_follows_each_switch(stage: Stage) {
        let (first, second) = (stage.worker("S0").await, stage.worker("S1").await);
        let cx = Context::background();
        first.catalogue.state.update(&cx, |state| state.notes = "first".into());
        second.catalogue.state.update(&cx, |state| state.notes = "second".into());
        let client = stage.client("ann").await;
        let attached = client.link.attached();
        let models: ModelsClient = attached.use_service();
        let state = models.state();
        assert_eq!(*attached.attachment().get(), AttachmentState::Detached);
        assert_eq!(models.echo(&cx, "x".into()).await.expect_err("detached").code(), Some(ErrorCode::NotAttached));
        assert!(!state.is_ready() && state.get().available.is_empty());

        client.attach(&stage, "S0").await;
        assert_eq!(within(state.ready(&cx)).await.expect("no deadline").notes, "first");
        models.select(&cx, ModelRef::new("local", "large")).await.expect("it is available");

        let mut running = Box::pin(models.hang(&cx));
        assert!(futures::poll!(&mut running).is_pending());
        wait_until("the call runs", || hanging(&first) == 1).await;
        client.attach(&stage, "S1").await;
        assert_eq!(within(running).await.expect_err("switched").code(), Some(ErrorCode::NotAttached));
        wait_until("the old worker cancelled it", || hanging(&first) == 0).await;
        assert_eq!(within(state.wait_for(&cx, |state| state.notes == "second")).await.expect("no deadline").selected, None);
        models.select(&cx, ModelRef::new("local", "small")).await.expect("it is available");
        assert_eq!(second.catalogue.state.get().selected, Some(ModelRef::new("local", "small")));

        // Nothing of the old binding arrives any more.
        client.tap.forget();
        first.catalogue.state.append(&cx, path!["notes"], "!").expect("a text");
        models.echo(&cx, "x".into()).await.expect("attached");
        assert_eq!(count(&client.tap.received(), "state"), 0);

        stage.router.unbind(&client.id()).expect("the client is connected");
        let detached = attached.attachment();
        within(detached.wait_for(&cx, |state| *state == AttachmentState::Detached)).await.expect("no deadline");
        assert_eq!(models.echo(&cx, "x".into()).await.expect_err("detached").code(), Some(ErrorCode::NotAttached));
        assert!(state.is_stale());
    }

    async fn equal_ids_of_two_clients_neither_collide_nor_cancel_each_other(stage: Stage) {
        let worker = stage.worker("S0").await;
        let (ann, bob) = (stage.client("ann").await, stage.client("bob").await);
        let (anns, bobs) = (ann.attach(&stage, "S0").await, bob.attach(&stage, "S0").await);
        let cx = Context::background();
        let (mut one, mut two) = (Box::pin(anns.hang(&cx)), Box::pin(bobs.hang(&cx)));
        assert!(futures::poll!(&mut one).is_pending() && futures::poll!(&mut two).is_pending());
        wait_until("both run", || hanging(&worker) == 2).await;
        let ids: Vec<u64> = worker.tap.received().iter()
            .filter(|(header, _)| header.contains("\"m\":\"hang\""))
            .map(|(header, _)| serde_json::from_str::<serde_json::Value>(header).expect("a header")["i"].as_u64().expect("an id"))
            .collect();
        assert_eq!(ids[0], ids[1], "the test means equal ids");
        drop(one);
        wait_until("one was cancelled", || hanging(&worker) == 1).await;
        assert!(futures::poll!(&mut two).is_pending());
        let (client, owner, _) = bobs.whoami(&cx).await.expect("known");
        assert_eq!((client, owner), (bob.id().to_string(), "owner-bob".to_owned()));
        assert_eq!(bobs.echo(&cx, "mine".into()).await.expect("echoes"), "mine");
    }

    async fn a_lost_worker_fails_its_calls_degrades_its_attachments_and_nothing_else(stage: Stage) {
        let events: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
        let record = Arc::clone(&events);
        let _watch = stage.router.on_worker(move |target, event| {
            record.lock().expect("lock").push((target.to_owned(), *event == WorkerEvent::Connected));
        });
        let (lost, kept) = (stage.worker("S0").await, stage.worker("S1").await);
        let (ann, bob) = (stage.client("ann").await, stage.client("bob").await);
        let (anns, bobs) = (ann.attach(&stage, "S0").await, bob.attach(&stage, "S1").await);
        let cx = Context::background();
        let state = anns.state();
        within(state.ready(&cx)).await.expect("no deadline");
        let mut running = Box::pin(anns.hang(&cx));
        assert!(futures::poll!(&mut running).is_pending());
        wait_until("the call runs", || hanging(&lost) == 1).await;
        lost.tap.refuse(true);
        lost.tap.cut();
        assert_eq!(within(running).await.expect_err("lost").code(), Some(ErrorCode::SessionUnavailable));
        let attachment = ann.link.attached().attachment();
        let degraded = AttachmentState::Degraded { target: "S0".into() };
        within(attachment.wait_for(&cx, |state| *state == degraded)).await.expect("no deadline");
        assert!(state.is_stale() && state.get().available.len() == 2);
        assert_eq!(anns.echo(&cx, "x".into()).await.expect_err("lost").code(), Some(ErrorCode::SessionUnavailable));
        ann.models.echo(&cx, "x".into()).await.expect("the server's own services go on");
        bobs.echo(&cx, "x".into()).await.expect("other sessions go on");
        assert!(bob.link.attached().attachment().get().is_attached());

        lost.catalogue.state.append(&cx, path!["notes"], "restarted").expect("a text");
        lost.tap.refuse(false);
        assert_eq!(within(state.ready(&cx)).await.expect("no deadline").notes, "restarted");
        anns.echo(&cx, "x".into()).await.expect("attached again by itself");
        drop(kept);
        let events = events.lock().expect("lock").clone();
        let expected = [("S0", true), ("S1", true), ("S0", false), ("S0", true)];
        assert_eq!(events, expected.map(|(target, connected)| (target.to_owned(), connected)));
    }

    async fn a_client_bound_before_its_worker_comes_is_attaching_until_then(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        let attachment = stage.router.bind(&client.id(), "S0").expect("the client is connected");
        assert_eq!(attachment.incarnation, None);
        let state = client.link.attached().attachment();
        let attaching = AttachmentState::Attaching { target: "S0".into() };
        within(state.wait_for(&cx, |state| *state == attaching)).await.expect("no deadline");
        let models: ModelsClient = client.link.attached().use_service();
        assert_eq!(models.echo(&cx, "x".into()).await.expect_err("not yet").code(), Some(ErrorCode::NotAttached));
        let _worker = stage.worker("S0").await;
        within(state.wait_for(&cx, AttachmentState::is_attached)).await.expect("no deadline");
        models.echo(&cx, "x".into()).await.expect("attached");
        assert_eq!(stage.router.clients_of("S0"), vec![client.id()]);
        assert_eq!(stage.router.target_of(&client.id()).as_deref(), Some("S0"));
        assert_eq!(stage.router.workers(), vec!["S0".to_owned()]);
    }

    async fn a_worker_that_is_not_active_yet_uses_services_and_nobody_is_attached_to_it(stage: Stage) {
        let (client, cx) = (stage.client("ann").await, Context::background());
        stage.router.bind(&client.id(), "S0").expect("the client is connected");
        let (table, catalogue) = (ServiceTable::new(), Catalogue::new());
        let worker = stage.worker_with("S0", catalogue.clone(), table.clone());
        within(worker.link.settled(&cx)).await.expect("no deadline");
        table.provide(ModelsClient::new(catalogue).exposed()).expect("it is the first");
        let server: ModelsClient = worker.link.server().use_service();
        server.echo(&cx, "x".into()).await.expect("the server answers");
        assert!(!stage.router.is_connected("S0"), "it cannot be attached to");
        assert!(!client.link.attached().attachment().get().is_attached());
        table.activate();
        let state = client.link.attached().attachment();
        within(state.wait_for(&cx, AttachmentState::is_attached)).await.expect("no deadline");
        let models: ModelsClient = client.link.attached().use_service();
        models.echo(&cx, "x".into()).await.expect("it has what was provided before it was active");
        // One that comes again is active from the start.
        worker.tap.cut();
        within(state.wait_for(&cx, |state| !state.is_attached())).await.expect("no deadline");
        within(state.wait_for(&cx, AttachmentState::is_attached)).await.expect("no deadline");
        models.echo(&cx, "x".into()).await.expect("attached again");
    }

    async fn a_clients_end_reaches_the_worker_and_leaves_what_the_service_owns(stage: Stage) {
        let (table, catalogue) = (ServiceTable::new(), crate::provider::Catalogue::new());
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (attach, detach) = (Arc::clone(&seen), Arc::clone(&seen));
        let _bad = table.on_detach(|_, _| panic!("one bad watcher does not stop the others"));
        let _on = table.on_attach(move |client, who| attach.lock().expect("lock").push(format!("+{client} {}", who.owner)));
        let _off = table.on_detach(move |client, _| detach.lock().expect("lock").push(format!("-{client}")));
        table.provide(ModelsClient::new(catalogue.clone()).exposed()).expect("it is the first");
        table.activate();
        let worker = stage.worker_with("S0", catalogue, table);
        wait_until("the worker is known", || stage.router.is_connected("S0")).await;
        let gone: Arc<Mutex<Vec<String>>> = Arc::default();
        let record = Arc::clone(&gone);
        let _watch = stage.router.on_client_gone(move |client| record.lock().expect("lock").push(client.to_string()));

        let (ann, bob) = (stage.client("ann").await, stage.client("bob").await);
        let (anns, bobs) = (ann.attach(&stage, "S0").await, bob.attach(&stage, "S0").await);
        let cx = Context::background();
        let bobs_state = bobs.state();
        within(bobs_state.ready(&cx)).await.expect("no deadline");
        anns.select(&cx, ModelRef::new("local", "large")).await.expect("it is available");
        let (mut one, mut two) = (Box::pin(anns.hang(&cx)), Box::pin(bobs.hang(&cx)));
        assert!(futures::poll!(&mut one).is_pending() && futures::poll!(&mut two).is_pending());
        wait_until("both run", || hanging(&worker) == 2).await;
        let ann_id = ann.id().to_string();
        ann.link.stop().await;
        assert_eq!(one.await.expect_err("stopped").code(), Some(ErrorCode::Disconnected));
        wait_until("its call was cancelled", || hanging(&worker) == 1).await;
        wait_until("the server saw it go", || *gone.lock().expect("lock") == [ann_id.clone()]).await;
        let expected = [format!("+{ann_id} owner-ann"), format!("+{} owner-bob", bob.id()), format!("-{ann_id}")];
        wait_until("the worker was told", || seen.lock().expect("lock").len() == 3).await;
        assert_eq!(*seen.lock().expect("lock"), expected);
        assert_eq!(worker.catalogue.state.get().selected, Some(ModelRef::new("local", "large")));
        worker.catalogue.state.append(&cx, path!["notes"], "on").expect("a text");
        within(bobs_state.wait_for(&cx, |state| state.notes == "on")).await.expect("the others go on");
    }

    async fn a_change_for_many_clients_leaves_the_worker_once(stage: Stage) {
        let worker = stage.worker("S0").await;
        let cx = Context::background();
        let mut clients = Vec::new();
        for _ in 0..5 {
            let client = stage.client("ann").await;
            let state = client.attach(&stage, "S0").await.state();
            within(state.ready(&cx)).await.expect("no deadline");
            clients.push((client, state));
        }
        // The snapshots' own time has to pass, so that one change finds all at the same revision.
        worker.catalogue.state.append(&cx, path!["notes"], "a").expect("a text");
        for (_, state) in &clients {
            within(state.wait_for(&cx, |state| state.notes == "a")).await.expect("no deadline");
        }
        stage.received.lock().expect("lock").clear();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        // Two changes within the waiting time: the second is flushed once, for all.
        worker.catalogue.state.append(&cx, path!["notes"], "b").expect("a text");
        worker.catalogue.state.append(&cx, path!["notes"], "c").expect("a text");
        for (client, state) in &clients {
            within(state.wait_for(&cx, |state| state.notes == "abc")).await.expect("no deadline");
            assert!(!client.tap.received().iter().any(|(header, _)| header.contains("\"x\":")), "clients see single frames");
        }
        let frames = stage.received.lock().expect("lock").clone();
        assert!(frames.iter().any(|(header, _)| header.contains("\"x\":[[")));
        assert!(count(&frames, "state") < 2 * clients.len(), "{}", count(&frames, "state"));
    }

    async fn the_server_itself_can_use_a_workers_services(stage: Stage) {
        let worker = stage.worker("S0").await;
        let models: ModelsClient = stage.router.worker("S0").expect("it is connected").use_service();
        let cx = Context::background();
        models.select(&cx, ModelRef::new("local", "small")).await.expect("it is available");
        let state = models.state();
        assert_eq!(within(state.ready(&cx)).await.expect("no deadline").selected, Some(ModelRef::new("local", "small")));
        assert!(stage.router.disconnect_worker("S0"));
        wait_until("it is stale", || state.is_stale()).await;
        assert_eq!(models.echo(&cx, "x".into()).await.expect_err("gone").code(), Some(ErrorCode::Disconnected));
        drop(worker);
    }

    async fn a_worker_uses_the_servers_services(stage: Stage) {
        let worker = stage.worker("S0").await;
        let models: ModelsClient = worker.link.server().use_service();
        let (_, owner, _) = models.whoami(&Context::background()).await.expect("known");
        assert_eq!(owner, "owner-worker:S0");
    }

    async fn an_incompatible_service_is_absent_with_its_reason(stage: Stage) {
        mod newer {
            use bezel_rpc::{Context, service};
            #[service("models", version = "1.9")]
            pub trait Models {
                async fn echo(&self, cx: &Context, text: String) -> String;
            }
        }
        mod other {
            use bezel_rpc::{Context, service};
            #[service("models", version = "2.0")]
            pub trait Models {
                async fn echo(&self, cx: &Context, text: String) -> String;
            }
        }
        let client = stage.client("ann").await;
        let server = client.link.server();
        let cx = Context::background();
        let error = server.use_service::<newer::ModelsClient>().echo(&cx, "x".into()).await.expect_err("the provider is too old");
        assert_eq!(error.code(), Some(ErrorCode::IncompatibleVersion));
        assert!(error.to_string().contains("1.2") && error.to_string().contains("1.9"));
        assert!(server.try_use::<newer::ModelsClient>().is_none() && server.try_use::<other::ModelsClient>().is_none());
        assert_eq!(server.check::<other::ModelsClient>().expect_err("another major").code, ErrorCode::IncompatibleVersion);
    }
}
