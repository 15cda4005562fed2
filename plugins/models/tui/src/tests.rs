//! Picker, key and status line in a terminal, before a session that the test plays.

use std::collections::BTreeMap;
use std::sync::Arc;

use bezel_api_tui::{Binding, Facet, Placement, Slot, TuiContext, segment};
use bezel_context::Context;
use bezel_host_tui::{HarnessOptions, TuiHarness};
use bezel_models_contract::{
    Catalog, Configuration, Models, ModelsClient, ModelsState, RefreshStatus, SelectError,
};
use bezel_presentation::StyledLine;
use bezel_presentation::text::Role;
use bezel_rpc::{State, StateCell};
use bezel_session_types::{ModelRef, ModelSpec, Prices, ThinkingLevel};
use bezel_testkit::{FakeServer, FakeWorker};
use tokio::sync::{Semaphore, watch};

use crate::facet;

struct Played {
    state: StateCell<ModelsState>,
    selected: watch::Sender<Vec<ModelRef>>,
    refreshing: Semaphore,
    errors: BTreeMap<String, String>,
}

struct Fake(Arc<Played>);

impl Models for Fake {
    fn state(&self) -> State<ModelsState> {
        self.0.state.state()
    }

    async fn select(&self, cx: &Context, model: ModelRef) -> Result<(), SelectError> {
        self.0
            .selected
            .send_modify(|selected| selected.push(model.clone()));
        let known = self
            .0
            .state
            .get()
            .catalog
            .available_models
            .iter()
            .any(|spec| spec.model == model);
        if !known {
            return Err(SelectError::UnknownModel {
                model,
                suggestion: Some(reference("acme", "swift")),
            });
        }
        self.0
            .state
            .update(cx, |state| state.configuration.model = Some(model));
        Ok(())
    }

    async fn check(&self, _cx: &Context, _model: ModelRef) -> Result<(), SelectError> {
        Ok(())
    }

    async fn cycle_thinking(&self, cx: &Context) -> Result<ThinkingLevel, SelectError> {
        Ok(self.0.state.update(cx, |state| {
            let chosen = state.configuration.model.clone();
            if state
                .catalog
                .available_models
                .iter()
                .any(|spec| Some(&spec.model) == chosen.as_ref() && spec.reasoning)
            {
                state.configuration.thinking_level = ThinkingLevel::Medium;
            }
            state.configuration.thinking_level
        }))
    }

    async fn refresh(&self, cx: &Context) {
        self.0
            .state
            .update(cx, |state| state.refresh = RefreshStatus::Refreshing);
        self.0
            .refreshing
            .acquire()
            .await
            .expect("never closed")
            .forget();
        self.0.state.update(cx, |state| {
            state
                .catalog
                .available_models
                .push(spec("other", "late", "Late Arrival", false));
            let errors = self.0.errors.clone();
            state.refresh = if errors.is_empty() {
                RefreshStatus::Done
            } else {
                RefreshStatus::Warning { errors }
            };
        });
    }
}

fn reference(provider: &str, model: &str) -> ModelRef {
    ModelRef {
        provider: provider.into(),
        model_id: model.into(),
    }
}

fn spec(provider: &str, id: &str, name: &str, reasoning: bool) -> ModelSpec {
    ModelSpec {
        model: reference(provider, id),
        name: name.into(),
        reasoning,
        images: reasoning,
        context: 200_000,
        max_output: 0,
        prices: Some(Prices {
            input: 3.0,
            output: 15.0,
            cache_read: 0.3,
            cache_write: 3.75,
        }),
    }
}

fn state() -> ModelsState {
    let models = vec![
        spec("acme", "deep-1", "Deep One", true),
        spec("acme", "swift", "Swift", false),
        ModelSpec {
            context: 0,
            prices: None,
            ..spec("local", "qwen3-coder", "qwen3-coder", false)
        },
    ];
    ModelsState {
        catalog: Catalog {
            revision: 1,
            available_models: models,
        },
        configuration: Configuration {
            model: Some(reference("acme", "deep-1")),
            thinking_level: ThinkingLevel::Off,
        },
        refresh: RefreshStatus::Idle,
    }
}

struct Stage {
    tui: TuiHarness,
    played: Arc<Played>,
    _server: FakeServer,
    _worker: FakeWorker,
}

impl Stage {
    async fn new(state: ModelsState, errors: &[(&str, &str)]) -> Self {
        let errors = errors
            .iter()
            .map(|(provider, error)| ((*provider).to_owned(), (*error).to_owned()))
            .collect();
        let played = Arc::new(Played {
            state: StateCell::new(state),
            selected: watch::Sender::default(),
            refreshing: Semaphore::new(0),
            errors,
        });
        let server = FakeServer::new();
        let extra = Facet::new("extra", |cx: TuiContext| async move {
            let (attachment, ui) = (cx.session.attachment(), cx.ui.clone());
            cx.own(attachment.subscribe(move |_, _| ui.redraw()));
            let shown = move |_: &bezel_api_tui::RenderContext<'_>| {
                attachment
                    .get()
                    .is_attached()
                    .then(|| StyledLine::new("[attached]", Role::Status))
            };
            cx.slots
                .add(Slot::StatusRight, Placement::default(), segment(shown));
            cx.keybindings.add(Binding::new("f2", "models.select")?);
            let named = bezel_api_tui::CommandArguments::text("acme::swift");
            cx.keybindings
                .add(Binding::new("f3", "models.select")?.arguments(named));
            let unknown = bezel_api_tui::CommandArguments::text("acme::swyft");
            cx.keybindings
                .add(Binding::new("f4", "models.select")?.arguments(unknown));
            let part = bezel_api_tui::CommandArguments::text("qwen");
            cx.keybindings
                .add(Binding::new("f5", "models.select")?.arguments(part));
            cx.keybindings.add(Binding::new("f6", "models.refresh")?);
            Ok(())
        });
        let options = HarnessOptions {
            facets: vec![facet(), extra],
            connect: Some(server.connect()),
            ..HarnessOptions::default()
        };
        let tui = TuiHarness::start(options).await.unwrap();
        let worker = server.worker("one");
        worker
            .provide(&ModelsClient::new(Fake(Arc::clone(&played))))
            .unwrap();
        worker.activate();
        server.attach("one").await.unwrap();
        tui.wait_for(|screen| {
            screen.contains("[attached]") && screen.row(23).trim() != "[attached]"
        })
        .await;
        Stage {
            tui,
            played,
            _server: server,
            _worker: worker,
        }
    }
}

#[tokio::test]
async fn the_status_line_names_model_and_thinking() {
    let stage = Stage::new(state(), &[]).await;
    let screen = stage.tui.wait_for_text("Deep One").await;
    assert!(!screen.contains("medium"), "{}", screen.text());
    stage.tui.press("ctrl+t").await;
    stage.tui.wait_for_text("Deep One medium").await;
    stage.tui.wait_for_text("thinking: medium").await;
}

#[tokio::test]
async fn without_a_model_the_status_line_says_what_to_do() {
    let none = ModelsState {
        configuration: Configuration::default(),
        ..state()
    };
    let stage = Stage::new(none, &[]).await;
    stage
        .tui
        .wait_for_text("no model: choose one with /model")
        .await;
}

#[tokio::test]
async fn a_model_that_does_not_think_stays_off_and_says_so() {
    let mut plain = state();
    plain.configuration.model = Some(reference("acme", "swift"));
    let stage = Stage::new(plain, &[]).await;
    stage.tui.press("ctrl+t").await;
    stage.tui.wait_for_text("does not think aloud").await;
}

#[tokio::test]
async fn the_picker_lists_models_by_provider_and_selects() {
    let stage = Stage::new(state(), &[]).await;
    stage.tui.press("f2").await;
    let screen = stage.tui.wait_for_text("qwen3-coder").await;
    insta::assert_snapshot!(screen.text());
    stage.tui.type_text("swi").await;
    stage.tui.press("enter").await;
    let screen = stage
        .tui
        .wait_for(|screen| screen.row(23).contains("Swift"))
        .await;
    assert!(!screen.contains("Models"), "{}", screen.text());
    assert_eq!(
        *stage.played.selected.borrow(),
        [reference("acme", "swift")]
    );
}

#[tokio::test]
async fn a_model_can_be_named() {
    let stage = Stage::new(state(), &[]).await;
    stage.tui.press("f3").await;
    stage
        .tui
        .wait_for(|screen| screen.row(23).contains("Swift"))
        .await;
    stage.tui.press("f4").await;
    stage.tui.wait_for_text("swift?)").await;
    // What is no whole name is searched for.
    stage.tui.press("f5").await;
    let screen = stage.tui.wait_for_text("Models").await;
    assert!(
        screen.contains("qwen3-coder") && !screen.contains("Deep One"),
        "{}",
        screen.text()
    );
}

#[tokio::test]
async fn choosing_a_model_that_does_not_think_tells_that_thinking_goes_off() {
    let mut thinking = state();
    thinking.configuration.thinking_level = ThinkingLevel::High;
    let stage = Stage::new(thinking, &[]).await;
    stage.tui.press("f3").await;
    stage.tui.wait_for_text("thinking is off").await;
}

#[tokio::test]
async fn a_refresh_fills_the_open_list_and_names_who_failed() {
    let stage = Stage::new(state(), &[("acme", "401: the key was refused")]).await;
    stage.tui.press("f2").await;
    stage.tui.wait_for_text("qwen3-coder").await;
    stage.tui.press("ctrl+r").await;
    stage.played.refreshing.add_permits(1);
    let screen = stage.tui.wait_for_text("Late Arrival").await;
    assert!(screen.contains("Models"), "{}", screen.text());
    stage.tui.wait_for_text("acme: 401").await;
}

#[tokio::test]
async fn a_refresh_counts_what_there_is() {
    let stage = Stage::new(state(), &[]).await;
    stage.played.refreshing.add_permits(1);
    stage.tui.press("f6").await;
    stage.tui.wait_for_text("4 models available").await;
}
