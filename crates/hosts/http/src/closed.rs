//! Objects of a request whose fields are all known.
//!
//! The wire ignores fields that it does not know: versions, which handles state, keep a client from asking for what is
//! not there yet. A request over HTTP states none, and where a field narrows what is done, ignoring it does more than
//! was asked. So what the document closes (`additionalProperties: false`), which are filters, takes here what is listed
//! there and nothing else.

use std::sync::Arc;

use bezel_rpc::{ErrorCode, RpcError};
use serde_json::Value;

use crate::answer::Problem;

/// The deepest object of a request that is looked at.
const DEEPEST: usize = 8;

/// An object that takes these fields alone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    /// Where it is in the arguments, as a JSON pointer.
    at: String,
    names: Vec<String>,
}

/// The closed objects that the schema of a request has.
pub(crate) fn of_schema(document: &Value, schema: &Value) -> Arc<[Closed]> {
    let mut found = Vec::new();
    collect(document, schema, String::new(), &mut found, DEEPEST);
    found.into()
}

fn collect(document: &Value, schema: &Value, at: String, found: &mut Vec<Closed>, deep: usize) {
    let Some(deep) = deep.checked_sub(1) else {
        return;
    };
    if let Some(path) = schema["$ref"].as_str() {
        let target = path
            .strip_prefix('#')
            .and_then(|path| document.pointer(path));
        if let Some(target) = target {
            collect(document, target, at, found, deep);
        }
        return;
    }
    // What may be left out, or null, is as closed as what may not.
    let variants = schema["anyOf"].as_array().into_iter().flatten();
    let mut something = variants.filter(|variant| variant["type"] != "null");
    if let (Some(only), None) = (something.next(), something.next()) {
        collect(document, only, at, found, deep);
        return;
    }
    let Some(fields) = schema["properties"].as_object() else {
        return;
    };
    if schema["additionalProperties"] == false {
        let mut names: Vec<String> = fields.keys().cloned().collect();
        names.sort_unstable();
        found.push(Closed {
            at: at.clone(),
            names,
        });
    }
    for (name, schema) in fields {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        collect(document, schema, format!("{at}/{escaped}"), found, deep);
    }
}

/// Refuses arguments with a field that such an object does not take. What is no JSON is left to whoever reads it.
pub(crate) fn check(closed: &[Closed], arguments: &[u8]) -> Result<(), Problem> {
    if closed.is_empty() || arguments.is_empty() {
        return Ok(());
    }
    let Ok(arguments) = serde_json::from_slice::<Value>(arguments) else {
        return Ok(());
    };
    for Closed { at, names } in closed {
        let given = arguments.pointer(at).and_then(Value::as_object);
        let unknown = given.into_iter().flat_map(|given| given.keys());
        let unknown = unknown.filter(|name| !names.contains(*name));
        if let Some(unknown) = unknown.into_iter().next() {
            let place = at.trim_start_matches('/').replace('/', ".");
            let unknown: String = unknown.chars().take(64).collect();
            let text = format!(
                "`{place}` has no field `{unknown}`; it takes: {}",
                names.join(", ")
            );
            return Err(RpcError::new(ErrorCode::InvalidArguments, text).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_closed_object_is_found_wherever_it_is_and_takes_its_own_fields_alone() {
        let document = json!({ "components": { "schemas": {
            "Filter": { "type": "object", "additionalProperties": false, "properties": {
                "text": { "type": "string" },
                "more": { "anyOf": [{ "$ref": "#/components/schemas/Filter" }, { "type": "null" }] },
            } },
        } } });
        let schema = json!({ "type": "object", "properties": {
            "query": { "$ref": "#/components/schemas/Filter" },
            "open": { "type": "object", "properties": { "a": {} } },
        } });
        let closed = of_schema(&document, &schema);
        let refusal = |arguments: Value| {
            let problem = check(&closed, arguments.to_string().as_bytes()).err()?;
            assert_eq!(problem.status, 400);
            Some(serde_json::to_value(problem.error()).expect("JSON")["message"].to_string())
        };
        for right in [
            json!({}),
            json!({ "query": null, "else": 1 }),
            json!({ "query": { "text": "x" }, "open": { "b": 1 } }),
            json!({ "query": { "more": { "text": "x", "more": null } } }),
        ] {
            assert_eq!(refusal(right.clone()), None, "{right}");
        }
        let refused = refusal(json!({ "query": { "title": "x" } })).expect("refused");
        assert!(
            refused.contains("`query` has no field `title`") && refused.contains("more, text"),
            "{refused}"
        );
        let refused = refusal(json!({ "query": { "more": { "z": 1 } } })).expect("refused");
        assert!(
            refused.contains("`query.more` has no field `z`"),
            "{refused}"
        );
        assert!(check(&closed, b"{").is_ok());
    }
}
