//! What the model is given of a session.

use bezel_testkit::Turn;
use serde_json::{Value, json};

use crate::runs::chat;

#[tokio::test(flavor = "multi_thread")]
async fn what_the_model_would_be_sent_is_shown_whole_and_without_a_key() {
    let (model, home) = chat([Turn::text("Hello."), Turn::text("Yes.")]).await;
    home.run(&["run", "Say hello"]).succeeded();
    let listed = home.run(&["session", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.succeeded().stdout).unwrap();
    let id = listed[0]["session_id"].as_str().unwrap();
    let context = home.run(&["session", "context", id]);
    assert_eq!(context.succeeded().stdout, "\n> Say hello\n\nHello.\n");
    // The process that ran may be there still, or is started for it.
    let shown = home.run(&["session", "context", id, "--request"]);
    let request: Value = serde_json::from_str(&shown.succeeded().stdout).unwrap();
    assert!(!shown.stdout.contains("sk-very-secret"));
    home.run(&["run", "--continue", "And?"]).succeeded();
    let sent = model.last_call();
    assert_eq!(request["system"], sent.system.as_str());
    let model_ref = json!({ "provider": "local", "model_id": "m" });
    assert_eq!(request["model"], model_ref);
    let messages = request["messages"].as_array().unwrap();
    assert_eq!(messages.len() + 1, sent.messages.len());
    let offered: Vec<&str> = sent.tools.iter().map(|tool| &*tool.name).collect();
    let named: Vec<&str> = request["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(named, offered);
    assert_eq!(request["tools"][0]["parameters"], sent.tools[0].parameters);
    let sections = request["sections"].as_array().unwrap();
    assert!(sections.iter().all(|section| {
        let text = section["text"].as_str().unwrap();
        request["system"].as_str().unwrap().contains(text)
    }));
}
