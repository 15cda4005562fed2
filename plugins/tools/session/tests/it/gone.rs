//! A session whose directory is deleted while it works.

use bezel_session_types::ToolError;
use serde_json::{Value, json};

use crate::fixture::Session;

const PATCH: &str = "*** Begin Patch\n*** Add File: new.txt\n+x\n*** End Patch";

#[tokio::test]
async fn in_a_directory_that_is_gone_every_tool_says_which_one_and_makes_nothing() {
    let session = Session::new();
    let file = session.file("known.txt", "words\n");
    session
        .call("read", json!({ "path": "known.txt" }))
        .await
        .unwrap();
    let elsewhere = session.above().join("home");
    let cd = json!({ "command": format!("cd {}", elsewhere.display()) });
    session.call("bash", cd).await.unwrap();
    std::fs::remove_dir_all(session.root()).unwrap();
    let outside = elsewhere.join("deep/new.txt");
    let calls: [(&str, Value); 10] = [
        ("read", json!({ "path": "known.txt" })),
        (
            "write",
            json!({ "path": "known.txt", "content": "other\n" }),
        ),
        (
            "write",
            json!({ "path": "deep/er/new.txt", "content": "x\n" }),
        ),
        ("write", json!({ "path": outside, "content": "x\n" })),
        (
            "edit",
            json!({ "path": "known.txt", "edits": [{ "old_text": "words", "new_text": "other" }] }),
        ),
        ("apply_patch", json!({ "patch": PATCH })),
        ("bash", json!({ "command": "true" })),
        ("grep", json!({ "pattern": "words" })),
        ("glob", json!({ "pattern": "*" })),
        ("ls", json!({})),
    ];
    for (tool, arguments) in calls {
        let called = session.tool(tool).execute(
            bezel_context::Context::background(),
            session.invocation(tool, arguments),
        );
        let Err(ToolError::Failed { message, details }) = called.await else {
            panic!("{tool} did something");
        };
        let directory = session.root().display().to_string();
        assert_eq!(details["code"], "directory.gone", "{tool}: {message}");
        assert_eq!(details["directory"], json!(directory), "{tool}");
        assert!(message.contains(&directory), "{tool}: {message}");
        assert!(
            !session.root().exists() && !outside.exists(),
            "{tool} made it again"
        );
    }
    assert!(!file.exists());
}
