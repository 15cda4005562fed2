//! The answers that operations share.

use serde_json::{Map, Value, json};

use super::schemas::Schemas;

/// Status, name and meaning of each failure that any operation may have.
const FAILURES: &[(&str, &str, &str)] = &[
    (
        "400",
        "Invalid",
        "The arguments or a header are not what they should be (`invalid_arguments`, `protocol`).",
    ),
    (
        "401",
        "Unauthenticated",
        "There is no token, or the server does not know it (`not_authorized`).",
    ),
    (
        "403",
        "Forbidden",
        "The token does not allow this, or does not reach the session (`not_authorized`).",
    ),
    (
        "404",
        "Unknown",
        "There is no such path, service or member (`unknown_service`, `unknown_member`).",
    ),
    (
        "408",
        "TooSlow",
        "The body took too long to come (`protocol`).",
    ),
    (
        "409",
        "Conflict",
        "Somebody else was first, or versions do not fit (`conflict`, `incompatible_version`).",
    ),
    (
        "410",
        "Gone",
        "What was asked for is no longer held (`stale_reference`).",
    ),
    (
        "413",
        "TooLarge",
        "The body passes 16 MiB (`frame_too_large`).",
    ),
    (
        "415",
        "NotJson",
        "The body is not declared as JSON (`invalid_arguments`).",
    ),
    (
        "429",
        "Exhausted",
        "A limit is used up (`resource_exhausted`).",
    ),
    (
        "500",
        "Internal",
        "Something failed that nobody expected; the log has it under the id (`internal`, `invalid_result`).",
    ),
    (
        "503",
        "Unavailable",
        "The session or the server cannot be reached now (`session_unavailable`, `disconnected`, `not_active`, `cancelled`).",
    ),
    (
        "504",
        "OutOfTime",
        "Bezel-Timeout has passed (`deadline_exceeded`).",
    ),
];

/// Those that only a body brings.
const OF_BODIES: &[&str] = &["408", "413", "415"];

/// The failures of an operation.
pub(super) fn common(has_body: bool) -> Map<String, Value> {
    FAILURES
        .iter()
        .filter(|(status, ..)| has_body || !OF_BODIES.contains(status))
        .map(|(status, name, _)| {
            let path = format!("#/components/responses/{name}");
            ((*status).to_owned(), json!({ "$ref": path }))
        })
        .collect()
}

/// Adds the schemas that are no contract's, and answers with the components of all failures.
pub(super) fn add_fixed(schemas: &mut Schemas) -> Map<String, Value> {
    schemas.add(
        "Failure",
        json!({
            "description": "Why there is no result.",
            "type": "object",
            "properties": {
                "code": { "type": "string", "description": "Stable, for programs." },
                "message": { "type": "string", "description": "What was attempted, on what, and what to do." },
                "data": { "description": "Detail that a program can read." },
            },
            "required": ["code", "message"],
        }),
    );
    schemas.add("Patch", patch());
    let failure = |(_, name, meaning): &(&str, &str, &str)| {
        let schema = json!({ "$ref": "#/components/schemas/Failure" });
        let response = json!({
            "description": meaning,
            "content": { "application/json": { "schema": schema } },
        });
        ((*name).to_owned(), response)
    };
    FAILURES.iter().map(failure).collect()
}

/// What a change of a state looks like in its stream.
fn patch() -> Value {
    let path = json!({
        "description": "From the root: names of members and indexes of elements.",
        "type": "array",
        "items": { "type": ["string", "integer"] },
    });
    let operation = |text: &str, name: &str, rest: Vec<Value>| {
        let mut items = vec![json!({ "const": name }), path.clone()];
        items.extend(rest);
        let count = items.len();
        json!({
            "description": text,
            "type": "array",
            "prefixItems": items,
            "minItems": count,
            "maxItems": count,
        })
    };
    let index = json!({ "type": "integer", "minimum": 0 });
    json!({
        "description": "The data of `event: patch`: operations that make the value of the event's revision out of the \
                        value of the revision `base`, in their order.",
        "type": "object",
        "properties": {
            "base": { "type": "integer", "minimum": 0 },
            "operations": { "type": "array", "items": { "oneOf": [
                operation("Puts the value there; at the root it replaces everything.", "s", vec![json!({})]),
                operation("Takes the member out of its object.", "d", vec![]),
                operation("Adds the text to the end of the string there.", "a", vec![json!({ "type": "string" })]),
                operation(
                    "In the array there, takes so many elements out at an index and puts others in their place.",
                    "x",
                    vec![index.clone(), index, json!({ "type": "array" })],
                ),
            ] } },
        },
        "required": ["base", "operations"],
    })
}

/// A stream's schema: OpenAPI has no word for what is in it.
pub(super) fn stream(text: &str) -> Value {
    json!({ "type": "string", "description": format!("Server-sent events: {text}") })
}

/// A contract's own errors.
pub(super) fn declared(bodies: &Value) -> Value {
    json!({
        "description": "The service answered with an error of its contract.",
        "content": { "application/json": { "schema": bodies } },
    })
}

pub(super) fn success(kind: &str) -> &'static str {
    match kind {
        "call" => "The result.",
        "state" => "The value now, or a stream of it from now on.",
        _ => "The events from now on.",
    }
}
