//! A connection from outside: how one is made, and how it and its attachment stand.

use bezel_context::{Cancelled, Context};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

use crate::descriptor::ServiceSummary;
use crate::handshake::Refusal;
use crate::wire::{Transport, TransportError};

/// Makes one abortable attempt to connect. It owns endpoint and credential; who retries is the [`Link`](crate::Link).
pub trait Connect: Send + Sync + 'static {
    /// One attempt. Dropping the future gives it up.
    fn connect<'c>(&'c self, cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>>;
}

/// Why an attempt to connect failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody could be reached.
    #[error("cannot reach {endpoint}: {cause}")]
    Unreachable {
        /// What was dialled, without any secret.
        endpoint: String,
        /// Why it failed.
        cause: std::io::Error,
    },
    /// The attempt was given up.
    #[error("the attempt to connect was {0}")]
    Cancelled(#[from] Cancelled),
    /// The peer said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The connection broke during the handshake.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The peer closed the connection during the handshake.
    #[error("the peer closed the connection before it was established")]
    Closed,
    /// The attempt took too long.
    #[error("the peer did not answer within {0:?}")]
    TimedOut(Duration),
}

/// A connection as facets see it. Times are milliseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ConnectionState {
    /// An attempt runs, or has not begun yet (attempt 0).
    Connecting {
        /// Counts from 1 since the last connection.
        attempt: u32,
    },
    /// Services can be used.
    Connected {
        /// Since when.
        since: u64,
    },
    /// There is no connection.
    Disconnected {
        /// Since when.
        since: u64,
        /// Why, for a person.
        reason: String,
        /// When the next attempt begins; `None` when another one cannot help.
        retry_at: Option<u64>,
    },
}

impl Default for ConnectionState {
    fn default() -> Self {
        ConnectionState::Connecting { attempt: 0 }
    }
}

impl ConnectionState {
    /// Whether services can be used.
    pub fn is_connected(&self) -> bool {
        matches!(self, ConnectionState::Connected { .. })
    }
}

/// Which target this connection's routed namespace leads to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum AttachmentState {
    /// None.
    #[default]
    Detached,
    /// Chosen; its worker is not connected yet.
    Attaching {
        /// The chosen target.
        target: String,
    },
    /// Its services can be used.
    Attached {
        /// The chosen target.
        target: String,
    },
    /// Its worker is gone, or the connection itself is.
    Degraded {
        /// The chosen target.
        target: String,
    },
}

impl AttachmentState {
    /// The chosen target, reachable or not.
    pub fn target(&self) -> Option<&str> {
        match self {
            AttachmentState::Detached => None,
            AttachmentState::Attaching { target }
            | AttachmentState::Attached { target }
            | AttachmentState::Degraded { target } => Some(target),
        }
    }

    /// Whether the target's services can be used.
    pub fn is_attached(&self) -> bool {
        matches!(self, AttachmentState::Attached { .. })
    }
}

/// What an `attachment` frame tells a presentation.
#[derive(Serialize, Deserialize)]
pub(crate) struct AttachmentPayload {
    /// Which of the connection's attachments; there is one so far, number 1.
    #[serde(default = "first_attachment")]
    pub attachment: u32,
    #[serde(flatten)]
    pub state: AttachmentState,
    #[serde(default)]
    pub services: Vec<ServiceSummary>,
}

fn first_attachment() -> u32 {
    1
}
