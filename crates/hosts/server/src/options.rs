//! What a server is started with.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bezel_api_server::ServerContext;
use bezel_plugin::{Deadlines, Facet, Manifest};
use futures::future::BoxFuture;
use jiff::{Timestamp, Unit};

use bezel_rpc::{PeerIdentity, Transport};

use crate::WorkerLauncher;

/// What a server is started with. The host reads no environment, no address and no file but these.
pub struct ServerOptions {
    /// Which plugins, in which order.
    pub manifest: Manifest,
    /// The facets of this build.
    pub facets: Vec<Facet<ServerContext>>,
    /// Where it keeps what it keeps.
    pub paths: ServerPaths,
    /// Starts workers.
    pub launcher: Arc<dyn WorkerLauncher>,
    /// Where others connect; none for a server of this process alone.
    pub listener: Option<Box<dyn Listener>>,
    /// What a local user's client must show beside running as that user.
    pub local_token: Option<LocalToken>,
    /// Whose sessions these are: an opaque name of the local user. It never leaves the server's side.
    pub owner: String,
    /// The product's version.
    pub product_version: String,
    /// Wall clock for records.
    pub clock: Clock,
    /// How long each step of a facet may take.
    pub deadlines: Deadlines,
    /// After how long without a client and without running work it asks to exit; none for never.
    pub idle_after: Option<Duration>,
}

/// Where a server keeps what it keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPaths {
    /// The record file; its directory exists. A `.lock` file lies beside it while the server runs.
    pub database: PathBuf,
    /// One folder per session in here; made where it is missing.
    pub sessions: PathBuf,
}

/// Where others connect.
pub trait Listener: Send + 'static {
    /// The next connection, and what the operating system says of its other side.
    fn accept(&mut self) -> BoxFuture<'_, std::io::Result<(Transport, PeerIdentity)>>;
}

/// The text of the token file. Its debug form hides it.
#[derive(Clone)]
pub struct LocalToken(String);

impl LocalToken {
    /// Wraps the text that the token file holds.
    pub fn new(text: impl Into<String>) -> Self {
        LocalToken(text.into())
    }

    /// Compares in a time that depends on the lengths alone.
    pub(crate) fn is(&self, shown: &str) -> bool {
        let (own, shown) = (self.0.as_bytes(), shown.as_bytes());
        let differing = own
            .iter()
            .zip(shown)
            .fold(0, |differing, (a, b)| differing | (a ^ b));
        let same = std::hint::black_box(differing) == 0;
        own.len() == shown.len() && !own.is_empty() && same
    }
}

impl fmt::Debug for LocalToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LocalToken(hidden)")
    }
}

/// Tells the time that records bear, to the millisecond.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The system's own.
    pub fn system() -> Self {
        Clock::new(Timestamp::now)
    }

    /// Another one.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Clock(Arc::new(now))
    }

    pub(crate) fn now(&self) -> Timestamp {
        let now = (self.0)();
        now.round(Unit::Millisecond).unwrap_or(now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Clock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_token_is_accepted_and_an_empty_one_never() {
        let token = LocalToken::new("abc");
        assert!(token.is("abc"));
        for other in ["", "ab", "abcd", "abd", "ABC"] {
            assert!(!token.is(other), "{other}");
        }
        assert!(!LocalToken::new("").is(""));
        assert_eq!(format!("{token:?}"), "LocalToken(hidden)");
    }
}
