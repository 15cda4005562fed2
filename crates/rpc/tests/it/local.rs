//! A handle in the process that provides the service: the object itself.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_rpc::{CallError, Context, Delivery, ErrorCode, ServiceClient};

use crate::contract::{ModelRef, ModelsClient, ModelsEvent, SelectError};
use crate::provider::Catalogue;

#[tokio::test]
async fn a_local_call_reaches_the_object_and_its_errors_keep_their_type() {
    let models = ModelsClient::new(Catalogue::new());
    let cx = Context::background();
    models
        .select(&cx, ModelRef::new("local", "large"))
        .await
        .expect("it is available");
    assert_eq!(
        models.state().get().selected,
        Some(ModelRef::new("local", "large"))
    );
    let error = models
        .select(&cx, ModelRef::new("local", "huge"))
        .await
        .expect_err("it is not");
    assert!(
        matches!(error, CallError::Service(SelectError::UnknownModel { ref model_id, .. }) if model_id == "huge")
    );
    assert_eq!(models.page(&cx, None, 1).await.expect("pages").len(), 1);
}

#[tokio::test]
async fn a_local_panic_becomes_internal_and_keeps_its_cause_to_itself() {
    let models = ModelsClient::new(Catalogue::new());
    let error = models
        .explode(&Context::background())
        .await
        .expect_err("it panics");
    assert_eq!(error.code(), Some(ErrorCode::Internal));
    assert!(!error.to_string().contains("secret"));
}

#[tokio::test]
async fn dropping_or_cancelling_a_local_call_signals_its_context_first() {
    let catalogue = Catalogue::new();
    let models = ModelsClient::new(catalogue.clone());
    let (cx, cancel) = Context::background().with_cancel();
    {
        let mut call = std::pin::pin!(models.hang(&cx));
        assert!(futures::poll!(&mut call).is_pending());
        assert_eq!(catalogue.hanging.load(Ordering::SeqCst), 1);
    }
    assert_eq!(catalogue.cancelled.load(Ordering::SeqCst), 1);
    assert!(!cx.is_cancelled());
    let mut call = std::pin::pin!(models.hang(&cx));
    assert!(futures::poll!(&mut call).is_pending());
    cancel.cancel();
    assert_eq!(
        call.await.expect_err("cancelled").code(),
        Some(ErrorCode::Cancelled)
    );
    assert_eq!(catalogue.cancelled.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_local_call_ends_at_its_deadline() {
    let models = ModelsClient::new(Catalogue::new());
    let cx = Context::background().with_timeout(Duration::from_secs(1));
    assert_eq!(
        models.hang(&cx).await.expect_err("late").code(),
        Some(ErrorCode::DeadlineExceeded)
    );
}

#[tokio::test]
async fn a_late_handle_fails_calls_until_bound_and_its_state_links_up() {
    let (late, binding) = ModelsClient::late();
    let cx = Context::background();
    let state = late.state();
    let mut stream = late.events().subscribe();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let _subscription =
        state.subscribe(move |value, _| record.lock().expect("lock").push(value.available.len()));
    assert!(!state.is_ready());
    assert_eq!(
        late.echo(&cx, "x".into())
            .await
            .expect_err("unbound")
            .code(),
        Some(ErrorCode::NotActive)
    );

    let catalogue = Catalogue::new();
    binding.bind(&ModelsClient::new(catalogue.clone()));
    assert!(state.is_ready());
    assert_eq!(late.echo(&cx, "x".into()).await, Ok("x".into()));
    late.select(&cx, ModelRef::new("local", "small"))
        .await
        .expect("it is available");
    assert_eq!(state.get().selected, Some(ModelRef::new("local", "small")));
    assert_eq!(*seen.lock().expect("lock"), vec![0, 2, 2]);
    assert!(matches!(
        stream.next().await,
        Some(Delivery::Event { value, .. }) if matches!(*value, ModelsEvent::Selected { .. })
    ));
}

#[test]
fn the_descriptor_lists_members_scopes_and_schemas() {
    let descriptor = ModelsClient::descriptor();
    assert_eq!(
        (descriptor.id, descriptor.version.to_string().as_str()),
        ("models", "1.2")
    );
    let page = descriptor.member("page").expect("a member");
    assert_eq!(page.scope, bezel_rpc::Scope::Read);
    let schema = page.arguments.expect("it has arguments")();
    assert_eq!(schema.get("required"), Some(&serde_json::json!(["size"])));
    assert!(
        descriptor
            .member("explode")
            .expect("a member")
            .error
            .is_some()
    );
    assert!(descriptor.member("nothing").is_none());
}
