//! How items look.

use bezel_transcript_contract::{ItemBody, ToolStatus};

use super::items::{answer, call, called, item, said, text, thinking};
use super::support::{Stage, still};

#[tokio::test]
async fn before_anything_was_said_there_is_a_welcome() {
    let stage = Stage::sized((80, 24), Vec::new()).await;
    let screen = stage.tui.wait_for_text("Ask for a change").await;
    assert!(
        screen.contains("~/code/parser · Model One"),
        "{}",
        screen.text()
    );
    insta::assert_snapshot!(screen.text());
    stage.tui.resize(30, 10).await;
    stage.played.push(said("hello"));
    stage
        .tui
        .wait_for(|screen| screen.contains("▌ hello") && !screen.contains("bezel"))
        .await;
}

#[tokio::test]
async fn a_conversation_in_a_small_terminal() {
    let markdown =
        "I'll look at the **parser** first.\n\n1. read it\n2. fix it\n\n```rust\nfn main() {}\n```";
    let stage = Stage::sized(
        (80, 30),
        vec![
            item(
                "u",
                ItemBody::User {
                    text: "Fix the parser,\nplease".into(),
                    images: 1,
                    synthetic: false,
                },
            ),
            answer(
                "a",
                vec![
                    thinking("**Planning**\n\nThe user wants a fix."),
                    text(markdown),
                ],
                true,
            ),
            call("t1", "read"),
            call("t2", "grep"),
            called(
                "t3",
                "bash",
                ToolStatus::Failed,
                "error: no such file\nexit status 1",
            ),
            answer("b", vec![text("It is fixed.")], true),
            item(
                "s",
                ItemBody::User {
                    text: "a background command has ended".into(),
                    images: 0,
                    synthetic: true,
                },
            ),
        ],
    )
    .await;
    let screen = stage.tui.wait_for_text("It is fixed.").await;
    insta::assert_snapshot!(screen.text());
}

#[tokio::test]
async fn every_state_of_a_call_has_its_mark() {
    let mut unfinished = called("e", "write", ToolStatus::Streaming, "");
    if let ItemBody::Tool(tool) = &mut unfinished.body {
        tool.arguments = serde_json::Value::Null;
        tool.arguments_text = "{\"path\": \"src/ne".into();
    }
    let stage = Stage::with(vec![
        call("a", "one"),
        called("b", "two", ToolStatus::Failed, "why"),
        called("c", "three", ToolStatus::Interrupted, ""),
        called("d", "four", ToolStatus::Pending, ""),
        unfinished,
        called("f", "six", ToolStatus::Running, "some\noutput"),
    ])
    .await;
    let screen = stage.tui.wait_for_text("output").await;
    insta::assert_snapshot!(still(&screen));
}

#[tokio::test]
async fn a_call_that_went_well_and_came_to_a_failure_has_the_mark_of_one() {
    let stage = Stage::with(vec![
        called("a", "doomed", ToolStatus::Running, ""),
        called("b", "doomed", ToolStatus::Done, ""),
    ])
    .await;
    let screen = stage.tui.wait_for_text("✗ doomed").await;
    assert!(!screen.contains("✓"), "{}", screen.text());
    // The time that the tool measured, not the time until its result was in the conversation.
    let row = screen.find("✗ doomed").unwrap().1;
    assert!(
        screen.row(row).trim_end().ends_with("7.0s"),
        "{}",
        screen.text()
    );
}

#[tokio::test]
async fn the_gist_of_a_thought_has_no_signs_of_markdown() {
    let thought = "**Look** at `main` and **then** decide";
    let stage = Stage::with(vec![answer("a", vec![thinking(thought)], true)]).await;
    stage
        .tui
        .wait_for_text("✻ Thought · Look at main and then decide")
        .await;
}

#[tokio::test]
async fn a_failed_answer_and_an_interrupted_one_differ() {
    let mut failed = answer("a", vec![text("Half an ans")], true);
    let mut stopped = answer("b", vec![text("Another half")], true);
    for (item, why) in [
        (
            &mut failed,
            "the provider answered 529: overloaded; try again later",
        ),
        (&mut stopped, "interrupted"),
    ] {
        if let ItemBody::Assistant { error, .. } = &mut item.body {
            *error = Some(why.into());
        }
    }
    let stage = Stage::with(vec![failed, stopped]).await;
    let screen = stage.tui.wait_for_text("⊘ interrupted").await;
    assert!(
        screen.contains("✗ the provider answered 529: overloaded; try again"),
        "{}",
        screen.text()
    );
    let (x, y) = screen.find("✗").unwrap();
    let (z, w) = screen.find("⊘").unwrap();
    assert_ne!(screen.style(x, y).fg, screen.style(z, w).fg);
}

#[tokio::test]
async fn thinking_is_short_while_it_comes_and_one_line_when_it_is_done() {
    let lines: String = (1..=9).map(|line| format!("thought {line}\n")).collect();
    let stage = Stage::with(vec![answer("a", vec![thinking(&lines)], false)]).await;
    let screen = stage.tui.wait_for_text("thought 9").await;
    assert!(
        screen.contains("✻ Thinking…")
            && screen.contains("thought 6")
            && !screen.contains("thought 5"),
        "{}",
        screen.text()
    );
    stage.played.show(vec![answer(
        "a",
        vec![thinking(&lines), text("So it is.")],
        true,
    )]);
    let screen = stage.tui.wait_for_text("✻ Thought · thought 1").await;
    assert!(
        screen.contains("So it is.") && !screen.contains("thought 2"),
        "{}",
        screen.text()
    );
}

#[tokio::test]
async fn a_compaction_is_a_line_that_opens() {
    let summary = "The parser was **fixed**.";
    let stage = Stage::with(vec![
        said("before"),
        item(
            "c",
            ItemBody::Compaction {
                summary: summary.into(),
            },
        ),
        said("after"),
    ])
    .await;
    let screen = stage.tui.wait_for_text("Conversation compacted ▸").await;
    assert!(!screen.contains("was fixed"), "{}", screen.text());
    stage.tui.press("ctrl+o").await;
    let screen = stage.tui.wait_for_text("Conversation compacted ▾").await;
    assert!(
        screen.contains("The parser was fixed."),
        "{}",
        screen.text()
    );
}

#[tokio::test]
async fn wide_characters_and_control_characters_do_no_harm() {
    let stage = Stage::sized(
        (24, 12),
        vec![
            said("漢字漢字漢字漢字漢字漢字 ende"),
            called(
                "t",
                "bash",
                ToolStatus::Done,
                "\u{1b}[31mred\u{1b}[0m\u{7}\ttab",
            ),
            answer(
                "a",
                vec![text("a very-long-word-that-does-not-fit-anywhere 🙂")],
                true,
            ),
        ],
    )
    .await;
    let screen = stage.tui.wait_for_text("🙂").await;
    assert!(
        screen.contains("red     tab") || screen.contains("red tab") || screen.contains("red"),
        "{}",
        screen.text()
    );
    insta::assert_snapshot!(screen.text());
}
