//! 20 and 22 to 24: attachments, several clients, lost workers.

use bezel_rpc::{Context, ErrorCode, ServiceClient, State, StateCell, service};

use crate::over_both;
use crate::probe::ProbeClient;
use crate::world::{Via, World, cx, wait_until};

/// What a worker begins to provide while it runs, and the server has never heard of.
#[service("notes", version = "3.4")]
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

over_both! {
    async fn b20_a_handle_from_before_the_attachment_fails_not_attached_and_follows_each_switch(world: World) {
        let client = world.client().await;
        let probe: ProbeClient = client.link.attached().use_service();
        let state = probe.state();
        assert!(!state.is_ready());
        let error = probe.echo(&cx(), "x".into()).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::NotAttached));
        let (first, second) = (client.create(&world.project("a")).await, client.create(&world.project("b")).await);
        for session in [&first, &second, &first] {
            client.attach(session).await;
            assert_eq!(probe.echo(&cx(), "x".into()).await.unwrap(), format!("{session}: x"));
            state.wait_for(&cx(), |value| value.session == session.as_str()).await.unwrap();
        }
        client.management.detach(&cx()).await.unwrap();
        client.until(|state| state.target().is_none()).await;
        let error = probe.echo(&cx(), "x".into()).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::NotAttached));
    }

    async fn b22_the_server_routes_a_service_whose_contract_it_never_loaded(world: World) {
        let client = world.client().await;
        let session = client.create(&world.project("p")).await;
        client.attach(&session).await;
        let notes = NotesClient::new(Notebook(StateCell::new(String::new())));
        world.worker(&session).table.provide(notes.exposed()).unwrap();
        let attached = client.link.attached();
        wait_until("it is told of", || attached.try_use::<NotesClient>().is_some()).await;
        let notes: NotesClient = attached.use_service();
        assert_eq!(notes.write(&cx(), "hello".into()).await, Ok(5));
        notes.text().wait_for(&cx(), |text| text == "hello").await.unwrap();
        assert_eq!(client.link.server().check::<NotesClient>().unwrap_err().code, ErrorCode::UnknownService);
    }

    async fn b23_equal_ids_of_two_clients_neither_collide_nor_cancel_each_other(world: World) {
        let (ann, bob) = (world.client().await, world.client().await);
        let session = ann.create(&world.project("p")).await;
        // The other client's count of calls is the same from here on.
        bob.management.rename(&cx(), session.clone(), "t".into()).await.unwrap();
        ann.attach(&session).await;
        bob.attach(&session).await;
        let worker = world.worker(&session);
        worker.tap.forget();
        let context = cx();
        let (mut anns, mut bobs) = (Box::pin(ann.probe.hang(&context)), Box::pin(bob.probe.hang(&context)));
        assert!(futures::poll!(&mut anns).is_pending() && futures::poll!(&mut bobs).is_pending());
        wait_until("both run", || worker.object.hanging() == 2).await;
        let calls = worker.tap.received();
        let ids: Vec<serde_json::Value> = calls
            .iter()
            .filter(|(header, _)| header.contains("\"m\":\"hang\""))
            .map(|(header, _)| serde_json::from_str::<serde_json::Value>(header).unwrap()["i"].clone())
            .collect();
        assert_eq!(ids[0], ids[1], "the test means equal ids");
        drop(anns);
        wait_until("one was cancelled", || worker.object.hanging() == 1).await;
        assert!(futures::poll!(&mut bobs).is_pending());
        assert_eq!(bob.probe.whoami(&context).await.unwrap().0, bob.id());
        assert_eq!(ann.probe.whoami(&context).await.unwrap().0, ann.id());
    }

    async fn b24_a_killed_worker_fails_its_calls_degrades_its_attachment_and_nothing_else(world: World) {
        let (ann, bob) = (world.client().await, world.client().await);
        let (lost, kept) = (ann.create(&world.project("a")).await, ann.create(&world.project("b")).await);
        ann.attach(&lost).await;
        bob.attach(&kept).await;
        let worker = world.worker(&lost);
        let context = cx();
        let state = ann.probe.state();
        state.ready(&context).await.unwrap();
        let mut running = Box::pin(ann.probe.hang(&context));
        assert!(futures::poll!(&mut running).is_pending());
        wait_until("it runs", || worker.object.hanging() == 1).await;
        worker.kill();
        assert_eq!(running.await.unwrap_err().code(), Some(ErrorCode::SessionUnavailable));
        ann.until(|state| !state.is_attached() && state.target() == Some(lost.as_str())).await;
        assert_eq!(ann.probe.echo(&context, "x".into()).await.unwrap_err().code(), Some(ErrorCode::SessionUnavailable));
        assert!(state.is_stale() && state.get().session == lost.as_str(), "the last value stays");
        // The server's own services and other sessions go on.
        ann.management.rename(&context, lost.clone(), "still here".into()).await.unwrap();
        bob.probe.echo(&context, "x".into()).await.unwrap();
        assert!(bob.link.attached().attachment().get().is_attached());
    }
}
