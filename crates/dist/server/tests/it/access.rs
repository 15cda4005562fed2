//! Who gets in, and what leaves.

use bezel_host_server::Listener;
use bezel_rpc::Transport;
use bezel_rpc::{Credential, Hello, Link, PeerIdentity, Role, ServiceTable};
use bezel_sessions_contract::{SessionManagementClient, SessionStatus};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::over_both;
use crate::taps::Tap;
use crate::world::{OWNER, TOKEN, Via, World, begin_in, cx};

over_both! {
    async fn a_client_of_another_generation_is_told_to_restart_the_server(world: World) {
        let reason = world.refusal(Credential::token(TOKEN), "2.0.0").await;
        assert!(reason.contains("0.1.0") && reason.contains("2.0.0"), "{reason}");
        assert!(reason.contains("bezel server stop"), "{reason}");
    }

    async fn owner_and_directory_leave_the_server_in_no_frame(world: World) {
        let tap = Tap::new(world.connect());
        let client = world.client_over(tap.clone()).await;
        let project = world.project("deep/er/project-name");
        client.list().await;
        let mut events = client.directory.events().subscribe();
        let id = client.create(&project).await.session_id;
        client.attach(&id).await;
        client.management.rename(&cx(), id.clone(), "A title".into()).await.unwrap();
        client.directory.messages(&cx(), id.clone(), 10).await.unwrap();
        let path = project.to_str().unwrap().to_owned();
        client.directory.newest_in(&cx(), path.clone()).await.unwrap().unwrap();
        client.directory.workspace(&cx(), path).await.unwrap().unwrap();
        client.control.status().ready(&cx()).await.unwrap();
        cx().run(events.next()).await.unwrap();
        client.management.remove(&cx(), id).await.unwrap();
        let received = tap.received();
        assert!(received.contains("project-name") && received.contains("A title"), "the tap works");
        assert!(!received.contains(OWNER));
        assert!(!received.contains("deep/er"));
        let credential = world.launcher.starts()[0].credential.reveal().to_owned();
        assert!(!received.contains(&credential) && !received.contains(TOKEN));
    }

    async fn a_worker_credential_ends_with_its_worker(world: World) {
        let client = world.client().await;
        let id = client.create(&world.project("p")).await.session_id;
        client.until_status(&id, SessionStatus::Idle).await;
        let credential = world.launcher.starts()[0].credential.reveal().to_owned();
        world.launcher.worker(&id).exit();
        client.until_status(&id, SessionStatus::Closed).await;
        let hello = Hello {
            role: Role::Worker,
            product_version: "0.1.0".into(),
            credential: Credential::token(credential),
        };
        let link = Link::start(&world.tasks.spawner(), world.connect(), hello, ServiceTable::new());
        let state = format!("{:?}", link.settled(&cx()).await.unwrap());
        assert!(state.contains("does not know the worker's credential"), "{state}");
    }

    async fn a_worker_credential_opens_nothing_for_a_presentation_without_a_token(world: World) {
        let client = world.client().await;
        let id = client.create(&world.project("p")).await.session_id;
        client.until_status(&id, SessionStatus::Idle).await;
        let worker = world.launcher.worker(&id);
        let management: SessionManagementClient = worker.server();
        let outside = begin_in(&world.project("elsewhere"));
        let refusal = management.create(&cx(), outside).await.unwrap_err().to_string();
        assert!(refusal.contains("outside the workspaces"), "{refusal}");
        let stop = worker.server::<bezel_policy_contract::ServerControlClient>().stop(&cx()).await;
        assert_eq!(stop.unwrap_err().code(), Some(bezel_rpc::ErrorCode::NotAuthorized));
    }
}

#[tokio::test]
async fn a_socket_peer_without_the_right_token_is_refused() {
    let world = World::start(Via::Socket).await;
    for credential in [
        Credential::none(),
        Credential::token("wrong"),
        Credential::token(""),
    ] {
        let reason = world.refusal(credential, "0.1.0").await;
        assert!(reason.contains("does not know the credential"), "{reason}");
    }
    world.client().await;
}

#[tokio::test]
async fn a_host_of_the_same_process_needs_no_token() {
    let world = World::start(Via::Loopback).await;
    let client = world.knock(world.connect(), Credential::none(), "0.1.0");
    assert!(client.link.settled(&cx()).await.unwrap().is_connected());
}

/// Hands out loopback connections as if another user's process, or nobody at all, had dialled.
struct Stranger {
    uid: Option<u32>,
    accepted: tokio::sync::mpsc::UnboundedReceiver<Transport>,
}

impl Listener for Stranger {
    fn accept(&mut self) -> BoxFuture<'_, std::io::Result<(Transport, PeerIdentity)>> {
        async {
            match self.accepted.recv().await {
                Some(transport) => Ok((
                    transport,
                    PeerIdentity {
                        uid: self.uid,
                        ..PeerIdentity::default()
                    },
                )),
                None => std::future::pending().await,
            }
        }
        .boxed()
    }
}

struct Dial(tokio::sync::mpsc::UnboundedSender<Transport>);

impl bezel_rpc::Connect for Dial {
    fn connect<'c>(
        &'c self,
        _cx: &'c bezel_context::Context,
    ) -> BoxFuture<'c, Result<Transport, bezel_rpc::ConnectError>> {
        let (ours, theirs) = bezel_rpc::loopback();
        self.0.send(theirs).unwrap();
        async { Ok(ours) }.boxed()
    }
}

async fn stranger(uid: Option<u32>) -> (World, std::sync::Arc<Dial>) {
    let (sender, accepted) = tokio::sync::mpsc::unbounded_channel();
    let world = World::start_with(Via::Loopback, |options| {
        options.listener = Some(Box::new(Stranger { uid, accepted }));
    })
    .await;
    (world, std::sync::Arc::new(Dial(sender)))
}

#[tokio::test]
async fn another_user_is_refused_even_with_the_token() {
    let (world, dial) = stranger(Some(u32::MAX - 7)).await;
    let client = world.knock(dial, Credential::token(TOKEN), "0.1.0");
    let state = format!("{:?}", client.link.settled(&cx()).await.unwrap());
    assert!(
        state.contains("serves the user that the server runs as"),
        "{state}"
    );
}

#[tokio::test]
async fn a_peer_of_whom_the_system_says_nothing_does_not_pass_as_one_of_this_process() {
    let (world, dial) = stranger(None).await;
    let client = world.knock(dial, Credential::token(TOKEN), "0.1.0");
    let turned_away = |state: &bezel_rpc::ConnectionState| {
        matches!(
            state,
            bezel_rpc::ConnectionState::Disconnected { since: 1.., .. }
        )
    };
    client
        .link
        .connection()
        .wait_for(&cx(), turned_away)
        .await
        .unwrap();
    assert_eq!(world.server.status().clients, 0);
}
