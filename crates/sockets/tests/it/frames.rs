//! What crosses an upgraded connection.

use bezel_rpc::TransportError;

use crate::stage::{finish, frame, listener, pair, recv};

#[tokio::test]
async fn frames_cross_both_ways_in_order() {
    let mut listener = listener().await;
    let (mut client, mut server) = pair(&mut listener).await;
    for number in 0..500 {
        let sent = frame(
            &format!("{{\"k\":\"call\",\"i\":{number}}}"),
            format!("[{number}]"),
        );
        client.outgoing.send(sent).unwrap();
    }
    client.outgoing.send(frame("{\"k\":\"ping\"}", "")).unwrap();
    let writer = async { recv(&mut client).await.unwrap() };
    let reader = async {
        for number in 0..500 {
            let got = recv(&mut server).await.unwrap().unwrap();
            assert_eq!(got.payload, format!("[{number}]"));
        }
        let last = recv(&mut server).await.unwrap().unwrap();
        assert_eq!(last, frame("{\"k\":\"ping\"}", ""));
        server.outgoing.send(frame("{\"k\":\"pong\"}", "")).unwrap();
        finish(server).await;
    };
    let (got, ()) = futures::join!(writer, reader);
    assert_eq!(got.unwrap(), frame("{\"k\":\"pong\"}", ""));
    assert!(
        recv(&mut client).await.unwrap().is_none(),
        "it was closed in order"
    );
}

#[tokio::test]
async fn a_small_call_passes_a_large_answer_and_text_is_never_cut_inside_a_character() {
    let mut listener = listener().await;
    let (mut client, server) = pair(&mut listener).await;
    let large = frame("{\"k\":\"ok\",\"i\":1}", "€".repeat(2 << 20));
    let small = frame("{\"k\":\"call\",\"i\":2}", "{}");
    server.outgoing.send(large.clone()).unwrap();
    server.outgoing.send(small.clone()).unwrap();
    let reader = async {
        let first = recv(&mut client).await.unwrap().unwrap();
        assert_eq!(first, small);
        assert_eq!(recv(&mut client).await.unwrap().unwrap(), large);
        assert!(recv(&mut client).await.unwrap().is_none());
        finish(client).await;
    };
    futures::join!(reader, finish(server));
}

#[tokio::test]
async fn a_frame_that_is_no_text_is_not_sent() {
    let mut listener = listener().await;
    let (client, mut server) = pair(&mut listener).await;
    server
        .outgoing
        .send(frame("{\"k\":\"ok\",\"i\":1}", vec![0xff, 0xfe]))
        .unwrap();
    let outbox = server.outgoing.clone();
    let sink = server.sink.as_mut().unwrap();
    let ended = std::future::poll_fn(|poller| sink.poll_drain(&outbox, poller)).await;
    assert!(
        matches!(ended, Err(TransportError::Framing(_))),
        "{ended:?}"
    );
    drop(client);
}

#[tokio::test]
async fn a_peer_that_reads_nothing_is_given_up_and_not_waited_for() {
    let mut listener = listener().await;
    let (client, mut server) = pair(&mut listener).await;
    let outbox = server.outgoing.clone();
    let sink = server.sink.as_mut().unwrap();
    let ended = std::future::poll_fn(|poller| {
        // As much as the sink takes, until what waits passes the queue's bound.
        for _ in 0..64 {
            let sent = outbox.send(frame("{\"k\":\"state\",\"i\":1}", "x".repeat(60_000)));
            if sent.is_err() {
                break;
            }
        }
        poller.waker().wake_by_ref();
        sink.poll_drain(&outbox, poller)
    });
    let ended = crate::stage::within(ended).await;
    assert!(
        matches!(ended, Err(TransportError::Overflow(_))),
        "{ended:?}"
    );
    drop(client);
}
