//! The frames of a connection itself, as both of its ends read and write them.

use crate::error::{Envelope, ErrorCode, RpcError};
use crate::handshake::control;
use crate::provider::Provider;
use crate::wire::drive::End;
use crate::wire::{Header, Kind, Outbox};

pub(crate) fn violation(text: impl Into<String>) -> End {
    End::Violation(RpcError::new(ErrorCode::Protocol, text))
}

/// Reads a payload of the connection itself.
pub(crate) fn read<T: serde::de::DeserializeOwned>(payload: &[u8]) -> Result<T, End> {
    crate::strict::check(payload).map_err(|error| violation(error.to_string()))?;
    serde_json::from_slice(payload).map_err(|error| violation(error.to_string()))
}

pub(crate) fn answer_ping(provider: &Provider) {
    provider.send(&Header::new(Kind::Pong));
}

pub(crate) fn goaway_reason(payload: &[u8]) -> String {
    serde_json::from_slice::<Envelope>(payload).map_or_else(
        |_| "no reason given".to_owned(),
        |envelope| envelope.message,
    )
}

pub(crate) fn send_goaway(outbox: &Outbox, error: &RpcError) {
    let envelope = Envelope {
        code: error.code.as_str().to_owned(),
        message: error.message.clone(),
        data: None,
    };
    if let Err(error) = outbox.send(control(Kind::Goaway, &envelope)) {
        tracing::trace!(%error, "a goodbye was not sent");
    }
}
