//! What goes back: results as JSON, failures as `{code, message, data?}` under the status of their code.

use axum::body::Body;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use bezel_rpc::{CallError, ConnectError, ErrorCode, RpcError, UnreadError};
use bezel_sessions_contract::SessionError;
use bytes::Bytes;
use serde_json::Value;

/// A request that gets no result.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    error: UnreadError,
    /// The method that the path takes, for 405.
    pub(crate) allow: Option<&'static str>,
}

/// The status of one of the machinery's codes.
pub(crate) fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::InvalidArguments | ErrorCode::Protocol => StatusCode::BAD_REQUEST,
        ErrorCode::NotAuthorized => StatusCode::FORBIDDEN,
        ErrorCode::UnknownService | ErrorCode::UnknownMember | ErrorCode::UnknownSession => {
            StatusCode::NOT_FOUND
        }
        ErrorCode::Conflict | ErrorCode::IncompatibleVersion => StatusCode::CONFLICT,
        ErrorCode::StaleReference => StatusCode::GONE,
        ErrorCode::FrameTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Cancelled
        | ErrorCode::Disconnected
        | ErrorCode::NotActive
        | ErrorCode::NotAttached
        | ErrorCode::SessionUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        // `internal` and `invalid_result`, and whatever a later version adds.
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<UnreadError> for Problem {
    /// A contract's own error has the status of a code that it shares with the machinery, or else 422.
    fn from(error: UnreadError) -> Self {
        let status = match ErrorCode::parse(&error.code) {
            Some(code) => status_of(code),
            None if error.declared => StatusCode::UNPROCESSABLE_ENTITY,
            None => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem {
            status,
            error,
            allow: None,
        }
    }
}

impl From<RpcError> for Problem {
    fn from(error: RpcError) -> Self {
        UnreadError::from(error).into()
    }
}

impl From<ConnectError> for Problem {
    /// A credential that the server does not take is 401; what it may not do is 403, and said later.
    fn from(error: ConnectError) -> Self {
        let error = match error {
            ConnectError::Refused(refusal) if refusal.code == ErrorCode::NotAuthorized => {
                return Problem::unauthenticated(refusal.message);
            }
            ConnectError::Refused(refusal) => RpcError::new(refusal.code, refusal.message),
            ConnectError::Cancelled(cancelled) => cancelled.into(),
            error => RpcError::new(ErrorCode::Disconnected, error.to_string()),
        };
        error.into()
    }
}

impl From<CallError<SessionError>> for Problem {
    fn from(error: CallError<SessionError>) -> Self {
        let declared = match error {
            CallError::Rpc(error) => return error.into(),
            CallError::Service(declared) => declared,
        };
        let message = declared.to_string();
        let mut fields = match serde_json::to_value(&declared) {
            Ok(Value::Object(fields)) => fields,
            _ => return RpcError::internal("encoding a session error", &message).into(),
        };
        let code = match fields.remove("code") {
            Some(Value::String(code)) => code,
            _ => return RpcError::internal("encoding a session error", &message).into(),
        };
        let error = UnreadError {
            code,
            message,
            data: (!fields.is_empty()).then_some(Value::Object(fields)),
            declared: true,
        };
        error.into()
    }
}

impl Problem {
    /// A failure of the machinery under another status than its code has.
    fn of(status: StatusCode, code: ErrorCode, message: impl Into<String>) -> Self {
        Problem {
            status,
            error: RpcError::new(code, message).into(),
            allow: None,
        }
    }

    pub(crate) fn unauthenticated(message: impl Into<String>) -> Self {
        Problem::of(StatusCode::UNAUTHORIZED, ErrorCode::NotAuthorized, message)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        RpcError::new(ErrorCode::Protocol, message).into()
    }

    pub(crate) fn unknown_path() -> Self {
        let text = "there is nothing under this path; GET /v1/openapi.json lists what there is";
        RpcError::new(ErrorCode::UnknownService, text).into()
    }

    pub(crate) fn unknown_service(service: &str) -> Self {
        let text = format!("there is no service {} here", shortened(service));
        RpcError::new(ErrorCode::UnknownService, text).into()
    }

    pub(crate) fn unknown_member(service: &str, member: &str) -> Self {
        let text = format!("{service} has no member {} over HTTP", shortened(member));
        RpcError::new(ErrorCode::UnknownMember, text).into()
    }

    pub(crate) fn method(allowed: Method) -> Self {
        let allow = if allowed == Method::GET {
            "GET"
        } else {
            "POST"
        };
        let text = format!("this path takes {allow} alone");
        Problem {
            allow: Some(allow),
            ..Problem::of(
                StatusCode::METHOD_NOT_ALLOWED,
                ErrorCode::UnknownMember,
                text,
            )
        }
    }

    pub(crate) fn media_type() -> Self {
        Problem::of(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ErrorCode::InvalidArguments,
            "the arguments are one JSON object; send them as Content-Type: application/json",
        )
    }

    pub(crate) fn no_object() -> Self {
        let text = "the arguments are one JSON object, by name";
        RpcError::new(ErrorCode::InvalidArguments, text).into()
    }

    pub(crate) fn too_slow() -> Self {
        Problem::of(
            StatusCode::REQUEST_TIMEOUT,
            ErrorCode::Protocol,
            "the body took too long to come",
        )
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let text = format!("the body passes the limit of {limit} bytes; send less at once");
        RpcError::new(ErrorCode::FrameTooLarge, text).into()
    }

    pub(crate) fn error(&self) -> &UnreadError {
        &self.error
    }

    pub(crate) fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.error).unwrap_or_else(|error| {
            tracing::error!(%error, "an error has no JSON form");
            br#"{"code":"internal","message":"the error itself could not be encoded"}"#.to_vec()
        });
        let mut response = json(self.status, body.into());
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        response
    }
}

/// A JSON answer, which nobody keeps.
pub(crate) fn json(status: StatusCode, body: Bytes) -> Response {
    typed(status, "application/json", Body::from(body))
}

/// An answer of some type, which nobody keeps.
pub(crate) fn typed(status: StatusCode, media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let exact = HeaderValue::from_static("nosniff");
    headers.insert("x-content-type-options", exact);
    response
}

/// A name as far as it is worth repeating to whoever sent it.
fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}
