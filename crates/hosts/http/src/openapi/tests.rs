//! What a document says of a contract.

use super::*;

fn contract() -> Value {
    json!({
        "service": "kitchen-door",
        "description": "Cakes.",
        "members": {
            "bake": {
                "kind": "call", "scope": "operate",
                "description": "Bakes one. Takes a while.\n\nMore of it.",
                "arguments": { "type": "object", "required": ["size"], "properties": {
                    "size": { "type": "integer", "format": "uint64" },
                    "with": { "$ref": "#/$defs/Topping" },
                } },
                "result": { "$ref": "#/$defs/Cake" },
                "error": { "oneOf": [
                    { "type": "object", "properties": { "code": { "const": "cold" } }, "required": ["code"] },
                    { "type": "object", "required": ["code", "by"], "properties": {
                        "code": { "const": "small" }, "by": { "$ref": "#/$defs/Topping" },
                    } },
                ] },
            },
            "oven": { "kind": "state", "scope": "read", "value": { "type": "null" } },
            "smells": { "kind": "events", "scope": "read", "event": { "type": "string" } },
            "hold": { "kind": "call", "scope": "read", "returns_reference": "Cake" },
        },
        "$defs": {
            "Topping": { "type": "string" },
            "Cake": { "type": "object", "properties": { "inner": { "$ref": "#/$defs/Cake" } } },
            "Unused": { "type": "string" },
        },
    })
}

fn written(by_sessions: bool) -> Value {
    let contract = contract();
    let provided = Provided {
        contract: &contract,
        by_sessions,
    };
    document("1.2.3", &[provided])
}

#[test]
fn a_call_has_its_arguments_its_result_its_errors_and_its_scope() {
    let document = written(false);
    let bake = &document["paths"]["/v1/server/kitchen-door/bake"]["post"];
    assert_eq!(bake["operationId"], "kitchen_door_bake");
    assert_eq!(bake["summary"], "Bakes one");
    assert_eq!(bake["security"], json!([{ "token": ["operate"] }]));
    assert_eq!(bake["requestBody"]["required"], true);
    let arguments = &bake["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(
        arguments["properties"]["with"]["$ref"],
        "#/components/schemas/kitchen-door.Topping"
    );
    assert_eq!(
        arguments["properties"]["size"]["maximum"],
        (1_u64 << 53) - 1
    );
    let declared = &bake["responses"]["422"]["content"]["application/json"]["schema"]["oneOf"];
    assert_eq!(declared[0]["required"], json!(["code", "message"]));
    assert_eq!(declared[1]["properties"]["data"]["required"], json!(["by"]));
    let schemas = document["components"]["schemas"]
        .as_object()
        .expect("an object");
    assert_eq!(
        schemas.keys().collect::<Vec<_>>(),
        [
            "Failure",
            "Patch",
            "kitchen-door.Cake",
            "kitchen-door.Topping"
        ]
    );
}

#[test]
fn whatever_is_in_a_session_needs_what_selecting_it_needs() {
    let document = written(true);
    let oven = &document["paths"]["/v1/sessions/{session_id}/kitchen-door/oven"]["get"];
    assert_eq!(oven["security"], json!([{ "token": ["operate"] }]));
    assert_eq!(oven["summary"], "The oven of kitchen-door");
    let of_server = &written(false)["paths"]["/v1/server/kitchen-door/oven"]["get"];
    assert_eq!(of_server["security"], json!([{ "token": ["read"] }]));
}

#[test]
fn a_member_that_answers_with_an_object_is_left_out() {
    let document = written(false);
    let paths = document["paths"].as_object().expect("an object");
    assert_eq!(
        paths.keys().collect::<Vec<_>>(),
        [
            "/v1/openapi.json",
            "/v1/pair",
            "/v1/server/kitchen-door/bake",
            "/v1/server/kitchen-door/oven",
            "/v1/server/kitchen-door/smells"
        ]
    );
}

#[test]
fn every_name_in_the_document_leads_somewhere() {
    let document = written(true);
    let text = document.to_string();
    for rest in text.split("\"$ref\":\"#").skip(1) {
        let path = rest.split('"').next().expect("a path");
        assert!(document.pointer(path).is_some(), "{path}");
    }
}
