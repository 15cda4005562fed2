//! What the tests share: a fake model, an instance that asks it, tools that count.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bezel_sdk::{Bezel, Builder, Provider, Tool};
use bezel_testkit::{FakeModelServer, ModelCall, Script, SeenPart, Turn, WireFormat};
use schemars::JsonSchema;
use serde::Deserialize;
use tempfile::TempDir;

/// A model that answers with these turns.
pub async fn model(turns: impl IntoIterator<Item = Turn>) -> FakeModelServer {
    FakeModelServer::start(Script::new(turns)).await.unwrap()
}

/// The key of the fake model.
pub const KEY: &str = "sk-very-secret";

/// An instance with a throwaway home whose model is the fake one.
pub fn bezel(model: &FakeModelServer) -> Builder {
    let provider = Provider::new("local", "openai")
        .base_url(&model.base_url(WireFormat::OpenAiChat))
        .key(KEY)
        .model("m", 100_000);
    Bezel::builder()
        .provider(provider)
        .model("local::m")
        .configuration("[retry]\nmax_attempts = 1\n")
}

/// A directory to work in.
pub fn project() -> TempDir {
    tempfile::Builder::new().prefix("bz").tempdir().unwrap()
}

#[derive(Deserialize, JsonSchema)]
pub struct Shelf {
    /// Which shelf, from 1.
    pub number: u32,
}

/// How often a tool ran.
#[derive(Clone, Default)]
pub struct Runs(Arc<AtomicUsize>);

impl Runs {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A tool that says what it was called with, and counts its runs.
pub fn shelf(runs: &Runs) -> Tool {
    let runs = runs.clone();
    Tool::new(
        "shelf",
        "Says what stands there.",
        move |shelf: Shelf, _| {
            runs.add();
            async move { Ok::<_, String>(format!("books of shelf {}", shelf.number)) }
        },
    )
}

/// What the model was told of its last calls: the texts, and whether each is an error.
pub fn results(call: &ModelCall) -> Vec<(String, bool)> {
    let results = call.last_results().into_iter().map(|part| match part {
        SeenPart::ToolResult { text, is_error, .. } => (text.clone(), *is_error),
        other => panic!("{other:?}"),
    });
    results.collect()
}

/// The names of the tools that a request offers.
pub fn offered(call: &ModelCall) -> Vec<String> {
    call.tools.iter().map(|tool| tool.name.clone()).collect()
}
