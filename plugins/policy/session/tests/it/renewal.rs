//! When a worker gives way to one that starts with what holds now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bezel_api_session::Facet;
use bezel_context::Context;
use bezel_rpc::CallError;
use bezel_session_types::{OperationId, RunPhase, RunState};
use bezel_sessions_contract::{
    LaunchEnvironment, RenewError, RenewRequest, Renewal, SessionProcessClient,
};
use bezel_testkit::{FakeSession, FakeSessionOptions};
use bezel_tools_contract::BackgroundCommands;
use serde_json::json;

struct Stage {
    session: FakeSession,
    background: Arc<AtomicUsize>,
    directory: tempfile::TempDir,
}

/// A worker that was started with `KEY=old` and reads a configuration file that is not there yet.
async fn stage() -> Stage {
    let directory = tempfile::tempdir().unwrap();
    let background = Arc::new(AtomicUsize::new(0));
    let running = Arc::clone(&background);
    let commands = Facet::new("commands", move |cx: bezel_api_session::SessionContext| {
        let running = Arc::clone(&running);
        async move {
            let count = move || running.load(Ordering::SeqCst);
            cx.provide_local(Arc::new(BackgroundCommands::new(count)));
            Ok(())
        }
    })
    .provides_local::<BackgroundCommands>();
    let config = json!({
        "telling_variables": ["KEY", "OTHER_KEY"],
        "telling_files": [directory.path().join("config.toml")],
    });
    let options = FakeSessionOptions {
        config: BTreeMap::from([("policy", config)]),
        grants: BTreeMap::from([("policy", vec!["session.retire"])]),
        environment: variables(&[("KEY", "old"), ("PWD", "/a")]),
        ..FakeSessionOptions::default()
    };
    let facets = vec![commands, bezel_policy_session::facet()];
    let session = FakeSession::start(facets, directory.path(), options)
        .await
        .unwrap();
    session.connected().await;
    Stage {
        session,
        background,
        directory,
    }
}

fn variables(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    all.iter().map(owned).collect()
}

impl Stage {
    async fn asks(
        &self,
        environment: &[(&str, &str)],
        always: bool,
    ) -> Result<Renewal, CallError<RenewError>> {
        let process: SessionProcessClient = self.session.remote().use_service();
        let request = RenewRequest {
            environment: Some(LaunchEnvironment(variables(environment))),
            always,
        };
        process.renew(&Context::background(), request).await
    }

    async fn stays(&self, environment: &[(&str, &str)], always: bool, saying: &str) {
        let refused = self
            .asks(environment, always)
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains(saying), "{refused}");
        assert_eq!(self.session.agent.retired(), None);
    }
}

#[tokio::test]
async fn another_key_ends_an_idle_worker() {
    for environment in [&[("KEY", "new")][..], &[("KEY", "old"), ("OTHER_KEY", "x")]] {
        let stage = stage().await;
        assert_eq!(stage.asks(environment, false).await, Ok(Renewal::Ending));
        assert!(stage.session.agent.retired().is_some());
    }
}

#[tokio::test]
async fn what_makes_no_difference_ends_nothing() {
    let stage = stage().await;
    for environment in [
        &[("KEY", "old"), ("PWD", "/b"), ("SHLVL", "3")][..],
        &[],
        &[("KEY", ""), ("OTHER_KEY", "")],
    ] {
        assert_eq!(stage.asks(environment, false).await, Ok(Renewal::Current));
    }
    assert_eq!(stage.session.agent.retired(), None);
}

#[tokio::test]
async fn a_changed_configuration_ends_an_idle_worker() {
    let stage = stage().await;
    std::fs::write(stage.directory.path().join("config.toml"), "model = 1").unwrap();
    assert_eq!(stage.asks(&[], false).await, Ok(Renewal::Ending));
}

#[tokio::test]
async fn a_person_who_asks_outright_gets_another_worker() {
    let stage = stage().await;
    assert_eq!(
        stage.asks(&[("KEY", "old")], true).await,
        Ok(Renewal::Ending)
    );
}

#[tokio::test]
async fn a_worker_in_which_something_runs_stays_whoever_asks() {
    let stage = stage().await;
    stage.background.store(1, Ordering::SeqCst);
    for always in [false, true] {
        stage
            .stays(&[("KEY", "new")], always, "in the background")
            .await;
    }
    stage.background.store(0, Ordering::SeqCst);
    stage.session.agent.set_activity(RunState::Running {
        operation_id: OperationId::new("run"),
        since: 0,
        phase: RunPhase::Preparing,
        aborting: false,
    });
    for always in [false, true] {
        stage
            .stays(&[("KEY", "new")], always, "the agent works")
            .await;
    }
}
