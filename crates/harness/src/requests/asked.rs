//! What is asked: a projection of the memos that hold requests and their answers.

use std::sync::Arc;

use bezel_session_types::{InvocationId, OperationId, PendingRequest};
use bezel_store::{Queries, ReadError};
use serde::Serialize;
use serde_json::Value;

use crate::memos::{Notes, operation_memos};

/// Which requests are meant: an owner and its own name for them. Answers of one channel are never
/// taken for answers of another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ChannelId(Arc<str>);

impl ChannelId {
    /// The channel `name` of `owner`.
    pub fn new(owner: &str, name: &str) -> Self {
        // The key has no colon, and no two pairs share one.
        let escape = |part: &str| {
            part.replace('%', "%25")
                .replace(':', "%3a")
                .replace('/', "%2f")
        };
        ChannelId(format!("{}/{}", escape(owner), escape(name)).into())
    }
}

impl std::fmt::Display for ChannelId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What waits in a channel, in the order in which it was asked.
pub type PendingRequests = Arc<[PendingRequest<Arc<Value>>]>;

/// One thing that a call has asked, as it is committed.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) invocation_id: InvocationId,
    pub(crate) channel: ChannelId,
    pub(super) request: Arc<Value>,
    pub(super) response: Option<Arc<Value>>,
}

impl Asked {
    pub(super) fn is(&self, channel: &ChannelId, invocation: &InvocationId) -> bool {
        self.channel == *channel && self.invocation_id == *invocation
    }
}

/// Reads what the calls of an open operation have noted.
pub(crate) fn load_notes(
    queries: &Queries<'_>,
    operation: &OperationId,
) -> Result<Notes, ReadError> {
    let mut notes = Notes::default();
    let prefix = operation_memos(operation);
    for (key, value) in queries.values(&prefix)? {
        let Some((invocation, name)) = key[prefix.len()..].split_once(':') else {
            continue;
        };
        let invocation_id = InvocationId::new(invocation);
        notes.noted.insert(invocation_id.clone());
        let Some((channel, part)) = name
            .strip_prefix(':')
            .and_then(|name| name.rsplit_once(':'))
        else {
            continue;
        };
        let channel = ChannelId(channel.into());
        match part {
            "request" => notes.asked.push(Asked {
                invocation_id,
                channel,
                request: Arc::new(value),
                response: None,
            }),
            // Keys come in order, a request before its response.
            "response" => {
                let asked = notes.asked.last_mut();
                if let Some(asked) = asked.filter(|asked| asked.is(&channel, &invocation_id)) {
                    asked.response = Some(Arc::new(value));
                }
            }
            _ => {}
        }
    }
    Ok(notes)
}
