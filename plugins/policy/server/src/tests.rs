//! The facet alone, in a server that the test plays.

use std::collections::BTreeMap;

use bezel_api_server::{STOP_GRANT, ServerCounts};
use bezel_context::{ClientId, Principal, Scope, Scopes, Workspaces};
use bezel_policy_contract::ServerControlClient;
use bezel_rpc::{Context, ErrorCode};
use bezel_testkit::{FakeServerHost, FakeServerOptions};

fn with(scopes: Scopes) -> Principal {
    Principal {
        client: ClientId::new("replaced by the connection"),
        owner: "me".into(),
        workspaces: Workspaces::All,
        scopes,
        credential: None,
    }
}

#[tokio::test]
async fn without_the_grant_to_stop_the_server_the_plugin_does_not_start() {
    let started = FakeServerHost::start(vec![crate::facet()], FakeServerOptions::default()).await;
    let error = started
        .err()
        .expect("the manifest grants nothing")
        .to_string();
    assert!(error.contains(STOP_GRANT), "{error}");
}

#[tokio::test]
async fn status_follows_the_counts_and_only_an_administrator_ends_the_server() {
    let options = FakeServerOptions {
        grants: BTreeMap::from([(crate::ID, vec![STOP_GRANT])]),
        ..FakeServerOptions::default()
    };
    let host = FakeServerHost::start(vec![crate::facet()], options)
        .await
        .unwrap();
    let cx = Context::background();
    let reader = host.client(with(Scopes::of([Scope::Operate]))).await;
    let control = reader.server().use_service::<ServerControlClient>();
    host.status.set_counts(ServerCounts {
        clients: 3,
        workers: 2,
    });
    let seen = control
        .status()
        .wait_for(&cx, |status| status.clients == 3)
        .await
        .unwrap();
    assert_eq!(seen.workers, 2);

    let refused = control.stop(&cx).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NotAuthorized));
    assert!(!host.status.is_stop_requested());
    let administrator = host.client(with(Scopes::all())).await;
    let control = administrator.server().use_service::<ServerControlClient>();
    control.stop(&cx).await.unwrap();
    assert!(host.status.is_stop_requested());
}
