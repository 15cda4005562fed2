//! Which requests are answered at all: those that name this server, and that no foreign page made.

use std::net::IpAddr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};
use bezel_rpc::ErrorCode;

/// The names that a listener answers to. A page that points its own name at this machine has another.
#[derive(Debug)]
pub(super) struct Guard {
    names: Vec<String>,
    /// It listens on every address, so that any address may be its own. A foreign page has a name.
    any_address: bool,
    scheme: &'static str,
}

/// Why a request is not answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Denied {
    pub(super) status: StatusCode,
    pub(super) reason: String,
}

impl Guard {
    /// A guard of a listener at `host`, which also answers to `allowed`.
    pub(super) fn new(host: &str, addresses: &[IpAddr], allowed: &[String], tls: bool) -> Self {
        let mut names = vec!["localhost".into(), "127.0.0.1".into(), "::1".into()];
        names.push(bare(host));
        names.extend(addresses.iter().map(ToString::to_string));
        names.extend(allowed.iter().map(|name| bare(name)));
        Guard {
            names,
            any_address: addresses.iter().any(IpAddr::is_unspecified),
            scheme: if tls { "https" } else { "http" },
        }
    }

    /// Judges a request.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Denied> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(denied(StatusCode::BAD_REQUEST, "name one host".into()));
        };
        let host = host
            .to_str()
            .ok()
            .and_then(|host| host.parse::<Authority>().ok());
        let Some(host) = host.filter(|host| !host.as_str().contains('@')) else {
            return Err(denied(StatusCode::BAD_REQUEST, "name a host".into()));
        };
        for named in std::iter::once(&host).chain(uri.authority()) {
            if !self.answers_to(named.host()) {
                let name: String = bare(named.host()).chars().take(100).collect();
                return Err(denied(
                    StatusCode::FORBIDDEN,
                    format!(
                        "this server does not answer to the name {name}; start it with --allow-host {name}"
                    ),
                ));
            }
        }
        let own = format!("{}://{host}", self.scheme);
        let foreign = |origin: &&axum::http::HeaderValue| {
            !origin.as_bytes().eq_ignore_ascii_case(own.as_bytes())
        };
        if headers
            .get_all(ORIGIN)
            .iter()
            .any(|origin| foreign(&origin))
        {
            return Err(denied(
                StatusCode::FORBIDDEN,
                "requests of web pages from elsewhere are not answered".into(),
            ));
        }
        Ok(())
    }

    fn answers_to(&self, host: &str) -> bool {
        let host = bare(host);
        self.names.contains(&host) || self.any_address && host.parse::<IpAddr>().is_ok()
    }
}

fn denied(status: StatusCode, reason: String) -> Denied {
    Denied { status, reason }
}

impl Denied {
    /// What the requester gets: a failure in the form that all answers over HTTP have.
    pub(super) fn body(&self) -> String {
        let code = match self.status {
            StatusCode::FORBIDDEN => ErrorCode::NotAuthorized,
            _ => ErrorCode::Protocol,
        };
        serde_json::json!({ "code": code.as_str(), "message": self.reason }).to_string()
    }
}

/// What a server said that did not let somebody in: the message of a failure, else the text as it is.
pub(super) fn said(body: &[u8]) -> String {
    let failure = serde_json::from_slice::<serde_json::Value>(body).ok();
    let message = failure
        .as_ref()
        .and_then(|failure| failure["message"].as_str());
    message.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned)
}

/// A host as it is compared: lower case, an IPv6 address without brackets, no dot at the end.
fn bare(host: &str) -> String {
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(guard: &Guard, host: &str, origin: Option<&str>) -> u16 {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().expect("a value"));
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().expect("a value"));
        }
        let judged = guard.check(&Uri::from_static("/connect"), &headers);
        judged.err().map_or(200, |denied| denied.status.as_u16())
    }

    #[test]
    fn only_requests_that_name_this_server_are_answered() {
        let address = "192.0.2.7".parse().expect("an address");
        let guard = Guard::new("192.0.2.7", &[address], &["Build.Example".into()], false);
        for host in [
            "192.0.2.7:4000",
            "localhost",
            "127.0.0.1:1",
            "[::1]:4000",
            "build.example:9",
            "build.example.",
        ] {
            assert_eq!(status(&guard, host, None), 200, "{host}");
        }
        for host in [
            "evil.example",
            "192.0.2.8",
            "localhost.evil.example:4000",
            "127.0.0.1.evil.example",
        ] {
            assert_eq!(status(&guard, host, None), 403, "{host}");
        }
        for host in ["", "a b", "me@localhost"] {
            assert_eq!(status(&guard, host, None), 400, "{host}");
        }
    }

    #[test]
    fn a_listener_on_every_address_answers_to_addresses_and_to_no_foreign_name() {
        let guard = Guard::new(
            "0.0.0.0",
            &["0.0.0.0".parse().expect("an address")],
            &[],
            true,
        );
        assert_eq!(status(&guard, "203.0.113.5:4000", None), 200);
        assert_eq!(status(&guard, "[2001:db8::1]:4000", None), 200);
        assert_eq!(status(&guard, "rebound.example:4000", None), 403);
    }

    #[test]
    fn a_page_from_elsewhere_is_refused_even_under_this_servers_own_name() {
        let guard = Guard::new(
            "127.0.0.1",
            &["127.0.0.1".parse().expect("an address")],
            &[],
            false,
        );
        let host = "127.0.0.1:4000";
        assert_eq!(status(&guard, host, Some("http://127.0.0.1:4000")), 200);
        for origin in [
            "null",
            "http://evil.example",
            "https://127.0.0.1:4000",
            "http://127.0.0.1:4001",
            "http://127.0.0.1",
            "",
        ] {
            assert_eq!(status(&guard, host, Some(origin)), 403, "{origin}");
        }
    }

    #[test]
    fn an_absolute_request_line_and_a_second_host_are_no_way_around() {
        let guard = Guard::new("127.0.0.1", &[], &[], false);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "127.0.0.1".parse().expect("a value"));
        let uri: Uri = "http://evil.example/connect".parse().expect("a URI");
        assert_eq!(
            guard.check(&uri, &headers).expect_err("refused").status,
            403
        );
        headers.append(HOST, "127.0.0.1".parse().expect("a value"));
        let twice = guard.check(&Uri::from_static("/connect"), &headers);
        assert_eq!(twice.expect_err("refused").status, 400);
    }
}
