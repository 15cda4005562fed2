//! What the policy lets an agent do, and when it ends a worker.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

mod renewal;

use std::collections::BTreeMap;

use bezel_session_types::{OperationId, RunPhase, RunState};
use bezel_testkit::{FakeSession, FakeSessionOptions};
use serde_json::json;

async fn session(config: serde_json::Value, grants: Vec<&'static str>) -> FakeSession {
    let directory = tempfile::tempdir().unwrap();
    let options = FakeSessionOptions {
        config: BTreeMap::from([("policy", config)]),
        grants: BTreeMap::from([("policy", grants)]),
        ..FakeSessionOptions::default()
    };
    let facets = vec![bezel_policy_session::facet()];
    FakeSession::start(facets, directory.path(), options)
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_unattended_worker_ends_once_nothing_ran_for_the_configured_time() {
    let session = session(json!({ "idle_exit_minutes": 2 }), vec!["session.retire"]).await;
    session.agent.set_activity(RunState::Running {
        operation_id: OperationId::new("run"),
        since: 0,
        phase: RunPhase::Preparing,
        aborting: false,
    });
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert_eq!(session.agent.retired(), None, "a run keeps the worker");
    session.agent.set_activity(RunState::Idle);
    tokio::time::sleep(std::time::Duration::from_secs(119)).await;
    assert_eq!(session.agent.retired(), None);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(session.agent.retired().is_some());
}

#[tokio::test(start_paused = true)]
async fn without_the_grant_no_plugin_can_end_a_worker() {
    let session = session(json!({ "idle_exit_minutes": 1 }), vec![]).await;
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert_eq!(session.agent.retired(), None);
}
