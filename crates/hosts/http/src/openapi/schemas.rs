//! The contracts' schemas as components of one document.

use serde_json::{Map, Value, json};

/// The largest integer that crosses; see the wire's rules for payloads.
const MOST_INTEGER: i64 = (1 << 53) - 1;

/// Collects schemas; each contract's are named for it, for two contracts may have a type of one name.
#[derive(Default)]
pub(super) struct Schemas(Map<String, Value>);

impl Schemas {
    /// A schema of a contract's document, with the definitions it needs among the components.
    pub(super) fn rewrite(&mut self, contract: &Value, schema: &Value) -> Value {
        let mut written = schema.clone();
        self.walk(contract, &mut written);
        written
    }

    /// The bodies that a contract's error has: its fields beside `code` and `message` are in `data`.
    pub(super) fn declared(&mut self, contract: &Value, error: &Value) -> Value {
        let resolved = match error["$ref"]
            .as_str()
            .and_then(|path| path.rsplit('/').next())
        {
            Some(name) => &contract["$defs"][name],
            None => error,
        };
        let one = [resolved.clone()];
        let variants = resolved["oneOf"].as_array().map_or(&one[..], Vec::as_slice);
        let bodies: Vec<Value> = variants
            .iter()
            .map(|variant| self.body(contract, variant))
            .collect();
        json!({ "oneOf": bodies })
    }

    fn body(&mut self, contract: &Value, variant: &Value) -> Value {
        let empty = Map::new();
        let mut fields = variant["properties"].as_object().unwrap_or(&empty).clone();
        let code = fields
            .remove("code")
            .unwrap_or_else(|| json!({ "type": "string" }));
        let mut body = json!({
            "type": "object",
            "properties": { "code": code, "message": { "type": "string" } },
            "required": ["code", "message"],
        });
        if let Some(text) = variant.get("description") {
            body["description"] = text.clone();
        }
        if !fields.is_empty() {
            let required: Vec<&Value> = variant["required"]
                .as_array()
                .map(|names| names.iter().filter(|name| *name != "code").collect())
                .unwrap_or_default();
            let data = json!({ "type": "object", "properties": fields, "required": required });
            body["properties"]["data"] = self.rewrite(contract, &data);
            body["required"] = json!(["code", "message", "data"]);
        }
        body
    }

    pub(super) fn add(&mut self, name: &str, schema: Value) {
        self.0.insert(name.to_owned(), schema);
    }

    pub(super) fn into_all(self) -> Map<String, Value> {
        self.0
    }

    fn walk(&mut self, contract: &Value, schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                if let Some(Value::String(path)) = fields.get_mut("$ref") {
                    *path = self.component(contract, path);
                }
                bound(fields);
                for (key, nested) in fields.iter_mut() {
                    // Values, not schemas.
                    if !matches!(key.as_str(), "const" | "enum" | "default" | "examples") {
                        self.walk(contract, nested);
                    }
                }
            }
            Value::Array(all) => {
                for nested in all {
                    self.walk(contract, nested);
                }
            }
            _ => {}
        }
    }

    /// The component that a definition is, which is added with all it needs.
    fn component(&mut self, contract: &Value, path: &str) -> String {
        let Some(name) = path.strip_prefix("#/$defs/") else {
            return path.to_owned();
        };
        let service = contract["service"].as_str().unwrap_or_default();
        let component = format!("{service}.{name}");
        let path = format!("#/components/schemas/{component}");
        if !self.0.contains_key(&component) {
            // Known before it is written: a type may contain itself.
            self.0.insert(component.clone(), Value::Null);
            let written = self.rewrite(contract, &contract["$defs"][name]);
            self.0.insert(component, written);
        }
        path
    }
}

/// Says which integers a schema means, where its format alone does.
fn bound(fields: &mut Map<String, Value>) {
    let Some(format) = fields.get("format").and_then(Value::as_str) else {
        return;
    };
    let (least, most) = match format {
        "uint8" => (0, i64::from(u8::MAX)),
        "uint16" => (0, i64::from(u16::MAX)),
        "uint32" => (0, i64::from(u32::MAX)),
        "uint64" | "uint" => (0, MOST_INTEGER),
        "int32" => (i64::from(i32::MIN), i64::from(i32::MAX)),
        "int64" | "int" => (-MOST_INTEGER, MOST_INTEGER),
        _ => return,
    };
    fields.entry("minimum").or_insert(json!(least));
    fields.entry("maximum").or_insert(json!(most));
}
