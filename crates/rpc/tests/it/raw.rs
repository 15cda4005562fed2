//! A peer written by hand: what a correct one never sends.

use std::sync::Arc;
use std::time::Duration;

use bezel_context::ClientId;
use bezel_rpc::{
    Acceptor, Context, Frame, Limits, PeerIdentity, Router, ServiceClient, ServiceTable, Transport,
    loopback,
};
use serde_json::{Value, json};

use crate::contract::ModelsClient;
use crate::provider::Catalogue;
use crate::stage::{Doorman, Medium, Stage, wait_until, within};

/// A server with the example service, and one raw connection to it.
struct Raw {
    transport: Transport,
    catalogue: Catalogue,
    router: Router,
    _acceptor: Acceptor,
}

impl Raw {
    fn connect(limits: Limits) -> Self {
        let (table, catalogue, router) = (ServiceTable::new(), Catalogue::new(), Router::new());
        table
            .provide(ModelsClient::new(catalogue.clone()).exposed())
            .expect("it is the first");
        table.activate();
        let acceptor = Acceptor::new(table, Arc::new(Doorman), router.clone(), limits);
        Raw::over(&acceptor, catalogue, router)
    }

    fn over(acceptor: &Acceptor, catalogue: Catalogue, router: Router) -> Self {
        let (transport, theirs) = loopback();
        acceptor.spawn(theirs, PeerIdentity::local());
        Raw {
            transport,
            catalogue,
            router,
            _acceptor: acceptor.clone(),
        }
    }

    async fn greeted(limits: Limits) -> Self {
        let mut raw = Raw::connect(limits);
        raw.hello("ann");
        assert_eq!(raw.next().await.expect("welcome").0["k"], "welcome");
        raw
    }

    fn hello(&self, token: &str) {
        let payload = json!({ "protocol": { "major": 1, "minor": 0 }, "role": "presentation", "product_version": "1", "credential": token });
        self.send(r#"{"k":"hello"}"#, &payload.to_string());
    }

    fn send(&self, header: &str, payload: &str) {
        let frame = Frame {
            header: header.to_owned().into(),
            payload: payload.to_owned().into(),
        };
        self.transport
            .outgoing
            .send(frame)
            .expect("the connection is open");
    }

    async fn next(&mut self) -> Option<(Value, Value)> {
        let frame = within(std::future::poll_fn(|poller| {
            self.transport.incoming.poll_recv(poller)
        }))
        .await
        .ok()??;
        let payload = if frame.payload.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&frame.payload).expect("JSON")
        };
        Some((
            serde_json::from_slice(&frame.header).expect("JSON"),
            payload,
        ))
    }

    /// The code of the error that answers a frame.
    async fn code(&mut self, header: &str, payload: &str) -> String {
        self.send(header, payload);
        let (header, payload) = self.next().await.expect("an answer");
        assert!(
            matches!(header["k"].as_str(), Some("err" | "closed")),
            "{header} {payload}"
        );
        payload["code"].as_str().expect("a code").to_owned()
    }
}

const ECHO: &str = r#"{"k":"call","i":1,"s":"models","m":"echo"}"#;

#[tokio::test]
async fn arguments_that_are_not_strict_json_are_refused_with_a_stable_code() {
    let mut raw = Raw::greeted(Limits::default()).await;
    let deep = format!(
        r#"{{"text":"x","more":{}{}}}"#,
        "[".repeat(80),
        "]".repeat(80)
    );
    for payload in [
        r#"{"text":1}"#,
        "{}",
        r#"{"text":"x"} tail"#,
        r#"{"text":"x","text":"y"}"#,
        r#"{"text":NaN}"#,
        r#"{"text":"x","n":9007199254740993}"#,
        "[]",
        "null",
        "",
        "\u{1}",
        deep.as_str(),
    ] {
        assert_eq!(
            raw.code(ECHO, payload).await,
            "invalid_arguments",
            "{payload}"
        );
    }
    raw.send(ECHO, r#"{"text":"x","unknown":[1]}"#);
    assert_eq!(raw.next().await.expect("an answer").1, json!("x"));
    raw.send(
        r#"{"k":"call","i":2,"s":"models","m":"page"}"#,
        r#"{"size":1}"#,
    );
    assert_eq!(
        raw.next().await.expect("a missing optional is null").1,
        json!([{ "provider": "local", "model_id": "small" }])
    );
}

#[tokio::test]
async fn unknown_services_and_members_are_told_apart_and_kinds_do_not_mix() {
    let mut raw = Raw::greeted(Limits::default()).await;
    assert_eq!(
        raw.code(r#"{"k":"call","i":1,"s":"credentials","m":"get"}"#, "")
            .await,
        "unknown_service"
    );
    assert_eq!(
        raw.code(r#"{"k":"call","i":1,"s":"models","m":"drop"}"#, "")
            .await,
        "unknown_member"
    );
    assert_eq!(
        raw.code(r#"{"k":"call","i":1,"s":"models","m":"state"}"#, "")
            .await,
        "unknown_member"
    );
    assert_eq!(
        raw.code(r#"{"k":"subscribe","i":1,"s":"credentials"}"#, "")
            .await,
        "unknown_service"
    );
    assert_eq!(raw.code(r#"{"k":"call","i":1}"#, "").await, "protocol");
}

#[tokio::test]
async fn a_malformed_or_missing_trace_carrier_still_succeeds_under_a_root() {
    let mut raw = Raw::greeted(Limits::default()).await;
    for trace in [
        "",
        r#","t":"nonsense""#,
        r#","t":"00-00000000000000000000000000000000-0000000000000000-01""#,
    ] {
        raw.send(
            &format!(r#"{{"k":"call","i":1,"s":"models","m":"whoami"{trace}}}"#),
            "{}",
        );
        let (header, payload) = raw.next().await.expect("an answer");
        assert_eq!(header["k"], "ok");
        assert_ne!(payload[2], json!("0".repeat(32)));
    }
    let trace = "0af7651916cd43dd8448eb211c80319c";
    raw.send(
        &format!(
            r#"{{"k":"call","i":1,"s":"models","m":"whoami","t":"00-{trace}-b7ad6b7169203331-01"}}"#
        ),
        "{}",
    );
    assert_eq!(raw.next().await.expect("an answer").1[2], json!(trace));
}

#[tokio::test]
async fn calls_and_subscriptions_beyond_the_limit_are_refused_one_by_one() {
    let limits = Limits {
        calls: 3,
        subscriptions: 2,
        ..Limits::default()
    };
    let mut raw = Raw::greeted(limits).await;
    for id in 1..=3 {
        raw.send(
            &format!(r#"{{"k":"call","i":{id},"s":"models","m":"hang"}}"#),
            "{}",
        );
    }
    assert_eq!(
        raw.code(r#"{"k":"call","i":4,"s":"models","m":"hang"}"#, "{}")
            .await,
        "resource_exhausted"
    );
    raw.send(r#"{"k":"cancel","i":2}"#, "");
    raw.send(
        r#"{"k":"call","i":5,"s":"models","m":"echo"}"#,
        r#"{"text":"x"}"#,
    );
    assert_eq!(raw.next().await.expect("there is room again").1, json!("x"));
    for id in [11, 12] {
        raw.send(&format!(r#"{{"k":"subscribe","i":{id},"s":"models"}}"#), "");
        assert_eq!(raw.next().await.expect("an answer").0["k"], "snapshot");
    }
    assert_eq!(
        raw.code(r#"{"k":"subscribe","i":13,"s":"models"}"#, "")
            .await,
        "resource_exhausted"
    );
    raw.send(r#"{"k":"unsubscribe","i":11}"#, "");
    raw.send(r#"{"k":"subscribe","i":14,"s":"models"}"#, "");
    assert_eq!(
        raw.next().await.expect("there is room again").0["k"],
        "snapshot"
    );
}

#[tokio::test]
async fn an_id_in_use_is_refused_and_its_call_goes_on() {
    let mut raw = Raw::greeted(Limits::default()).await;
    raw.send(r#"{"k":"call","i":1,"s":"models","m":"hang"}"#, "{}");
    assert_eq!(raw.code(ECHO, r#"{"text":"x"}"#).await, "protocol");
    assert_eq!(
        raw.catalogue
            .hanging
            .load(std::sync::atomic::Ordering::SeqCst),
        1
    );
}

#[tokio::test]
async fn a_subscriber_that_gives_no_credit_gets_one_window_and_then_the_latest_value() {
    let mut raw = Raw::greeted(Limits::default()).await;
    raw.send(r#"{"k":"subscribe","i":1,"s":"models","w":2000}"#, "");
    assert_eq!(raw.next().await.expect("an answer").0["k"], "snapshot");
    let cx = Context::background();
    for step in 0..50 {
        raw.catalogue
            .state
            .update(&cx, |state| state.notes = format!("{step:>1000}"));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    raw.send(
        r#"{"k":"call","i":2,"s":"models","m":"echo"}"#,
        r#"{"text":"x"}"#,
    );
    let mut states = 0;
    loop {
        let (header, _) = raw.next().await.expect("an answer");
        match header["k"].as_str() {
            Some("state") => states += 1,
            _ => break,
        }
    }
    assert!((1..=3).contains(&states), "{states}");
    raw.send(r#"{"k":"credit","i":1,"w":4000}"#, "");
    let (header, payload) = raw.next().await.expect("the latest value");
    assert_eq!(header["k"], "state");
    assert!(payload.to_string().contains(&format!("{:>1000}", 49)));
}

#[tokio::test]
async fn what_a_peer_may_not_send_ends_its_connection_with_the_reason() {
    for (header, payload) in [
        (r#"{"k":"attach","n":1}"#, "{}"),
        (r#"{"k":"attachment","n":1}"#, "{}"),
        (r#"{"k":"welcome"}"#, "{}"),
        (r#"{"k":"hello"}"#, "{}"),
        (r#"{"k":"ok","i":1,"n":1}"#, "{}"),
        (r#"{"k":"part","i":1}"#, "{}"),
        (r#"{"k":"shout"}"#, ""),
        (r#"{"k":"call","i":1,"i":2}"#, ""),
        ("nonsense", ""),
        ("", ""),
        (r#"{"k":"services"}"#, "[1]"),
    ] {
        let mut raw = Raw::greeted(Limits::default()).await;
        raw.send(header, payload);
        let (answer, reason) = raw.next().await.expect("a goodbye");
        assert_eq!(
            (answer["k"].as_str(), reason["code"].as_str()),
            (Some("goaway"), Some("protocol")),
            "{header}"
        );
        assert!(raw.next().await.is_none());
    }
}

#[tokio::test]
async fn frames_under_an_incarnation_that_is_not_the_clients_own_are_dropped() {
    let mut raw = Raw::greeted(Limits::default()).await;
    for route in [0, 1, 2, 99] {
        raw.send(
            &format!(r#"{{"k":"call","i":1,"n":{route},"s":"models","m":"echo"}}"#),
            r#"{"text":"x"}"#,
        );
    }
    raw.send(ECHO, r#"{"text":"after"}"#);
    assert_eq!(raw.next().await.expect("an answer").1, json!("after"));
    assert_eq!(raw.router.client_count(), 1);
}

#[tokio::test]
async fn a_client_that_knows_anothers_incarnation_can_do_nothing_with_it() {
    use std::sync::atomic::Ordering;
    let stage = Stage::new(Medium::Loopback);
    let worker = stage.worker("S0").await;
    let bob = stage.client("bob").await;
    let models = bob.attach(&stage, "S0").await;
    let cx = Context::background();
    let mut running = Box::pin(models.hang(&cx));
    assert!(futures::poll!(&mut running).is_pending());
    let hanging = || worker.catalogue.hanging.load(Ordering::SeqCst);
    wait_until("bob's call runs", || hanging() == 1).await;
    let call = worker
        .tap
        .received()
        .into_iter()
        .find(|(header, _)| header.contains("\"m\":\"hang\""))
        .expect("it was called");
    let call: Value = serde_json::from_str(&call.0).expect("a header");
    let (bobs, id) = (call["n"].as_u64().expect("an incarnation"), &call["i"]);

    let mut raw = Raw::over(&stage.acceptor, Catalogue::new(), stage.router.clone());
    raw.hello("ann");
    let (_, welcome) = raw.next().await.expect("welcome");
    let ann = ClientId::new(welcome["client"].as_str().expect("an id"));
    let own = stage
        .router
        .bind(&ann, "S0")
        .expect("it is connected")
        .incarnation
        .expect("the worker is there");
    assert_eq!(raw.next().await.expect("attached").0["n"], json!(own));
    raw.send(&format!(r#"{{"k":"cancel","i":{id},"n":{bobs}}}"#), "");
    raw.send(
        &format!(r#"{{"k":"call","i":7,"n":{bobs},"s":"models","m":"whoami"}}"#),
        "{}",
    );
    raw.send(&format!(r#"{{"k":"cancel","i":{id},"n":{own}}}"#), "");
    raw.send(
        &format!(r#"{{"k":"call","i":8,"n":{own},"s":"models","m":"whoami"}}"#),
        "{}",
    );
    let (header, payload) = raw.next().await.expect("an answer");
    assert_eq!(
        (&header["i"], &payload[1]),
        (&json!(8), &json!("owner-ann"))
    );
    assert!(futures::poll!(&mut running).is_pending());
    assert_eq!(hanging(), 1);
}

#[tokio::test]
async fn a_first_frame_that_is_no_hello_is_refused_with_the_reason() {
    for (header, payload, code) in [
        (
            r#"{"k":"call","i":1,"s":"models","m":"echo"}"#,
            "{}",
            "protocol",
        ),
        (r#"{"k":"hello"}"#, "{}", "protocol"),
        ("{", "", "protocol"),
        (
            r#"{"k":"hello"}"#,
            r#"{"protocol":{"major":7,"minor":0},"role":"presentation","product_version":"7"}"#,
            "incompatible_version",
        ),
        (
            r#"{"k":"hello"}"#,
            r#"{"protocol":{"major":1,"minor":0},"role":"presentation","product_version":"1","credential":"wrong"}"#,
            "not_authorized",
        ),
    ] {
        let mut raw = Raw::connect(Limits::default());
        raw.send(header, payload);
        let (answer, reason) = raw.next().await.expect("an answer");
        assert_eq!(
            (answer["k"].as_str(), reason["code"].as_str()),
            (Some("refuse"), Some(code)),
            "{header} {payload}"
        );
        assert!(raw.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_says_hello_is_let_go() {
    let mut raw = Raw::connect(Limits::default());
    assert_eq!(raw.next().await.expect("an answer").0["k"], "refuse");
}

#[tokio::test]
async fn a_ping_is_answered() {
    let mut raw = Raw::greeted(Limits::default()).await;
    raw.send(r#"{"k":"ping"}"#, "");
    assert_eq!(raw.next().await.expect("an answer").0["k"], "pong");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped_alone() {
    let raw = Raw::greeted(Limits::default()).await;
    let payload = json!({ "text": "x".repeat(1 << 20) }).to_string();
    let mut sent = 0;
    while raw
        .transport
        .outgoing
        .send(Frame {
            header: ECHO.into(),
            payload: payload.clone().into(),
        })
        .is_ok()
    {
        sent += 1;
        assert!(sent < 64, "its queue has no bound");
        tokio::task::yield_now().await;
    }
    wait_until("it is gone", || raw.router.client_count() == 0).await;
}
