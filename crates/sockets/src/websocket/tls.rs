//! Certificates: what a listener shows, and what a dialler believes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ServerConfig};
use rustls_platform_verifier::Verifier;

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("cannot read {what} in {}: {cause}; give a PEM file", file.display())]
    File {
        /// What should be in it.
        what: &'static str,
        /// Which file.
        file: PathBuf,
        /// Why.
        cause: rustls::pki_types::pem::Error,
    },
    /// Certificate and key do not make a server.
    #[error("cannot serve with the certificate {} and the key {}: {cause}", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        cause: rustls::Error,
    },
    /// The trusted certificates cannot be used.
    #[error("cannot verify servers{}: {cause}", file.as_ref().map(|file| format!(" with {}", file.display())).unwrap_or_default())]
    Trust {
        /// The extra certificates' file, where one was given.
        file: Option<PathBuf>,
        /// Why.
        cause: rustls::Error,
    },
}

/// A listener's certificate and key.
#[derive(Clone)]
pub struct ServerTls(pub(super) Arc<ServerConfig>);

/// Which certificates of servers are believed.
#[derive(Clone)]
pub struct Trust(pub(super) Arc<ClientConfig>);

impl ServerTls {
    /// Reads a certificate chain and its key from PEM files.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = certificates(certificate)?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|cause| TlsError::File {
            what: "a private key",
            file: key.to_owned(),
            cause,
        })?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(chain, secret)
            });
        let mut config = config.map_err(|cause| TlsError::Pair {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            cause,
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(ServerTls(Arc::new(config)))
    }
}

impl Trust {
    /// What the system trusts, and the certificates of a PEM file beside it where one is given.
    pub fn system(extra: Option<&Path>) -> Result<Self, TlsError> {
        let wrong = |cause| TlsError::Trust {
            file: extra.map(Path::to_owned),
            cause,
        };
        let verifier = match extra {
            Some(file) => Verifier::new_with_extra_roots(certificates(file)?, provider()),
            None => Verifier::new(provider()),
        };
        let verifier = verifier.map_err(wrong)?;
        // The verifier asks the system about each server; no list of roots is kept here.
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Trust(Arc::new(config)))
    }
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ServerTls")
    }
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Trust")
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |cause| TlsError::File {
        what: "certificates",
        file: file.to_owned(),
        cause,
    };
    let read: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(wrong)?;
    if read.is_empty() {
        return Err(wrong(rustls::pki_types::pem::Error::NoItemsFound));
    }
    Ok(read)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
