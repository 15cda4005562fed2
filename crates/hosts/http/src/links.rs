//! Links to the server, one for each token and target, kept for a while after their last use.
//!
//! A link is one presentation to the server: its client, its limits, and the session that it is attached to.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bezel_context::{Context, Spawner};
use bezel_rpc::{
    Connect, ConnectError, Credential, ErrorCode, Hello, Link, PeerIdentity, Remote, Role,
    RpcError, Transport, exchange, loopback,
};
use bezel_session_types::SessionId;
use bezel_sessions_contract::SessionManagementClient;
use futures::future::BoxFuture;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::time::Instant;

use crate::answer::Problem;

/// Links at most; beyond, the one that was not used for longest goes.
const MOST_LINKS: usize = 256;
/// A link that nobody uses goes after this.
const IDLE: Duration = Duration::from_secs(60);
/// How often that is looked for.
const SWEEP: Duration = Duration::from_secs(15);
/// From the server's word that a session is attached to its services.
const ATTACHING: Duration = Duration::from_secs(10);

/// All links of a host. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Links(Arc<Inner>);

struct Inner {
    visitors: mpsc::Sender<(Transport, PeerIdentity)>,
    product_version: String,
    spawner: Spawner,
    // A plain mutex: held for a look, never across an await.
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    entries: HashMap<Key, Arc<Entry>>,
    /// Whether a task looks for idle ones.
    swept: bool,
}

/// Whose link, and to what. The token itself is not kept here.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    token: [u8; 32],
    session: Option<String>,
}

#[derive(Default)]
struct Entry {
    /// None before the first handshake is done. Held while one runs, so that there is one at a time.
    link: AsyncMutex<Option<Link>>,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    by: usize,
    last: Option<Instant>,
}

/// A link in use. Dropping it lets it become idle.
pub(crate) struct Lease {
    links: Links,
    key: Key,
    entry: Arc<Entry>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Links {
    pub(crate) fn new(
        visitors: mpsc::Sender<(Transport, PeerIdentity)>,
        product_version: String,
        spawner: Spawner,
    ) -> Self {
        Links(Arc::new(Inner {
            visitors,
            product_version,
            spawner,
            open: Mutex::default(),
        }))
    }

    /// The services of the server, or those of a session, whose worker is started where it does not run.
    pub(crate) async fn lease(
        &self,
        cx: &Context,
        token: &str,
        peer: PeerIdentity,
        session: Option<&str>,
    ) -> Result<(Lease, Remote), Problem> {
        let key = Key {
            token: Sha256::digest(token.as_bytes()).into(),
            session: session.map(str::to_owned),
        };
        let lease = self.enter(key)?;
        let mut slot = cx
            .run(lease.entry.link.lock())
            .await
            .map_err(RpcError::from)?;
        let link = match slot.as_ref().filter(|link| is_up(link)) {
            Some(link) => link.clone(),
            None => {
                *slot = None;
                let link = self.connect(cx, token, peer).await?;
                slot.insert(link).clone()
            }
        };
        let remote = match session {
            None => link.server(),
            Some(session) => attached(cx, &link, session).await?,
        };
        drop(slot);
        Ok((lease, remote))
    }

    /// Trades a pairing code for a token.
    pub(crate) async fn pair(
        &self,
        cx: &Context,
        code: &str,
        peer: PeerIdentity,
    ) -> Result<Credential, Problem> {
        let connect = self.visit(peer);
        Ok(exchange(cx, &connect, self.hello(code)).await?)
    }

    async fn connect(
        &self,
        cx: &Context,
        token: &str,
        peer: PeerIdentity,
    ) -> Result<Link, Problem> {
        let connect = Arc::new(self.visit(peer));
        let (link, issued) = Link::once(cx, &self.0.spawner, connect, self.hello(token)).await?;
        if issued.is_some() {
            link.stop().await;
            return Err(Problem::unauthenticated(
                "that was a pairing code, and it is used up now; make another one and POST it to /v1/pair",
            ));
        }
        Ok(link)
    }

    fn hello(&self, secret: &str) -> Hello {
        Hello {
            role: Role::Presentation,
            product_version: self.0.product_version.clone(),
            credential: Credential::token(secret),
        }
    }

    fn visit(&self, peer: PeerIdentity) -> Visit {
        Visit {
            visitors: self.0.visitors.clone(),
            peer,
        }
    }

    /// Counts one more user of a link, which may have to be made first.
    fn enter(&self, key: Key) -> Result<Lease, Problem> {
        let mut open = lock(&self.0.open);
        if !open.entries.contains_key(&key) && open.entries.len() >= MOST_LINKS {
            let evicted = open.longest_idle().ok_or_else(|| {
                let text = "too many tokens and sessions are in use at once; try again later";
                RpcError::new(ErrorCode::ResourceExhausted, text)
            })?;
            self.retire(open.entries.remove(&evicted));
        }
        let entry = Arc::clone(open.entries.entry(key.clone()).or_default());
        lock(&entry.used).by += 1;
        if !std::mem::replace(&mut open.swept, true) {
            let links = self.clone();
            drop(
                self.0
                    .spawner
                    .spawn("http links", async move { links.sweep().await }),
            );
        }
        drop(open);
        Ok(Lease {
            links: self.clone(),
            key,
            entry,
        })
    }

    /// Ends links that nobody used for a while, until there is none left or nobody takes connections any more.
    async fn sweep(&self) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(SWEEP) => {}
                () = self.0.visitors.closed() => return,
            }
            let mut open = lock(&self.0.open);
            let idle: Vec<_> = open
                .entries
                .extract_if(|_, entry| entry.idle_for().is_some_and(|idle| idle >= IDLE))
                .collect();
            for (_, entry) in idle {
                self.retire(Some(entry));
            }
            if open.entries.is_empty() {
                open.swept = false;
                return;
            }
        }
    }

    fn retire(&self, entry: Option<Arc<Entry>>) {
        let Some(entry) = entry else { return };
        drop(self.0.spawner.spawn("http link", async move {
            if let Some(link) = entry.link.lock().await.take() {
                link.stop().await;
            }
        }));
    }
}

impl Open {
    fn longest_idle(&self) -> Option<Key> {
        let idle = |(key, entry): (&Key, &Arc<Entry>)| Some((entry.idle_for()?, key.clone()));
        let all = self.entries.iter().filter_map(idle);
        all.max_by_key(|(idle, _)| *idle).map(|(_, key)| key)
    }
}

impl Entry {
    /// For how long nobody has used it; none while somebody does.
    fn idle_for(&self) -> Option<Duration> {
        let used = lock(&self.used);
        (used.by == 0).then(|| used.last.map_or(Duration::MAX, |last| last.elapsed()))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut open = lock(&self.links.0.open);
        let mut used = lock(&self.entry.used);
        used.by -= 1;
        used.last = Some(Instant::now());
        let is_last = used.by == 0;
        drop(used);
        // One that could not be made, or has ended, is nothing to keep.
        let is_dead = || {
            let link = self.entry.link.try_lock();
            link.is_ok_and(|link| !link.as_ref().is_some_and(is_up))
        };
        let own = open.entries.get(&self.key);
        if is_last && own.is_some_and(|entry| Arc::ptr_eq(entry, &self.entry)) && is_dead() {
            open.entries.remove(&self.key);
        }
    }
}

fn is_up(link: &Link) -> bool {
    link.connection().get().is_connected()
}

/// The services of a session, selected for this link.
async fn attached(cx: &Context, link: &Link, session: &str) -> Result<Remote, Problem> {
    let attached = link.attached();
    if !attached.attachment().get().is_attached() {
        let management: SessionManagementClient = link.server().use_service();
        management.attach(cx, SessionId::new(session), None).await?;
        let waiting = cx.with_timeout(ATTACHING);
        let attachment = attached.attachment();
        let complete = attachment.wait_for(&waiting, |state| state.is_attached());
        complete.await.map_err(|cancelled| match cx.status() {
            Err(_) => RpcError::from(cancelled),
            Ok(()) => RpcError::new(
                ErrorCode::SessionUnavailable,
                "the session's worker did not come up; try again",
            ),
        })?;
    }
    Ok(attached.remote().clone())
}

/// Connects to the server of this process, as somebody from elsewhere.
struct Visit {
    visitors: mpsc::Sender<(Transport, PeerIdentity)>,
    peer: PeerIdentity,
}

impl Connect for Visit {
    fn connect<'c>(&'c self, _cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        Box::pin(async move {
            let (own, other) = loopback();
            let sent = self.visitors.send((other, self.peer)).await;
            sent.map(|()| own).map_err(|_| ConnectError::Unreachable {
                endpoint: "the server of this process".to_owned(),
                cause: ErrorKind::ConnectionRefused.into(),
            })
        })
    }
}
