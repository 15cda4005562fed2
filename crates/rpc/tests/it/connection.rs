//! The connection itself: attempts, retries, refusals, goodbyes, limits of a message, silence.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_context::TaskScope;
use bezel_rpc::{
    Acceptor, CallError, Connect, ConnectError, ConnectionState, Context, ErrorCode, Limits, Link,
    PeerIdentity, Role, Router, ServiceClient, ServiceTable, Transport, loopback,
};
use futures::future::BoxFuture;

use crate::contract::ModelsClient;
use crate::provider::Catalogue;
use crate::stage::{Doorman, Medium, Stage, hello, on_every_transport, wait_until, within};

on_every_transport! {
    async fn a_lost_connection_fails_its_calls_at_once_and_comes_back_by_itself(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        let first = client.id();
        let mut running = Box::pin(client.models.hang(&cx));
        assert!(futures::poll!(&mut running).is_pending());
        wait_until("the call runs", || stage.catalogue.hanging.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
        client.tap.refuse(true);
        client.tap.cut();
        assert_eq!(within(running).await.expect_err("cut").code(), Some(ErrorCode::Disconnected));
        wait_until("the provider cancelled it", || stage.catalogue.hanging.load(std::sync::atomic::Ordering::SeqCst) == 0).await;
        let error = within(client.models.echo(&cx, "x".into())).await.expect_err("nothing is queued");
        assert_eq!(error.code(), Some(ErrorCode::Disconnected));
        let connection = client.link.connection();
        let retrying = |state: &ConnectionState| matches!(state, ConnectionState::Disconnected { retry_at: Some(_), .. });
        within(connection.wait_for(&cx, retrying)).await.expect("no deadline");
        client.tap.refuse(false);
        within(connection.wait_for(&cx, ConnectionState::is_connected)).await.expect("no deadline");
        client.models.echo(&cx, "x".into()).await.expect("the same handle");
        assert_ne!(client.id(), first, "another connection, another client");
    }

    async fn a_refused_credential_is_not_tried_again(stage: Stage) {
        let client = stage.client_unsettled("wrong");
        let state = within(client.link.settled(&Context::background())).await.expect("no deadline");
        let ConnectionState::Disconnected { reason, retry_at: None, .. } = &*state else { panic!("{state:?}") };
        assert!(reason.contains("log in again"), "{reason}");
        assert_eq!(client.tap.attempts(), 1);
    }

    async fn a_shutdown_says_goodbye_and_ends_every_connection(stage: Stage) {
        let client = stage.client("ann").await;
        let connection = client.link.connection();
        within(stage.acceptor.shutdown(Duration::from_secs(5))).await;
        let gone = |state: &ConnectionState| matches!(state, ConnectionState::Disconnected { reason, .. } if reason.contains("shutting down"));
        within(connection.wait_for(&Context::background(), gone)).await.expect("no deadline");
        assert_eq!(stage.router.client_count(), 0);
    }

    async fn a_stopped_link_is_gone_from_the_server_and_stays_away(stage: Stage) {
        let client = stage.client("ann").await;
        client.link.stop().await;
        wait_until("the server saw it", || stage.router.client_count() == 0).await;
        let state = client.link.connection().get();
        assert!(matches!(&*state, ConnectionState::Disconnected { retry_at: None, .. }), "{state:?}");
        assert_eq!(client.tap.attempts(), 1);
    }

    async fn large_messages_cross_whole_and_too_large_ones_fail_alone(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        let large = "ü0123456789".repeat(400_000);
        assert_eq!(client.models.echo(&cx, large.clone()).await.expect("it is below the limit"), large);
        let error = client.models.echo(&cx, "x".repeat(17 << 20)).await.expect_err("it is not");
        assert_eq!(error.code(), Some(ErrorCode::FrameTooLarge));
        client.models.echo(&cx, "x".into()).await.expect("the connection goes on");
    }
}

#[tokio::test]
async fn an_answer_or_a_state_beyond_the_limit_fails_alone() {
    let stage = Stage::with_limits(
        Medium::Loopback,
        Limits {
            message: 100_000,
            ..Limits::default()
        },
    );
    let client = stage.client("ann").await;
    let cx = Context::background();
    let many = vec![crate::contract::ModelRef::new("p", &"x".repeat(1000)); 200];
    stage
        .catalogue
        .state
        .update(&cx, |state| state.available = many);
    let error = client
        .models
        .page(&cx, None, 200)
        .await
        .expect_err("200 kB");
    assert_eq!(error.code(), Some(ErrorCode::FrameTooLarge));
    let state = client.models.state();
    client
        .models
        .echo(&cx, "x".into())
        .await
        .expect("the connection goes on");
    assert!(!state.is_ready());
}

#[tokio::test(start_paused = true)]
async fn one_connect_is_one_attempt_and_only_the_link_tries_again() {
    let stage = Stage::new(Medium::Loopback);
    let client = stage.client_unsettled("ann");
    client.tap.refuse(true);
    let connection = client.link.connection();
    let cx = Context::background();
    let seen: Arc<Mutex<Vec<ConnectionState>>> = Arc::default();
    let record = Arc::clone(&seen);
    let _subscription =
        connection.subscribe(move |state, _| record.lock().expect("lock").push((**state).clone()));
    wait_until("five attempts failed", || client.tap.attempts() == 5).await;
    let seen = seen.lock().expect("lock").clone();
    for attempt in 1..5 {
        let at = seen
            .iter()
            .position(|state| *state == ConnectionState::Connecting { attempt })
            .expect("it was shown");
        assert!(matches!(
            seen[at + 1],
            ConnectionState::Disconnected {
                retry_at: Some(_),
                ..
            }
        ));
    }
    client.tap.refuse(false);
    within(connection.wait_for(&cx, ConnectionState::is_connected))
        .await
        .expect("no deadline");
    let attempts = client.tap.attempts();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(
        client.tap.attempts(),
        attempts,
        "a connection that stands is left alone"
    );
}

/// A loopback on which silence is asked after, as over a network, and whose peer can freeze.
struct Watched {
    acceptor: Acceptor,
    frozen: crate::stage::Tap,
}

impl Connect for Watched {
    fn connect<'c>(&'c self, _cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        Box::pin(async {
            let (ours, theirs) = loopback();
            self.acceptor.spawn(theirs, PeerIdentity::local());
            let Transport {
                incoming,
                outgoing,
                sink,
                ..
            } = ours;
            let incoming = self.frozen.wrap(incoming);
            Ok(Transport {
                incoming,
                outgoing,
                sink,
                keepalive: Some(Duration::from_secs(30)),
            })
        })
    }
}

#[tokio::test(start_paused = true)]
async fn silence_is_asked_after_and_a_peer_that_does_not_answer_is_given_up() {
    let (table, router) = (ServiceTable::new(), Router::new());
    table
        .provide(ModelsClient::new(Catalogue::new()).exposed())
        .expect("it is the first");
    table.activate();
    let acceptor = Acceptor::new(table, Arc::new(Doorman), router, Limits::default());
    let tap = crate::stage::Tap::default();
    let connect = Arc::new(Watched {
        acceptor,
        frozen: tap.clone(),
    });
    let scope = TaskScope::new();
    let link = Link::start(
        &scope.spawner(),
        connect,
        hello(Role::Presentation, "ann"),
        ServiceTable::new(),
    );
    let cx = Context::background();
    within(link.settled(&cx)).await.expect("no deadline");
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(
        link.connection().get().is_connected(),
        "a living peer answers"
    );
    assert!(crate::stage::count(&tap.received(), "pong") >= 4);
    tap.stall(true);
    let lost = |state: &ConnectionState| matches!(state, ConnectionState::Disconnected { reason, .. } if reason.contains("did not answer"));
    tokio::time::timeout(
        Duration::from_secs(100),
        link.connection().wait_for(&cx, lost),
    )
    .await
    .expect("in time")
    .expect("no deadline");
}

#[tokio::test]
async fn the_acceptors_own_loopback_takes_the_same_way() {
    let (table, router) = (ServiceTable::new(), Router::new());
    table
        .provide(ModelsClient::new(Catalogue::new()).exposed())
        .expect("it is the first");
    table.activate();
    let acceptor = Acceptor::new(table, Arc::new(Doorman), router.clone(), Limits::default());
    let scope = TaskScope::new();
    let local = acceptor.local(PeerIdentity::local());
    let link = Link::start(
        &scope.spawner(),
        local,
        hello(Role::Presentation, "ann"),
        ServiceTable::new(),
    );
    let cx = Context::background();
    within(link.settled(&cx)).await.expect("no deadline");
    let models: ModelsClient = link.server().use_service();
    let (client, owner, _) = models.whoami(&cx).await.expect("known");
    assert_eq!(
        (Some(client), owner.as_str()),
        (link.client_id().map(|id| id.to_string()), "owner-ann")
    );
    assert_eq!(router.client_count(), 1);
    drop(acceptor);
    let error = within(async {
        loop {
            match models.echo(&cx, "x".into()).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(CallError::Rpc(error)) => return error,
                Err(CallError::Service(never)) => match never {},
            }
        }
    })
    .await;
    assert_eq!(error.code, ErrorCode::Disconnected);
}
