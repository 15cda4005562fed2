//! 7, 9, 11, 12, 25 and 38: a call from its beginning to its end, wherever that is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bezel_context::{Context, TaskScope};
use bezel_rpc::{
    CallError, Connect, ConnectError, ConnectionState, Credential, ErrorCode, Hello, Link, Role,
    ServiceTable, Transport,
};
use futures::future::BoxFuture;
use tracing_subscriber::layer::SubscriberExt;

use crate::over_both;
use crate::raw::Raw;
use crate::world::{Via, World, cx, wait_until};

/// Attempts that never end, or fail at once.
#[derive(Default)]
struct Attempts {
    begun: AtomicUsize,
    given_up: Arc<AtomicUsize>,
    fail: bool,
}

struct GivenUp(Arc<AtomicUsize>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Connect for Attempts {
    fn connect<'c>(&'c self, _cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let given_up = GivenUp(Arc::clone(&self.given_up));
        Box::pin(async move {
            let _given_up = given_up;
            if !self.fail {
                std::future::pending::<()>().await;
            }
            Err(ConnectError::Closed)
        })
    }
}

fn dial(scope: &TaskScope, attempts: &Arc<Attempts>) -> Link {
    let hello = Hello {
        role: Role::Presentation,
        product_version: "0.1.0".into(),
        credential: Credential::none(),
    };
    let connect = Arc::<Attempts>::clone(attempts);
    Link::start(&scope.spawner(), connect, hello, ServiceTable::new())
}

#[tokio::test(start_paused = true)]
async fn b07_one_connect_makes_one_abortable_attempt_and_only_the_host_tries_again() {
    let scope = TaskScope::new();
    let hanging = Arc::new(Attempts::default());
    let link = dial(&scope, &hanging);
    wait_until("an attempt runs", || {
        hanging.begun.load(Ordering::SeqCst) == 1
    })
    .await;
    link.stop().await;
    assert_eq!(
        hanging.given_up.load(Ordering::SeqCst),
        1,
        "the attempt was dropped"
    );
    assert_eq!(hanging.begun.load(Ordering::SeqCst), 1);

    let failing = Arc::new(Attempts {
        fail: true,
        ..Attempts::default()
    });
    let link = dial(&scope, &failing);
    let cx = Context::background();
    for attempts in 1..5 {
        let waiting = |state: &ConnectionState| {
            matches!(
                state,
                ConnectionState::Disconnected {
                    retry_at: Some(_),
                    ..
                }
            )
        };
        link.connection().wait_for(&cx, waiting).await.unwrap();
        assert_eq!(
            failing.begun.load(Ordering::SeqCst),
            attempts,
            "one attempt, then a pause"
        );
        let trying = |state: &ConnectionState| matches!(state, ConnectionState::Connecting { .. });
        let again = async {
            while !trying(&link.connection().get())
                && failing.begun.load(Ordering::SeqCst) == attempts
            {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        again.await;
        wait_until("the next attempt", || {
            failing.begun.load(Ordering::SeqCst) > attempts
        })
        .await;
    }
}

#[tokio::test]
async fn b09_arguments_results_and_state_that_are_not_strict_json_are_refused_with_a_stable_code() {
    let world = World::start(Via::Socket).await;
    let client = world.client().await;
    let session = client.create(&world.project("p")).await;
    client.attach(&session).await;
    let worker = world.worker(&session);

    let (mut raw, _) = Raw::welcomed(&world.socket()).await;
    let route = raw.attach(&session).await;
    let echo = format!(r#"{{"k":"call","i":2,"n":{route},"s":"probe","m":"echo"}}"#);
    let deep = format!(
        r#"{{"text":"x","more":{}{}}}"#,
        "[".repeat(70),
        "]".repeat(70)
    );
    for payload in [
        r#"{"text":"x","text":"y"}"#,
        r#"{"text":"x","more":NaN}"#,
        r#"{"text":"x","more":9007199254740993}"#,
        r#"{"text":"x"} {}"#,
        r#"{"text":7}"#,
        "",
        &deep,
    ] {
        assert_eq!(
            raw.code(&echo, payload).await,
            "invalid_arguments",
            "{payload}"
        );
    }
    assert_eq!(worker.object.called.load(Ordering::SeqCst), 0);

    for kind in ["duplicate", "integer", "deep"] {
        let error = client.probe.loose(&cx(), kind.into()).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::InvalidResult), "{kind}");
    }
    assert_eq!(
        client.probe.loose(&cx(), "fine".into()).await.unwrap().0,
        "fine"
    );

    // State that no reader keeps exact is not shown, and not asked for again and again.
    let state = client.probe.state();
    state.ready(&cx()).await.unwrap();
    let cell = &worker.object.state;
    cell.update(&cx(), |state| state.count = (1 << 53) + 1);
    wait_until("it is marked stale", || state.is_stale()).await;
    for _ in 0..20 {
        client.probe.echo(&cx(), "x".into()).await.unwrap();
    }
    assert_eq!(state.get().count, 0);
    assert_eq!(worker.tap.count("subscribe"), 2);
}

over_both! {
    async fn b11_aborting_one_call_aborts_that_calls_context_alone(world: World) {
        let client = world.client().await;
        let session = client.create(&world.project("p")).await;
        client.attach(&session).await;
        let object = world.worker(&session).object.clone();
        let (aborted_cx, abort) = cx().with_cancel();
        let context = cx();
        let mut aborted = Box::pin(client.probe.hang(&aborted_cx));
        let mut kept = Box::pin(client.probe.hang(&context));
        assert!(futures::poll!(&mut aborted).is_pending() && futures::poll!(&mut kept).is_pending());
        wait_until("both run", || object.hanging() == 2).await;
        abort.cancel();
        assert_eq!(aborted.await.unwrap_err().code(), Some(ErrorCode::Cancelled));
        wait_until("one has ended", || object.hanging() == 1).await;
        client.probe.echo(&context, "x".into()).await.unwrap();
        assert!(futures::poll!(&mut kept).is_pending());
        assert_eq!(object.hanging(), 1);
    }

    async fn b12_a_disconnect_ends_that_clients_calls_and_subscriptions_and_no_job(world: World) {
        let (ann, bob) = (world.client().await, world.client().await);
        let session = ann.create(&world.project("p")).await;
        ann.attach(&session).await;
        bob.attach(&session).await;
        let worker = world.worker(&session);
        let context = cx();
        let job = ann.probe.work(&context).await.unwrap();
        let (states, done) = ([ann.probe.state(), bob.probe.state()], job.done());
        for state in &states {
            state.ready(&context).await.unwrap();
        }
        done.ready(&context).await.unwrap();
        let mut anns = Box::pin(ann.probe.hang(&context));
        let mut bobs = Box::pin(bob.probe.hang(&context));
        let mut waiting = Box::pin(job.wait(&context));
        assert!(futures::poll!(&mut anns).is_pending() && futures::poll!(&mut bobs).is_pending());
        assert!(futures::poll!(&mut waiting).is_pending());
        wait_until("both run", || worker.object.hanging() == 2).await;
        ann.tap.refuse(true);
        ann.tap.cut();
        assert_eq!(anns.await.unwrap_err().code(), Some(ErrorCode::Disconnected));
        assert_eq!(waiting.await.unwrap_err().code(), Some(ErrorCode::Disconnected));
        wait_until("its invocation was cancelled", || worker.object.hanging() == 1).await;
        wait_until("its state is stale", || states[0].is_stale()).await;
        // The other client, the job and what the session owns go on.
        assert!(futures::poll!(&mut bobs).is_pending());
        worker.object.state.update(&context, |state| state.count = 1);
        states[1].wait_for(&context, |state| state.count == 1).await.unwrap();
        let running = worker.object.job.lock().unwrap().clone().unwrap();
        assert_eq!(running.outcome(), None);
        let same = bob.probe.work(&context).await.unwrap();
        same.cancel(&context).await.unwrap();
        assert!(matches!(same.wait(&context).await, Err(CallError::Service(_))), "that ends it, for everybody");
    }

    async fn b38_what_nobody_expected_crosses_as_internal_without_its_cause(world: World) {
        let client = world.client().await;
        let session = client.create(&world.project("p")).await;
        client.attach(&session).await;
        let error = client.probe.explode(&cx()).await.unwrap_err();
        let CallError::Rpc(error) = error else { panic!("not a contract's error: {error}") };
        assert_eq!(error.code, ErrorCode::Internal);
        let id = error.data.as_ref().and_then(|data| data["id"].as_str()).unwrap().to_owned();
        assert!(error.message.contains(&id), "the id is what the log has");
        for (_, payload) in client.tap.received() {
            for cause in ["secret recipe", "/etc/recipes", ".rs", "panicked"] {
                assert!(!payload.contains(cause), "{payload}");
            }
        }
        client.probe.echo(&cx(), "alive".into()).await.unwrap();
    }
}

type Spans = Arc<Mutex<Vec<(String, String)>>>;

/// Keeps the name and the trace of each span.
struct Capture(Spans);

#[derive(Default)]
struct TraceId(String);

impl tracing::field::Visit for TraceId {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if field.name() == "trace_id" {
            self.0 = format!("{value:?}").trim_matches('"').to_owned();
        }
    }
}

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Capture {
    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        _: &tracing::Id,
        _: tracing_subscriber::layer::Context<'_, S>,
    ) {
        let mut trace = TraceId::default();
        attributes.record(&mut trace);
        let name = attributes.metadata().name().to_owned();
        self.0.lock().unwrap().push((name, trace.0));
    }
}

#[tokio::test]
async fn b25_client_server_and_service_spans_form_one_trace_and_a_malformed_carrier_still_succeeds()
{
    let spans = Spans::default();
    let subscriber = tracing_subscriber::registry().with(Capture(Arc::clone(&spans)));
    let _guard = tracing::subscriber::set_default(subscriber);
    let world = World::start(Via::Socket).await;
    let client = world.client().await;
    let session = client.create(&world.project("p")).await;
    client.attach(&session).await;
    spans.lock().unwrap().clear();
    let context = cx();
    let (_, _, trace) = client.probe.whoami(&context).await.unwrap();
    assert_eq!(trace, format!("{:032x}", context.trace().trace_id()));
    let names = |trace: &str| -> Vec<String> {
        let spans = spans.lock().unwrap();
        let own = spans.iter().filter(|(_, of)| of == trace);
        own.map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(
        names(&trace),
        ["rpc.client", "rpc.server", "service.whoami"]
    );

    let (mut raw, _) = Raw::welcomed(&world.socket()).await;
    let route = raw.attach(&session).await;
    for carrier in [
        "nonsense",
        "00-00000000000000000000000000000000-0000000000000000-01",
        "",
    ] {
        let whoami =
            format!(r#"{{"k":"call","i":9,"n":{route},"s":"probe","m":"whoami","t":"{carrier}"}}"#);
        raw.send(&whoami, "{}").await;
        let (_, payload) = loop {
            let (header, payload) = raw.next_of(&["ok", "err"]).await;
            if header["i"] == 9 {
                break (header, payload);
            }
        };
        let root = payload[2].as_str().unwrap();
        assert_eq!(names(root), ["rpc.server", "service.whoami"], "{carrier}");
    }
}
