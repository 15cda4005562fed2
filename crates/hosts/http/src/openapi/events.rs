//! The one operation that is no member: following a session.

use serde_json::{Value, json};

use super::responses;
use super::schemas::Schemas;

/// Whose member it is made of.
pub(super) const SERVICE: &str = "session-directory";
pub(super) const MEMBER: &str = "follow";

/// The operation, with the schemas of what its events hold.
pub(super) fn operation(contract: &Value, schemas: &mut Schemas) -> Value {
    let mut event = |name: &str, of: &str, text: &str| {
        let data = schemas.rewrite(contract, &json!({ "$ref": format!("#/$defs/{of}") }));
        json!({ "event": name, "description": text, "data": data })
    };
    let events = [
        event(
            "snapshot",
            "SessionSnapshot",
            "The session now; first without a cursor.",
        ),
        event(
            "gap",
            "SessionSnapshot",
            "The session now; first with a cursor that is no place in its life.",
        ),
        event("session", "SessionSummary", "The record, where it changed."),
        event("fact", "JournalFact", "Something happened."),
    ];
    let stream = responses::stream(
        "`open` first, then `snapshot`, `gap`, `session`, `fact`, once `synced`, and `deleted` or `closed` at the end.",
    );
    let mut statuses = responses::common(false);
    statuses.insert(
        "200".into(),
        json!({
            "description": responses::success("events"),
            "content": { "text/event-stream": { "schema": stream, "x-bezel-events": events } },
        }),
    );
    statuses.insert(
        "422".into(),
        responses::declared(&schemas.declared(contract, &contract["members"][MEMBER]["error"])),
    );
    json!({ "get": {
        "operationId": "session_events",
        "summary": "What happens in a session, resumed at a cursor",
        "description": "Facts of the session's life and changes of its record, from a cursor on, without the session's \
                        process. See “A session's events” above.\n\nNeeds the scope `read`.",
        "tags": [SERVICE],
        "parameters": [
            { "$ref": "#/components/parameters/Session" },
            {
                "name": "after",
                "in": "query",
                "description": "The cursor to go on at, where there is no `Last-Event-ID`; `0` is the place before \
                                everything.",
                "schema": { "type": "string" },
            },
            {
                "name": "Last-Event-ID",
                "in": "header",
                "description": "The `id` of the last event that was read.",
                "schema": { "type": "string" },
            },
            { "$ref": "#/components/parameters/Timeout" },
            { "$ref": "#/components/parameters/Traceparent" },
        ],
        "responses": statuses,
        "security": [{ "token": ["read"] }],
    } })
}
