//! The HTTP client: made at the first request, without certificates where none are needed.
//!
//! The sessions of one process that reach the same endpoint on the same way share a client, and so its connections:
//! the first request of a session that another one began waits for no handshake. It goes with the last of them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use bezel_session_types::{ProviderError, ProviderErrorKind};
use reqwest::{Client, NoProxy, Proxy, Url};
use rustls::crypto::{CryptoProvider, ring};
use rustls_platform_verifier::Verifier;

use crate::keys::KeySource;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// A client for one endpoint.
#[derive(Debug)]
pub(crate) struct Http {
    client: OnceLock<Arc<Client>>,
    url: Url,
}

/// How an endpoint is reached. What is sent there, keys and all, is in each request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Way {
    scheme: String,
    host: String,
    port: Option<u16>,
    proxy: Option<ProxySetting>,
}

/// The proxy that a session's environment names, and what goes past it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ProxySetting {
    url: String,
    except: Option<String>,
}

// A plain mutex: held to look up or make one, never across an await.
static CLIENTS: LazyLock<Mutex<HashMap<Way, Weak<Client>>>> = LazyLock::new(Mutex::default);

/// No client could be made.
#[derive(Debug, thiserror::Error)]
enum ClientError {
    #[error(
        "{0}. Install the system's CA certificates (the package ca-certificates), or set SSL_CERT_FILE"
    )]
    Tls(#[from] rustls::Error),
    #[error(
        "the proxy of the session's environment is not usable: {0}. Check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
    )]
    Proxy(reqwest::Error),
    #[error("{0}")]
    Build(reqwest::Error),
}

impl Http {
    pub(crate) fn new(url: Url) -> Self {
        Http {
            client: OnceLock::new(),
            url,
        }
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// The client, made on the first call.
    pub(crate) fn client(&self, environment: &KeySource) -> Result<&Client, ProviderError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = shared(&self.url, environment).map_err(|error| ProviderError {
            kind: ProviderErrorKind::Unreachable,
            message: format!(
                "A connection to {} could not be prepared: {error}.",
                self.url
            ),
            status: None,
            retry_after: None,
        })?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// The client of this process for what is reached on the same way.
fn shared(url: &Url, environment: &KeySource) -> Result<Arc<Client>, ClientError> {
    let way = Way {
        scheme: url.scheme().to_owned(),
        host: url.host_str().unwrap_or_default().to_owned(),
        port: url.port_or_known_default(),
        proxy: proxy_setting(url, environment),
    };
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = clients.get(&way).and_then(Weak::upgrade) {
        return Ok(client);
    }
    let client = Arc::new(build(url, way.proxy.as_ref())?);
    clients.retain(|_, client| client.strong_count() > 0);
    clients.insert(way, Arc::downgrade(&client));
    Ok(client)
}

fn build(url: &Url, proxy: Option<&ProxySetting>) -> Result<Client, ClientError> {
    let builder = Client::builder()
        .tls_backend_preconfigured(tls(url)?)
        .user_agent(concat!("bezel/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .pool_max_idle_per_host(4)
        // The pool's timer would wake an idle session for ever. A server that closes is noticed without it,
        // and one that vanished by the kernel's keep-alive.
        .pool_idle_timeout(None)
        .http2_adaptive_window(true)
        .http2_keep_alive_interval(Duration::from_secs(20))
        // A request with a key in its header must not follow anybody elsewhere.
        .redirect(reqwest::redirect::Policy::none())
        // Compression would hold deltas back.
        .no_gzip()
        .no_proxy();
    let builder = match proxy {
        None => builder,
        Some(setting) => builder.proxy(setting.proxy().map_err(ClientError::Proxy)?),
    };
    builder.build().map_err(ClientError::Build)
}

/// The system's certificates take milliseconds to load: only where the address is https.
fn tls(url: &Url) -> Result<rustls::ClientConfig, rustls::Error> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    if url.scheme() != "https" {
        return Ok(config
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth());
    }
    let verifier = Arc::new(Verifier::new(provider)?);
    let mut config = config
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

impl ProxySetting {
    fn proxy(&self) -> Result<Proxy, reqwest::Error> {
        let except = self.except.as_deref().and_then(NoProxy::from_string);
        Ok(Proxy::all(self.url.as_str())?.no_proxy(except))
    }
}

/// The proxy that the session's environment names for this address. None for this machine itself.
fn proxy_setting(url: &Url, environment: &KeySource) -> Option<ProxySetting> {
    let loopback = match url.host_str() {
        None | Some("localhost") => true,
        Some(host) => host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback()),
    };
    if loopback {
        return None;
    }
    let variable = |names: [&str; 2]| {
        names
            .into_iter()
            .find_map(|name| environment.variable(name))
    };
    let own = if url.scheme() == "https" {
        ["HTTPS_PROXY", "https_proxy"]
    } else {
        ["http_proxy", "HTTP_PROXY"]
    };
    let proxy = variable(own).or_else(|| variable(["ALL_PROXY", "all_proxy"]))?;
    Some(ProxySetting {
        url: proxy.to_owned(),
        except: variable(["NO_PROXY", "no_proxy"]).map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(url: &str, environment: &[(&str, &str)]) -> bool {
        let url = Url::parse(url).unwrap();
        proxy_setting(&url, &KeySource::new(environment.iter().copied())).is_some()
    }

    #[test]
    fn the_proxy_is_the_sessions_and_never_for_this_machine() {
        let both = [
            ("HTTPS_PROXY", "http://proxy:3128"),
            ("HTTP_PROXY", "http://proxy:3128"),
        ];
        assert!(proxy("https://api.example.com/v1", &both));
        assert!(!proxy("http://127.0.0.1:8080/v1", &both));
        assert!(!proxy("http://localhost:8080", &both));
        assert!(!proxy("http://[::1]:8080", &both));
        assert!(!proxy("http://api.example.com", &both[..1]));
        assert!(proxy(
            "http://api.example.com",
            &[("all_proxy", "http://proxy:1")]
        ));
    }

    #[test]
    fn sessions_share_a_client_where_they_reach_the_same_on_the_same_way() {
        let direct = KeySource::default();
        let proxied = KeySource::new([("ALL_PROXY", "http://proxy:1")]);
        let client = |path: &str, environment: &KeySource| {
            let url = Url::parse(&format!("http://shared.example.com{path}")).unwrap();
            shared(&url, environment).unwrap()
        };
        let first = client("/v1", &direct);
        assert!(Arc::ptr_eq(&first, &client("/v1/other", &direct)));
        assert!(!Arc::ptr_eq(&first, &client(":8080/v1", &direct)));
        assert!(!Arc::ptr_eq(&first, &client("/v1", &proxied)));
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none(), "nothing else keeps it");
    }

    #[test]
    fn a_proxy_that_is_none_says_which_variables_to_look_at() {
        let http = Http::new(Url::parse("http://api.example.com").unwrap());
        let error = http
            .client(&KeySource::new([("HTTP_PROXY", "http://[")]))
            .unwrap_err();
        assert!(error.message.contains("HTTP_PROXY"), "{error}");
        assert_eq!(error.kind, ProviderErrorKind::Unreachable);
    }
}
