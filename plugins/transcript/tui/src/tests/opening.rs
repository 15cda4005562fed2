//! Opening and closing items.

use std::sync::atomic::Ordering;

use bezel_api_tui::{MouseButton, MouseEventKind};
use bezel_transcript_contract::{Item, ItemBody, ToolStatus};

use super::items::{answer, call, called, said, text, thinking};
use super::support::{Stage, waited};

fn output(lines: u32) -> String {
    (1..=lines).map(|line| format!("row {line}\n")).collect()
}

fn clipped(id: &str) -> Item {
    let mut item = called(
        id,
        "bash",
        ToolStatus::Done,
        "head\n… 9000 bytes left out …\ntail",
    );
    if let ItemBody::Tool(tool) = &mut item.body {
        tool.clipped = true;
    }
    item
}

#[tokio::test]
async fn a_click_on_its_title_opens_a_card_and_closes_it() {
    let stage = Stage::with(vec![
        said("go"),
        called("t", "bash", ToolStatus::Done, &output(9)),
    ])
    .await;
    let screen = stage.tui.wait_for_text("row 9").await;
    assert!(
        screen.contains("… 5 more lines") && !screen.contains("row 5"),
        "{}",
        screen.text()
    );
    let (x, y) = screen.find("bash").unwrap();
    let screen = stage
        .tui
        .mouse(MouseEventKind::Down(MouseButton::Left), x, y)
        .await;
    assert!(
        screen.contains("row 1") && screen.contains("row 9"),
        "{}",
        screen.text()
    );
    assert_eq!(screen.find("bash"), Some((x, y)));
    let screen = stage
        .tui
        .mouse(MouseEventKind::Down(MouseButton::Left), x, y)
        .await;
    assert!(!screen.contains("row 1\n"), "{}", screen.text());
    // Elsewhere a click is not the transcript's: it marks text.
    let screen = stage
        .tui
        .mouse(MouseEventKind::Down(MouseButton::Left), x, y + 2)
        .await;
    assert!(!screen.contains("row 1\n"), "{}", screen.text());
}

#[tokio::test]
async fn items_are_selected_opened_and_copied_with_keys() {
    let stage = Stage::with(vec![
        said("go"),
        called("t", "bash", ToolStatus::Done, &output(6)),
        answer("a", vec![text("Done **well**.")], true),
    ])
    .await;
    stage.tui.wait_for_text("Done well.").await;
    let screen = stage.tui.press("ctrl+up").await;
    let (_, y) = screen.find("Done well.").unwrap();
    assert!(screen.row(y).starts_with("▌"), "{}", screen.text());
    stage.tui.press("y").await;
    let screen = stage.tui.wait_for_text("copied 1 line").await;
    // OSC 52 carries base64: `Done **well**.`
    assert!(
        stage.tui.controls().contains("RG9uZSAqKndlbGwqKi4="),
        "{}",
        stage.tui.controls()
    );
    assert!(!screen.row(y - 2).starts_with("▌"), "{}", screen.text());
    stage.tui.press("up").await;
    let screen = stage.tui.press("enter").await;
    assert!(screen.contains("row 1"), "{}", screen.text());
    let screen = stage.tui.press("space").await;
    assert!(!screen.contains("row 1"), "{}", screen.text());
    let screen = stage.tui.press("esc").await;
    assert!(
        screen.text().contains("\n>"),
        "the composer has the keys again: {}",
        screen.text()
    );
    assert!(!screen.row(y).starts_with("▌"), "{}", screen.text());
}

#[tokio::test]
async fn below_the_newest_item_there_is_the_composer() {
    let stage = Stage::with(vec![said("one"), said("two")]).await;
    stage.tui.wait_for_text("two").await;
    stage.tui.press("ctrl+up").await;
    let screen = stage.tui.press("down").await;
    assert!(screen.text().contains("\n>"), "{}", screen.text());
    // Typing does the same from anywhere.
    stage.tui.press("ctrl+up").await;
    let screen = stage.tui.type_text("x").await;
    assert!(screen.contains("> x"), "{}", screen.text());
}

#[tokio::test]
async fn all_details_open_and_close_together() {
    let stage = Stage::with(vec![
        answer(
            "a",
            vec![thinking("first\nsecond thought"), text("hm")],
            true,
        ),
        called("t", "bash", ToolStatus::Done, &output(6)),
    ])
    .await;
    stage.tui.wait_for_text("row 6").await;
    let screen = stage.tui.press("ctrl+o").await;
    let screen = if screen.contains("row 1") {
        screen
    } else {
        stage.tui.wait_for_text("row 1").await
    };
    assert!(screen.contains("second thought"), "{}", screen.text());
    stage.tui.press("ctrl+o").await;
    let screen = stage.tui.wait_for(|screen| !screen.contains("row 1")).await;
    assert!(!screen.contains("second thought"), "{}", screen.text());
}

#[tokio::test]
async fn what_was_left_out_is_fetched_when_the_card_opens() {
    let stage = Stage::sized((60, 40), vec![clipped("t")]).await;
    *stage.played.whole.lock().unwrap() = output(20);
    stage.tui.wait_for_text("tail").await;
    assert!(stage.played.results.borrow().is_empty());
    stage.tui.press("ctrl+o").await;
    let screen = stage.tui.wait_for_text("row 20").await;
    assert!(
        screen.contains("row 1") && !screen.contains("left out"),
        "{}",
        screen.text()
    );
    assert_eq!(*stage.played.results.borrow(), ["t"]);
    // It is kept.
    stage.tui.press("ctrl+o").await;
    stage.tui.press("ctrl+o").await;
    stage.tui.wait_for_text("row 20").await;
    assert_eq!(stage.played.results.borrow().len(), 1);
}

#[tokio::test]
async fn a_result_that_cannot_be_fetched_says_so() {
    let stage = Stage::sized((100, 20), vec![clipped("t")]).await;
    stage.played.broken.store(true, Ordering::SeqCst);
    stage.tui.wait_for_text("tail").await;
    stage.tui.press("ctrl+o").await;
    stage
        .tui
        .wait_for_text("the rest of the output could not be fetched: the session could not be read")
        .await;
    waited(&stage.played.results, |results| results.len() == 1).await;
}

#[tokio::test]
async fn a_card_that_runs_shows_its_time_and_its_spinner() {
    let stage = Stage::with(vec![
        call("a", "read"),
        called("b", "bash", ToolStatus::Running, ""),
    ])
    .await;
    let screen = stage.tui.wait_for_text("bash").await;
    let (_, y) = screen.find("read").unwrap();
    assert!(screen.row(y).ends_with("1.5s"), "{}", screen.text());
    assert!(screen.row(y + 1).ends_with("42s"), "{}", screen.text());
    let before = stage.tui.frames();
    stage
        .tui
        .wait_for(|_| stage.tui.frames() > before + 2)
        .await;
}
