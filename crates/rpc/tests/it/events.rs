//! Events that not everybody may see.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bezel_rpc::{Context, Delivery, EventSource, Events, Projected, ServiceClient, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::stage::{Client, Stage, count, on_every_transport, wait_until, within};

/// Something that happened in one owner's house; the size is for whoever administers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parcel {
    owner: String,
    number: u64,
    size: Option<u64>,
    #[serde(default, serialize_with = "counted")]
    weight: (),
}

static ENCODED: AtomicUsize = AtomicUsize::new(0);

fn counted<S: Serializer>(_: &(), serializer: S) -> Result<S::Ok, S::Error> {
    ENCODED.fetch_add(1, Ordering::SeqCst);
    serializer.serialize_unit()
}

#[service("post", version = "1.0")]
trait Post {
    fn parcels(&self) -> Events<Parcel>;
}

struct Office(EventSource<Parcel>);

impl Post for Office {
    fn parcels(&self) -> Events<Parcel> {
        self.0.events()
    }
}

fn parcel(owner: &str, number: u64) -> Parcel {
    Parcel {
        owner: format!("owner-{owner}"),
        number,
        size: Some(7),
        weight: (),
    }
}

fn open(stage: &Stage) -> EventSource<Parcel> {
    let source = EventSource::projected(|parcel: &Parcel, who: &bezel_context::Principal| {
        if parcel.owner == "owner-everybody" {
            return Projected::Whole;
        }
        if parcel.owner == "owner-nobody" {
            panic!("a projection that fails shows nothing");
        }
        match (
            parcel.owner == who.owner,
            who.scopes.allows(bezel_context::Scope::Admin),
        ) {
            (true, true) => Projected::Whole,
            (true, false) => Projected::Part(Parcel {
                size: None,
                ..parcel.clone()
            }),
            _ => Projected::Hidden,
        }
    });
    stage
        .table
        .provide(PostClient::new(Office(source.clone())).exposed())
        .expect("it is free");
    source
}

/// A stream that is known to be subscribed.
async fn follow(client: &Client, events: &Events<Parcel>) -> bezel_rpc::EventStream<Parcel> {
    let stream = events.subscribe();
    wait_until("the subscription is active", || {
        count(&client.tap.received(), "snapshot") == 1
    })
    .await;
    stream
}

async fn next(stream: &mut bezel_rpc::EventStream<Parcel>) -> (u64, Option<u64>) {
    match within(stream.next()).await {
        Some(Delivery::Event { value, .. }) => (value.number, value.size),
        other => panic!("an event: {other:?}"),
    }
}

on_every_transport! {
    async fn each_principal_gets_the_events_that_it_may_see_and_no_trace_of_others(stage: Stage) {
        let cx = Context::background();
        let source = open(&stage);
        let (ann, bob, guest) = (stage.client("ann").await, stage.client("bob").await, stage.client("guest").await);
        let events = |client: &Client| client.link.server().use_service::<PostClient>().parcels();
        let (anns, bobs, guests) = (events(&ann), events(&bob), events(&guest));
        let (mut hers, mut his, mut theirs) = (follow(&ann, &anns).await, follow(&bob, &bobs).await, follow(&guest, &guests).await);
        for (owner, number) in [("ann", 1), ("bob", 2), ("nobody", 3), ("guest", 4), ("ann", 5), ("everybody", 6)] {
            source.emit(&cx, parcel(owner, number));
        }
        for number in [1, 5, 6] {
            assert_eq!(next(&mut hers).await, (number, Some(7)));
        }
        for number in [2, 6] {
            assert_eq!(next(&mut his).await, (number, Some(7)));
        }
        assert_eq!(next(&mut theirs).await, (4, None), "a reader sees no size");
        assert_eq!(next(&mut theirs).await, (6, Some(7)));
        assert_eq!(count(&bob.tap.received(), "event"), 2);
        assert!(!bob.tap.received().iter().any(|(_, payload)| payload.contains("owner-ann")));
    }

    async fn hidden_events_neither_fill_a_window_nor_count_as_lost(stage: Stage) {
        let cx = Context::background();
        let source = open(&stage);
        let (ann, bob) = (stage.client("ann").await, stage.client("bob").await);
        let events = |client: &Client| client.link.server().use_service::<PostClient>().parcels();
        let (anns, bobs) = (events(&ann), events(&bob));
        let (mut hers, mut his) = (follow(&ann, &anns).await, follow(&bob, &bobs).await);
        ann.tap.stall(true);
        bob.tap.stall(true);
        // Far more than a window and a queue hold.
        for number in 0..20_000 {
            source.emit(&cx, parcel("ann", number));
        }
        source.emit(&cx, parcel("bob", 1));
        ann.tap.stall(false);
        bob.tap.stall(false);
        assert_eq!(next(&mut his).await, (1, Some(7)));
        assert!(!bob.tap.received().iter().any(|(header, _)| header.contains("\"l\":")));
        let mut seen = 0;
        let lost = loop {
            match within(hers.next()).await {
                Some(Delivery::Event { .. }) => seen += 1,
                Some(Delivery::Lost { count }) => break count,
                None => panic!("the stream goes on"),
            }
        };
        assert!(lost > 0 && seen > 0, "the test means to lose some of hers: {seen} and {lost}");
    }
}

#[tokio::test]
async fn an_event_is_encoded_once_for_all_who_see_the_whole_and_not_at_all_for_nobody() {
    let stage = Stage::new(crate::stage::Medium::Loopback);
    let cx = Context::background();
    let source = open(&stage);
    let mut clients = Vec::new();
    for name in ["ann", "ann", "bob", "carol"] {
        let client = stage.client(name).await;
        let events = client.link.server().use_service::<PostClient>().parcels();
        let stream = follow(&client, &events).await;
        clients.push((client, stream));
    }
    let before = ENCODED.load(Ordering::SeqCst);
    source.emit(&cx, parcel("stranger", 0));
    assert_eq!(ENCODED.load(Ordering::SeqCst), before, "nobody may see it");
    source.emit(&cx, parcel("everybody", 1));
    for (_, stream) in &mut clients {
        assert_eq!(next(stream).await.0, 1);
    }
    assert_eq!(ENCODED.load(Ordering::SeqCst), before + 1);
    source.emit(&cx, parcel("ann", 2));
    for (_, stream) in clients.iter_mut().take(2) {
        assert_eq!(next(stream).await.0, 2);
    }
    assert_eq!(ENCODED.load(Ordering::SeqCst), before + 2);
}

#[tokio::test]
async fn in_its_own_process_every_event_is_whole() {
    let source = EventSource::projected(|_: &Parcel, _| Projected::Hidden);
    let mut stream = source.events().subscribe();
    source.emit(&Context::background(), parcel("ann", 1));
    let Some(Delivery::Event { value, .. }) = within(stream.next()).await else {
        panic!("an event");
    };
    assert_eq!((value.number, Arc::strong_count(&value)), (1, 1));
}
