//! What the model gets to know of the tools.

use serde_json::Value;

use crate::fixture::Session;

#[tokio::test]
async fn every_schema_is_a_closed_inline_object_with_a_description_for_each_field() {
    let session = Session::new();
    for (name, tool) in bezel_tools_session::tools(session.shared.clone()) {
        let spec = tool.spec();
        assert!(
            spec.description.len() > 100,
            "{name} needs a real description"
        );
        assert!(
            jsonschema::validator_for(&spec.parameters).is_ok(),
            "{name}"
        );
        check_object(name, &spec.parameters);
        let text = spec.parameters.to_string();
        for word in ["$ref", "$defs", "$schema", "anyOf", "oneOf", "\"null\""] {
            assert!(!text.contains(word), "{name} has {word}: {text}");
        }
    }
}

fn check_object(name: &str, schema: &Value) {
    assert_eq!(schema["type"], "object", "{name}");
    assert_eq!(schema["additionalProperties"], false, "{name}");
    for (field, property) in schema["properties"].as_object().expect("properties") {
        let described = property["description"]
            .as_str()
            .is_some_and(|text| text.len() > 5);
        assert!(described, "{name}.{field} has no description");
        if property["type"] == "array" && property["items"]["type"] == "object" {
            check_object(&format!("{name}.{field}"), &property["items"]);
        }
    }
}

#[tokio::test]
async fn the_model_sees_these_tools_with_these_arguments() {
    let session = Session::new();
    let listed: Vec<String> = bezel_tools_session::tools(session.shared.clone())
        .into_iter()
        .map(|(name, tool)| {
            let parameters = &tool.spec().parameters;
            let required = parameters["required"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let fields = parameters["properties"]
                .as_object()
                .expect("properties")
                .keys();
            let fields = fields.map(|field| {
                if required.contains(&Value::from(field.as_str())) {
                    field.clone()
                } else {
                    format!("[{field}]")
                }
            });
            let mut fields: Vec<String> = fields.collect();
            fields.sort();
            format!("{name} {}", fields.join(" "))
        })
        .collect();
    assert_eq!(
        listed,
        [
            "read [limit] [offset] path",
            "write content path",
            "edit edits path",
            "apply_patch patch",
            "bash [background] [description] [timeout] command",
            "bash_output [wait] id",
            "bash_kill id",
            "grep [context] [glob] [hidden] [ignore_case] [ignored] [limit] [literal] [mode] [multiline] [path] [type] pattern",
            "glob [hidden] [ignored] [limit] [path] pattern",
            "ls [depth] [hidden] [ignored] [limit] [path]",
            "todo [items]",
        ]
    );
}
