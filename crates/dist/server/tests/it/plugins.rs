//! What another plugin can add, and what it cannot reach without a grant.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_api_server::{
    Access, Attempt, Granted, STOP_GRANT, ServerContext, Verdict, WORKERS_GRANT,
};
use bezel_context::{Scope, Scopes, WorkspaceId, Workspaces};
use bezel_host_server::{ServerHost, ServerOptions};
use bezel_plugin::{Facet, FacetStatus, Grant, ManifestEntry};
use bezel_rpc::{Credential, ErrorCode};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{SessionError, SessionStatus};

use crate::world::{Via, World, begin_in, cx, options, refused};

fn add(options: &mut ServerOptions, facet: Facet<ServerContext>, grants: &[&str]) {
    let mut entry = ManifestEntry::required(facet.plugin().as_str(), "1.0.0");
    entry.grants = grants.iter().map(|grant| Grant::new(*grant)).collect();
    options.manifest.plugins.push(entry);
    options.facets.push(facet);
}

/// Lets in whoever shows `paired`, bound to one workspace and to reading and operating.
fn pairing(workspace: &Arc<Mutex<Option<WorkspaceId>>>) -> Facet<ServerContext> {
    let workspace = Arc::clone(workspace);
    Facet::new("pairing", move |cx: ServerContext| {
        let workspace = Arc::clone(&workspace);
        async move {
            let method = move |attempt: Attempt| match attempt.bearer() {
                Some("paired") => Verdict::Granted(Granted {
                    owner: attempt.local_owner().into(),
                    workspaces: Workspaces::Only(
                        workspace.lock().unwrap().iter().cloned().collect(),
                    ),
                    scopes: Scopes::of([Scope::Operate]),
                    credential: None,
                    issued: None,
                }),
                _ => Verdict::Unrecognised,
            };
            let method = Arc::new(method);
            cx.authentication
                .add(move |draft| draft.set("pairing", method.clone()));
            Ok(())
        }
    })
}

#[tokio::test]
async fn a_client_bound_to_one_workspace_sees_and_reaches_that_one_alone() {
    let bound = Arc::default();
    let world = World::start_with(Via::Socket, |options| add(options, pairing(&bound), &[])).await;
    let local = world.client().await;
    let inside = local.create(&world.project("in")).await;
    let outside = local.create(&world.project("out")).await;
    *bound.lock().unwrap() = Some(inside.workspace_id.clone());
    let paired = world.knock(world.connect(), Credential::token("paired"), "0.1.0");
    assert!(paired.link.settled(&cx()).await.unwrap().is_connected());

    let seen: BTreeSet<SessionId> = paired
        .list()
        .await
        .into_iter()
        .map(|session| session.session_id)
        .collect();
    assert_eq!(seen, BTreeSet::from([inside.session_id.clone()]));
    paired.attach(&inside.session_id).await;
    let foreign = outside.session_id.clone();
    let management = &paired.management;
    let outcomes = [
        refused(management.attach(&cx(), foreign.clone(), None).await),
        refused(management.remove(&cx(), foreign.clone()).await),
        refused(
            management
                .rename(&cx(), foreign.clone(), "mine".into())
                .await
                .map(drop),
        ),
        refused(
            paired
                .directory
                .messages(&cx(), foreign.clone(), 5)
                .await
                .map(drop),
        ),
    ];
    for outcome in outcomes {
        assert_eq!(
            outcome,
            SessionError::NotAuthorized {
                session_id: foreign.clone()
            }
        );
    }
    // The very same answer as for a session that there is not.
    let unknown = SessionId::new("unknown");
    let answer = refused(management.attach(&cx(), unknown.clone(), None).await);
    assert_eq!(
        answer,
        SessionError::NotAuthorized {
            session_id: unknown
        }
    );

    let elsewhere = refused(
        management
            .create(&cx(), begin_in(&world.project("new")))
            .await,
    );
    assert!(
        matches!(elsewhere, SessionError::Directory { .. }),
        "{elsewhere}"
    );
    let path = world.project("out").to_str().unwrap().to_owned();
    assert_eq!(
        paired
            .directory
            .newest_in(&cx(), path.clone())
            .await
            .unwrap(),
        None
    );
    assert_eq!(paired.directory.workspace(&cx(), path).await.unwrap(), None);
    paired.create(&world.project("in")).await;
    assert_eq!(local.list().await.len(), 3);
    let stop = paired.control.stop(&cx()).await.unwrap_err();
    assert_eq!(stop.code(), Some(ErrorCode::NotAuthorized));
}

#[tokio::test]
async fn a_rule_of_another_plugin_can_take_access_away() {
    let frozen = Facet::new("freeze", |cx: ServerContext| async move {
        let rule =
            Arc::new(
                |request: &bezel_api_server::AccessRequest<'_>| match request.session {
                    Some(_) => Access::Denied,
                    None => Access::NoOpinion,
                },
            );
        cx.authorization
            .add(move |draft| draft.set("freeze", rule.clone()));
        Ok(())
    });
    let world = World::start_with(Via::Loopback, |options| add(options, frozen, &[])).await;
    let client = world.client().await;
    let id = client.create(&world.project("p")).await.session_id;
    let refusal = refused(client.management.attach(&cx(), id, None).await);
    assert!(
        matches!(refusal, SessionError::NotAuthorized { .. }),
        "{refusal}"
    );
    assert!(client.list().await.is_empty());
}

/// Hands its context to the test.
fn visitor(slot: &Arc<Mutex<Option<ServerContext>>>) -> Facet<ServerContext> {
    let slot = Arc::clone(slot);
    Facet::new("visitor", move |cx: ServerContext| {
        *slot.lock().unwrap() = Some(cx);
        async { Ok(()) }
    })
}

async fn visited(grants: &[&str]) -> (World, ServerContext) {
    let slot = Arc::default();
    let world = World::start_with(Via::Loopback, |options| {
        add(options, visitor(&slot), grants)
    })
    .await;
    let cx = slot.lock().unwrap().take().unwrap();
    (world, cx)
}

#[tokio::test]
async fn without_a_grant_neither_processes_nor_the_end_of_the_server_are_in_reach() {
    let (_world, facet) = visited(&[]).await;
    let processes = facet.processes().err().unwrap().to_string();
    assert!(
        processes.contains("`visitor`") && processes.contains("`server.workers`"),
        "{processes}"
    );
    assert!(facet.shutdown().is_err());
}

#[tokio::test]
async fn the_grant_for_workers_gives_the_processes_and_that_alone() {
    let (world, facet) = visited(&[WORKERS_GRANT]).await;
    let client = world.client().await;
    let id = client.create(&world.project("p")).await.session_id;
    client.until_status(&id, SessionStatus::Idle).await;
    let processes = facet.processes().unwrap();
    let listed = processes.list();
    assert_eq!((&listed[0].session_id, listed[0].connected), (&id, true));
    assert!(processes.kill(&id));
    client.until_status(&id, SessionStatus::Unreachable).await;
    // Its connection goes first; it is listed until what it left has been cleared away.
    let gone = async {
        while !processes.list().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone)
        .await
        .unwrap();
    assert!(!processes.kill(&id), "there is none any more");
    assert!(facet.shutdown().is_err());
}

#[tokio::test]
async fn a_built_in_without_its_grant_does_not_start_and_says_which_is_missing() {
    let scratch = tempfile::tempdir().unwrap();
    let mut options = options(scratch.path(), &Arc::default(), Via::Loopback);
    options.manifest.entry_mut("policy").unwrap().grants.clear();
    let text = ServerHost::start(options).await.unwrap_err().to_string();
    assert!(
        text.contains("`policy`") && text.contains(STOP_GRANT),
        "{text}"
    );
}

#[tokio::test]
async fn a_wrong_configuration_of_the_policy_is_told() {
    let scratch = tempfile::tempdir().unwrap();
    let mut options = options(scratch.path(), &Arc::default(), Via::Loopback);
    options.manifest.entry_mut("policy").unwrap().config =
        serde_json::json!({ "start_timeout": 1 });
    let text = ServerHost::start(options).await.unwrap_err().to_string();
    assert!(
        text.contains("`policy`") && text.contains("start_timeout"),
        "{text}"
    );
}

#[tokio::test]
async fn a_facets_own_calls_without_a_principal_reach_no_session_through_the_front_door() {
    let (world, facet) = visited(&[]).await;
    let client = world.client().await;
    let id = client.create(&world.project("p")).await.session_id;
    assert!(facet.fleet.managed.authorized(&cx(), &id).is_err());
    assert_eq!(facet.fleet.managed.of_worker(&cx()), None);
    assert_eq!(facet.fleet.managed.snapshot()[0].session_id, id);
    facet.fleet.managed.stop(&cx(), &id).await.unwrap();
    client.until_status(&id, SessionStatus::Closed).await;
    facet.fleet.managed.start(&cx(), &id, None).await.unwrap();
    client.until_status(&id, SessionStatus::Idle).await;
    let nobody = bezel_context::ClientId::new("nobody");
    let refusal = facet
        .fleet
        .attachments
        .bind(&cx(), &nobody, &id)
        .await
        .unwrap_err();
    assert!(
        refusal.to_string().contains("no presentation is connected"),
        "{refusal}"
    );
    assert!(
        world
            .server
            .report()
            .iter()
            .all(|report| report.status == FacetStatus::Active)
    );
}
