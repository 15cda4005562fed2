//! Peers that want too much, against the product's server over its socket.

use crate::raw::{Raw, frame};
use crate::world::{TOKEN, Via, World, cx, wait_until};

/// The limits that every client has.
const CALLS: usize = 4096;
const SUBSCRIPTIONS: usize = 1024;

#[tokio::test]
async fn a_flood_of_calls_and_subscriptions_ends_at_the_limits_and_costs_others_nothing() {
    let world = World::start(Via::Socket).await;
    let good = world.client().await;
    let session = good.create(&world.project("p")).await;
    good.attach(&session).await;
    good.probe.state().ready(&cx()).await.unwrap();
    let worker = world.worker(&session);
    let (mut raw, _) = Raw::welcomed(&world.socket()).await;
    let route = raw.attach(&session).await;

    let mut flood = Vec::new();
    for id in 0..CALLS + 50 {
        let header = format!(
            r#"{{"k":"call","i":{},"n":{route},"s":"probe","m":"hang"}}"#,
            id + 10
        );
        flood.extend(frame(&header, "{}"));
    }
    raw.write(&flood).await;
    for _ in 0..50 {
        let (_, payload) = raw.next_of(&["err"]).await;
        assert_eq!(payload["code"], "resource_exhausted");
    }
    wait_until("the others run", || worker.object.hanging() == CALLS).await;
    good.probe.echo(&cx(), "x".into()).await.unwrap();

    let mut flood = Vec::new();
    for id in 0..SUBSCRIPTIONS + 20 {
        flood.extend(frame(
            &format!(
                r#"{{"k":"subscribe","i":{},"n":{route},"s":"probe"}}"#,
                id + 9000
            ),
            "",
        ));
    }
    raw.write(&flood).await;
    let mut refused = 0;
    for _ in 0..SUBSCRIPTIONS + 20 {
        let (header, payload) = raw.next_of(&["snapshot", "closed"]).await;
        if header["k"] == "closed" {
            assert_eq!(payload["code"], "resource_exhausted");
            refused += 1;
        }
    }
    assert_eq!(refused, 20);
    // One change goes to all of them, and to the good client.
    worker.object.state.update(&cx(), |state| state.count = 1);
    for _ in 0..SUBSCRIPTIONS {
        raw.next_of(&["state"]).await;
    }
    good.probe
        .state()
        .wait_for(&cx(), |state| state.count == 1)
        .await
        .unwrap();
    good.probe.echo(&cx(), "x".into()).await.unwrap();
    drop(raw);
    wait_until("nothing of it runs any more", || {
        worker.object.hanging() == 0
    })
    .await;
    good.probe.echo(&cx(), "x".into()).await.unwrap();
    assert_eq!(
        (good.tap.attempts(), worker.tap.attempts()),
        (1, 1),
        "no connection was lost"
    );
}

#[tokio::test]
async fn opencode_37_a_peer_that_asks_and_never_reads_is_dropped_alone() {
    let world = World::start(Via::Socket).await;
    let good = world.client().await;
    let session = good.create(&world.project("p")).await;
    good.attach(&session).await;
    let (mut raw, _) = Raw::welcomed(&world.socket()).await;
    let route = raw.attach(&session).await;
    let payload = serde_json::json!({ "text": "x".repeat(400_000) }).to_string();
    let call = format!(r#"{{"k":"call","i":5,"n":{route},"s":"probe","m":"echo"}}"#);
    let call = frame(&call, &payload);
    let mut written = 0;
    while raw.try_write(&call).await {
        written += 1;
        assert!(written < 500, "nothing bounds what waits for it");
        if written % 20 == 0 {
            good.probe.echo(&cx(), "x".into()).await.unwrap();
        }
    }
    wait_until("the server let it go", || {
        world.server.status().clients == 1
    })
    .await;
    good.probe.echo(&cx(), "x".into()).await.unwrap();
    assert_eq!(good.tap.attempts(), 1);
    assert_eq!(
        world.worker(&session).tap.attempts(),
        1,
        "the session's worker lost nothing"
    );
}

#[tokio::test]
async fn a_hundred_peers_that_come_and_go_leave_the_server_as_it_was() {
    let world = World::start(Via::Socket).await;
    let good = world.client().await;
    for round in 0..100 {
        let mut raw = Raw::connect(&world.socket()).await;
        let hello = crate::raw::hello(TOKEN);
        raw.write(&hello[..hello.len() * round / 100]).await;
        if round % 3 == 0 {
            let (mut raw, _) = Raw::welcomed(&world.socket()).await;
            raw.send(r#"{"k":"subscribe","i":1,"s":"session-directory"}"#, "")
                .await;
        }
    }
    wait_until("they are gone", || world.server.status().clients == 1).await;
    good.directory.state().ready(&cx()).await.unwrap();
}
