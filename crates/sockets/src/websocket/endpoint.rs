//! The URL of a server.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use tokio_tungstenite::tungstenite::http::Uri;
use tokio_tungstenite::tungstenite::http::uri::Scheme;

/// Where a server is: `http(s)://HOST[:PORT][/PREFIX]`, or the same with `ws(s)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    tls: bool,
    /// Lower case; an IPv6 address without its brackets.
    host: String,
    port: u16,
    /// Before the path of a connection: empty, or with a slash at its beginning and none at its end.
    prefix: String,
}

/// Text that names no server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text} names no server: {reason}")]
pub struct EndpointError {
    text: String,
    reason: &'static str,
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let wrong = |reason| EndpointError {
            // A password in it is nobody's business.
            text: match text.rsplit_once('@') {
                Some((_, rest)) => format!("…@{rest}"),
                None => text.to_owned(),
            },
            reason,
        };
        let form = "write http://HOST:PORT or https://HOST:PORT";
        let uri: Uri = text.trim().parse().map_err(|_| wrong(form))?;
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP || scheme.as_str() == "ws" => false,
            Some(scheme) if *scheme == Scheme::HTTPS || scheme.as_str() == "wss" => true,
            _ => return Err(wrong(form)),
        };
        let authority = uri.authority().ok_or_else(|| wrong(form))?;
        if authority.as_str().contains('@') {
            return Err(wrong(
                "leave out what stands before the @: a code or a token proves who you are",
            ));
        }
        if uri.query().is_some() {
            return Err(wrong("leave out what begins with the question mark"));
        }
        let host = authority.host();
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
            .to_ascii_lowercase();
        if host.is_empty() {
            return Err(wrong(form));
        }
        Ok(Endpoint {
            tls,
            host,
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

/// The same for every way to write one server: `https://host:443`.
impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(formatter, "{scheme}://{}{}", self.authority(), self.prefix)
    }
}

impl Endpoint {
    /// Whether the connection is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.tls
    }

    /// Whether it stays within this machine.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self
                .host
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    }

    /// The host's name or address, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as a request names them.
    pub(super) fn authority(&self) -> String {
        match self.host.parse::<Ipv6Addr>() {
            Ok(address) => format!("[{address}]:{}", self.port),
            Err(_) => format!("{}:{}", self.host, self.port),
        }
    }

    /// What the upgrade is asked of.
    pub(super) fn request_uri(&self) -> String {
        let scheme = if self.tls { "wss" } else { "ws" };
        format!(
            "{scheme}://{}{}{}",
            self.authority(),
            self.prefix,
            super::PATH
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        text.parse::<Endpoint>().expect("an endpoint").to_string()
    }

    #[test]
    fn every_way_to_write_a_server_is_the_same_server() {
        for text in [
            "https://Build.Example",
            "wss://build.example:443/",
            "HTTPS://build.example:443",
        ] {
            assert_eq!(shown(text), "https://build.example:443", "{text}");
        }
        assert_eq!(shown("http://[::1]:4000"), "http://[::1]:4000");
        assert_eq!(shown("ws://10.0.0.1/bezel/"), "http://10.0.0.1:80/bezel");
        let endpoint: Endpoint = "http://[::1]:4000/x".parse().expect("an endpoint");
        assert!(endpoint.is_loopback() && !endpoint.is_encrypted());
        assert_eq!(endpoint.request_uri(), "ws://[::1]:4000/x/connect");
        assert!(
            !"http://127.0.0.1.example"
                .parse::<Endpoint>()
                .expect("a name")
                .is_loopback()
        );
    }

    #[test]
    fn what_names_no_server_is_refused_with_the_form_and_without_a_password() {
        for text in [
            "build.example:4000",
            "ftp://x",
            "http://",
            "",
            "http://x:y:z",
            "/run/server.sock",
        ] {
            let error = text
                .parse::<Endpoint>()
                .expect_err("no endpoint")
                .to_string();
            assert!(error.contains("https://HOST:PORT"), "{error}");
        }
        let error = "https://me:s3cret@x"
            .parse::<Endpoint>()
            .expect_err("refused")
            .to_string();
        assert!(
            !error.contains("s3cret") && error.contains("before the @"),
            "{error}"
        );
    }
}
