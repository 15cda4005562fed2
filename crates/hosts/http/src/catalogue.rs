//! What there is under `/v1`, read from the OpenAPI document.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::answer::Problem;
use crate::closed::{self, Closed};

/// Where a session's life is followed.
pub(crate) const EVENTS: &str = "/v1/sessions/{session_id}/events";

/// Text that is no document of this host.
#[derive(Debug, thiserror::Error)]
#[error("the OpenAPI document cannot be used: {reason}; write it again with BEZEL_BLESS=1")]
pub struct DocumentError {
    pub(crate) reason: String,
}

/// Every member that can be reached, by the target's kind, service and name.
#[derive(Debug)]
pub(crate) struct Catalogue {
    members: HashMap<(Side, String), HashMap<String, Member>>,
    /// Whether a session can be followed.
    has_events: bool,
}

/// One member.
#[derive(Debug)]
struct Member {
    kind: Kind,
    /// What of its arguments takes the listed fields alone.
    closed: Arc<[Closed]>,
}

/// Who provides a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Side {
    Server,
    Session,
}

/// What a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Call,
    State,
    Events,
}

/// Where a request leads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route<'p> {
    Document,
    Pair,
    /// What happens in a session.
    Events {
        session: &'p str,
    },
    Member {
        /// The session whose service it is; none for the server's own.
        session: Option<&'p str>,
        service: &'p str,
        member: &'p str,
        kind: Kind,
        closed: Arc<[Closed]>,
    },
}

#[derive(Deserialize)]
struct Document {
    paths: HashMap<String, HashMap<String, Operation>>,
}

#[derive(Deserialize)]
struct Operation {
    #[serde(rename = "x-bezel-kind")]
    kind: Option<Kind>,
    #[serde(rename = "requestBody", default)]
    body: Value,
}

impl Catalogue {
    /// Reads the paths of a document.
    pub(crate) fn read(document: &[u8]) -> Result<Self, DocumentError> {
        let wrong = |reason: String| DocumentError { reason };
        let whole: Value =
            serde_json::from_slice(document).map_err(|error| wrong(error.to_string()))?;
        let document = Document::deserialize(&whole).map_err(|error| wrong(error.to_string()))?;
        let has_events = document.paths.contains_key(EVENTS);
        let mut members: HashMap<_, HashMap<_, _>> = HashMap::new();
        for (path, operations) in document.paths {
            let member = |operation: &Operation| {
                let schema = &operation.body["content"]["application/json"]["schema"];
                Some(Member {
                    kind: operation.kind?,
                    closed: closed::of_schema(&whole, schema),
                })
            };
            let Some(found) = operations.values().find_map(member) else {
                continue;
            };
            let parts: Vec<&str> = path.split('/').skip(1).collect();
            let (side, service, member) = match parts[..] {
                ["v1", "server", service, member] => (Side::Server, service, member),
                ["v1", "sessions", _, service, member] => (Side::Session, service, member),
                _ => return Err(wrong(format!("{path} is no path of a member"))),
            };
            let of_service = members.entry((side, service.to_owned())).or_default();
            of_service.insert(member.to_owned(), found);
        }
        Ok(Catalogue {
            members,
            has_events,
        })
    }

    /// Where a request leads, or why nowhere.
    pub(crate) fn find<'p>(&self, method: &Method, path: &'p str) -> Result<Route<'p>, Problem> {
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let (route, allowed) = match parts[..] {
            ["v1", "openapi.json"] => (Route::Document, Method::GET),
            ["v1", "pair"] => (Route::Pair, Method::POST),
            ["v1", "sessions", session, "events"] if self.has_events && !session.is_empty() => {
                (Route::Events { session }, Method::GET)
            }
            ["v1", "server", service, member] => self.member(None, service, member)?,
            ["v1", "sessions", session, service, member] if !session.is_empty() => {
                self.member(Some(session), service, member)?
            }
            _ => return Err(Problem::unknown_path()),
        };
        match *method == allowed {
            true => Ok(route),
            false => Err(Problem::method(allowed)),
        }
    }

    fn member<'p>(
        &self,
        session: Option<&'p str>,
        service: &'p str,
        member: &'p str,
    ) -> Result<(Route<'p>, Method), Problem> {
        let side = match session {
            Some(_) => Side::Session,
            None => Side::Server,
        };
        let members = self.members.get(&(side, service.to_owned()));
        let members = members.ok_or_else(|| Problem::unknown_service(service))?;
        let Member { kind, closed } = members
            .get(member)
            .ok_or_else(|| Problem::unknown_member(service, member))?;
        let allowed = match kind {
            Kind::Call => Method::POST,
            Kind::State | Kind::Events => Method::GET,
        };
        let route = Route::Member {
            session,
            service,
            member,
            kind: *kind,
            closed: Arc::clone(closed),
        };
        Ok((route, allowed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        let text = br#"{ "paths": {
            "/v1/pair": { "post": {} },
            "/v1/sessions/{session_id}/events": { "get": {} },
            "/v1/server/directory/state": { "get": { "x-bezel-kind": "state" } },
            "/v1/sessions/{session_id}/chat/prompt": { "post": { "x-bezel-kind": "call" } }
        } }"#;
        Catalogue::read(text).expect("a document")
    }

    fn status(method: Method, path: &str) -> (u16, &'static str) {
        match catalogue().find(&method, path) {
            Ok(_) => (200, ""),
            Err(problem) => (problem.status.as_u16(), problem.allow.unwrap_or("")),
        }
    }

    #[test]
    fn a_member_is_found_where_its_provider_is_and_by_its_method_alone() {
        let all = catalogue();
        assert_eq!(
            all.find(&Method::POST, "/v1/sessions/s1/chat/prompt").ok(),
            Some(Route::Member {
                session: Some("s1"),
                service: "chat",
                member: "prompt",
                kind: Kind::Call,
                closed: Arc::default(),
            })
        );
        for (method, path, expected) in [
            (Method::GET, "/v1/openapi.json", (200, "")),
            (Method::POST, "/v1/openapi.json", (405, "GET")),
            (Method::GET, "/v1/pair", (405, "POST")),
            (Method::GET, "/v1/server/directory/state", (200, "")),
            (Method::GET, "/v1/sessions/s1/events", (200, "")),
            (Method::POST, "/v1/sessions/s1/events", (405, "GET")),
            (Method::GET, "/v1/sessions//events", (404, "")),
            (Method::HEAD, "/v1/server/directory/state", (405, "GET")),
            (
                Method::OPTIONS,
                "/v1/sessions/s1/chat/prompt",
                (405, "POST"),
            ),
            (Method::POST, "/v1/server/chat/prompt", (404, "")),
            (Method::GET, "/v1/sessions/s1/directory/state", (404, "")),
            (Method::POST, "/v1/sessions//chat/prompt", (404, "")),
            (Method::POST, "/v1/sessions/s1/chat/prompt/", (404, "")),
            (Method::POST, "/v1/sessions/s1/chat/nothing", (404, "")),
            (Method::GET, "/v1/", (404, "")),
            (Method::GET, "/v2/openapi.json", (404, "")),
        ] {
            assert_eq!(status(method.clone(), path), expected, "{method} {path}");
        }
    }

    #[test]
    fn text_that_is_no_document_is_refused_with_the_way_to_make_one() {
        for text in [
            &b"{}"[..],
            b"[",
            br#"{"paths":{"/x":{"get":{"x-bezel-kind":"call"}}}}"#,
        ] {
            let error = Catalogue::read(text).expect_err("refused").to_string();
            assert!(error.contains("BEZEL_BLESS=1"), "{error}");
        }
    }
}
