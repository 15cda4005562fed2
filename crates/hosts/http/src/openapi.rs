//! The OpenAPI 3.1 document of everything that this host answers, written from the contracts' own documents.
//!
//! A member that answers with a reference has no operation: the object behind it lives as long as one
//! connection, and a request has none of its own. Nor have the members that select a session for a connection,
//! for a request names its session, and the service that only a session's own worker may use.

mod events;
mod responses;
mod schemas;

use serde_json::{Map, Value, json};

use crate::catalogue::EVENTS;
use crate::request::MOST_TIMEOUT;
use schemas::Schemas;

/// A contract and who provides its service.
#[derive(Debug, Clone, Copy)]
pub struct Provided<'a> {
    /// The contract, as [`ServiceDescriptor::document`](bezel_rpc::ServiceDescriptor::document) writes it.
    pub contract: &'a Value,
    /// Whether each session provides it; otherwise the server does.
    pub by_sessions: bool,
}

/// Members that mean one connection, or one worker; all members of a service where none is named.
const LEFT_OUT: &[(&str, Option<&str>)] = &[
    ("session-management", Some("attach")),
    ("session-management", Some("detach")),
    ("session-copies", None),
    ("session-record", None),
];

const ABOUT: &str = "\
Every service that presentations use, over HTTP: a call is a `POST` whose body is one JSON object with the arguments \
by name; a state is a `GET` that answers with its value now, or with a stream where the request has \
`Accept: text/event-stream`; events are a `GET` that answers with a stream.

**Who may.** `Authorization: Bearer TOKEN`. A token comes from `POST /v1/pair` and a code that `bezel access pair` \
makes where the server runs. It has scopes and may be bound to a workspace. What it may not do is answered with 403, \
and so is a session that is not there or not within its reach: both are the same answer. Cookies mean nothing, and \
pages of other origins are refused.

**Sessions.** A session's worker is started where it does not run. That needs the scope `operate`.

**Failures** are `{code, message, data?}`, with the codes of Bezel's wire, or the contract's own under 422. A request \
that is given up is cancelled. `Bezel-Timeout` bounds it in milliseconds.

**A stream of a state** begins with `event: value`, whose data is the whole value and whose `id` is its revision. What \
changes follows as `event: patch` (see the schema `Patch`), which applies to the value of the revision `base`, or as \
another `value`. Nothing is missed and nothing comes twice; who reads slowly gets the latest value and not each between. \
A stream that is asked for again begins with the whole value, whatever `Last-Event-ID` says.

**A stream of events** begins with `event: open`: from there on, each comes as `event: event`. Who reads too slowly \
gets `event: lost`, with the `count` of events that are missing at that place. Events are not kept: a stream that is \
asked for with `Last-Event-ID` says first, with `count` null, that some may be missing.

**A session's events** (`GET /v1/sessions/{session_id}/events`) are kept, and are read without the session's process: \
it is how a session is followed, across losses of the connection and restarts of the server. The stream begins with \
`event: open`. `Last-Event-ID`, or else the query `after`, says where to go on: with the `id` of an event that was read \
nothing is missed and nothing comes twice; `after=0` begins before everything. Without either it begins with \
`event: snapshot`: the session's record, where the conversation stands, and as `id` the place from which on all is \
told. A cursor that is no place in the session's life gives `event: gap` in its stead, with the same data: what \
followed it cannot be said, so what was read of the session is to be read again. Then come, in order, `event: fact` \
for what happened (schema `session-directory.JournalFact`) and `event: session` with the record where title, agent, \
model or archiving changed, the latest for several changes. `event: synced` says once that all there was has been \
told. Facts name entries and do not repeat them: `session-directory/message` gives an entry. `event: deleted` is the \
last of a session that was deleted.

All end with `event: closed`, whose data is a failure, where the owner goes. A comment comes at least every 15 seconds.

**Not here:** members that answer with an object that lives as long as a connection, and those that select a session \
for one.";

/// Writes the document. `version` is the product's.
pub fn document(version: &str, provided: &[Provided<'_>]) -> Value {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    let mut tags = Vec::new();
    for entry in provided {
        let contract = entry.contract;
        let service = contract["service"].as_str().unwrap_or_default();
        let Some(members) = contract["members"].as_object() else {
            continue;
        };
        let before = paths.len();
        for (member, described) in members {
            if is_left_out(service, member) || described.get("returns_reference").is_some() {
                continue;
            }
            let path = match entry.by_sessions {
                true => format!("/v1/sessions/{{session_id}}/{service}/{member}"),
                false => format!("/v1/server/{service}/{member}"),
            };
            let operation = Operation {
                service,
                member,
                described,
                by_sessions: entry.by_sessions,
            };
            paths.insert(path, operation.write(contract, &mut schemas));
        }
        if contract["members"].get(events::MEMBER).is_some() && service == events::SERVICE {
            let operation = events::operation(contract, &mut schemas);
            paths.insert(EVENTS.into(), operation);
        }
        if paths.len() > before {
            let text = plain(contract["description"].as_str().unwrap_or_default());
            tags.push(json!({ "name": service, "description": text }));
        }
    }
    let counted = responses::add_fixed(&mut schemas);
    paths.insert("/v1/pair".into(), pair());
    paths.insert("/v1/openapi.json".into(), own());
    tags.push(json!({ "name": "http", "description": "What this way in itself needs." }));
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Bezel",
            "version": version,
            "description": ABOUT,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "parameters": parameters(),
            "responses": counted,
            "schemas": schemas.into_all(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of POST /v1/pair. Each operation names the scope it needs: \
                                    read, operate, which includes read, or admin, which includes both.",
                },
            },
        },
    });
    document.sort_all_objects();
    document
}

fn is_left_out(service: &str, member: &str) -> bool {
    LEFT_OUT
        .iter()
        .any(|(out, which)| *out == service && which.is_none_or(|which| which == member))
}

/// One member as an operation.
struct Operation<'a> {
    service: &'a str,
    member: &'a str,
    described: &'a Value,
    by_sessions: bool,
}

impl Operation<'_> {
    fn write(&self, contract: &Value, schemas: &mut Schemas) -> Value {
        let Operation {
            service,
            member,
            described,
            by_sessions,
        } = *self;
        let text = plain(described["description"].as_str().unwrap_or_default());
        let scope = described["scope"].as_str().unwrap_or_default();
        // A session is selected before anything in it is asked for.
        let needed = match (by_sessions, scope) {
            (true, "read") => "operate",
            (_, scope) => scope,
        };
        let mut parameters = vec![
            json!({ "$ref": "#/components/parameters/Timeout" }),
            json!({ "$ref": "#/components/parameters/Traceparent" }),
        ];
        if by_sessions {
            parameters.insert(0, json!({ "$ref": "#/components/parameters/Session" }));
        }
        let kind = described["kind"].as_str().unwrap_or_default();
        let (method, content) = match kind {
            "call" => {
                let result = schemas.rewrite(contract, &described["result"]);
                ("post", json!({ "application/json": { "schema": result } }))
            }
            "state" => {
                let value = schemas.rewrite(contract, &described["value"]);
                let stream = responses::stream(
                    "`value` first, then `patch` or `value` with each change, `closed` at the end.",
                );
                let content = json!({
                    "application/json": { "schema": value },
                    "text/event-stream": { "schema": stream },
                });
                ("get", content)
            }
            _ => {
                let event = schemas.rewrite(contract, &described["event"]);
                let stream = responses::stream(
                    "`open` first, then each `event`, `lost` in the place of what is missing, `closed` at the end.",
                );
                parameters.push(json!({ "$ref": "#/components/parameters/LastEventId" }));
                let content =
                    json!({ "text/event-stream": { "schema": stream, "x-bezel-event": event } });
                ("get", content)
            }
        };
        let mut statuses = responses::common(method == "post");
        statuses.insert(
            "200".into(),
            json!({ "description": responses::success(kind), "content": content }),
        );
        let error = described.get("error");
        if let Some(error) = error {
            let declared = schemas.declared(contract, error);
            statuses.insert("422".into(), responses::declared(&declared));
        }
        let mut operation = json!({
            "operationId": format!("{}_{member}", service.replace(['-', '.'], "_")),
            "summary": summary(&text, service, member),
            "description": format!("{text}\n\nNeeds the scope `{needed}`.").trim_start(),
            "tags": [service],
            "parameters": parameters,
            "responses": statuses,
            "security": [{ "token": [needed] }],
            "x-bezel-kind": kind,
        });
        if let Some(arguments) = described.get("arguments") {
            let schema = schemas.rewrite(contract, arguments);
            let required = arguments["required"].as_array();
            operation["requestBody"] = json!({
                "required": required.is_some_and(|required| !required.is_empty()),
                "content": { "application/json": { "schema": schema } },
            });
        }
        json!({ method: operation })
    }
}

/// Markdown without the links that lead into code.
fn plain(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`")
}

/// The first sentence, without its full stop and on one line.
fn summary(text: &str, service: &str, member: &str) -> String {
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = first.find(". ").unwrap_or(first.len());
    let sentence = first[..end].trim_end_matches('.');
    match sentence.is_empty() {
        true => format!("The {member} of {service}"),
        false => sentence.to_owned(),
    }
}

fn parameters() -> Value {
    json!({
        "Session": {
            "name": "session_id",
            "in": "path",
            "required": true,
            "description": "The session; `session-directory` has those within reach.",
            "schema": { "type": "string", "pattern": "^[0-9a-f]{32}$" },
        },
        "Timeout": {
            "name": "Bezel-Timeout",
            "in": "header",
            "description": "Milliseconds after which the request is given up. A stream is bounded up to its first \
                            event.",
            "schema": { "type": "integer", "minimum": 1, "maximum": MOST_TIMEOUT },
        },
        "Traceparent": {
            "name": "traceparent",
            "in": "header",
            "description": "The W3C trace that the request is part of. One that cannot be read is as good as none.",
            "schema": { "type": "string" },
        },
        "LastEventId": {
            "name": "Last-Event-ID",
            "in": "header",
            "description": "There was a stream before: what it missed is not known, and the new one says so first.",
            "schema": { "type": "string" },
        },
    })
}

/// How a token is got.
fn pair() -> Value {
    let mut statuses = responses::common(true);
    for absent in ["403", "422"] {
        statuses.remove(absent);
    }
    statuses.insert(
        "200".into(),
        json!({
            "description": "The token. It is shown once.",
            "content": { "application/json": { "schema": {
                "type": "object",
                "properties": { "token": { "type": "string" } },
                "required": ["token"],
            } } },
        }),
    );
    json!({ "post": {
        "operationId": "pair",
        "summary": "Trades a pairing code for a token",
        "description": "A code is made with `bezel access pair` where the server runs, works once and for five minutes. \
                        Too many wrong ones from one address are not looked at for a minute.",
        "tags": ["http"],
        "security": [],
        "requestBody": { "required": true, "content": { "application/json": { "schema": {
            "type": "object",
            "properties": { "code": { "type": "string", "maxLength": 256 } },
            "required": ["code"],
        } } } },
        "responses": statuses,
    } })
}

/// The document itself.
fn own() -> Value {
    json!({ "get": {
        "operationId": "openapi",
        "summary": "This document",
        "tags": ["http"],
        "security": [],
        "responses": {
            "200": {
                "description": "This document.",
                "content": { "application/json": { "schema": { "type": "object" } } },
            },
        },
    } })
}

#[cfg(test)]
mod tests;
