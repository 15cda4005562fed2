//! Damaged streams against a whole server, while another client uses it.

use std::sync::Arc;
use std::task::{Context as Poller, Poll};
use std::time::Duration;

use bezel_context::{ClientId, Principal, Scopes, TaskScope, Workspaces};
use bytes::Bytes;
use futures::future::BoxFuture;
use proptest::prelude::*;

use super::cases;
use super::damage::{CORPUS, damaged, pieces};
use crate::{
    AcceptedRole, Acceptor, Authenticate, Authenticated, Connect, Context, Credential, Frame,
    FrameDecoder, FrameSource, Hello, Limits, Link, Outbox, PeerIdentity, Refusal, Role, Router,
    ServiceClient, ServiceTable, State, StateCell, Transport, TransportError, service,
};

/// The members that the corpus calls.
#[service("models", version = "1.2")]
trait Models {
    fn state(&self) -> State<Vec<String>>;
    async fn echo(&self, cx: &Context, text: String) -> String;
    async fn whoami(&self, cx: &Context) -> String;
    async fn hang(&self, cx: &Context);
}

struct Object(StateCell<Vec<String>>);

impl Models for Object {
    fn state(&self) -> State<Vec<String>> {
        self.0.state()
    }

    async fn echo(&self, cx: &Context, text: String) -> String {
        self.0.set(cx, vec![text.clone()]);
        text
    }

    async fn whoami(&self, cx: &Context) -> String {
        cx.principal()
            .map_or_else(String::new, |who| who.owner.clone())
    }

    async fn hang(&self, cx: &Context) {
        cx.cancelled().await;
    }
}

struct Doorman;

impl Authenticate for Doorman {
    fn authenticate<'a>(
        &'a self,
        hello: &'a Hello,
        _peer: &'a PeerIdentity,
    ) -> BoxFuture<'a, Result<Authenticated, Refusal>> {
        Box::pin(async {
            let token = hello.credential.reveal().unwrap_or_default();
            let role = match token.strip_prefix("worker:") {
                Some(target) => AcceptedRole::Worker {
                    target: target.into(),
                },
                None => AcceptedRole::Presentation,
            };
            let principal = Principal {
                client: ClientId::new(""),
                owner: token.into(),
                workspaces: Workspaces::All,
                scopes: Scopes::all(),
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

/// A stream that was written before it is read, as a peer that dumps a file into a socket does.
struct Dump {
    pieces: Vec<Bytes>,
    decoder: FrameDecoder,
    received: Vec<u8>,
    frames: Bytes,
}

impl FrameSource for Dump {
    fn poll_recv(
        &mut self,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<Option<Frame>, TransportError>> {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.frames)? {
                return Poll::Ready(Ok(Some(frame)));
            }
            if self.pieces.is_empty() {
                return Poll::Ready(Ok(None));
            }
            self.received
                .extend_from_slice(&std::mem::take(&mut self.frames));
            self.received.extend_from_slice(&self.pieces.remove(0));
            if self.decoder.missing(&self.received) == 0 {
                self.frames = std::mem::take(&mut self.received).into();
            }
            if self.pieces.len().is_multiple_of(3) {
                poller.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }
}

fn link(scope: &TaskScope, connect: &Arc<dyn Connect>, token: &str, table: ServiceTable) -> Link {
    let role = match token.starts_with("worker:") {
        true => Role::Worker,
        false => Role::Presentation,
    };
    let hello = Hello {
        role,
        product_version: "1".into(),
        credential: Credential::token(token),
    };
    Link::start(&scope.spawner(), Arc::clone(connect), hello, table)
}

fn table() -> ServiceTable {
    let table = ServiceTable::new();
    let client = ModelsClient::new(Object(StateCell::new(Vec::new())));
    table.provide(client.exposed()).expect("it is the first");
    table.activate();
    table
}

async fn run(bytes: &[u8], cuts: &[usize]) -> Result<(), TestCaseError> {
    let (router, scope) = (Router::new(), TaskScope::new());
    let acceptor = Acceptor::new(
        table(),
        Arc::new(Doorman),
        router.clone(),
        Limits::default(),
    );
    let connect = acceptor.local(PeerIdentity::local());
    // Another target than any that a stream of the corpus is the worker of.
    let worker = link(&scope, &connect, "worker:kept", table());
    let good = link(&scope, &connect, "good", ServiceTable::new());
    let cx = Context::background().with_timeout(Duration::from_secs(60));
    for link in [&worker, &good] {
        let state = link.settled(&cx).await;
        prop_assert!(state.is_ok_and(|state| state.is_connected()));
    }
    let id = good.client_id().expect("it is connected");
    router.bind(&id, "kept").expect("it is connected");
    let attached = good.link_attached(&cx).await?;
    let own: ModelsClient = good.server().use_service();
    let running = own.hang(&cx);
    futures::pin_mut!(running);
    prop_assert!(futures::poll!(&mut running).is_pending());

    let pieces = pieces(bytes, cuts).into_iter().map(Bytes::copy_from_slice);
    let hostile = Transport {
        incoming: Box::new(Dump {
            pieces: pieces.collect(),
            decoder: FrameDecoder::new(),
            received: Vec::new(),
            frames: Bytes::new(),
        }),
        outgoing: Outbox::new(),
        sink: None,
        keepalive: None,
    };
    let served = tokio::time::timeout(
        Duration::from_secs(30),
        acceptor.serve(&cx, hostile, PeerIdentity::local()),
    );
    prop_assert!(served.await.is_ok(), "the connection outlived its stream");

    // Nothing happened to anybody else.
    prop_assert_eq!(own.whoami(&cx).await, Ok("good".to_owned()));
    prop_assert_eq!(attached.whoami(&cx).await, Ok("good".to_owned()));
    prop_assert_eq!(attached.echo(&cx, "x".into()).await, Ok("x".to_owned()));
    prop_assert!(futures::poll!(&mut running).is_pending());
    prop_assert_eq!(router.client_count(), 1);
    prop_assert_eq!(router.workers(), vec!["kept".to_owned()]);
    prop_assert_eq!(router.target_of(&id), Some("kept".to_owned()));
    Ok(())
}

impl Link {
    /// A handle to the attached target's service, once there is one.
    async fn link_attached(&self, cx: &Context) -> Result<ModelsClient, TestCaseError> {
        let attached = self.attached();
        let there = attached
            .attachment()
            .wait_for(cx, |state| state.is_attached())
            .await;
        prop_assert!(there.is_ok());
        Ok(attached.use_service())
    }
}

fn on_paused_clock(bytes: &[u8], cuts: &[usize]) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(run(bytes, cuts))
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn a_damaged_stream_changes_nothing_for_anybody_else((bytes, cuts) in damaged()) {
        on_paused_clock(&bytes, &cuts)?;
    }
}

#[test]
fn no_stream_of_the_corpus_changes_anything_for_anybody_else() {
    for (name, bytes) in CORPUS {
        on_paused_clock(bytes, &[100]).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
