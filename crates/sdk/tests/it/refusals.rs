//! Bad input: refused with a typed error that says what to do, and nothing else disturbed.

use bezel_sdk::{Bezel, EmbedError, Error, Tool, ToolRefused};
use serde_json::{Value, json};

use crate::world::{Runs, bezel, model, shelf};

fn tool(name: &str, schema: Value) -> Tool {
    Tool::with_schema(name, "It.", schema, |_, _| async { Ok::<_, String>("") })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_none_is_refused_by_name_and_the_others_stay() {
    let model = model([]).await;
    let bezel = bezel(&model).start().await.unwrap();
    let object = || json!({ "type": "object" });
    let long = "x".repeat(65);
    for name in ["", "two words", "9lives", long.as_str()] {
        let refused = bezel.add_tool(tool(name, object())).unwrap_err();
        assert!(matches!(&refused, ToolRefused::Invalid { name: said, .. } if said == name));
        assert!(refused.to_string().contains("1 to 64"), "{refused}");
    }
    for name in ["python", "mcp__files__read"] {
        let refused = bezel.add_tool(tool(name, object())).unwrap_err();
        assert!(matches!(&refused, ToolRefused::Invalid { name: said, .. } if said == name));
        assert!(refused.to_string().contains("reserved"), "{refused}");
    }
    let refused = bezel
        .add_tool(tool("list", json!({ "type": "array" })))
        .unwrap_err();
    assert!(matches!(refused, ToolRefused::Invalid { .. }), "{refused}");
    let nonsense = json!({ "type": "object", "properties": { "a": { "type": "nonsense" } } });
    let refused = bezel.add_tool(tool("odd", nonsense)).unwrap_err();
    assert!(matches!(refused, ToolRefused::Schema { .. }), "{refused}");
    let runs = Runs::default();
    bezel.add_tool(shelf(&runs)).unwrap();
    let refused = bezel.add_tool(shelf(&runs)).unwrap_err();
    assert!(matches!(&refused, ToolRefused::Taken { name, .. } if name == "shelf"));
    bezel.add_tool(shelf(&runs).replacing()).unwrap();
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_with_a_bad_tool_or_configuration_does_not_start_and_says_why() {
    let refused = Bezel::builder().add_tool(tool("", json!({ "type": "object" })));
    assert!(matches!(refused.start().await, Err(Error::Tool(_))));
    let wrong = Bezel::builder()
        .configuration("modell = \"a::b\"\n")
        .start()
        .await;
    let Err(Error::Start(EmbedError::Configuration(said))) = wrong else {
        panic!("it started");
    };
    for words in ["modell", "model", "the configuration of this program"] {
        assert!(said.contains(words), "{said}");
    }
}
