//! 6, 8, 10 and 21: who a peer is, what crosses, and what never does.

use bezel_rpc::{ConnectionState, ErrorCode};
use bezel_sessions_contract::SessionError;

use crate::over_both;
use crate::raw::Raw;
use crate::taps::Tap;
use crate::world::{OWNER, TOKEN, Via, World, cx, wait_until};

/// What a client sees of one life with everything in it, without the ids that differ each time.
async fn life(world: &World) -> Vec<String> {
    let client = world.client().await;
    let mut seen = Vec::new();
    let mut note = |text: String| seen.push(text);
    note(format!(
        "{:?}",
        client
            .probe
            .echo(&cx(), "x".into())
            .await
            .map_err(|error| error.code())
    ));
    let session = client.create(&world.project("p")).await;
    client.attach(&session).await;
    let text = |reply: String| reply.replace(session.as_str(), "session");
    note(text(
        client.probe.echo(&cx(), "ö\n\"".into()).await.unwrap(),
    ));
    note(format!(
        "{:?}",
        client
            .probe
            .explode(&cx())
            .await
            .map_err(|error| error.code())
    ));
    let state = client.probe.state();
    note(text(state.ready(&cx()).await.unwrap().session.clone()));
    let worker = world.worker(&session);
    worker.object.state.update(&cx(), |state| state.count = 7);
    note(
        state
            .wait_for(&cx(), |state| state.count == 7)
            .await
            .unwrap()
            .count
            .to_string(),
    );
    let job = client.probe.work(&cx()).await.unwrap();
    note(job.done().ready(&cx()).await.unwrap().to_string());
    job.cancel(&cx()).await.unwrap();
    note(format!("{:?}", job.wait(&cx()).await));
    client.management.detach(&cx()).await.unwrap();
    client.until(|state| state.target().is_none()).await;
    note(format!(
        "{:?}",
        job.wait(&cx()).await.map_err(|error| error.code())
    ));
    note(format!(
        "{:?}",
        client
            .probe
            .echo(&cx(), "x".into())
            .await
            .map_err(|error| error.code())
    ));
    client.link.stop().await;
    note(
        matches!(
            *client.link.connection().get(),
            ConnectionState::Disconnected { .. }
        )
        .to_string(),
    );
    seen
}

#[tokio::test]
async fn b06_the_servers_own_loopback_and_a_socket_are_the_same_to_a_client() {
    // Beside this, every test of this suite under `over_both` runs over both.
    let loopback = life(&World::start(Via::Loopback).await).await;
    let socket = life(&World::start(Via::Socket).await).await;
    assert_eq!(loopback, socket);
    assert!(
        loopback.len() == 10 && loopback.contains(&"session: ö\n\"".to_owned()),
        "{loopback:?}"
    );
}

#[tokio::test]
async fn b08_identity_comes_from_the_credential_and_a_forged_id_changes_nothing() {
    let world = World::start(Via::Socket).await;
    let (ann, bob) = (world.client().await, world.client().await);
    let session = ann.create(&world.project("p")).await;
    ann.attach(&session).await;
    bob.attach(&session).await;
    for client in [&ann, &bob] {
        let (id, owner, _) = client.probe.whoami(&cx()).await.unwrap();
        assert_eq!((id, owner.as_str()), (client.id(), OWNER));
    }
    // The hello of a raw peer says that it is client c1 of root; so do its arguments.
    let (mut raw, id) = Raw::welcomed(&world.socket()).await;
    assert!(id != ann.id() && id != bob.id() && id != "c1");
    let attach = format!(
        r#"{{"session_id":"{session}","client":"{}","owner":"root"}}"#,
        ann.id()
    );
    raw.send(
        r#"{"k":"call","i":1,"s":"session-management","m":"attach"}"#,
        &attach,
    )
    .await;
    let (attached, _) = raw.next_of(&["attachment"]).await;
    let route = attached["n"].as_u64().unwrap();
    let call = format!(
        r#"{{"k":"call","i":2,"n":{route},"s":"probe","m":"whoami","client":"{}"}}"#,
        ann.id()
    );
    raw.send(&call, r#"{"client":"c1","owner":"root"}"#).await;
    loop {
        let (header, payload) = raw.next_of(&["ok"]).await;
        if header["i"] == 2 {
            assert_eq!(
                (payload[0].as_str(), payload[1].as_str()),
                (Some(&*id), Some(OWNER))
            );
            break;
        }
    }
    assert!(ann.link.attached().attachment().get().is_attached());
}

over_both! {
    async fn b10_no_value_of_a_context_is_in_any_frame(world: World) {
        let cx = cx().with_value("context-secret".to_owned()).with_value(471_108_154_711u64);
        let client = world.client().await;
        let session = client.create(&world.project("deep/er/name")).await;
        client.attach(&session).await;
        client.probe.echo(&cx, "payload-content".into()).await.unwrap();
        let worker = world.worker(&session);
        worker.object.state.update(&cx, |state| state.text = "payload-content".into());
        worker.object.events.emit(&cx, 1);
        client.probe.state().wait_for(&cx, |state| !state.text.is_empty()).await.unwrap();
        let job = client.probe.work(&cx).await.unwrap();
        job.done().ready(&cx).await.unwrap();

        let credential = world.launcher.credentials.lock().unwrap()[0].clone();
        let (to_client, to_worker) = (client.tap.received(), worker.tap.received());
        assert!(to_client.len() > 6 && to_worker.len() > 3);
        for (header, payload) in to_client.iter().chain(&to_worker) {
            for secret in ["context-secret", "471108154711", TOKEN, &credential] {
                assert!(!header.contains(secret) && !payload.contains(secret), "{header} {payload}");
            }
            // Headers are made by peers, never of content.
            assert!(!header.contains("payload-content") && !header.contains("deep/er"), "{header}");
        }
        for (header, payload) in &to_client {
            assert!(!payload.contains(OWNER) && !payload.contains("deep/er"), "{header} {payload}");
        }
        assert!(to_worker.iter().any(|(_, payload)| payload.contains("payload-content")), "the tap works");
    }
}

#[tokio::test]
async fn b21_another_workspaces_session_is_not_authorized_and_owner_and_directory_leave_in_no_frame()
 {
    // A host of the same process is the local user whatever it shows, so this is about sockets.
    let world = World::start(Via::Socket).await;
    let local = world.client().await;
    let (mine, other) = (
        local.create(&world.project("deep/er/mine")).await,
        local.create(&world.project("deep/er/other")).await,
    );
    let sessions = local.directory.state().ready(&cx()).await.unwrap();
    let summary = sessions
        .sessions
        .iter()
        .find(|summary| summary.session_id == mine)
        .unwrap();
    *world.workspace.lock().unwrap() = Some(summary.workspace_id.clone());

    let paired = world.client_with(Tap::new(world.connect()), "paired");
    assert!(paired.link.settled(&cx()).await.unwrap().is_connected());
    let listed = paired.directory.state().ready(&cx()).await.unwrap();
    let ids: Vec<_> = listed
        .sessions
        .iter()
        .map(|summary| summary.session_id.clone())
        .collect();
    assert_eq!(ids, std::slice::from_ref(&mine));
    let unknown = bezel_session_types::SessionId::new("no-such-session");
    for target in [&other, &unknown] {
        let error = paired
            .management
            .attach(&cx(), target.clone(), None)
            .await
            .unwrap_err();
        assert_eq!(
            error,
            bezel_rpc::CallError::Service(SessionError::NotAuthorized {
                session_id: target.clone()
            })
        );
    }
    paired.attach(&mine).await;
    paired.probe.echo(&cx(), "x".into()).await.unwrap();
    let refused = paired.management.remove(&cx(), other).await.unwrap_err();
    assert!(refused.to_string().contains("not yours"), "{refused}");
    for client in [&local, &paired] {
        wait_until("it was sent something", || client.tap.received().len() > 3).await;
        for (header, payload) in client.tap.received() {
            for secret in [OWNER, "deep/er", TOKEN] {
                assert!(
                    !header.contains(secret) && !payload.contains(secret),
                    "{header} {payload}"
                );
            }
        }
    }
    assert_eq!(
        paired
            .probe
            .hang(&cx().with_timeout(std::time::Duration::from_millis(20)))
            .await
            .unwrap_err()
            .code(),
        Some(ErrorCode::DeadlineExceeded)
    );
}
