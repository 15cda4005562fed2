//! A server, its clients and workers, over loopback, a Unix socket or WebSocket, with every frame on record.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as Poller, Poll};
use std::time::Duration;

use bezel_context::{ClientId, Principal, Scope, Scopes, TaskScope, WorkspaceId, Workspaces};
use bezel_rpc::{
    AcceptedRole, Acceptor, Authenticate, Authenticated, Connect, ConnectError, Context,
    Credential, ErrorCode, Frame, FrameSource, Hello, Limits, Link, PeerIdentity, Refusal, Role,
    Router, ServiceClient, ServiceTable, Transport, TransportError, loopback,
};
use bezel_sockets::{
    Endpoint, UnixListener, WebSocketListener, WebSocketOptions, dial_unix, dial_websocket,
};
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use tokio::sync::watch;

use crate::contract::ModelsClient;
use crate::provider::Catalogue;

/// Runs each test over loopback, over a Unix socket and over WebSocket.
macro_rules! on_every_transport {
    ($($(#[$attribute:meta])* async fn $name:ident($stage:ident: $ty:ty) $body:block)*) => {
        $(mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn run($stage: $ty) $body

            $(#[$attribute])*
            #[tokio::test]
            async fn over_loopback() {
                run(crate::stage::Stage::new(crate::stage::Medium::Loopback)).await;
            }

            $(#[$attribute])*
            #[tokio::test]
            async fn over_a_unix_socket() {
                run(crate::stage::Stage::new(crate::stage::Medium::UnixSocket)).await;
            }

            $(#[$attribute])*
            #[tokio::test]
            async fn over_websocket() {
                run(crate::stage::Stage::new(crate::stage::Medium::WebSocket)).await;
            }
        })*
    };
}
pub(crate) use on_every_transport;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    Loopback,
    UnixSocket,
    WebSocket,
}

/// What a peer received, header and payload as text.
pub type Record = Arc<Mutex<Vec<(String, String)>>>;

pub struct Stage {
    medium: Medium,
    pub acceptor: Acceptor,
    pub router: Router,
    pub table: ServiceTable,
    /// The server's own service.
    pub catalogue: Catalogue,
    /// What the server received from all peers.
    pub received: Record,
    path: PathBuf,
    /// Where the server listens for WebSocket connections, once it does.
    endpoint: watch::Receiver<Option<Endpoint>>,
    scope: TaskScope,
    _directory: tempfile::TempDir,
}

pub struct Client {
    pub link: Link,
    pub tap: Tap,
    /// Taken from the server's namespace.
    pub models: ModelsClient,
}

pub struct Worker {
    pub link: Link,
    pub catalogue: Catalogue,
    pub table: ServiceTable,
    pub tap: Tap,
}

/// Watches, stalls and cuts one peer's connections.
#[derive(Clone, Default)]
pub struct Tap(Arc<TapState>);

#[derive(Default)]
struct TapState {
    received: Record,
    attempts: AtomicUsize,
    stalled: AtomicBool,
    /// Connections before this number are cut.
    cut: AtomicUsize,
    refuse: AtomicBool,
    waker: AtomicWaker,
}

impl Stage {
    pub fn new(medium: Medium) -> Self {
        Stage::with_limits(medium, Limits::default())
    }

    pub fn with_limits(medium: Medium, limits: Limits) -> Self {
        let stage = Stage::of(medium, limits);
        stage.table.activate();
        stage
    }

    /// A server that is not active.
    pub fn idle(medium: Medium) -> Self {
        Stage::of(medium, Limits::default())
    }

    pub fn medium(&self) -> Medium {
        self.medium
    }

    fn of(medium: Medium, limits: Limits) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("server.sock");
        let (table, router, catalogue) = (ServiceTable::new(), Router::new(), Catalogue::new());
        table
            .provide(ModelsClient::new(catalogue.clone()).exposed())
            .expect("it is the first");
        let acceptor = Acceptor::new(table.clone(), Arc::new(Doorman), router.clone(), limits);
        let (scope, received) = (TaskScope::new(), Record::default());
        if medium == Medium::UnixSocket {
            let listener = UnixListener::bind(&path).expect("it binds");
            let (acceptor, received) = (acceptor.clone(), Arc::clone(&received));
            scope.spawn("listener", async move {
                loop {
                    let (transport, peer) = listener.accept().await.expect("it accepts");
                    acceptor.spawn(recorded(transport, &received), peer);
                }
            });
        }
        let (bound, endpoint) = watch::channel(None);
        if medium == Medium::WebSocket {
            let (acceptor, received) = (acceptor.clone(), Arc::clone(&received));
            scope.spawn("listener", async move {
                let options = WebSocketOptions::default();
                let listening = WebSocketListener::bind("127.0.0.1:0", options).await;
                let mut listener = listening.expect("it binds");
                let endpoint: Endpoint = listener.url().parse().expect("an endpoint");
                bound.send_replace(Some(endpoint));
                loop {
                    let (transport, peer) = listener.accept().await.expect("it accepts");
                    acceptor.spawn(recorded(transport, &received), peer);
                }
            });
        }
        Stage {
            medium,
            acceptor,
            router,
            table,
            catalogue,
            received,
            path,
            endpoint,
            scope,
            _directory: directory,
        }
    }

    pub fn connect(&self, tap: &Tap) -> Arc<dyn Connect> {
        let inner: Arc<dyn Connect> = match self.medium {
            Medium::Loopback => Arc::new(LoopbackDial {
                acceptor: self.acceptor.clone(),
                received: Arc::clone(&self.received),
            }),
            Medium::UnixSocket => dial_unix(&self.path),
            Medium::WebSocket => Arc::new(WebSocketDial(self.endpoint.clone())),
        };
        Arc::new(TappedDial {
            inner,
            tap: tap.clone(),
        })
    }

    /// A presentation that is connected. `token` says who: an owner's name, `guest` for one who may only read.
    pub async fn client(&self, token: &str) -> Client {
        let client = self.client_unsettled(token);
        client.connected().await;
        client
    }

    pub fn client_unsettled(&self, token: &str) -> Client {
        let tap = Tap::default();
        let link = Link::start(
            &self.scope.spawner(),
            self.connect(&tap),
            hello(Role::Presentation, token),
            ServiceTable::new(),
        );
        let models = link.server().use_service();
        Client { link, tap, models }
    }

    /// A worker for `target`, connected, with its own catalogue.
    pub async fn worker(&self, target: &str) -> Worker {
        let (table, catalogue) = (ServiceTable::new(), Catalogue::new());
        table
            .provide(ModelsClient::new(catalogue.clone()).exposed())
            .expect("it is the first");
        table.activate();
        let worker = self.worker_with(target, catalogue, table);
        within(worker.link.settled(&Context::background()))
            .await
            .expect("no deadline");
        wait_until("the router knows the worker", || {
            self.router.is_connected(target)
        })
        .await;
        worker
    }

    pub fn worker_with(&self, target: &str, catalogue: Catalogue, table: ServiceTable) -> Worker {
        let tap = Tap::default();
        let hello = hello(Role::Worker, &format!("worker:{target}"));
        let link = Link::start(
            &self.scope.spawner(),
            self.connect(&tap),
            hello,
            table.clone(),
        );
        Worker {
            link,
            catalogue,
            table,
            tap,
        }
    }
}

impl Client {
    pub async fn connected(&self) {
        let state = within(self.link.settled(&Context::background()))
            .await
            .expect("no deadline");
        assert!(state.is_connected(), "{state:?}");
    }

    pub fn id(&self) -> ClientId {
        self.link.client_id().expect("it is connected")
    }

    /// Attaches to `target` and waits until it is done; the handle leads to the target's service.
    pub async fn attach(&self, stage: &Stage, target: &str) -> ModelsClient {
        stage
            .router
            .bind(&self.id(), target)
            .expect("the client is connected");
        let attached = self.link.attached();
        let state = attached.attachment();
        let cx = Context::background();
        let there = state.wait_for(
            &cx,
            |state| matches!(state, bezel_rpc::AttachmentState::Attached { target: at } if at == target),
        );
        within(there).await.expect("no deadline");
        attached.use_service()
    }
}

impl Tap {
    pub fn received(&self) -> Vec<(String, String)> {
        self.0.received.lock().expect("lock").clone()
    }

    pub fn forget(&self) {
        self.0.received.lock().expect("lock").clear();
    }

    /// How many attempts to connect were made.
    pub fn attempts(&self) -> usize {
        self.0.attempts.load(Ordering::SeqCst)
    }

    /// Stops reading, as a busy or frozen process does.
    pub fn stall(&self, stalled: bool) {
        self.0.stalled.store(stalled, Ordering::SeqCst);
        self.0.waker.wake();
    }

    /// Breaks the current connection.
    pub fn cut(&self) {
        self.0.cut.store(self.attempts(), Ordering::SeqCst);
        self.0.waker.wake();
    }

    /// Puts this tap in front of a connection that was not made by a stage.
    pub fn wrap(&self, incoming: Box<dyn FrameSource>) -> Box<dyn FrameSource> {
        let number = self.0.attempts.fetch_add(1, Ordering::SeqCst) + 1;
        Box::new(Tapped {
            inner: incoming,
            tap: self.clone(),
            number,
        })
    }

    /// Lets attempts fail.
    pub fn refuse(&self, refuse: bool) {
        self.0.refuse.store(refuse, Ordering::SeqCst);
    }
}

pub fn hello(role: Role, token: &str) -> Hello {
    Hello {
        role,
        product_version: "test".into(),
        credential: Credential::token(token),
    }
}

/// Believes a token's text. Tokens are this test's stand-in for secrets.
pub struct Doorman;

impl Authenticate for Doorman {
    fn authenticate<'a>(
        &'a self,
        hello: &'a Hello,
        _peer: &'a PeerIdentity,
    ) -> BoxFuture<'a, Result<Authenticated, Refusal>> {
        Box::pin(async {
            let token = hello.credential.reveal().unwrap_or_default();
            if token == "wrong" {
                return Err(Refusal::new(
                    ErrorCode::NotAuthorized,
                    "this token is not known; log in again",
                ));
            }
            let role = match token.strip_prefix("worker:") {
                Some(target) => AcceptedRole::Worker {
                    target: target.to_owned(),
                },
                None => AcceptedRole::Presentation,
            };
            let scopes = if token == "guest" {
                Scopes::of([Scope::Read])
            } else {
                Scopes::all()
            };
            let workspaces = Workspaces::Only([WorkspaceId::new(token)].into());
            let principal = Principal {
                client: ClientId::new("forged"),
                owner: format!("owner-{token}"),
                workspaces,
                scopes,
                credential: None,
            };
            Ok(Authenticated {
                principal,
                role,
                issued: None,
            })
        })
    }
}

struct LoopbackDial {
    acceptor: Acceptor,
    received: Record,
}

impl Connect for LoopbackDial {
    fn connect<'c>(&'c self, _cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        Box::pin(async {
            let (ours, theirs) = loopback();
            self.acceptor
                .spawn(recorded(theirs, &self.received), PeerIdentity::local());
            Ok(ours)
        })
    }
}

struct WebSocketDial(watch::Receiver<Option<Endpoint>>);

impl Connect for WebSocketDial {
    fn connect<'c>(&'c self, cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        Box::pin(async {
            let mut bound = self.0.clone();
            bound.wait_for(Option::is_some).await.expect("it binds");
            let endpoint = bound.borrow().clone().expect("it is bound");
            let dial = dial_websocket(endpoint, None).expect("no TLS, nothing to read");
            dial.connect(cx).await
        })
    }
}

struct TappedDial {
    inner: Arc<dyn Connect>,
    tap: Tap,
}

impl Connect for TappedDial {
    fn connect<'c>(&'c self, cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        Box::pin(async {
            let number = self.tap.0.attempts.fetch_add(1, Ordering::SeqCst) + 1;
            if self.tap.0.refuse.load(Ordering::SeqCst) {
                let cause = std::io::ErrorKind::ConnectionRefused.into();
                return Err(ConnectError::Unreachable {
                    endpoint: "the stage".into(),
                    cause,
                });
            }
            let Transport {
                incoming,
                outgoing,
                sink,
                keepalive,
            } = self.inner.connect(cx).await?;
            let incoming = Box::new(Tapped {
                inner: incoming,
                tap: self.tap.clone(),
                number,
            });
            Ok(Transport {
                incoming,
                outgoing,
                sink,
                keepalive,
            })
        })
    }
}

struct Tapped {
    inner: Box<dyn FrameSource>,
    tap: Tap,
    number: usize,
}

impl FrameSource for Tapped {
    fn poll_recv(
        &mut self,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<Option<Frame>, TransportError>> {
        let tap = &self.tap.0;
        tap.waker.register(poller.waker());
        if tap.cut.load(Ordering::SeqCst) >= self.number {
            return Poll::Ready(Err(TransportError::Framing("the test cut the connection")));
        }
        if tap.stalled.load(Ordering::SeqCst) {
            return Poll::Pending;
        }
        let received = self.inner.poll_recv(poller);
        if let Poll::Ready(Ok(Some(frame))) = &received {
            note(&tap.received, frame);
        }
        received
    }
}

struct Recorded {
    inner: Box<dyn FrameSource>,
    record: Record,
}

impl FrameSource for Recorded {
    fn poll_recv(
        &mut self,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<Option<Frame>, TransportError>> {
        let received = self.inner.poll_recv(poller);
        if let Poll::Ready(Ok(Some(frame))) = &received {
            note(&self.record, frame);
        }
        received
    }
}

fn recorded(transport: Transport, record: &Record) -> Transport {
    let incoming = Box::new(Recorded {
        inner: transport.incoming,
        record: Arc::clone(record),
    });
    Transport {
        incoming,
        ..transport
    }
}

fn note(record: &Record, frame: &Frame) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("frames are text");
    record
        .lock()
        .expect("lock")
        .push((text(&frame.header), text(&frame.payload)));
}

/// How many headers of the record are of that kind.
pub fn count(record: &[(String, String)], kind: &str) -> usize {
    let mark = format!("\"k\":\"{kind}\"");
    record
        .iter()
        .filter(|(header, _)| header.contains(&mark))
        .count()
}

/// Fails a test that would otherwise wait for ever.
pub async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("it takes far too long")
}

/// Waits for something that no state shows.
pub async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..4000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("{what}: it did not come true");
}
