//! Servers on other machines: their address, what this client shows there, and how it got that.

mod known;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bezel_context::Context;
use bezel_rpc::{Connect, ConnectError, Credential, Hello, exchange};
use bezel_sockets::{Endpoint, EndpointError, TlsError, Trust, dial_websocket};

use self::known::Known;
pub use self::known::KnownError;
use crate::paths::Paths;

/// How long an answer over a connection may take before somebody is told.
pub const ANSWER: Duration = Duration::from_secs(10);

/// How a server is reached beside its address. What was said when it was paired holds until it is said again.
#[derive(Debug, Clone, Default)]
pub struct ReachOptions {
    /// Certificates to trust beside the system's.
    pub ca: Option<PathBuf>,
    /// Takes a connection to another machine that is not encrypted.
    pub allow_insecure: bool,
}

/// A server on another machine, or behind a port of this one.
pub struct RemoteServer {
    endpoint: Endpoint,
    file: PathBuf,
    known: Option<Known>,
    options: ReachOptions,
    trust: Option<Trust>,
}

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The URL is none.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What was kept of the server cannot be read or written.
    #[error(transparent)]
    Known(#[from] KnownError),
    /// Others could read along.
    #[error(
        "will not connect to {url}: others on the network could read everything, this client's token too; use https \
         (`bezel serve` with --tls-cert and --tls-key), or give --allow-insecure where the network itself is private"
    )]
    Insecure {
        /// The server.
        url: String,
    },
    /// There is no token for it.
    #[error(
        "this client is not paired with {url}: run `bezel access pair` where that server runs, then `bezel attach {url}` here"
    )]
    NotPaired {
        /// The server.
        url: String,
    },
    /// The code was not taken.
    #[error("cannot pair with {url}: {cause}")]
    Pairing {
        /// The server.
        url: String,
        /// Why.
        cause: ConnectError,
    },
}

impl RemoteServer {
    /// What is known of the server at `url`. Connects to nobody.
    pub fn open(paths: &Paths, url: &str, options: ReachOptions) -> Result<Self, RemoteError> {
        let endpoint: Endpoint = url.parse()?;
        let file = known::file(&paths.state, &endpoint);
        let known = known::read(&file, &endpoint)?;
        let options = ReachOptions {
            ca: options
                .ca
                .or_else(|| known.as_ref().and_then(|known| known.ca.clone())),
            allow_insecure: options.allow_insecure
                || known.as_ref().is_some_and(|known| known.allow_insecure),
        };
        if !endpoint.is_encrypted() && !endpoint.is_loopback() && !options.allow_insecure {
            return Err(RemoteError::Insecure {
                url: endpoint.to_string(),
            });
        }
        let trust = match &options.ca {
            Some(ca) => Some(Trust::system(Some(ca))?),
            None => None,
        };
        Ok(RemoteServer {
            endpoint,
            file,
            known,
            options,
            trust,
        })
    }

    /// The server's URL, the same for every way to write it.
    pub fn url(&self) -> String {
        self.endpoint.to_string()
    }

    /// Whether this client has a token of it.
    pub fn is_paired(&self) -> bool {
        self.known.is_some()
    }

    /// Attempts to reach it.
    pub fn connect(&self) -> Result<Arc<dyn Connect>, RemoteError> {
        Ok(dial_websocket(self.endpoint.clone(), self.trust.clone())?)
    }

    /// What this client shows there.
    pub fn credential(&self) -> Result<Credential, RemoteError> {
        let known = self
            .known
            .as_ref()
            .ok_or_else(|| RemoteError::NotPaired { url: self.url() })?;
        Ok(Credential::token(known.token.as_str()))
    }

    /// Trades a pairing code for a token, and keeps that. `hello` says who asks, with whatever credential.
    pub async fn pair(
        &mut self,
        cx: &Context,
        code: &str,
        hello: Hello,
    ) -> Result<(), RemoteError> {
        let hello = Hello {
            credential: Credential::token(code.trim()),
            ..hello
        };
        let traded = exchange(cx, &*self.connect()?, hello).await;
        let token = traded.map_err(|cause| RemoteError::Pairing {
            url: self.url(),
            cause,
        })?;
        let known = Known {
            url: self.url(),
            token: token.reveal().unwrap_or_default().to_owned(),
            ca: self.options.ca.as_deref().map(absolute),
            allow_insecure: self.options.allow_insecure,
        };
        known::write(&self.file, &known)?;
        self.known = Some(known);
        Ok(())
    }
}

/// As it will still be right from another directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
