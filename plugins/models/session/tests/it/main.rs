//! Which models a session takes.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use bezel_api_session::{
    Availability, Facet, KeyOrigin, ModelListing, ProviderEntry, SessionContext, SessionFacet,
};
use bezel_context::Context;
use bezel_models_contract::{ModelsClient, RefreshStatus, SelectError};
use bezel_rpc::{CallError, ServiceClient as _, ServiceTable, State, StateCell};
use bezel_session_types::{
    ModelRef, ModelSpec, PermissionMode, ProviderError, ProviderErrorKind, ThinkingLevel,
};
use bezel_sessions_contract::{
    CommitReport, SessionError, SessionRecord, SessionRecordClient, WorkerRecord,
};
use bezel_testkit::{FakeSession, FakeSessionOptions, Script, ScriptedProvider};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::watch;

/// The server's record of the choice.
struct Record {
    chosen: watch::Sender<Vec<ModelRef>>,
    state: StateCell<WorkerRecord>,
}

impl SessionRecord for Record {
    fn state(&self) -> State<WorkerRecord> {
        self.state.state()
    }

    async fn current(&self, _cx: &Context) -> Result<WorkerRecord, SessionError> {
        Ok(WorkerRecord::default())
    }

    async fn committed(&self, _cx: &Context, _report: CommitReport) -> Result<(), SessionError> {
        Ok(())
    }

    async fn switch_model(
        &self,
        cx: &Context,
        model: ModelRef,
        thinking_level: ThinkingLevel,
    ) -> Result<(), SessionError> {
        self.chosen.send_modify(|chosen| chosen.push(model.clone()));
        self.state.update(cx, |record| {
            record.model = Some(model);
            record.thinking_level = thinking_level;
        });
        Ok(())
    }

    async fn switch_agent(
        &self,
        _cx: &Context,
        _agent: Option<String>,
    ) -> Result<(), SessionError> {
        Ok(())
    }

    async fn switch_permission_mode(
        &self,
        _cx: &Context,
        _mode: PermissionMode,
    ) -> Result<(), SessionError> {
        Ok(())
    }
}

/// What a provider says when it is asked for its models.
struct Lists(Option<Vec<&'static str>>, &'static str);

impl ModelListing for Lists {
    fn list(&self, _cx: &Context) -> BoxFuture<'static, Result<Vec<ModelSpec>, ProviderError>> {
        let answer = match &self.0 {
            Some(ids) => Ok(ids.iter().map(|id| spec(self.1, id)).collect()),
            None => Err(ProviderError {
                kind: ProviderErrorKind::Unreachable,
                message: "nobody is there".into(),
                status: None,
                retry_after: None,
            }),
        };
        async move { answer }.boxed()
    }
}

fn model(text: &str) -> ModelRef {
    text.parse().unwrap()
}

fn spec(provider: &str, id: &str) -> ModelSpec {
    ModelSpec {
        model: model(&format!("{provider}::{id}")),
        name: id.into(),
        reasoning: false,
        images: false,
        context: 0,
        max_output: 0,
        prices: None,
    }
}

fn entry(name: &'static str, models: &[&str], lists: Option<Vec<&'static str>>) -> ProviderEntry {
    ProviderEntry {
        provider: Arc::new(ScriptedProvider::new(Script::new([]))),
        models: models.iter().map(|id| spec(name, id)).collect(),
        availability: Availability::Available,
        key_origin: None,
        listing: Some(Arc::new(Lists(lists, name))),
    }
}

/// Providers: one with a list, one that has more than its list, one without, one without a key.
fn providers() -> SessionFacet {
    Facet::new("fakes", |cx: SessionContext| async move {
        let keyless = ProviderEntry {
            availability: Availability::Missing("`keyless` has no key; export K".into()),
            ..entry("keyless", &["m"], None)
        };
        let all = [
            ("local", entry("local", &["qwen3-coder"], None)),
            (
                "growing",
                entry("growing", &["old"], Some(vec!["old", "new"])),
            ),
            ("open", entry("open", &[], None)),
            ("keyless", keyless),
            (
                "keyed",
                ProviderEntry {
                    key_origin: Some(KeyOrigin::Environment),
                    ..entry("keyed", &["m"], None)
                },
            ),
        ];
        cx.providers.add(move |draft| {
            for (name, entry) in &all {
                draft.set(name, entry.clone());
            }
        });
        Ok(())
    })
}

async fn session() -> (FakeSession, ModelsClient, watch::Receiver<Vec<ModelRef>>) {
    let (session, models, recorded, _) = recorded_session().await;
    (session, models, recorded)
}

/// The same with the server's record, to change from outside.
async fn recorded_session() -> (
    FakeSession,
    ModelsClient,
    watch::Receiver<Vec<ModelRef>>,
    StateCell<WorkerRecord>,
) {
    let (chosen, recorded) = watch::channel(Vec::new());
    let server = ServiceTable::new();
    let state = StateCell::new(WorkerRecord::default());
    let record = SessionRecordClient::new(Record {
        chosen,
        state: state.clone(),
    });
    server.provide(record.exposed()).unwrap();
    let options = FakeSessionOptions {
        config: BTreeMap::from([("models", json!({ "configured_providers": ["local"] }))]),
        server,
        ..FakeSessionOptions::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let facets = vec![providers(), bezel_models_session::facet()];
    let session = FakeSession::start(facets, directory.path(), options)
        .await
        .unwrap();
    session.connected().await;
    let models: ModelsClient = session.remote().use_service();
    (session, models, recorded, state)
}

#[tokio::test]
async fn a_model_that_is_recorded_from_outside_is_followed_and_not_recorded_again() {
    let (_session, models, recorded, record) = recorded_session().await;
    let cx = Context::background();
    let state = models.state();
    let uses = |name: &'static str| {
        move |state: &bezel_models_contract::ModelsState| {
            state.configuration.model == Some(model(name))
        }
    };
    models.select(&cx, model("open::mine")).await.unwrap();
    state.wait_for(&cx, uses("open::mine")).await.unwrap();
    for name in ["open::theirs", "open::nobody-has-it", "open::mine"] {
        record.update(&cx, |record| {
            record.model = Some(model(name));
            record.thinking_level = ThinkingLevel::High;
        });
        state.wait_for(&cx, uses(name)).await.unwrap();
    }
    assert_eq!(*recorded.borrow(), [model("open::mine")]);
    // A change of something else brings no model with it.
    models.select(&cx, model("open::last")).await.unwrap();
    record.update(&cx, |record| record.title = "Another".into());
    models.select(&cx, model("growing::new")).await.unwrap();
    state.wait_for(&cx, uses("growing::new")).await.unwrap();
    assert_eq!(recorded.borrow().len(), 3);
}

#[tokio::test]
async fn what_the_list_or_the_provider_has_can_be_chosen() {
    let (_session, models, recorded) = session().await;
    let cx = Context::background();
    for name in [
        "local::qwen3-coder",
        "growing::old",
        "growing::new",
        "open::whatever",
    ] {
        models.check(&cx, model(name)).await.unwrap();
        models.select(&cx, model(name)).await.unwrap();
        assert_eq!(recorded.borrow().last(), Some(&model(name)));
    }
}

#[tokio::test]
async fn what_nobody_has_is_refused_with_what_was_meant() {
    let (_session, models, recorded) = session().await;
    let cx = Context::background();
    for (name, saying) in [
        ("local::qwen3-codr", "did you mean local::qwen3-coder?"),
        ("growing::newest", "unknown model growing::newest"),
        ("locl::qwen3-coder", "did you mean local::qwen3-coder?"),
        ("keyless::m", "export K"),
    ] {
        let refused = models.check(&cx, model(name)).await.unwrap_err();
        assert!(refused.to_string().contains(saying), "{refused}");
        assert!(models.select(&cx, model(name)).await.is_err());
    }
    let unknown = models.check(&cx, model("nobody::m")).await;
    assert!(matches!(
        unknown,
        Err(CallError::Service(SelectError::UnknownProvider { .. }))
    ));
    assert!(recorded.borrow().is_empty());
}

#[tokio::test]
async fn a_refresh_misses_only_providers_that_somebody_set_up() {
    let (_session, models, _recorded) = session().await;
    let cx = Context::background();
    models.refresh(&cx).await.unwrap();
    let state = models.state();
    let done = |state: &bezel_models_contract::ModelsState| {
        matches!(state.refresh, RefreshStatus::Warning { .. })
    };
    let state = state.wait_for(&cx, done).await.unwrap();
    let RefreshStatus::Warning { errors } = &state.refresh else {
        panic!("{state:?}")
    };
    let named: Vec<&str> = errors.keys().map(String::as_str).collect();
    assert_eq!(named, ["keyed", "local"]);
}
