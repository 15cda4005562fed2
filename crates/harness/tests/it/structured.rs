//! Results as data.

use bezel_harness::{EventKind, ToolPatch};
use bezel_session_types::{FileChange, Message, ResultContent, ToolOutput, ToolResultMessage};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Model, Place, Session, TestTool, call, calls, registration, says, text_of};

fn counts() -> Value {
    json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] })
}

fn open(place: &Place, schema: Option<Value>, output: ToolOutput) -> Session {
    let model = Model::scripted([calls([call("a", "tool", json!({}))]), says("Done.")]);
    let tool = TestTool::new(move |_, _| std::future::ready(Ok(output.clone())));
    let tool = match schema {
        Some(schema) => tool.output(schema),
        None => tool,
    };
    place.open(&model, vec![registration("tool", tool)])
}

async fn result_of(place: &Place, schema: Option<Value>, output: ToolOutput) -> ToolResultMessage {
    let session = open(place, schema, output);
    session.turn("do it").await;
    session.results().remove(0)
}

fn saved(place: &Place) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(place.output()) else {
        return Vec::new();
    };
    files
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn data_is_kept_with_the_result_and_read_as_json_where_there_is_nothing_else_to_read() {
    let place = Place::new();
    let result = result_of(
        &place,
        Some(counts()),
        ToolOutput::structured(json!({ "n": 1 })),
    )
    .await;
    assert_eq!(result.structured, Some(json!({ "n": 1 })));
    assert_eq!(text_of(&result.content), "{\n  \"n\": 1\n}");
    assert!(!result.is_error);
    let place = Place::new();
    let output = ToolOutput {
        structured: Some(json!([1, 2])),
        ..ToolOutput::text("two numbers")
    };
    let result = result_of(&place, None, output).await;
    assert_eq!(text_of(&result.content), "two numbers");
    assert_eq!(result.structured, Some(json!([1, 2])));
}

#[tokio::test(start_paused = true)]
async fn output_that_is_not_what_the_tool_declares_fails_and_tells_what_was_changed() {
    let wrong = ToolOutput::structured(json!({ "n": "secret".repeat(100) }));
    let missing = ToolOutput::text("just text");
    for (output, said) in [(wrong, "/n"), (missing, "gave none")] {
        let place = Place::new();
        let changed = FileChange {
            path: "/changed".into(),
        };
        let output = ToolOutput {
            changes: vec![changed],
            ..output
        };
        let mut session = open(&place, Some(counts()), output);
        session.turn("do it").await;
        let result = session.results().remove(0);
        let text = text_of(&result.content);
        assert!(result.is_error && text.contains(said), "{text}");
        assert!(
            !text.contains("secretsecret") && !text.contains("just text"),
            "{text}"
        );
        assert_eq!(result.details["code"], "tool.invalid_output");
        assert_eq!(result.structured, None);
        let changes = session
            .happened()
            .into_iter()
            .find_map(|event| match event {
                EventKind::ToolEnd { changes, .. } => Some(changes),
                _ => None,
            });
        assert_eq!(changes.unwrap(), [std::path::PathBuf::from("/changed")]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_change_the_data_and_one_that_breaks_it_is_named_and_passed_over() {
    let place = Place::new();
    let mut session = open(
        &place,
        Some(counts()),
        ToolOutput::structured(json!({ "n": 1 })),
    );
    let hooks = session.harness.hooks();
    let patch = |data: Value, words: &str| {
        let content = Some(vec![ResultContent::text(words)]);
        let patch = ToolPatch {
            content,
            structured: Some(Some(data)),
            ..ToolPatch::default()
        };
        std::future::ready(Ok(patch))
    };
    let _changes = hooks.after_tool("changes", move |_, _| patch(json!({ "n": 2 }), "two"));
    let _breaks = hooks.after_tool("breaks", move |_, _| patch(json!({ "n": "x" }), "broken"));
    session.turn("do it").await;
    let result = session.results().remove(0);
    assert_eq!(result.structured, Some(json!({ "n": 2 })));
    assert_eq!(
        (text_of(&result.content).as_str(), result.is_error),
        ("two", false)
    );
    let failed = session
        .happened()
        .into_iter()
        .find_map(|event| match event {
            EventKind::HandlerError {
                registrant,
                message,
                ..
            } => Some((registrant, message)),
            _ => None,
        });
    let (registrant, message) = failed.unwrap();
    assert_eq!(&*registrant, "breaks");
    assert!(message.contains("does not match its schema"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn where_the_text_is_cut_the_data_goes_to_the_file_with_it() {
    let numbers: Vec<u32> = (0..20_000).collect();
    let place = Place::new();
    // The text is the data: it is saved once.
    let result = result_of(&place, None, ToolOutput::structured(json!(numbers))).await;
    assert_eq!(result.structured, None);
    assert_eq!(
        serde_json::from_str::<Vec<u32>>(&saved(&place)[0]).unwrap(),
        numbers
    );
    let place = Place::new();
    let text = "line\n".repeat(10_000);
    let output = ToolOutput {
        structured: Some(json!({ "n": 1 })),
        ..ToolOutput::text(text.clone())
    };
    let result = result_of(&place, Some(counts()), output).await;
    assert_eq!((result.structured, result.is_error), (None, false));
    assert_eq!(saved(&place), [format!("{text}\n\n{{\n  \"n\": 1\n}}")]);
}

#[tokio::test(start_paused = true)]
async fn data_that_is_too_long_beside_a_short_text_is_saved_and_the_text_says_where() {
    let place = Place::new();
    let output = ToolOutput {
        structured: Some(json!("x".repeat(100_000))),
        ..ToolOutput::text("short")
    };
    let result = result_of(&place, None, output).await;
    let text = text_of(&result.content);
    assert!(text.starts_with("short") && text.len() < 1_000, "{text}");
    assert!(text.contains("structured data was left out"), "{text}");
    assert_eq!((result.structured, result.is_error), (None, false));
    assert!(saved(&place)[0].contains(&"x".repeat(100_000)));
}

#[test]
fn a_result_of_an_earlier_version_reads_and_one_without_data_is_written_as_before() {
    let old = json!({
        "role": "tool_result", "call_id": "a", "invocation_id": "i", "tool": "t",
        "content": [{ "type": "text", "text": "x" }], "details": null, "is_error": false,
    });
    let message: Message = serde_json::from_value(old.clone()).unwrap();
    assert!(matches!(&message, Message::ToolResult(result) if result.structured.is_none()));
    assert_eq!(serde_json::to_value(&message).unwrap(), old);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever a tool gives, what is kept is within the limits, and nothing is lost.
    #[test]
    fn any_data_and_text_are_bounded_and_nothing_is_lost(text in 0_usize..60_000, data in 0_usize..60_000) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let place = Place::new();
        let (text, data) = ("t".repeat(text), json!("d".repeat(data)));
        let output = ToolOutput { structured: Some(data.clone()), ..ToolOutput::text(text.clone()) };
        let result = runtime.block_on(result_of(&place, None, output));
        let kept = text_of(&result.content);
        prop_assert!(kept.len() <= 50 * 1024);
        match result.structured {
            Some(kept_data) => {
                prop_assert_eq!(kept_data, data);
                prop_assert_eq!(kept, text);
                prop_assert!(saved(&place).is_empty());
            }
            None => prop_assert_eq!(saved(&place), [format!("{text}\n\n{data}")]),
        }
    }
}
