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
async fn a_worker_that_hosts_a_child_stays_and_ends_with_the_last_one_where_its_own_time_is_over() {
    let session = session(json!({ "idle_exit_minutes": 2 }), vec!["session.retire"]).await;
    session.host_children(&["one", "two"]);
    tokio::time::sleep(std::time::Duration::from_secs(290)).await;
    session.host_children(&["two"]);
    tokio::time::sleep(std::time::Duration::from_secs(290)).await;
    assert_eq!(session.agent.retired(), None, "a child keeps the worker");
    session.host_children(&[]);
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    assert!(session.agent.retired().is_some(), "nobody needs it");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_leaves_does_not_shorten_the_time_of_its_worker() {
    let session = session(json!({ "idle_exit_minutes": 2 }), vec!["session.retire"]).await;
    session.host_children(&["one"]);
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    session.host_children(&[]);
    tokio::time::sleep(std::time::Duration::from_secs(59)).await;
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
