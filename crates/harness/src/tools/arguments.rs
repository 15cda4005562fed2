//! Arguments as the model wrote them, made into what a tool may be given.

use std::fmt::Write;
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;

use super::set::RegisteredTool;

/// Errors named in one message; more would only repeat the point.
const NAMED_ERRORS: usize = 5;

/// Arguments that cannot be given to a tool. The text is for the model: what is wrong, where, and
/// what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgumentsError {
    #[error(
        "The arguments of `{name}` are not valid JSON: {source}. Call it again with one JSON object."
    )]
    Text {
        name: String,
        source: serde_json::Error,
    },
    #[error("The arguments of `{name}` must be one JSON object. Call it again with an object.")]
    NoObject { name: String },
    #[error(
        "{name} cannot be called: the schema that it declares is not a valid JSON Schema ({error}). Use another tool."
    )]
    Schema { name: String, error: String },
    #[error(
        "The arguments of `{name}` do not match its schema:{found}\nCall it again with corrected arguments."
    )]
    Mismatch { name: String, found: String },
}

/// Decodes and validates. A member that is null where its schema takes no null counts as left out: models send
/// nulls for what they do not want to say.
pub(crate) fn decode(
    name: &str,
    registered: &RegisteredTool,
    arguments: &Value,
) -> Result<Arc<Value>, ArgumentsError> {
    let owned = || name.to_owned();
    let mut arguments = match arguments {
        Value::String(text) if text.trim().is_empty() => Value::Object(Default::default()),
        Value::Null => Value::Object(Default::default()),
        Value::String(text) => serde_json::from_str(text).map_err(|source| {
            let name = owned();
            ArgumentsError::Text { name, source }
        })?,
        other => other.clone(),
    };
    if !arguments.is_object() {
        return Err(ArgumentsError::NoObject { name: owned() });
    }
    let compile = || super::set::compile(&registered.tool.spec().parameters);
    let validator = registered.validator.get_or_init(compile);
    let validator = match validator {
        Ok(validator) => validator,
        Err(error) => {
            let (name, error) = (registered.origin.named(name), error.to_string());
            return Err(ArgumentsError::Schema { name, error });
        }
    };
    let refused = nulls(validator, &arguments);
    for path in &refused {
        remove(&mut arguments, path);
    }
    let found = mismatches(validator, &arguments, "arguments");
    if found.is_empty() {
        return Ok(Arc::new(arguments));
    }
    Err(ArgumentsError::Mismatch {
        name: owned(),
        found,
    })
}

/// The pointers to nulls that the schema refuses.
fn nulls(validator: &Validator, arguments: &Value) -> Vec<String> {
    let errors = validator.iter_errors(arguments);
    let refused = errors.filter(|error| error.instance().is_null());
    refused
        .map(|error| error.instance_path().to_string())
        .collect()
}

/// Takes out the member of an object that the pointer leads to. An element of a list stays: its place counts.
fn remove(arguments: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        return;
    };
    if let Some(Value::Object(members)) = arguments.pointer_mut(parent) {
        members.remove(&name.replace("~1", "/").replace("~0", "~"));
    }
}

/// A line for each place where `value` breaks the schema, as far as they are worth naming; `root` is what the
/// whole is called. Empty where it matches.
pub(super) fn mismatches(validator: &Validator, value: &Value, root: &str) -> String {
    let mut found = String::new();
    let mut left = 0;
    for (index, error) in validator.iter_errors(value).enumerate() {
        if index >= NAMED_ERRORS {
            left += 1;
            continue;
        }
        let path = error.instance_path().to_string();
        let place = if path.is_empty() { root } else { path.as_str() };
        // Values may be long; the place and the rule say enough.
        write!(found, "\n- {place}: {}", error.masked_with("the value")).expect("text takes text");
    }
    if left > 0 {
        write!(found, "\n- and {left} more").expect("text takes text");
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_null_counts_as_left_out_where_no_null_may_stand() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string" },
                "a/b~": { "type": "string" },
                "way": { "type": "string", "enum": ["up"] },
                "any": { "type": ["string", "null"] },
                "list": {
                    "type": "array",
                    "items": { "type": "object", "properties": { "note": { "type": "string" } } },
                },
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        let validator = jsonschema::validator_for(&schema).unwrap();
        let without = |mut arguments: Value| {
            for path in nulls(&validator, &arguments) {
                remove(&mut arguments, &path);
            }
            arguments
        };
        let given = json!({
            "name": "x", "a/b~": null, "way": null, "any": null, "list": [{ "note": null }, null],
        });
        assert_eq!(
            without(given),
            json!({ "name": "x", "any": null, "list": [{}, null] })
        );
        // What must be there is missed.
        let found = mismatches(&validator, &without(json!({ "name": null })), "arguments");
        assert!(found.contains("required"), "{found}");
    }
}
