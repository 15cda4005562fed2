//! Services without their contracts, for who hands payloads on; and links that connect once.

use std::collections::BTreeSet;

use bezel_rpc::{ConnectError, ConnectionState, Context, ErrorCode, Link, Notice, Role};
use bytes::Bytes;

use crate::stage::{Stage, Tap, hello, on_every_transport, within};

on_every_transport! {
    async fn an_unread_call_passes_its_payloads_and_every_kind_of_failure(stage: Stage) {
        let client = stage.client("ann").await;
        let server = client.link.server();
        let cx = Context::background();
        let call = async |service: &str, member: &str, arguments: &'static str| {
            let arguments = Bytes::from_static(arguments.as_bytes());
            within(server.call_unread(&cx, service, member, arguments)).await
        };
        let echoed = call("models", "echo", r#"{"text":"hi"}"#).await.expect("a result");
        assert_eq!(&echoed[..], b"\"hi\"");
        let code = async |service: &str, member: &str, arguments: &'static str| {
            let error = call(service, member, arguments).await.expect_err("no result");
            (error.code, error.declared)
        };
        assert_eq!(code("nothing", "echo", "").await, ("unknown_service".into(), false));
        assert_eq!(code("models", "nothing", "").await, ("unknown_member".into(), false));
        assert_eq!(code("models", "echo", "{}").await, ("invalid_arguments".into(), false));
        let none = r#"{"model":{"provider":"p","model_id":"nothing"}}"#;
        assert_eq!(code("models", "select", none).await, ("unknown_model".into(), true));
        // What is not strict never leaves.
        stage.received.lock().expect("lock").clear();
        for loose in [r#"{"text":"a","text":"b"}"#, "{", "{} {}"] {
            assert_eq!(code("models", "echo", loose).await, ("invalid_arguments".into(), false));
        }
        assert!(stage.received.lock().expect("lock").is_empty());
    }

    async fn an_unread_subscription_has_every_cell_first_and_ends_with_its_reason(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        let mut followed = client.link.server().follow_unread(&cx, "models").expect("it is there");
        let Some(Notice::Snapshot(cells)) = within(followed.next()).await else { panic!("no snapshot") };
        assert_eq!(cells.into_keys().collect::<BTreeSet<_>>(), ["log".to_owned(), "state".to_owned()].into());
        client.tap.refuse(true);
        client.tap.cut();
        let Some(Notice::Closed(error)) = within(followed.next()).await else { panic!("it goes on") };
        assert_eq!(error.code, "disconnected");
        assert!(within(followed.next()).await.is_none());
    }

    async fn a_link_that_connects_once_says_why_it_cannot_and_does_not_come_back(stage: Stage) {
        let cx = Context::background();
        let scope = bezel_context::TaskScope::new();
        let once = async |token: &str, tap: &Tap| {
            let hello = hello(Role::Presentation, token);
            within(Link::once(&cx, &scope.spawner(), stage.connect(tap), hello)).await
        };
        let refused = Tap::default();
        match once("wrong", &refused).await {
            Err(ConnectError::Refused(refusal)) => assert_eq!(refusal.code, ErrorCode::NotAuthorized),
            other => panic!("{other:?}"),
        }
        assert_eq!(refused.attempts(), 1);
        let tap = Tap::default();
        let (link, issued) = once("ann", &tap).await.expect("a connection");
        assert!(issued.is_none() && link.connection().get().is_connected());
        tap.cut();
        let gone = |state: &ConnectionState| matches!(state, ConnectionState::Disconnected { retry_at: None, .. });
        within(link.connection().wait_for(&cx, gone)).await.expect("no deadline");
        assert_eq!(tap.attempts(), 1);
    }
}
