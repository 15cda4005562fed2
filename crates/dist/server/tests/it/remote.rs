//! Clients from elsewhere: codes, tokens, what they reach, and the end of it.

use std::sync::{Arc, Mutex};

use bezel_access_contract::{AccessClient, AccessError, PairOptions, PairingCode};
use bezel_context::{CredentialId, Scope};
use bezel_host_server::{Clock, Listener, ServerOptions};
use bezel_rpc::{
    CallError, Connect, ConnectError, ConnectionState, Credential, ErrorCode, Hello, PeerIdentity,
    Role, Transport, exchange,
};
use bezel_sessions_contract::{CreateSession, LaunchEnvironment, SessionError};
use bezel_sockets::{Endpoint, WebSocketListener, WebSocketOptions, dial_websocket};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

use crate::taps::Tap;
use crate::world::{Client, OWNER, Via, World, begin_in, cx, refused};

struct Port(WebSocketListener);

impl Listener for Port {
    fn accept(&mut self) -> BoxFuture<'_, std::io::Result<(Transport, PeerIdentity)>> {
        self.0.accept().boxed()
    }
}

/// A server with a port, and with a clock that the test turns.
struct Remote {
    world: World,
    endpoint: Endpoint,
    now: Arc<Mutex<Timestamp>>,
}

impl Remote {
    async fn start() -> Self {
        Remote::start_with(|_| ()).await
    }

    async fn start_with(adjust: impl FnOnce(&mut ServerOptions)) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        Remote::again(scratch, adjust).await
    }

    /// A server over what an earlier one left in `scratch`.
    async fn again(scratch: tempfile::TempDir, adjust: impl FnOnce(&mut ServerOptions)) -> Self {
        let port = WebSocketListener::bind("127.0.0.1:0", WebSocketOptions::default()).await;
        let port = port.unwrap();
        let endpoint = port.url().parse().unwrap();
        let now = Arc::new(Mutex::new("2030-01-01T00:00:00Z".parse().unwrap()));
        let (clock, file) = (Arc::clone(&now), scratch.path().join("access.json"));
        let world = World::again(scratch, Arc::default(), Via::Loopback, |options| {
            options.listener = Some(Box::new(Port(port)));
            options.clock = Clock::new(move || *clock.lock().unwrap());
            let access = options.manifest.entry_mut("access").unwrap();
            access.config = serde_json::json!({ "file": file });
            adjust(options);
        });
        Remote {
            world: world.await.unwrap(),
            endpoint,
            now,
        }
    }

    fn dial(&self) -> Arc<dyn Connect> {
        dial_websocket(self.endpoint.clone(), None).unwrap()
    }

    fn advance(&self, seconds: i64) {
        *self.now.lock().unwrap() += SignedDuration::from_secs(seconds);
    }

    /// A code that the owner's own client makes.
    async fn code(&self, options: PairOptions) -> PairingCode {
        let client = self.world.client().await;
        access(&client).pair(&cx(), options).await.unwrap()
    }

    async fn redeem(&self, code: &str) -> Result<Credential, ConnectError> {
        exchange(&cx(), &*self.dial(), hello(code)).await
    }

    /// Pairs a client; its token.
    async fn pair(&self, options: PairOptions) -> Credential {
        let code = self.code(options).await.code;
        self.redeem(&code).await.unwrap()
    }

    async fn client(&self, token: &Credential) -> Client {
        let client = self.world.knock(self.dial(), token.clone(), "0.1.0");
        let state = client.link.settled(&cx()).await.unwrap();
        assert!(state.is_connected(), "{state:?}");
        client
    }

    /// Why a credential is refused over the network.
    async fn refusal(&self, credential: Credential) -> String {
        let client = self.world.knock(self.dial(), credential, "0.1.0");
        match &*client.link.settled(&cx()).await.unwrap() {
            ConnectionState::Disconnected { reason, .. } => reason.clone(),
            state => panic!("not refused: {state:?}"),
        }
    }
}

fn access(client: &Client) -> AccessClient {
    client.link.server().use_service()
}

fn hello(code: &str) -> Hello {
    Hello {
        role: Role::Presentation,
        product_version: "0.1.0".into(),
        credential: Credential::token(code),
    }
}

fn scopes(scopes: &[Scope]) -> PairOptions {
    PairOptions {
        label: None,
        scopes: scopes.to_vec(),
        directory: None,
    }
}

fn operate() -> PairOptions {
    scopes(&[Scope::Read, Scope::Operate])
}

fn admin() -> PairOptions {
    scopes(&[Scope::Read, Scope::Operate, Scope::Admin])
}

fn in_directory(directory: &std::path::Path, options: PairOptions) -> PairOptions {
    PairOptions {
        directory: Some(directory.to_str().unwrap().into()),
        ..options
    }
}

fn denied(outcome: Result<impl std::fmt::Debug, ConnectError>) -> String {
    match outcome {
        Err(ConnectError::Refused(refusal)) => {
            assert_eq!(refusal.code, ErrorCode::NotAuthorized);
            refusal.message
        }
        other => panic!("not refused: {other:?}"),
    }
}

fn contract_error<T: std::fmt::Debug>(outcome: Result<T, CallError<AccessError>>) -> AccessError {
    match outcome {
        Err(CallError::Service(error)) => error,
        other => panic!("not an error of the contract: {other:?}"),
    }
}

#[tokio::test]
async fn a_code_is_traded_for_a_token_that_works_from_then_on_and_after_a_restart() {
    let remote = Remote::start().await;
    let token = remote
        .pair(PairOptions {
            label: Some("laptop".into()),
            ..operate()
        })
        .await;
    let secret = token.reveal().unwrap().to_owned();
    let client = remote.client(&token).await;
    assert!(client.list().await.is_empty());
    let scratch = {
        client.link.stop().await;
        remote.world.stop().await.0
    };
    let kept = std::fs::read_to_string(scratch.path().join("access.json")).unwrap();
    assert!(
        kept.contains("laptop") && !kept.contains(&secret["bezel_".len()..]),
        "{kept}"
    );
    let remote = Remote::again(scratch, |_| ()).await;
    remote.client(&token).await;
    let owner = remote.world.client().await;
    let listed = access(&owner).state().ready(&cx()).await.unwrap();
    assert_eq!(listed.clients.len(), 1);
    assert_eq!(listed.clients[0].label, "laptop");
    assert_eq!(listed.clients[0].scopes, [Scope::Read, Scope::Operate]);
    assert!(listed.clients[0].last_used_at.is_some());
}

#[tokio::test]
async fn a_code_works_once_within_five_minutes_and_each_refusal_says_why() {
    let remote = Remote::start().await;
    let code = remote.code(operate()).await;
    assert_eq!(code.expires_at, "2030-01-01T00:05:00Z");
    remote.advance(299);
    remote.redeem(&code.code.to_lowercase()).await.unwrap();
    assert!(denied(remote.redeem(&code.code).await).contains("was used already"));
    let late = remote.code(operate()).await.code;
    remote.advance(300);
    assert!(denied(remote.redeem(&late).await).contains("has expired"));
    assert!(denied(remote.redeem("AAAAA-AAAAA").await).contains("is wrong"));
    for nothing in ["", "x", "AAAAA-AAAAA-AAAAA"] {
        let refusal = denied(remote.redeem(nothing).await);
        assert!(
            refusal.contains("does not know what was shown"),
            "{refusal}"
        );
    }
    let unknown = format!("bezel_{}", "0".repeat(64));
    let refusal = remote.refusal(Credential::token(unknown)).await;
    assert!(refusal.contains("does not know the token"), "{refusal}");
}

#[tokio::test]
async fn guessing_is_stopped_for_a_minute_and_a_paired_client_is_not() {
    let remote = Remote::start().await;
    let token = remote.pair(operate()).await;
    let code = remote.code(operate()).await.code;
    let mut answers = Vec::new();
    for _ in 0..12 {
        answers.push(denied(remote.redeem("AAAAA-AAAAA").await));
    }
    assert!(answers[9].contains("is wrong"), "{answers:?}");
    assert!(
        answers[10].contains("too many wrong attempts"),
        "{answers:?}"
    );
    // Even the right code is not looked at now; a token still is.
    assert!(denied(remote.redeem(&code).await).contains("too many wrong attempts"));
    remote.client(&token).await;
    remote.advance(60);
    remote.redeem(&code).await.unwrap();
}

#[tokio::test]
async fn a_revoked_client_is_cut_off_at_once_and_so_is_whom_it_let_in() {
    let remote = Remote::start().await;
    let first = remote.pair(admin()).await;
    let client = remote.client(&first).await;
    let second = {
        let code = access(&client).pair(&cx(), operate()).await.unwrap().code;
        remote.redeem(&code).await.unwrap()
    };
    let other = remote.client(&second).await;
    let pending = access(&client).pair(&cx(), operate()).await.unwrap().code;
    let owner = remote.world.client().await;
    let listed = access(&owner).state();
    let listed = listed
        .wait_for(&cx(), |state| state.clients.len() == 2)
        .await
        .unwrap();
    let id = listed.clients[1].id.clone();
    let gone = access(&owner).revoke(&cx(), id.clone()).await.unwrap();
    assert_eq!(gone, [id.clone(), listed.clients[0].id.clone()]);
    for client in [&client, &other] {
        let ended = |state: &ConnectionState| matches!(state, ConnectionState::Disconnected { retry_at: None, reason, .. } if reason.contains("taken back"));
        client
            .link
            .connection()
            .wait_for(&cx(), ended)
            .await
            .unwrap();
    }
    for token in [first, second] {
        assert!(
            remote
                .refusal(token)
                .await
                .contains("was taken back; pair again")
        );
    }
    assert!(denied(remote.redeem(&pending).await).contains("is wrong"));
    let unknown = contract_error(access(&owner).revoke(&cx(), id.clone()).await);
    assert_eq!(unknown, AccessError::UnknownClient { client: id });
    let empty = access(&owner).state();
    empty
        .wait_for(&cx(), |state| state.clients.is_empty())
        .await
        .unwrap();
}

#[tokio::test]
async fn nobody_gives_more_than_they_have() {
    let remote = Remote::start().await;
    let project = remote.world.project("inside");
    let outside = remote.world.project("outside");
    let bound = remote.pair(in_directory(&project, admin())).await;
    let client = remote.client(&bound).await;
    // Bound without saying so, because its maker is.
    let code = access(&client).pair(&cx(), operate()).await.unwrap();
    assert_eq!(code.workspaces.unwrap()[0].name, "inside");
    let inherited = remote
        .client(&remote.redeem(&code.code).await.unwrap())
        .await;
    let refusal = refused(inherited.management.create(&cx(), begin_in(&outside)).await);
    assert!(
        matches!(&refusal, SessionError::Directory { .. }),
        "{refusal:?}"
    );
    let wider = contract_error(
        access(&client)
            .pair(&cx(), in_directory(&outside, operate()))
            .await,
    );
    assert!(matches!(wider, AccessError::Directory { .. }), "{wider:?}");
    // Scopes: the reader may not make a code at all, and nobody gives a scope away that they lack.
    let operator = remote.client(&remote.pair(operate()).await).await;
    let refusal = access(&operator).pair(&cx(), operate()).await.unwrap_err();
    assert_eq!(refusal.code(), Some(ErrorCode::NotAuthorized));
    let reader = remote
        .client(&remote.pair(scopes(&[Scope::Read])).await)
        .await;
    let refusal = reader
        .management
        .create(&cx(), begin_in(&project))
        .await
        .unwrap_err();
    assert_eq!(refusal.code(), Some(ErrorCode::NotAuthorized));
    let stop = reader.control.stop(&cx()).await.unwrap_err();
    assert_eq!(stop.code(), Some(ErrorCode::NotAuthorized));
    let nothing = contract_error(access(&client).pair(&cx(), scopes(&[])).await);
    assert!(
        nothing.to_string().contains("at least one scope"),
        "{nothing}"
    );
}

#[tokio::test]
async fn a_client_that_is_bound_reaches_its_workspace_and_learns_nothing_of_others() {
    let remote = Remote::start().await;
    let (inside, outside) = (
        remote.world.project("inside"),
        remote.world.project("outside-name"),
    );
    std::fs::create_dir(inside.join("sub")).unwrap();
    let owner = remote.world.client().await;
    let foreign = owner.create(&outside).await.session_id;
    owner.attach(&foreign).await;
    let token = remote.pair(in_directory(&inside, admin())).await;
    let tap = Tap::new(remote.dial());
    let client = remote.world.knock(tap.clone(), token.clone(), "0.1.0");
    assert!(client.link.settled(&cx()).await.unwrap().is_connected());
    assert!(client.list().await.is_empty());
    // The workspace comes from the credential: no directory is needed, and a relative one is inside.
    let own = client
        .management
        .create(&cx(), CreateSession::default())
        .await
        .unwrap();
    assert_eq!(own.workspace_name, "inside");
    let sub = CreateSession {
        directory: "sub".into(),
        ..CreateSession::default()
    };
    client.management.create(&cx(), sub).await.unwrap();
    client.attach(&own.session_id).await;
    for id in [
        foreign.clone(),
        bezel_session_types::SessionId::new("no-such-session"),
    ] {
        let attach = refused(client.management.attach(&cx(), id.clone(), None).await);
        assert_eq!(
            attach,
            SessionError::NotAuthorized {
                session_id: id.clone()
            }
        );
        let remove = refused(client.management.remove(&cx(), id.clone()).await);
        assert_eq!(
            remove,
            SessionError::NotAuthorized {
                session_id: id.clone()
            }
        );
        let messages = refused(client.directory.messages(&cx(), id.clone(), 1).await);
        assert_eq!(messages, SessionError::NotAuthorized { session_id: id });
    }
    // What is there and what is not get one answer. Another connection asks: its own words come back to it.
    let asking = remote.client(&token).await;
    let escape = inside.join("../outside-name");
    for place in [
        outside.as_path(),
        &escape,
        "/etc".as_ref(),
        "/no/such/place".as_ref(),
        "../outside-name".as_ref(),
        "nowhere".as_ref(),
    ] {
        let refusal = refused(asking.management.create(&cx(), begin_in(place)).await);
        let SessionError::Directory { directory, reason } = refusal else {
            panic!("{refusal:?}")
        };
        assert_eq!(directory, place.to_str().unwrap());
        assert!(reason.contains("outside the workspaces"), "{reason}");
        assert_eq!(
            asking
                .directory
                .newest_in(&cx(), directory.clone())
                .await
                .unwrap(),
            None
        );
        assert_eq!(
            asking.directory.workspace(&cx(), directory).await.unwrap(),
            None
        );
    }
    let mut events = client.directory.events().subscribe();
    client
        .management
        .rename(&cx(), own.session_id.clone(), "First".into())
        .await
        .unwrap();
    // The subscription works; the foreign session's change is not in it.
    cx().run(events.next()).await.unwrap();
    owner
        .management
        .rename(&cx(), foreign.clone(), "A foreign title".into())
        .await
        .unwrap();
    client
        .management
        .rename(&cx(), own.session_id.clone(), "An own title".into())
        .await
        .unwrap();
    client
        .until(|state| {
            state
                .sessions
                .iter()
                .any(|session| session.title == "An own title")
        })
        .await;
    let received = tap.received();
    assert!(
        received.contains("An own title") && received.contains(own.session_id.as_str()),
        "the tap works"
    );
    let scratch = remote.world.scratch.path().to_str().unwrap();
    for secret in [OWNER, "A foreign title", scratch] {
        assert!(!received.contains(secret), "{secret} left the server");
    }
}

#[tokio::test]
async fn the_environment_of_another_machine_is_not_taken() {
    let remote = Remote::start().await;
    let project = remote.world.project("p");
    let client = remote.client(&remote.pair(operate()).await).await;
    let variables = [("LD_PRELOAD".to_owned(), "/tmp/evil.so".to_owned())];
    let options = CreateSession {
        environment: Some(LaunchEnvironment(variables.into())),
        ..begin_in(&project)
    };
    client.management.create(&cx(), options).await.unwrap();
    assert_eq!(remote.world.launcher.starts()[0].environment, None);
    let nowhere = refused(
        client
            .management
            .create(&cx(), CreateSession::default())
            .await,
    );
    assert!(
        nowhere
            .to_string()
            .contains("name one of the server's machine"),
        "{nowhere}"
    );
}

#[tokio::test]
async fn what_proves_a_client_of_this_machine_proves_nothing_over_the_network() {
    let remote = Remote::start().await;
    let refusal = remote.refusal(Credential::token(crate::world::TOKEN)).await;
    assert!(
        refusal.contains("serves the user that the server runs as"),
        "{refusal}"
    );
    assert!(
        remote
            .refusal(Credential::none())
            .await
            .contains("bezel access pair")
    );
    let owner = remote.world.client().await;
    let id = owner.create(&remote.world.project("p")).await.session_id;
    owner.attach(&id).await;
    let worker = remote.world.launcher.starts()[0]
        .credential
        .reveal()
        .to_owned();
    let hello = Hello {
        role: Role::Worker,
        ..hello(&worker)
    };
    let refusal = denied(exchange(&cx(), &*remote.dial(), hello).await);
    assert!(
        refusal.contains("do not come over the network"),
        "{refusal}"
    );
}

#[tokio::test]
async fn a_file_of_clients_that_cannot_be_trusted_lets_nobody_in_and_the_owner_works_on() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(
        scratch.path().join("access.json"),
        "{\"version\":1,\"paired\":[],\"revoked\":[]}",
    )
    .unwrap();
    let remote = Remote::again(scratch, |_| ()).await;
    let owner = remote.world.client().await;
    owner.create(&remote.world.project("p")).await;
    let unavailable = access(&owner)
        .revoke(&cx(), CredentialId::new("x"))
        .await
        .unwrap_err();
    assert_eq!(unavailable.code(), Some(ErrorCode::UnknownService));
    assert!(
        remote
            .refusal(Credential::token("AAAAA-AAAAA"))
            .await
            .contains("does not know")
    );
    let report = format!("{:?}", remote.world.server.report());
    assert!(report.contains("open to other users"), "{report}");
}
