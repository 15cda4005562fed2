//! The first frames of a connection: who speaks, what each side offers, yes or no.

use std::sync::Arc;

use bezel_context::ClientId;
use serde::{Deserialize, Serialize};

use crate::connection::ConnectError;
use crate::descriptor::{ServiceSummary, Version};
use crate::error::{Envelope, ErrorCode, RpcError};
use crate::limits::Limits;
use crate::wire::{Frame, Header, Kind};

/// What a peer says about itself. The accepting side believes the credential alone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// What the peer wants to be.
    pub role: Role,
    /// The peer's build, for the log and for messages about version skew.
    pub product_version: String,
    /// What proves it.
    #[serde(default)]
    pub credential: Credential,
}

/// What kind of peer. Roles are open: an accepting side refuses those that it does not know.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Role {
    /// Shows things to a person or a program.
    Presentation,
    /// Serves one target.
    Worker,
    /// Any other.
    Other(String),
}

impl From<String> for Role {
    fn from(text: String) -> Self {
        match text.as_str() {
            "presentation" => Role::Presentation,
            "worker" => Role::Worker,
            _ => Role::Other(text),
        }
    }
}

impl From<Role> for String {
    fn from(role: Role) -> Self {
        match role {
            Role::Presentation => "presentation".to_owned(),
            Role::Worker => "worker".to_owned(),
            Role::Other(text) => text,
        }
    }
}

/// A secret that proves who a peer is. It is never shown and never logged.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Credential(Option<Arc<str>>);

impl Credential {
    /// No proof beside the transport's own, such as the user of a Unix socket's peer.
    pub fn none() -> Self {
        Credential(None)
    }

    /// A token that the accepting side issued.
    pub fn token(secret: impl Into<Arc<str>>) -> Self {
        Credential(Some(secret.into()))
    }

    /// Whether this is `secret`, in time that does not depend on where they differ.
    pub fn matches(&self, secret: &str) -> bool {
        let Some(own) = &self.0 else { return false };
        own.len() == secret.len()
            && own
                .bytes()
                .zip(secret.bytes())
                .fold(0, |seen, (a, b)| seen | (a ^ b))
                == 0
    }

    /// The secret, for the accepting side to look up. Never show it.
    pub fn reveal(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_some() {
            "Credential(…)"
        } else {
            "Credential(none)"
        })
    }
}

/// Why an accepting side turned a peer away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the peer was refused: {message} ({code})")]
pub struct Refusal {
    /// `not_authorized`, `incompatible_version`, `resource_exhausted`, `protocol`, …
    pub code: ErrorCode,
    /// What to do about it.
    pub message: String,
}

impl Refusal {
    /// A refusal with its reason.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Refusal {
            code,
            message: message.into(),
        }
    }

    /// Whether another attempt with the same credential and build cannot succeed.
    pub fn is_final(&self) -> bool {
        matches!(
            self.code,
            ErrorCode::NotAuthorized | ErrorCode::IncompatibleVersion | ErrorCode::Protocol
        )
    }
}

impl From<RpcError> for Refusal {
    fn from(error: RpcError) -> Self {
        Refusal {
            code: error.code,
            message: error.message,
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct HelloPayload {
    pub protocol: Version,
    #[serde(flatten)]
    pub hello: Hello,
    #[serde(default)]
    pub services: Vec<ServiceSummary>,
    /// Whether the peer's host is active. A worker that is not yet uses services and is attached to by nobody.
    #[serde(default = "unless_it_says")]
    pub active: bool,
}

fn unless_it_says() -> bool {
    true
}

#[derive(Serialize, Deserialize)]
pub(crate) struct WelcomePayload {
    pub protocol: Version,
    pub product_version: String,
    pub client: ClientId,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub services: Vec<ServiceSummary>,
    /// What the peer shows from now on instead of what it showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Credential>,
}

/// A frame of the connection itself. A payload that has no JSON form is a bug of this crate.
pub(crate) fn control(kind: Kind, payload: &impl Serialize) -> Frame {
    let payload = serde_json::to_vec(payload).expect("control payloads are plain structures");
    Frame {
        header: Header::new(kind).encode(),
        payload: payload.into(),
    }
}

pub(crate) fn refusal(refusal: &Refusal) -> Frame {
    let envelope = Envelope {
        code: refusal.code.as_str().to_owned(),
        message: refusal.message.clone(),
        data: None,
    };
    control(Kind::Refuse, &envelope)
}

/// Reads the first frame that an accepting side gets.
pub(crate) fn read_hello(frame: &Frame) -> Result<HelloPayload, Refusal> {
    let refuse = |text: String| Refusal::new(ErrorCode::Protocol, text);
    let header = Header::parse(&frame.header).map_err(|error| refuse(error.to_string()))?;
    if header.kind != Kind::Hello || header.route.is_some() {
        return Err(refuse(format!(
            "the first frame is {}; send hello first",
            header.kind.as_str()
        )));
    }
    crate::strict::check(&frame.payload)
        .map_err(|error| refuse(format!("hello cannot be read: {error}")))?;
    let hello: HelloPayload = serde_json::from_slice(&frame.payload)
        .map_err(|error| refuse(format!("hello cannot be read: {error}")))?;
    if hello.protocol.major != crate::PROTOCOL.major {
        return Err(Refusal::new(
            ErrorCode::IncompatibleVersion,
            format!(
                "this side speaks protocol {}, the peer ({}) {}; update the older one and restart it",
                crate::PROTOCOL,
                hello.hello.product_version,
                hello.protocol
            ),
        ));
    }
    Ok(hello)
}

/// Reads the first frame that a connecting side gets.
pub(crate) fn read_welcome(frame: &Frame) -> Result<WelcomePayload, ConnectError> {
    let refuse = |text: String| ConnectError::Refused(Refusal::new(ErrorCode::Protocol, text));
    let header = Header::parse(&frame.header).map_err(|error| refuse(error.to_string()))?;
    match header.kind {
        Kind::Welcome => {
            let welcome: WelcomePayload = serde_json::from_slice(&frame.payload)
                .map_err(|error| refuse(format!("the server's welcome cannot be read: {error}")))?;
            if welcome.protocol.major != crate::PROTOCOL.major {
                let text = format!(
                    "the server ({}) speaks protocol {}, this side {}; update the older one and restart it",
                    welcome.product_version,
                    welcome.protocol,
                    crate::PROTOCOL
                );
                return Err(ConnectError::Refused(Refusal::new(
                    ErrorCode::IncompatibleVersion,
                    text,
                )));
            }
            Ok(welcome)
        }
        Kind::Refuse => {
            let envelope: Envelope = serde_json::from_slice(&frame.payload)
                .map_err(|error| refuse(format!("the server's refusal cannot be read: {error}")))?;
            Err(ConnectError::Refused(envelope.into_rpc().into()))
        }
        kind => Err(refuse(format!(
            "the server answered hello with {}",
            kind.as_str()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> Frame {
        control(
            Kind::Hello,
            &HelloPayload {
                protocol: crate::PROTOCOL,
                hello: Hello {
                    role: Role::Worker,
                    product_version: "1".into(),
                    credential: Credential::token("secret"),
                },
                services: Vec::new(),
                active: true,
            },
        )
    }

    #[test]
    fn a_credential_matches_itself_alone_and_is_never_shown() {
        let credential = Credential::token("secret");
        assert!(credential.matches("secret"));
        assert!(
            !credential.matches("secreT")
                && !credential.matches("secret1")
                && !Credential::none().matches("")
        );
        assert!(!format!("{credential:?}").contains("secret"));
    }

    #[test]
    fn a_hello_of_another_major_is_refused_with_both_versions() {
        let mut payload = String::from_utf8(hello().payload.to_vec()).expect("text");
        payload = payload.replace("\"major\":1", "\"major\":9");
        let refusal = read_hello(&Frame {
            header: hello().header,
            payload: payload.into(),
        })
        .err()
        .expect("refused");
        assert_eq!(refusal.code, ErrorCode::IncompatibleVersion);
        assert!(refusal.message.contains("9.0") && refusal.message.contains("1.0"));
    }

    proptest! {
        #[test]
        fn a_hostile_hello_is_refused_and_never_a_panic(
            header in prop::collection::vec(any::<u8>(), 0..60),
            payload in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let without_header = read_hello(&Frame { header: header.into(), payload: payload.clone().into() });
            let without_payload = read_hello(&Frame { header: hello().header, payload: payload.into() });
            prop_assert!(without_header.is_err() && without_payload.is_err());
        }

        #[test]
        fn a_damaged_hello_is_never_a_panic(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut payload = hello().payload.to_vec();
            let at = at.index(payload.len());
            payload[at] = byte;
            drop(read_hello(&Frame { header: hello().header, payload: payload.into() }));
        }
    }
}
