//! What a call can fail with: the machinery's own codes, and a contract's error beside them.

use std::convert::Infallible;

use bezel_context::Cancelled;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// The stable codes that the machinery itself answers with.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
        }

        impl ErrorCode {
            /// The code as it stands on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => $text,)* }
            }

            /// Reads a code from the wire; `None` for one that this version does not know.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(ErrorCode::$name),)* _ => None }
            }
        }
    };
}

codes! {
    /// The caller or the owner of the invocation cancelled it.
    Cancelled => "cancelled",
    /// The invocation's deadline passed.
    DeadlineExceeded => "deadline_exceeded",
    /// There is no connection, or it was lost while the call ran; nothing is replayed.
    Disconnected => "disconnected",
    /// The peer exposes no service of that id.
    UnknownService => "unknown_service",
    /// The service has no member of that name and kind.
    UnknownMember => "unknown_member",
    /// The arguments are not what the member's schema says.
    InvalidArguments => "invalid_arguments",
    /// The result is not what the member's schema says.
    InvalidResult => "invalid_result",
    /// The reference was released or belongs to an ended connection.
    StaleReference => "stale_reference",
    /// The host has not been activated yet, or the handle is not bound yet.
    NotActive => "not_active",
    /// No target is attached to this connection.
    NotAttached => "not_attached",
    /// The principal may not do this.
    NotAuthorized => "not_authorized",
    /// The target does not exist.
    UnknownSession => "unknown_session",
    /// The attached peer died or cannot be reached.
    SessionUnavailable => "session_unavailable",
    /// The two sides' versions do not fit.
    IncompatibleVersion => "incompatible_version",
    /// Somebody else was first.
    Conflict => "conflict",
    /// A limit of this connection is used up.
    ResourceExhausted => "resource_exhausted",
    /// A message is larger than the peer accepts.
    FrameTooLarge => "frame_too_large",
    /// The peer broke the protocol.
    Protocol => "protocol",
    /// Something failed that its author did not expect; the message carries an id found in the log.
    Internal => "internal",
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A failure of the machinery: its code, a sentence for a person, and optional detail for a program.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// What kind of failure.
    pub code: ErrorCode,
    /// What was attempted, on what, and what to do.
    pub message: String,
    /// Detail that a program can read.
    pub data: Option<Value>,
}

impl RpcError {
    /// An error without further detail.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        RpcError {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// An `internal` error whose cause stays in the log, under the id that the message names.
    pub fn internal(what: &str, cause: &dyn std::fmt::Display) -> Self {
        let id = format!("{:016x}", rand::random::<u64>());
        tracing::error!(error_id = %id, cause = %cause, "{what} failed");
        RpcError {
            code: ErrorCode::Internal,
            message: format!("{what} failed unexpectedly; the log has the cause under id {id}"),
            data: Some(serde_json::json!({ "id": id })),
        }
    }
}

impl From<Cancelled> for RpcError {
    fn from(cancelled: Cancelled) -> Self {
        match cancelled {
            Cancelled::Cancelled => RpcError::new(ErrorCode::Cancelled, "the call was cancelled"),
            Cancelled::DeadlineExceeded => {
                RpcError::new(ErrorCode::DeadlineExceeded, "the call's deadline passed")
            }
        }
    }
}

/// Why a call gave no result: the contract's own error, or the machinery's.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError<E = Infallible> {
    /// The service answered with an error of its contract.
    #[error("{0}")]
    Service(E),
    /// The call did not reach a result.
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

impl<E> CallError<E> {
    /// The machinery's code, `None` for an error of the contract.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            CallError::Service(_) => None,
            CallError::Rpc(error) => Some(error.code),
        }
    }

    /// The contract's error, if it is one.
    pub fn service(&self) -> Option<&E> {
        match self {
            CallError::Service(error) => Some(error),
            CallError::Rpc(_) => None,
        }
    }
}

impl<E> From<Cancelled> for CallError<E> {
    fn from(cancelled: Cancelled) -> Self {
        CallError::Rpc(cancelled.into())
    }
}

/// A contract's error type: an enum tagged with `code`, with a text for people.
///
/// Blanket-implemented; derive `Serialize, Deserialize, thiserror::Error` and write
/// `#[serde(tag = "code", rename_all = "snake_case")]`.
pub trait ServiceError:
    Serialize + DeserializeOwned + std::fmt::Display + Send + Sync + 'static
{
}

impl<E: Serialize + DeserializeOwned + std::fmt::Display + Send + Sync + 'static> ServiceError
    for E
{
}

/// `{ code, message, data }` as it crosses.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Envelope {
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// A failed call on its way out: the envelope and whether the contract or the machinery made it.
#[derive(Debug)]
pub struct Failure {
    pub(crate) envelope: Envelope,
    /// True for an error that the contract declares.
    pub(crate) declared: bool,
}

impl From<RpcError> for Failure {
    fn from(error: RpcError) -> Self {
        Failure {
            envelope: Envelope {
                code: error.code.as_str().to_owned(),
                message: error.message,
                data: error.data,
            },
            declared: false,
        }
    }
}

impl Failure {
    /// The error's code as it crosses.
    pub(crate) fn code(&self) -> &str {
        &self.envelope.code
    }

    /// Wraps a contract's error. One that is not an object tagged with `code` becomes `internal`.
    pub fn declared<E: ServiceError>(error: &E) -> Self {
        let message = error.to_string();
        match serde_json::to_value(error) {
            Ok(Value::Object(mut fields)) => match fields.remove("code") {
                Some(Value::String(code)) => {
                    let data = (!fields.is_empty()).then_some(Value::Object(fields));
                    Failure {
                        envelope: Envelope {
                            code,
                            message,
                            data,
                        },
                        declared: true,
                    }
                }
                _ => RpcError::internal("encoding a service error", &UntaggedError(message)).into(),
            },
            Ok(_) => RpcError::internal("encoding a service error", &UntaggedError(message)).into(),
            Err(cause) => RpcError::internal("encoding a service error", &cause).into(),
        }
    }
}

struct UntaggedError(String);

impl std::fmt::Display for UntaggedError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "the error type has no `code` tag, see `#[serde(tag = \"code\")]`: {}",
            self.0
        )
    }
}

impl Envelope {
    /// The machinery's error that this envelope carries.
    pub(crate) fn into_rpc(self) -> RpcError {
        match ErrorCode::parse(&self.code) {
            Some(code) => RpcError {
                code,
                message: self.message,
                data: self.data,
            },
            None => RpcError {
                code: ErrorCode::Internal,
                message: format!("{} (code {} of a newer version)", self.message, self.code),
                data: self.data,
            },
        }
    }

    /// The contract's error that this envelope carries.
    pub(crate) fn into_declared<E: ServiceError>(self) -> CallError<E> {
        let mut fields = match self.data {
            Some(Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        };
        fields.insert("code".to_owned(), Value::String(self.code.clone()));
        match serde_json::from_value(Value::Object(fields)) {
            Ok(error) => CallError::Service(error),
            Err(_) => CallError::Rpc(RpcError::new(
                ErrorCode::InvalidResult,
                format!(
                    "the service answered with error code {} that this version of its contract does not know: {}",
                    self.code, self.message
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
    #[serde(tag = "code", rename_all = "snake_case")]
    enum SelectError {
        #[error("unknown model {model}")]
        UnknownModel { model: String },
        #[error("busy")]
        Busy,
    }

    #[test]
    fn a_contract_error_survives_its_envelope_with_and_without_fields() {
        for error in [
            SelectError::UnknownModel { model: "m".into() },
            SelectError::Busy,
        ] {
            let failure = Failure::declared(&error);
            assert!(failure.declared);
            assert_eq!(failure.envelope.message, error.to_string());
            assert_eq!(
                failure.envelope.into_declared::<SelectError>(),
                CallError::Service(error)
            );
        }
    }

    #[test]
    fn a_code_that_the_contract_does_not_know_is_an_invalid_result_that_names_it() {
        let envelope = Envelope {
            code: "new_one".into(),
            message: "m".into(),
            data: None,
        };
        let error = envelope.into_declared::<SelectError>();
        assert_eq!(error.code(), Some(ErrorCode::InvalidResult));
        assert!(error.to_string().contains("new_one"));
    }

    #[test]
    fn an_untagged_contract_error_becomes_internal() {
        let failure = Failure::declared(&"text".to_owned());
        assert!(!failure.declared);
        assert_eq!(failure.envelope.code, "internal");
    }
}
