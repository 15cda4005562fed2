//! Calls over a connection: results, errors, cancellation, limits of the callers' reach.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bezel_rpc::{CallError, Context, ErrorCode, ServiceClient};

use crate::contract::{ModelRef, ModelsClient, SelectError};
use crate::stage::{Stage, on_every_transport, wait_until, within};

on_every_transport! {
    async fn a_call_returns_its_result_and_a_contract_error_keeps_its_fields(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        client.models.select(&cx, ModelRef::new("local", "large")).await.expect("it is available");
        let error = client.models.select(&cx, ModelRef::new("local", "huge")).await.expect_err("it is not");
        let expected = SelectError::UnknownModel { provider: "local".into(), model_id: "huge".into() };
        assert_eq!(error, CallError::Service(expected));
        assert_eq!(client.models.page(&cx, Some(1), 5).await.expect("pages"), vec![ModelRef::new("local", "small")]);
        client.models.clear(&cx).await.expect("a result without content");
        assert_eq!(client.models.echo(&cx, "ö\n\"\u{1}".into()).await.expect("echoes"), "ö\n\"\u{1}");
    }

    async fn an_unexpected_panic_crosses_as_internal_without_its_cause(stage: Stage) {
        let client = stage.client("ann").await;
        let error = client.models.explode(&Context::background()).await.expect_err("it panics");
        let CallError::Rpc(error) = error else { panic!("not a contract error: {error}") };
        assert_eq!(error.code, ErrorCode::Internal);
        let id = error.data.as_ref().and_then(|data| data["id"].as_str()).expect("an id for the log");
        assert!(error.message.contains(id));
        let frames = client.tap.received();
        assert!(!frames.iter().any(|(_, payload)| payload.contains("secret recipe") || payload.contains(".rs")));
        client.models.echo(&Context::background(), "alive".into()).await.expect("the connection goes on");
    }

    async fn aborting_one_call_aborts_only_that_calls_context(stage: Stage) {
        let client = stage.client("ann").await;
        let (cx, cancel) = Context::background().with_cancel();
        let other = Context::background();
        let mut dropped = Box::pin(client.models.hang(&other));
        let mut cancelled = Box::pin(client.models.hang(&cx));
        let mut kept = Box::pin(client.models.hang(&other));
        assert!(futures::poll!(&mut dropped).is_pending());
        assert!(futures::poll!(&mut cancelled).is_pending());
        assert!(futures::poll!(&mut kept).is_pending());
        let hanging = || stage.catalogue.hanging.load(Ordering::SeqCst);
        wait_until("three calls run", || hanging() == 3).await;
        drop(dropped);
        wait_until("one was dropped", || hanging() == 2).await;
        cancel.cancel();
        assert_eq!(cancelled.await.expect_err("cancelled").code(), Some(ErrorCode::Cancelled));
        wait_until("two are gone", || hanging() == 1).await;
        assert_eq!(stage.catalogue.cancelled.load(Ordering::SeqCst), 2);
        client.models.echo(&other, "x".into()).await.expect("other calls go on");
        assert!(futures::poll!(&mut kept).is_pending());
        assert_eq!(hanging(), 1);
    }

    async fn a_deadline_travels_and_ends_the_call_at_both_ends(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background().with_timeout(Duration::from_millis(50));
        let error = client.models.hang(&cx).await.expect_err("it hangs");
        assert_eq!(error.code(), Some(ErrorCode::DeadlineExceeded));
        wait_until("the provider gave up too", || stage.catalogue.hanging.load(Ordering::SeqCst) == 0).await;
        let received = stage.received.lock().expect("lock").clone();
        let call = received.iter().find(|(header, _)| header.contains("\"m\":\"hang\"")).expect("it was called");
        let header: serde_json::Value = serde_json::from_str(&call.0).expect("a header");
        assert!(header["d"].as_u64().is_some_and(|left| left > 0 && left <= 50), "{header}");
    }

    async fn a_peers_identity_comes_from_its_credential_whatever_it_says(stage: Stage) {
        let (ann, bob) = (stage.client("ann").await, stage.client("bob").await);
        let cx = Context::background();
        for client in [&ann, &bob] {
            let (id, owner, _) = client.models.whoami(&cx).await.expect("known");
            assert_eq!(id, client.id().to_string());
            assert_ne!(id, "forged");
            let name = if std::ptr::eq(client, &ann) { "owner-ann" } else { "owner-bob" };
            assert_eq!(owner, name);
        }
        // What stands in arguments is content, not identity.
        let forged = r#"{"client":"c1","n":1}"#;
        assert_eq!(bob.models.echo(&cx, forged.into()).await.expect("echoes"), forged);
        assert_ne!(ann.id(), bob.id());
    }

    async fn each_member_asks_for_its_scope(stage: Stage) {
        let guest = stage.client("guest").await;
        let cx = Context::background();
        guest.models.page(&cx, None, 1).await.expect("reading is allowed");
        let refused = guest.models.echo(&cx, "x".into()).await.expect_err("operating is not");
        assert_eq!(refused.code(), Some(ErrorCode::NotAuthorized));
        let refused = guest.models.clear(&cx).await.expect_err("administering is not");
        assert_eq!(refused.code(), Some(ErrorCode::NotAuthorized));
        guest.models.state().ready(&cx).await.expect("state is for readers");
    }

    async fn a_service_of_a_host_that_ends_is_away_and_not_unknown(stage: Stage) {
        let client = stage.client("ann").await;
        let cx = Context::background();
        client.models.echo(&cx, "x".into()).await.expect("it is there");
        stage.table.end();
        for _ in 0..2 {
            let error = client.models.echo(&cx, "x".into()).await.expect_err("it ends");
            assert_eq!(error.code(), Some(ErrorCode::SessionUnavailable));
            stage.table.withdraw("models");
        }
        assert!(client.link.server().try_use::<ModelsClient>().is_some(), "it comes back");
    }

    async fn a_service_that_is_not_exposed_is_unknown_like_one_that_does_not_exist(stage: Stage) {
        stage.table.withdraw("models");
        let client = stage.client("ann").await;
        let error = client.models.echo(&Context::background(), "x".into()).await.expect_err("withdrawn");
        assert_eq!(error.code(), Some(ErrorCode::UnknownService));
        assert!(client.link.server().try_use::<ModelsClient>().is_none());
        stage.table.provide(ModelsClient::new(stage.catalogue.clone()).exposed()).expect("it is free");
        within(async {
            while client.link.server().try_use::<ModelsClient>().is_none() {
                tokio::task::yield_now().await;
            }
        }).await;
        client.models.echo(&Context::background(), "x".into()).await.expect("the same handle works again");
    }

    async fn before_activation_calls_fail_and_no_snapshot_leaves(stage: Stage) {
        let stage = Stage::idle(stage.medium());
        let client = stage.client("ann").await;
        let cx = Context::background();
        let state = client.models.state();
        assert_eq!(client.models.echo(&cx, "x".into()).await.expect_err("not yet").code(), Some(ErrorCode::NotActive));
        assert!(!state.is_ready());
        stage.table.activate();
        within(state.ready(&cx)).await.expect("no deadline");
        client.models.echo(&cx, "x".into()).await.expect("active");
    }

    async fn no_value_of_a_context_is_in_any_frame(stage: Stage) {
        let client = stage.client("ann").await;
        let worker = stage.worker("S0").await;
        let cx = Context::background().with_value("context-secret".to_owned()).with_value(471_108_154_711u64);
        let models = client.attach(&stage, "S0").await;
        models.select(&cx, ModelRef::new("local", "large")).await.expect("it is available");
        models.state().ready(&cx).await.expect("no deadline");
        let mut frames = stage.received.lock().expect("lock").clone();
        frames.extend(client.tap.received());
        frames.extend(worker.tap.received());
        assert!(frames.len() > 8);
        for (header, payload) in &frames {
            assert!(!header.contains("context-secret") && !payload.contains("context-secret"), "{header}");
            assert!(!header.contains("471108154711") && !payload.contains("471108154711"), "{header}");
            // No header is made of payload content.
            assert!(!header.contains("large"), "{header}");
        }
        // Credentials stand in the hello alone, and nothing of an owner reaches a presentation.
        assert!(!client.tap.received().iter().any(|(_, payload)| payload.contains("owner-")));
        assert_eq!(frames.iter().filter(|(_, payload)| payload.contains("worker:S0")).count(), 1);
    }
}
