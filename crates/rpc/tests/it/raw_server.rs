//! A server written by hand: what a consumer makes of one that is wrong.

use std::sync::{Arc, Mutex};

use bezel_context::TaskScope;
use bezel_rpc::{
    CallError, Connect, ConnectError, ConnectionState, Context, Delivery, ErrorCode, Frame, Link,
    Role, ServiceTable, State, Transport, loopback,
};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::contract::{ModelsClient, ModelsState};
use crate::stage::{hello, within};

/// Hands out one end of a loopback, once.
struct Once(Mutex<Option<Transport>>);

impl Connect for Once {
    fn connect<'c>(&'c self, _cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        Box::pin(async {
            let transport = self.0.lock().expect("lock").take();
            transport.ok_or_else(|| ConnectError::Unreachable {
                endpoint: "once".into(),
                cause: std::io::ErrorKind::NotFound.into(),
            })
        })
    }
}

struct Server {
    transport: Transport,
    link: Link,
    _scope: TaskScope,
}

impl Server {
    fn start() -> Self {
        let (ours, theirs) = loopback();
        let scope = TaskScope::new();
        let connect = Arc::new(Once(Mutex::new(Some(theirs))));
        let link = Link::start(
            &scope.spawner(),
            connect,
            hello(Role::Presentation, "ann"),
            ServiceTable::new(),
        );
        Server {
            transport: ours,
            link,
            _scope: scope,
        }
    }

    async fn welcomed(limits: Value) -> (Self, ModelsClient) {
        let mut server = Server::start();
        assert_eq!(server.next().await.0["k"], "hello");
        let member =
            |name: &str, kind: &str| json!({ "name": name, "kind": kind, "scope": "read" });
        let members = [
            member("state", "state"),
            member("log", "state"),
            member("events", "events"),
        ];
        let services =
            json!([{ "id": "models", "version": { "major": 1, "minor": 2 }, "members": members }]);
        let welcome = json!({
            "protocol": { "major": 1, "minor": 0 }, "product_version": "1", "client": "c1", "limits": limits, "services": services,
        });
        server.send(r#"{"k":"welcome"}"#, &welcome.to_string());
        assert!(
            within(server.link.settled(&Context::background()))
                .await
                .expect("no deadline")
                .is_connected()
        );
        let models = server.link.server().use_service();
        (server, models)
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

    async fn next(&mut self) -> (Value, Value) {
        let frame = within(std::future::poll_fn(|poller| {
            self.transport.incoming.poll_recv(poller)
        }))
        .await;
        let frame = frame.expect("no error").expect("a frame");
        let payload = if frame.payload.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&frame.payload).expect("JSON")
        };
        (
            serde_json::from_slice(&frame.header).expect("JSON"),
            payload,
        )
    }

    async fn hydrated(&mut self, models: &ModelsClient) -> (u64, State<ModelsState>) {
        let state = models.state();
        let id = self.subscribed().await;
        self.snapshot(id, 7, "first");
        within(state.ready(&Context::background()))
            .await
            .expect("no deadline");
        (id, state)
    }

    async fn subscribed(&mut self) -> u64 {
        loop {
            let (header, _) = self.next().await;
            if header["k"] == "subscribe" {
                return header["i"].as_u64().expect("an id");
            }
        }
    }

    fn snapshot(&self, id: u64, revision: u64, notes: &str) {
        let value = json!({ "selected": null, "available": [], "notes": notes });
        let cells =
            json!({ "cells": { "state": [revision, value], "log": [1, []], "newer": [1, 2] } });
        self.send(
            &format!(r#"{{"k":"snapshot","i":{id}}}"#),
            &cells.to_string(),
        );
    }
}

async fn notes(state: &State<ModelsState>, expected: &str) {
    within(state.wait_for(&Context::background(), |value| value.notes == expected))
        .await
        .expect("no deadline");
}

#[tokio::test]
async fn a_result_that_does_not_fit_the_contract_is_an_invalid_result() {
    let (mut server, models) = Server::welcomed(json!({})).await;
    let cx = Context::background();
    for payload in ["1", "{}", "", "\"x\" \"y\"", "nonsense"] {
        let call = models.echo(&cx, "x".into());
        let answer = async {
            let (header, _) = server.next().await;
            server.send(&format!(r#"{{"k":"ok","i":{}}}"#, header["i"]), payload);
        };
        let (result, ()) = futures::join!(call, answer);
        assert_eq!(
            result.expect_err("it does not fit").code(),
            Some(ErrorCode::InvalidResult),
            "{payload}"
        );
    }
    for (header, payload, code) in [
        (
            r#""o":true"#,
            r#"{"code":"brand_new","message":"m"}"#,
            ErrorCode::InvalidResult,
        ),
        (
            r#""o":false"#,
            r#"{"code":"conflict","message":"m"}"#,
            ErrorCode::Conflict,
        ),
        (
            r#""o":false"#,
            r#"{"code":"brand_new","message":"m"}"#,
            ErrorCode::Internal,
        ),
        (r#""o":false"#, "nonsense", ErrorCode::InvalidResult),
    ] {
        let call = models.hang(&cx);
        let answer = async {
            let (call, _) = server.next().await;
            server.send(
                &format!(r#"{{"k":"err","i":{},{header}}}"#, call["i"]),
                payload,
            );
        };
        let (result, ()) = futures::join!(call, answer);
        assert_eq!(
            result.expect_err("an error").code(),
            Some(code),
            "{payload}"
        );
    }
}

#[tokio::test]
async fn a_late_answer_to_a_call_that_was_given_up_is_dropped() {
    let (mut server, models) = Server::welcomed(json!({})).await;
    let cx = Context::background();
    {
        let mut call = std::pin::pin!(models.echo(&cx, "x".into()));
        assert!(futures::poll!(&mut call).is_pending());
    }
    let (call, _) = server.next().await;
    let (cancel, _) = server.next().await;
    assert_eq!(
        (cancel["k"].as_str(), &cancel["i"]),
        (Some("cancel"), &call["i"])
    );
    server.send(&format!(r#"{{"k":"ok","i":{}}}"#, call["i"]), "\"late\"");
    let answer = async {
        let (call, _) = server.next().await;
        server.send(
            &format!(r#"{{"k":"ok","i":{},"n":9}}"#, call["i"]),
            "\"of another route\"",
        );
        server.send(&format!(r#"{{"k":"ok","i":{}}}"#, call["i"]), "\"mine\"");
    };
    let (result, ()) = futures::join!(models.echo(&cx, "y".into()), answer);
    assert_eq!(result.expect("it is answered"), "mine");
}

#[tokio::test]
async fn patches_apply_in_their_order_and_one_that_does_not_fit_begins_the_subscription_anew() {
    for (header, payload) in [
        (r#""m":"state","b":6,"r":8"#, r#"[["a",["notes"],"!"]]"#),
        (
            r#""m":"state","b":8,"r":9"#,
            r#"[["a",["notes"],"!"],["a",["selected"],"!"]]"#,
        ),
        (
            r#""m":"state","b":8,"r":9"#,
            r#"[["x",["available"],5,1,[]]]"#,
        ),
        (r#""m":"state","b":8,"r":9"#, r#"[["z",["notes"],"!"]]"#),
        (r#""m":"state","b":8,"r":9"#, r#"nonsense"#),
        (r#""m":"state""#, r#"{}"#),
    ] {
        let (mut server, models) = Server::welcomed(json!({})).await;
        let (id, state) = server.hydrated(&models).await;
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let record = Arc::clone(&seen);
        let _subscription =
            state.subscribe(move |value, _| record.lock().expect("lock").push(value.notes.clone()));
        let good = r#"[["a",["notes"]," and"],["a",["notes"]," more"]]"#;
        server.send(
            &format!(r#"{{"k":"state","i":{id},"m":"state","b":7,"r":8}}"#),
            good,
        );
        notes(&state, "first and more").await;
        server.send(&format!(r#"{{"k":"state","i":{id},{header}}}"#), payload);
        let again = server.subscribed().await;
        assert_ne!(again, id);
        // What still comes under the old subscription is dropped.
        server.send(
            &format!(r#"{{"k":"state","i":{id},"m":"state","r":10}}"#),
            r#"{"selected":null,"available":[],"notes":"old"}"#,
        );
        server.snapshot(again, 20, "fresh");
        notes(&state, "fresh").await;
        assert!(state.is_ready() && !state.is_stale());
        let seen = seen.lock().expect("lock").clone();
        let known = ["", "first", "first and more", "fresh"];
        assert!(
            seen.iter().all(|value| known.contains(&value.as_str())),
            "{payload}: {seen:?}"
        );
    }
}

#[tokio::test]
async fn credit_is_given_back_as_state_is_taken() {
    let (mut server, models) = Server::welcomed(json!({ "window": 1000 })).await;
    let (id, _state) = server.hydrated(&models).await;
    server.send(
        &format!(r#"{{"k":"state","i":{id},"m":"state","b":7,"r":8}}"#),
        &json!([["a", ["notes"], "x".repeat(600)]]).to_string(),
    );
    let (header, _) = server.next().await;
    assert_eq!(
        (header["k"].as_str(), &header["i"]),
        (Some("credit"), &json!(id))
    );
    assert!(header["w"].as_u64().is_some_and(|bytes| bytes >= 600));
}

#[tokio::test]
async fn an_event_that_cannot_be_read_is_one_lost() {
    let (mut server, models) = Server::welcomed(json!({})).await;
    let mut stream = models.events().subscribe();
    let (id, _state) = server.hydrated(&models).await;
    server.send(
        &format!(r#"{{"k":"event","i":{id},"m":"events"}}"#),
        r#"{"type":"of_a_newer_version"}"#,
    );
    server.send(
        &format!(r#"{{"k":"event","i":{id},"m":"events","l":4}}"#),
        "",
    );
    server.send(
        &format!(r#"{{"k":"event","i":{id},"m":"events"}}"#),
        r#"{"type":"refreshed","count":1}"#,
    );
    assert!(matches!(
        within(stream.next()).await,
        Some(Delivery::Lost { count: 5 })
    ));
    assert!(matches!(
        within(stream.next()).await,
        Some(Delivery::Event { .. })
    ));
}

#[tokio::test]
async fn a_client_holds_its_own_limits_before_it_sends() {
    let (_server, models) = Server::welcomed(json!({ "calls": 2, "message": 5000 })).await;
    let cx = Context::background();
    let (mut one, mut two) = (Box::pin(models.hang(&cx)), Box::pin(models.hang(&cx)));
    assert!(futures::poll!(&mut one).is_pending() && futures::poll!(&mut two).is_pending());
    assert_eq!(
        models.hang(&cx).await.expect_err("full").code(),
        Some(ErrorCode::ResourceExhausted)
    );
    drop(one);
    let CallError::Rpc(error) = models
        .echo(&cx, "x".repeat(5000))
        .await
        .expect_err("too large");
    assert_eq!(error.code, ErrorCode::FrameTooLarge);
}

#[tokio::test]
async fn a_server_of_another_major_is_told_apart_and_not_tried_again() {
    let mut server = Server::start();
    server.next().await;
    let welcome =
        json!({ "protocol": { "major": 2, "minor": 0 }, "product_version": "9.9", "client": "c1" });
    server.send(r#"{"k":"welcome"}"#, &welcome.to_string());
    let state = within(server.link.settled(&Context::background()))
        .await
        .expect("no deadline");
    let ConnectionState::Disconnected {
        reason,
        retry_at: None,
        ..
    } = &*state
    else {
        panic!("{state:?}")
    };
    assert!(
        reason.contains("2.0") && reason.contains("9.9") && reason.contains("update"),
        "{reason}"
    );
}

#[tokio::test]
async fn what_a_server_may_not_send_ends_the_connection_and_is_shown() {
    for (header, payload) in [
        ("nonsense", ""),
        (r#"{"k":"attach"}"#, "{}"),
        (r#"{"k":"attachment"}"#, "1"),
        (r#"{"k":"hello"}"#, "{}"),
    ] {
        let (server, _models) = Server::welcomed(json!({})).await;
        server.send(header, payload);
        let lost = |state: &ConnectionState| matches!(state, ConnectionState::Disconnected { .. });
        within(
            server
                .link
                .connection()
                .wait_for(&Context::background(), lost),
        )
        .await
        .expect("no deadline");
    }
}
