//! From an arguments struct to the JSON Schema that a model gets, and from a call to that struct.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bezel_session_types::{ExecutionMode, Replay, ToolError, ToolInvocation, ToolSpec};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The schemas of the arguments of this build's tools, each made for the first session that needs it: a session
/// that another one begins in its process waits for none.
// A plain mutex: held to look up or make one.
static KNOWN: LazyLock<Mutex<HashMap<TypeId, Arc<Value>>>> = LazyLock::new(Mutex::default);

/// The specification of a tool whose arguments are an `A`.
pub(crate) fn spec<A: JsonSchema + 'static>(
    label: &str,
    description: &str,
    execution_mode: ExecutionMode,
    replay: Replay,
) -> ToolSpec {
    ToolSpec {
        label: label.into(),
        description: description.trim().into(),
        parameters: known::<A>(),
        output: None,
        execution_mode,
        replay,
    }
}

/// The call's arguments. They are valid against the schema, so a failure here names what the schema cannot say.
pub(crate) fn arguments<A: DeserializeOwned>(invocation: &ToolInvocation) -> Result<A, ToolError> {
    A::deserialize(&*invocation.arguments).map_err(|error| {
        ToolError::failed(format!(
            "The arguments of {} do not fit its schema: {error}. Send them again.",
            invocation.tool
        ))
    })
}

fn known<A: JsonSchema + 'static>() -> Arc<Value> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let schema = known.entry(TypeId::of::<A>());
    Arc::clone(schema.or_insert_with(|| Arc::new(parameters::<A>())))
}

fn parameters<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let schema = settings
        .with_transform(Plain)
        .into_generator()
        .into_root_schema_for::<A>();
    schema.to_value()
}

/// Keeps to the part of JSON Schema that every provider takes: no null unions, no formats, no titles,
/// and plain string enums.
#[derive(Debug, Clone)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut schemars::Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else {
            return;
        };
        object.remove("title");
        object.remove("format");
        object.remove("default");
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|kind| kind != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                object.insert("type".into(), only);
            }
        }
        for union in ["anyOf", "oneOf"] {
            let Some(Value::Array(parts)) = object.get_mut(union) else {
                continue;
            };
            parts.retain(|part| part.get("type") != Some(&Value::from("null")));
            let words: Option<Vec<Value>> = parts
                .iter()
                .map(|part| part.get("const").cloned())
                .collect();
            if let Some(words) = words {
                object.remove(union);
                object.insert("type".into(), "string".into());
                object.insert("enum".into(), words.into());
            } else if let [Value::Object(only)] = parts.as_slice() {
                let only = only.clone();
                object.remove(union);
                for (key, value) in only {
                    object.entry(key).or_insert(value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Arguments {
        /// How many.
        count: Option<u64>,
        /// Which way.
        way: Option<Way>,
        /// Names.
        names: Vec<String>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Way {
        /// Up.
        Up,
        /// Down.
        Down,
    }

    #[test]
    fn a_schema_is_made_once() {
        assert!(Arc::ptr_eq(&known::<Arguments>(), &known::<Arguments>()));
        assert_eq!(*known::<Arguments>(), parameters::<Arguments>());
    }

    #[test]
    fn a_schema_is_inline_closed_and_without_unions() {
        assert_eq!(
            parameters::<Arguments>(),
            json!({
                "type": "object",
                "properties": {
                    "count": {"type": "integer", "minimum": 0, "description": "How many."},
                    "way": {"type": "string", "enum": ["up", "down"], "description": "Which way."},
                    "names": {"type": "array", "items": {"type": "string"}, "description": "Names."},
                },
                "required": ["names"],
                "additionalProperties": false,
            })
        );
    }
}
