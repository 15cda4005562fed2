//! A contract's document: what a committed file shows of it.

use bezel_rpc::{Context, ServiceClient, State, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::contract::ModelsClient;
use crate::jobs::ScannerClient;

#[test]
fn a_document_has_every_member_with_its_scope_and_its_schemas() {
    let document = ModelsClient::descriptor().document().expect("no conflict");
    assert_eq!(document["service"], "models");
    assert_eq!(document["version"], "1.2");
    let members = document["members"].as_object().expect("an object");
    assert_eq!(members.len(), ModelsClient::descriptor().members.len());
    assert_eq!(members["state"]["kind"], "state");
    assert_eq!(members["state"]["scope"], "read");
    assert_eq!(members["clear"]["scope"], "admin");
    assert_eq!(members["select"]["arguments"]["required"], json!(["model"]));
    assert!(members["select"]["arguments"].get("title").is_none());
    assert_eq!(
        members["page"]["arguments"]["required"],
        json!(["size"]),
        "what may be left out is not required"
    );
    assert!(members["select"]["error"].is_object());
    assert_eq!(
        members["select"]["description"],
        "Selects a model for the next request."
    );
    assert!(document["$defs"]["ModelRef"].is_object());
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"").skip(1) {
        let path = reference.split('"').next().unwrap_or_default();
        let name = path
            .strip_prefix("#/$defs/")
            .expect("all are of the document");
        assert!(document["$defs"].get(name).is_some(), "{name}");
    }
    let keys = text.find("\"$defs\"") < text.find("\"members\"");
    assert!(
        keys && text.find("\"members\"") < text.find("\"service\""),
        "keys are sorted"
    );
}

#[test]
fn a_document_has_the_contracts_of_objects_once_each() {
    let document = ScannerClient::descriptor().document().expect("no conflict");
    assert_eq!(document["members"]["start"]["returns_reference"], "Scan");
    assert_eq!(document["members"]["current"]["returns_reference"], "Scan");
    assert!(document["members"]["start"].get("result").is_none());
    let objects = document["references"].as_object().expect("an object");
    assert_eq!(objects.keys().collect::<Vec<_>>(), ["Pen", "Scan"]);
    assert_eq!(
        objects["Pen"]["members"]["copy"]["returns_reference"],
        "Pen"
    );
    assert!(objects["Scan"]["members"]["progress"]["value"].is_object());
}

#[test]
fn two_types_of_one_name_are_told_apart_or_refused() {
    mod other {
        use super::*;

        #[derive(Default, Serialize, Deserialize, JsonSchema)]
        pub struct Inner {
            pub number: u32,
        }
    }

    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    struct Inner {
        text: String,
    }

    #[service("twins", version = "1.0")]
    trait Twins {
        fn one(&self) -> State<Vec<Inner>>;
        async fn two(&self, cx: &Context) -> Vec<other::Inner>;
    }

    let conflict = TwinsClient::descriptor()
        .document()
        .expect_err("a conflict");
    assert_eq!((conflict.contract, &*conflict.name), ("twins", "Inner"));
    assert!(
        conflict.to_string().contains("#[schemars(rename"),
        "{conflict}"
    );
}
