//! Asking the server.

use bezel_context::Context;
use bezel_rpc::{CallError, ConnectionState, ErrorCode, State};
use bezel_sessions_contract::SessionError;

use super::SessionsError;
use crate::agent::LaneError;

/// Asks the server whenever it can be reached, until there is an answer: a call whose answer was lost with its
/// connection is made again.
pub async fn ask<T, Asked>(
    cx: &Context,
    connection: &State<ConnectionState>,
    call: impl Fn() -> Asked,
) -> Result<T, SessionsError>
where
    Asked: Future<Output = Result<T, CallError<SessionError>>>,
{
    loop {
        let connected = connection.wait_for(cx, ConnectionState::is_connected);
        connected.await.map_err(|_| LaneError::Cancelled)?;
        match call().await {
            Err(CallError::Rpc(error)) if error.code == ErrorCode::Disconnected => {}
            answered => return Ok(answered?),
        }
    }
}
