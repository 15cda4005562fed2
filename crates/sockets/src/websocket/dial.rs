//! Attempts to reach a server over WebSocket.

use std::io;
use std::sync::Arc;

use bezel_context::Context;
use bezel_rpc::{Connect, ConnectError, ErrorCode, Refusal, Transport};
use futures::future::BoxFuture;
use rustls::CertificateError;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::http::StatusCode;

use super::endpoint::Endpoint;
use super::tls::{TlsError, Trust};
use super::{frames, guard};

/// Most of what a server said that is repeated.
const MOST_SAID: usize = 300;

/// A way to connect to the server at `endpoint`; each use is one attempt. Without `trust`, the system
/// says which certificates are believed.
pub fn dial_websocket(
    endpoint: Endpoint,
    trust: Option<Trust>,
) -> Result<Arc<dyn Connect>, TlsError> {
    let trust = match trust {
        None if endpoint.is_encrypted() => Some(Trust::system(None)?),
        trust => trust.filter(|_| endpoint.is_encrypted()),
    };
    Ok(Arc::new(WebSocketDial { endpoint, trust }))
}

struct WebSocketDial {
    endpoint: Endpoint,
    trust: Option<Trust>,
}

impl Connect for WebSocketDial {
    fn connect<'c>(&'c self, cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        Box::pin(async { cx.run(self.attempt()).await? })
    }
}

impl WebSocketDial {
    async fn attempt(&self) -> Result<Transport, ConnectError> {
        let to = (self.endpoint.host(), self.endpoint.port());
        let stream = TcpStream::connect(to).await;
        let stream = stream.map_err(|cause| self.unreachable(cause))?;
        stream
            .set_nodelay(true)
            .map_err(|cause| self.unreachable(cause))?;
        let Some(trust) = &self.trust else {
            return self.upgrade(stream).await;
        };
        let name = ServerName::try_from(self.endpoint.host().to_owned());
        let name = name.map_err(|error| self.unreachable(io::Error::other(error)))?;
        let connector = TlsConnector::from(Arc::clone(&trust.0));
        match connector.connect(name, stream).await {
            Ok(stream) => self.upgrade(stream).await,
            Err(cause) => Err(self.unreachable(self.explained(cause))),
        }
    }

    /// What a failed TLS handshake means for whoever wants to connect.
    fn explained(&self, cause: io::Error) -> io::Error {
        let failed = cause
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let text = match failed {
            Some(rustls::Error::InvalidCertificate(wrong)) => {
                let host = self.endpoint.host();
                untrusted(wrong, host)
            }
            Some(rustls::Error::InvalidMessage(_)) => {
                "what answers there speaks no TLS: use http:// where the server has no certificate"
                    .to_owned()
            }
            _ => return cause,
        };
        io::Error::new(cause.kind(), text)
    }

    async fn upgrade<S>(&self, stream: S) -> Result<Transport, ConnectError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let asked =
            client_async_with_config(self.endpoint.request_uri(), stream, Some(frames::config()));
        match asked.await {
            Ok((socket, _)) => Ok(frames::transport(socket)),
            Err(Error::Http(response)) => {
                let said = response.body().as_deref().map(guard::said);
                let said: String = said
                    .unwrap_or_default()
                    .chars()
                    .map(|character| {
                        if character.is_control() {
                            ' '
                        } else {
                            character
                        }
                    })
                    .take(MOST_SAID)
                    .collect();
                let said = said.trim();
                if response.status() == StatusCode::FORBIDDEN {
                    return Err(Refusal::new(ErrorCode::NotAuthorized, said).into());
                }
                let text = format!(
                    "what answers there is no Bezel server (status {}): {said}",
                    response.status().as_u16()
                );
                Err(self.unreachable(io::Error::other(text)))
            }
            Err(Error::Io(cause)) => Err(self.unreachable(cause)),
            Err(error) => Err(self.unreachable(io::Error::other(error))),
        }
    }

    fn unreachable(&self, cause: io::Error) -> ConnectError {
        ConnectError::Unreachable {
            endpoint: self.endpoint.to_string(),
            cause,
        }
    }
}

/// Why a certificate is not believed, and what can be done.
fn untrusted(wrong: &CertificateError, host: &str) -> String {
    match wrong {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "nobody whom this machine trusts vouches for its certificate; give the certificate that vouches for it, \
             or its own where it has vouched for itself, as a PEM file with --ca"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "its certificate is for another name than {host}; use a name that it was made for, or make one for {host}"
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("its certificate has expired ({wrong}); renew it there, and look at the clock here")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("its certificate is not valid yet ({wrong}); look at the clocks of both machines")
        }
        CertificateError::Revoked => "its certificate was revoked; give the server another".to_owned(),
        CertificateError::Other(_) if wrong.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is one of an authority (CA:TRUE), which no server may show; make one for the server itself \
             (with OpenSSL: -addext basicConstraints=critical,CA:FALSE)"
                .to_owned()
        }
        other => format!("its certificate is not believed: {other}"),
    }
}
