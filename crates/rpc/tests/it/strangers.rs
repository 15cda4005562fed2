//! Peers that are not let in yet, not any more, or that break a transport's rules.

use std::sync::Arc;
use std::task::{Context as Poller, Poll};

use bezel_rpc::{
    Acceptor, Frame, FrameSource, Limits, PeerIdentity, Router, ServiceClient, ServiceTable,
    Transport, TransportError, loopback,
};
use serde_json::Value;

use crate::contract::ModelsClient;
use crate::provider::Catalogue;
use crate::stage::{Doorman, wait_until, within};

fn acceptor() -> (Acceptor, Router, Catalogue) {
    let (table, catalogue, router) = (ServiceTable::new(), Catalogue::new(), Router::new());
    table
        .provide(ModelsClient::new(catalogue.clone()).exposed())
        .expect("it is the first");
    table.activate();
    let limits = Limits::default();
    let acceptor = Acceptor::new(table, Arc::new(Doorman), router.clone(), limits);
    (acceptor, router, catalogue)
}

fn elsewhere() -> PeerIdentity {
    from(1)
}

/// A peer of one machine among many.
fn from(machine: usize) -> PeerIdentity {
    let address = format!("192.0.2.{machine}");
    PeerIdentity::network(address.parse().expect("an address"))
}

fn knock(acceptor: &Acceptor, peer: PeerIdentity) -> Transport {
    let (ours, theirs) = loopback();
    acceptor.spawn(theirs, peer);
    ours
}

fn send(transport: &Transport, header: &str, payload: &str) {
    let frame = Frame {
        header: header.to_owned().into(),
        payload: payload.to_owned().into(),
    };
    transport
        .outgoing
        .send(frame)
        .expect("the connection is open");
}

fn hello(transport: &Transport) {
    let payload = r#"{"protocol":{"major":1,"minor":0},"role":"presentation","product_version":"1","credential":"ann"}"#;
    send(transport, r#"{"k":"hello"}"#, payload);
}

/// The kind of the next frame, and its payload.
async fn next(transport: &mut Transport) -> Option<(String, Value)> {
    let incoming = &mut transport.incoming;
    let frame = within(std::future::poll_fn(|poller| incoming.poll_recv(poller)));
    let frame = frame.await.ok()??;
    let header: Value = serde_json::from_slice(&frame.header).expect("JSON");
    let payload = serde_json::from_slice(&frame.payload).unwrap_or_default();
    Some((header["k"].as_str().expect("a kind").to_owned(), payload))
}

#[tokio::test]
async fn peers_from_the_network_that_say_nothing_leave_room_for_those_of_this_machine() {
    let (acceptor, _, _) = acceptor();
    let mut silent = Vec::new();
    for machine in 0..4 {
        silent.extend((0..16).map(|_| knock(&acceptor, from(machine))));
        // One machine has its share, and all together have theirs.
        let next_machine = machine + usize::from(machine == 3);
        let mut surplus = knock(&acceptor, from(next_machine));
        let (kind, refusal) = next(&mut surplus).await.expect("an answer");
        assert_eq!(
            (kind.as_str(), &refusal["code"]),
            ("refuse", &"resource_exhausted".into())
        );
    }
    let mut local = knock(&acceptor, PeerIdentity::local());
    hello(&local);
    assert_eq!(next(&mut local).await.expect("an answer").0, "welcome");
    // One of them speaks: it is a client now, and its place is free again.
    hello(&silent[0]);
    assert_eq!(next(&mut silent[0]).await.expect("an answer").0, "welcome");
    let mut late = knock(&acceptor, from(9));
    hello(&late);
    assert_eq!(next(&mut late).await.expect("an answer").0, "welcome");
}

/// Passes frames on until the test breaks the rules.
struct Breaking {
    inner: Box<dyn FrameSource>,
    frames: usize,
}

impl FrameSource for Breaking {
    fn poll_recv(
        &mut self,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<Option<Frame>, TransportError>> {
        if self.frames == 0 {
            let (size, limit) = (usize::MAX, 1);
            return Poll::Ready(Err(TransportError::FrameTooLarge { size, limit }));
        }
        let received = self.inner.poll_recv(poller);
        if received.is_ready() {
            self.frames -= 1;
        }
        received
    }
}

#[tokio::test]
async fn a_peer_that_passes_a_limit_is_told_which_before_its_connection_ends() {
    for (frames, told) in [(0, "refuse"), (1, "goaway")] {
        let (acceptor, _, _) = acceptor();
        let (mut ours, theirs) = loopback();
        let inner = theirs.incoming;
        let incoming = Box::new(Breaking { inner, frames });
        acceptor.spawn(Transport { incoming, ..theirs }, elsewhere());
        hello(&ours);
        if frames > 0 {
            assert_eq!(next(&mut ours).await.expect("an answer").0, "welcome");
        }
        let (kind, payload) = next(&mut ours).await.expect("an answer");
        assert_eq!(
            (kind.as_str(), &payload["code"]),
            (told, &"frame_too_large".into())
        );
        assert_eq!(next(&mut ours).await, None);
    }
}

#[tokio::test]
async fn a_client_that_is_dismissed_is_told_why_and_nothing_more_of_it_is_acted_on() {
    let (acceptor, router, catalogue) = acceptor();
    let mut client = knock(&acceptor, elsewhere());
    hello(&client);
    let (_, welcome) = next(&mut client).await.expect("an answer");
    let id = bezel_context::ClientId::new(welcome["client"].as_str().expect("an id"));
    assert_eq!(router.principals()[0].client, id);
    let reason = bezel_rpc::RpcError::new(bezel_rpc::ErrorCode::NotAuthorized, "taken back");
    assert!(router.dismiss_client(&id, &reason));
    // It reads nothing, and goes on calling.
    for id in 1..50 {
        let header = format!(r#"{{"k":"call","i":{id},"s":"models","m":"hang"}}"#);
        send(&client, &header, "{}");
    }
    wait_until("the client is gone", || router.client_count() == 0).await;
    assert!(catalogue.log.get().is_empty());
    let (kind, payload) = next(&mut client).await.expect("an answer");
    assert_eq!(
        (kind.as_str(), &payload["message"]),
        ("goaway", &"taken back".into())
    );
    assert!(!router.dismiss_client(&id, &reason));
}
