//! What a result may hold, whoever made it.

use bezel_harness::{HookError, ToolPatch};
use bezel_session_types::{ImageContent, ResultContent, ToolOutput, ToolResultMessage};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Model, Place, TestTool, call, calls, registration, says, text_of};

const LINES: usize = 2_000;
const BYTES: usize = 50 * 1024;

async fn result_of(place: &Place, output: ToolOutput) -> ToolResultMessage {
    let model = Model::scripted([calls([call("a", "tool", json!({}))]), says("Done.")]);
    let tool = TestTool::new(move |_, _| std::future::ready(Ok(output.clone())));
    let session = place.open(&model, vec![registration("tool", tool)]);
    session.turn("do it").await;
    session.results().remove(0)
}

fn assert_bounded(text: &str) {
    assert!(text.len() <= BYTES, "{} bytes", text.len());
    assert!(
        text.lines().count() <= LINES,
        "{} lines",
        text.lines().count()
    );
}

fn saved_files(place: &Place) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(place.output()) else {
        return Vec::new();
    };
    files
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn long_output_keeps_head_and_tail_and_names_the_file_with_all_of_it() {
    let whole: String = (0..10_000).map(|line| format!("line {line}\n")).collect();
    let place = Place::new();
    let result = result_of(&place, ToolOutput::text(whole.clone())).await;
    let text = text_of(&result.content);
    assert_bounded(&text);
    assert!(
        text.starts_with("line 0\n") && text.ends_with("line 9999\n"),
        "{text}"
    );
    assert!(text.lines().count() > 1_900, "the room is used");
    let path = place.output().join(format!("{}.txt", result.invocation_id));
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), whole);
    assert!(!result.is_error);
}

#[tokio::test(start_paused = true)]
async fn one_endless_line_is_cut_within_and_on_a_character() {
    let place = Place::new();
    let result = result_of(&place, ToolOutput::text("ä".repeat(100_000))).await;
    let text = text_of(&result.content);
    assert_bounded(&text);
    assert!(text.starts_with('ä') && text.ends_with('ä'));
    assert_eq!(saved_files(&place), ["ä".repeat(100_000)]);
}

#[tokio::test(start_paused = true)]
async fn several_texts_are_bounded_together() {
    let parts = (0..5)
        .map(|_| ResultContent::text("x".repeat(20 * 1024)))
        .collect();
    let place = Place::new();
    let result = result_of(
        &place,
        ToolOutput {
            content: parts,
            ..ToolOutput::default()
        },
    )
    .await;
    assert_bounded(&text_of(&result.content));
}

#[tokio::test(start_paused = true)]
async fn output_within_the_limits_passes_unchanged_and_saves_nothing() {
    let whole = "short line\n".repeat(LINES);
    let place = Place::new();
    let result = result_of(&place, ToolOutput::text(whole.clone())).await;
    assert_eq!(text_of(&result.content), whole);
    assert!(saved_files(&place).is_empty());
}

#[tokio::test(start_paused = true)]
async fn output_that_cannot_be_saved_fails_the_call_and_says_so() {
    let place = Place::new();
    // Where the directory should be, there is a file.
    std::fs::write(place.output(), "in the way").unwrap();
    let result = result_of(&place, ToolOutput::text("x\n".repeat(10_000))).await;
    let text = text_of(&result.content);
    assert!(result.is_error);
    assert!(
        text.contains("could not be saved") && text.contains("make room"),
        "{text}"
    );
    assert_bounded(&text);
}

#[tokio::test(start_paused = true)]
async fn a_picture_that_is_too_large_is_left_out_and_fails_the_call() {
    let picture = |bytes: usize| {
        let data = "A".repeat(bytes / 3 * 4);
        ResultContent::Image(ImageContent {
            media_type: "image/png".into(),
            data,
        })
    };
    let content = vec![picture(3 << 20), picture(6 << 20)];
    let place = Place::new();
    let result = result_of(
        &place,
        ToolOutput {
            content: content.clone(),
            ..ToolOutput::default()
        },
    )
    .await;
    assert!(result.is_error);
    assert_eq!(result.content[0], content[0]);
    assert_eq!(result.content.len(), 2);
    assert!(
        text_of(&result.content).contains("5 MiB"),
        "{}",
        text_of(&result.content)
    );
}

#[tokio::test(start_paused = true)]
async fn details_that_are_too_large_are_left_out() {
    let place = Place::new();
    let output = ToolOutput::text("ok").with_details(json!({ "text": "x".repeat(2 << 20) }));
    let result = result_of(&place, output).await;
    assert_eq!(result.details["omitted"], true);
}

#[tokio::test(start_paused = true)]
async fn what_a_hook_makes_of_a_result_is_bounded_too() {
    let place = Place::new();
    let model = Model::scripted([calls([call("a", "tool", json!({}))]), says("Done.")]);
    let session = place.open(&model, vec![registration("tool", TestTool::echo())]);
    let _hook = session.harness.hooks().after_tool("grower", |_, _| async {
        let content = Some(vec![ResultContent::text("y\n".repeat(100_000))]);
        Ok::<_, HookError>(ToolPatch {
            content,
            ..ToolPatch::default()
        })
    });
    session.turn("do it").await;
    let text = text_of(&session.results()[0].content);
    assert_bounded(&text);
    assert_eq!(saved_files(&place), ["y\n".repeat(100_000)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_output_is_bounded_and_saved_at_most_once(
        lines in prop::collection::vec("[a-zä\u{1F600}]{0,40}", 1..60),
        repeat in 1_usize..400,
        end in any::<bool>(),
    ) {
        let mut whole = lines.join("\n").repeat(repeat);
        if end {
            whole.push('\n');
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let place = Place::new();
        let result = runtime.block_on(result_of(&place, ToolOutput::text(whole.clone())));
        let text = text_of(&result.content);
        assert_bounded(&text);
        if text != whole {
            prop_assert_eq!(saved_files(&place), [whole]);
        } else {
            prop_assert!(saved_files(&place).is_empty());
        }
    }
}
