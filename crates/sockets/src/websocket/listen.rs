//! The accepting side: one TCP port, TLS where there is a certificate, one upgrade per connection.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use bezel_context::{Spawner, TaskScope};
use bezel_rpc::{PeerIdentity, Transport};
use hyper::server::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::Role;
use tower_service::Service as _;

use super::guard::{Denied, Guard};
use super::site::{SITE, Site, Standing, Visitor};
use super::tls::ServerTls;
use super::{PATH, frames};

/// From the connection to the upgrade: TLS, the request and its headers.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections that may be on their way to the upgrade at once, in all and from one address.
const MOST_WAITING: usize = 128;
const MOST_WAITING_OF_ONE: usize = 32;
/// Upgraded connections that nobody has accepted yet.
const MOST_READY: usize = 16;
/// After an accept that failed; the system may be out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// An HTTP request's head at most, in bytes.
const MOST_HEAD: usize = 16 * 1024;

/// How a listener serves.
#[derive(Clone, Default)]
pub struct WebSocketOptions {
    /// Certificate and key; none for unencrypted connections.
    pub tls: Option<ServerTls>,
    /// Takes unencrypted connections from other machines.
    pub allow_insecure: bool,
    /// Names that it answers to beside its own address and the loopback names.
    pub allowed_hosts: Vec<String>,
    /// Answers what is under `/v1/`; none where there is nothing.
    pub site: Option<Arc<dyn Site>>,
}

/// Why nobody listens.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Not `HOST:PORT`, or a name that leads nowhere.
    #[error(
        "cannot listen on {address}: {cause}; write HOST:PORT, such as 127.0.0.1:4617 (port 0 takes a free one)"
    )]
    Address {
        /// As it was given.
        address: String,
        /// Why.
        cause: io::Error,
    },
    /// Others could read along.
    #[error(
        "will not listen on {address} without TLS: others on the network could read everything, credentials too; \
         give --tls-cert and --tls-key, or --allow-insecure where the network itself is private (a VPN, a tunnel)"
    )]
    Insecure {
        /// As it was given.
        address: String,
    },
    /// The operating system refused.
    #[error("cannot listen on {address}: {cause}")]
    Io {
        /// As it was given.
        address: String,
        /// Why.
        cause: io::Error,
    },
}

type Stream = Box<dyn Duplex>;

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

impl std::fmt::Debug for WebSocketOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("WebSocketOptions")
            .field("tls", &self.tls)
            .field("allow_insecure", &self.allow_insecure)
            .field("allowed_hosts", &self.allowed_hosts)
            .field("site", &self.site.is_some())
            .finish()
    }
}

/// Takes WebSocket connections. Dropping it frees the port; connections that were accepted go on.
#[derive(Debug)]
pub struct WebSocketListener {
    ready: mpsc::Receiver<(Transport, PeerIdentity)>,
    address: SocketAddr,
    url: String,
    _tasks: TaskScope,
}

impl WebSocketListener {
    /// Listens on `HOST:PORT`. Port 0 takes a free one.
    pub async fn bind(address: &str, options: WebSocketOptions) -> Result<Self, ListenError> {
        let unknown = |cause| ListenError::Address {
            address: address.to_owned(),
            cause,
        };
        let (host, _) = address.rsplit_once(':').ok_or_else(|| {
            unknown(io::Error::new(
                io::ErrorKind::InvalidInput,
                "there is no port",
            ))
        })?;
        let found = tokio::net::lookup_host(address).await.map_err(unknown)?;
        let found: Vec<SocketAddr> = found.collect();
        let encrypted = options.tls.is_some();
        if !encrypted && !options.allow_insecure && !found.iter().all(|at| at.ip().is_loopback()) {
            return Err(ListenError::Insecure {
                address: address.to_owned(),
            });
        }
        let refused = |cause| ListenError::Io {
            address: address.to_owned(),
            cause,
        };
        let listener = TcpListener::bind(&found[..]).await.map_err(refused)?;
        let bound = listener.local_addr().map_err(refused)?;
        let everywhere = bound.ip().is_unspecified();
        let shown = match options.allowed_hosts.first() {
            Some(name) if everywhere => name.clone(),
            _ if everywhere => outward(bound).await,
            _ => host.to_owned(),
        };
        let scheme = if encrypted { "https" } else { "http" };
        let url = format!("{scheme}://{shown}:{}", bound.port());
        let addresses: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
        let guard = Guard::new(host, &addresses, &options.allowed_hosts, encrypted);
        let (sender, ready) = mpsc::channel(MOST_READY);
        let tasks = TaskScope::new();
        let door = Arc::new(Door {
            tls: options.tls.map(|tls| TlsAcceptor::from(tls.0)),
            routes: routes(guard, options.site),
            waiting: Mutex::default(),
            ready: sender,
        });
        let serve = door.serve(listener, tasks.spawner());
        drop(tasks.spawn("websocket listener", serve));
        Ok(WebSocketListener {
            ready,
            address: bound,
            url,
            _tasks: tasks,
        })
    }

    /// The next connection, and where it came from.
    pub async fn accept(&mut self) -> io::Result<(Transport, PeerIdentity)> {
        let next = self.ready.recv().await;
        next.ok_or_else(|| io::Error::other("the listener has ended"))
    }

    /// The address that it listens on, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What clients are told: `http(s)://HOST:PORT`. Where it listens on every address, the host is the first
    /// allowed name, else the address with which this machine reaches others, else the word `HOST`.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// The address with which this machine, listening on all of its own, reaches others: where the system
/// knows a way out. Nothing is sent to find out.
async fn outward(bound: SocketAddr) -> String {
    // Addresses that belong to nobody (RFC 5737 and 3849); a datagram socket connects without a word.
    let (from, to): (SocketAddr, SocketAddr) = match bound {
        SocketAddr::V4(_) => (
            (Ipv4Addr::UNSPECIFIED, 0).into(),
            (Ipv4Addr::new(192, 0, 2, 1), 9).into(),
        ),
        SocketAddr::V6(_) => (
            (Ipv6Addr::UNSPECIFIED, 0).into(),
            (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into(),
        ),
    };
    let found = async {
        let socket = tokio::net::UdpSocket::bind(from).await?;
        socket.connect(to).await?;
        socket.local_addr()
    };
    match found.await {
        Ok(address) if address.is_ipv6() => format!("[{}]", address.ip()),
        Ok(address) => address.ip().to_string(),
        Err(error) => {
            tracing::debug!(%error, "no address of this machine leads outward");
            "HOST".to_owned()
        }
    }
}

/// What every connection needs on its way to the upgrade.
struct Door {
    tls: Option<TlsAcceptor>,
    routes: Router,
    // A plain mutex: held to count, never across an await.
    waiting: Mutex<HashMap<IpAddr, usize>>,
    ready: mpsc::Sender<(Transport, PeerIdentity)>,
}

impl Door {
    async fn serve(self: Arc<Self>, listener: TcpListener, spawner: Spawner) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => match Place::take(&self, peer.ip()) {
                    Some(place) => {
                        let door = Arc::clone(&self);
                        drop(spawner.spawn("websocket handshake", async move {
                            door.admit(stream, peer.ip(), place).await;
                        }));
                    }
                    None => {
                        tracing::debug!(%peer, "a connection was closed: too many are on their way")
                    }
                },
                Err(error) => {
                    tracing::warn!(%error, "a network connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn admit(&self, stream: TcpStream, address: IpAddr, place: Place) {
        let standing = Standing::new(place);
        let served = tokio::select! {
            biased;
            served = self.upgrade(stream, standing.visitor(address)) => served,
            () = standing.overdue(HANDSHAKE) => {
                return tracing::debug!(%address, "a connection took too long on its way");
            }
        };
        let upgraded = match served {
            Ok(Some(socket)) => socket,
            Ok(None) => return,
            Err(error) => {
                return tracing::debug!(%address, %error, "a connection broke");
            }
        };
        standing.let_in();
        let accepted = (frames::transport(upgraded), PeerIdentity::network(address));
        if self.ready.send(accepted).await.is_err() {
            tracing::debug!(%address, "a connection came when the listener ended");
        }
    }

    /// Serves HTTP on one connection; the upgraded connection, if a request asked for that.
    async fn upgrade(
        &self,
        stream: TcpStream,
        visitor: Visitor,
    ) -> Result<Option<WebSocketStream<Stream>>, Box<dyn std::error::Error + Send + Sync>> {
        stream.set_nodelay(true)?;
        let stream: Stream = match &self.tls {
            Some(tls) => Box::new(tls.accept(stream).await?),
            None => Box::new(stream),
        };
        let slot = Slot::default();
        let (routes, fill) = (self.routes.clone(), slot.clone());
        let service = hyper::service::service_fn(move |mut request: hyper::Request<_>| {
            request.extensions_mut().insert(fill.clone());
            request.extensions_mut().insert(visitor.clone());
            // A router is always ready.
            routes.clone().call(request)
        });
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HANDSHAKE)
            .max_buf_size(MOST_HEAD)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await?;
        let Some(upgrade) = slot.take() else {
            return Ok(None);
        };
        let parts = upgrade
            .await?
            .downcast::<TokioIo<Stream>>()
            .map_err(|_| "the connection is not the one that was served")?;
        let (stream, read) = (parts.io.into_inner(), parts.read_buf.to_vec());
        let config = Some(frames::config());
        let socket = WebSocketStream::from_partially_read(stream, read, Role::Server, config).await;
        Ok(Some(socket))
    }
}

/// A connection's place among those on their way. Dropping it makes room for another.
pub(super) struct Place {
    door: Arc<Door>,
    address: IpAddr,
}

impl Place {
    fn take(door: &Arc<Door>, address: IpAddr) -> Option<Self> {
        let mut waiting = door.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let of_one = waiting.get(&address).copied().unwrap_or_default();
        if of_one >= MOST_WAITING_OF_ONE || waiting.values().sum::<usize>() >= MOST_WAITING {
            return None;
        }
        waiting.insert(address, of_one + 1);
        drop(waiting);
        Some(Place {
            door: Arc::clone(door),
            address,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self
            .door
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match waiting.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                waiting.remove(&self.address);
            }
        }
    }
}

/// Where the request that asks for the upgrade leaves it for its connection.
#[derive(Clone, Default)]
struct Slot(Arc<Mutex<Option<OnUpgrade>>>);

impl Slot {
    fn take(&self) -> Option<OnUpgrade> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn fill(&self, upgrade: OnUpgrade) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(upgrade);
    }
}

fn routes(guard: Guard, site: Option<Arc<dyn Site>>) -> Router {
    let routes = Router::new().route(PATH, any(connect));
    let routes = match site {
        Some(site) => routes.route(SITE, any(move |request| answer(Arc::clone(&site), request))),
        None => routes,
    };
    routes
        .fallback(hint)
        .layer(axum::middleware::from_fn_with_state(Arc::new(guard), admit))
}

async fn admit(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let visitor = request.extensions().get::<Visitor>().cloned();
    let mut response = match guard.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(denied) => {
            let Denied { status, reason } = &denied;
            tracing::debug!(%status, reason, "a request was not answered");
            let json = [(CONTENT_TYPE, "application/json")];
            (*status, json, denied.body()).into_response()
        }
    };
    // One request per connection, but for those who showed a credential.
    let stays = visitor.is_some_and(|visitor| visitor.is_let_in());
    if response.status() != StatusCode::SWITCHING_PROTOCOLS && !stays {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

async fn answer(site: Arc<dyn Site>, request: Request) -> Response {
    match request.extensions().get::<Visitor>().cloned() {
        Some(visitor) => site.answer(request, visitor).await,
        None => hint().await,
    }
}

async fn connect(mut request: Request) -> Response {
    let upgrade = hyper::upgrade::on(&mut request);
    let slot = request.extensions().get::<Slot>().cloned();
    let response = match (slot, request.method()) {
        (Some(slot), &Method::GET) => {
            create_response_with_body(&request, Body::empty).map(|response| (slot, response))
        }
        _ => return hint().await,
    };
    match response {
        Ok((slot, response)) => {
            slot.fill(upgrade);
            response
        }
        Err(error) => {
            tracing::debug!(%error, "a request was no upgrade");
            hint().await
        }
    }
}

/// What a browser is told.
async fn hint() -> Response {
    let text = "This is a Bezel server. Connect to it with: bezel attach URL\n";
    (
        StatusCode::UPGRADE_REQUIRED,
        [("upgrade", "websocket")],
        text,
    )
        .into_response()
}
