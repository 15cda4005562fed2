//! A presentation's connection to the user's server, which is started where it does not run.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bezel_context::{Context, TaskScope};
use bezel_rpc::{
    Connect, ConnectError, ConnectionState, Credential, Hello, Link, Role, ServiceTable, Transport,
};
use bezel_sockets::dial_unix;
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::arguments::ServerChoice;
use crate::daemon::{self, StartError, TokenError};
use crate::paths::{Paths, PathsError};
use crate::remote::{ReachOptions, RemoteError, RemoteServer};

/// How long a first connection may take, the server's start included.
const FIRST: Duration = Duration::from_secs(30);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// No place for the socket.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// The server could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The server's token cannot be read.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The server on another machine is not known, or must not be used so.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The server turned this client away, or does not answer.
    #[error("cannot use the server: {0}")]
    Connection(String),
}

/// A connection that was made once and comes back by itself.
pub struct Joined {
    /// The connection.
    pub link: Link,
    tasks: TaskScope,
}

impl Joined {
    fn begin(connect: Arc<dyn Connect>, credential: Credential) -> Self {
        let tasks = TaskScope::new();
        let hello = hello(credential);
        let link = Link::start(&tasks.spawner(), connect, hello, ServiceTable::new());
        Joined { link, tasks }
    }

    /// What its first attempt came to; `hint` is what to do about a server that says nothing.
    fn once(self, state: &ConnectionState, hint: &str) -> Result<Self, JoinError> {
        match state {
            ConnectionState::Connected { .. } => Ok(self),
            ConnectionState::Disconnected { reason, .. } => {
                Err(JoinError::Connection(reason.clone()))
            }
            ConnectionState::Connecting { .. } => Err(JoinError::Connection(format!(
                "it does not answer within {} seconds{hint}",
                FIRST.as_secs()
            ))),
        }
    }

    /// Says goodbye.
    pub async fn leave(self) {
        self.link.stop().await;
        let overran = self.tasks.shutdown(Duration::from_secs(1)).await;
        tracing::debug!(?overran, "left the server");
    }
}

/// Connects to the user's server.
pub async fn join(cx: &Context, paths: &Paths) -> Result<Joined, JoinError> {
    let connect = Arc::new(DaemonConnect::new(paths)?);
    let credential = credential(paths)?;
    tokio::select! {
        joined = join_through(cx, Arc::clone(&connect) as Arc<dyn Connect>, credential) => joined,
        error = connect.failure() => Err(error.into()),
    }
}

/// Connects to the server that was chosen: the user's own, or one on another machine.
pub async fn join_chosen(
    cx: &Context,
    paths: &Paths,
    choice: &ServerChoice,
) -> Result<Joined, JoinError> {
    let Some(url) = &choice.server else {
        return join(cx, paths).await;
    };
    let server = RemoteServer::open(paths, url, ReachOptions::default())?;
    join_once(cx, server.connect()?, server.credential()?).await
}

/// Connects to a server that nobody here can start, on another machine or in this process: the first attempt decides.
pub async fn join_once(
    cx: &Context,
    connect: Arc<dyn Connect>,
    credential: Credential,
) -> Result<Joined, JoinError> {
    let joined = Joined::begin(connect, credential);
    let decided = |state: &ConnectionState| !matches!(state, ConnectionState::Connecting { .. });
    let connection = joined.link.connection();
    let settled = connection.wait_for(&cx.with_timeout(FIRST), decided).await;
    let state = settled.unwrap_or_else(|_| connection.get());
    joined.once(&state, "")
}

/// What this user's clients show.
pub fn credential(paths: &Paths) -> Result<Credential, JoinError> {
    paths.create_run()?;
    Ok(Credential::token(daemon::read_or_create_token(
        &paths.token(),
    )?))
}

/// Connects through `connect`.
pub async fn join_through(
    cx: &Context,
    connect: Arc<dyn Connect>,
    credential: Credential,
) -> Result<Joined, JoinError> {
    let joined = Joined::begin(connect, credential);
    let settled = joined.link.settled(&cx.with_timeout(FIRST)).await;
    let state = settled.unwrap_or_else(|_| joined.link.connection().get());
    joined.once(&state, "; `bezel server stop` ends it")
}

/// Who a presentation of this build is.
pub fn hello(credential: Credential) -> Hello {
    Hello {
        role: Role::Presentation,
        product_version: env!("CARGO_PKG_VERSION").to_owned(),
        credential,
    }
}

/// Dials the socket; where nobody listens, starts the server and dials again.
pub struct DaemonConnect {
    paths: Paths,
    dial: Arc<dyn Connect>,
    failure: watch::Sender<Option<StartError>>,
}

impl DaemonConnect {
    /// Will dial the socket under `paths`.
    pub fn new(paths: &Paths) -> Result<Self, PathsError> {
        Ok(DaemonConnect {
            dial: dial_unix(paths.socket()?),
            paths: paths.clone(),
            failure: watch::Sender::new(None),
        })
    }

    /// Resolves when a server could not be started.
    async fn failure(&self) -> StartError {
        let mut failure = self.failure.subscribe();
        loop {
            // The sender lives as long as this.
            failure.wait_for(Option::is_some).await.ok();
            let mut taken = None;
            // Wakes nobody, least of all this.
            self.failure.send_if_modified(|failure| {
                taken = failure.take();
                false
            });
            if let Some(error) = taken {
                return error;
            }
        }
    }

    async fn start(&self) -> io::Result<()> {
        let paths = self.paths.clone();
        let started =
            match tokio::task::spawn_blocking(move || daemon::ensure_running(&paths)).await {
                Ok(started) => started,
                Err(error) => Err(StartError::Spawn(io::Error::other(error))),
            };
        started.map_err(|error| {
            let cause = io::Error::other(error.to_string());
            self.failure.send_replace(Some(error));
            cause
        })
    }
}

impl Connect for DaemonConnect {
    fn connect<'c>(&'c self, cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        Box::pin(async move {
            match self.dial.connect(cx).await {
                Err(ConnectError::Unreachable { endpoint, .. }) => {
                    let started = cx.run(self.start()).await?;
                    started.map_err(|cause| ConnectError::Unreachable { endpoint, cause })?;
                    self.dial.connect(cx).await
                }
                dialled => dialled,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context as TaskContext, Poll, Wake, Waker};

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_client_that_waits_for_its_server_does_not_wake_itself() {
        let connect = DaemonConnect {
            paths: Paths::under("/nowhere".into()),
            dial: dial_unix("/nowhere/server.sock"),
            failure: watch::Sender::new(None),
        };
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut task = TaskContext::from_waker(&waker);
        let mut failure = std::pin::pin!(connect.failure());
        for _ in 0..3 {
            assert!(failure.as_mut().poll(&mut task).is_pending());
            assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        }
        let refused = StartError::Refused("no".into());
        connect.failure.send_replace(Some(refused));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        let Poll::Ready(error) = failure.as_mut().poll(&mut task) else {
            panic!("a failed start ends the wait");
        };
        assert!(matches!(error, StartError::Refused(reason) if reason == "no"));
    }
}
