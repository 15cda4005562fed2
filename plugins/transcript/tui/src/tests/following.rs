//! Following an answer that streams.

use super::items::{answer, said, text};
use super::support::{Stage, numbers};

#[tokio::test]
async fn an_answer_grows_on_the_screen_and_the_view_follows_it() {
    let stage = Stage::with(vec![said("count"), answer("a", vec![text("")], false)]).await;
    for number in 1..=40 {
        stage.played.append(&format!("{number} is a number\n\n"));
    }
    let screen = stage.tui.wait_for_text("40 is a number").await;
    assert_eq!(numbers(&screen).last(), Some(&40));
    assert!(!screen.contains("↓"), "{}", screen.text());
}

#[tokio::test]
async fn deltas_cost_frames_and_not_the_other_way_round() {
    let items: Vec<_> = (0..150)
        .map(|number| said(&format!("{number} old")))
        .collect();
    let stage = Stage::with([items, vec![answer("a", vec![text("")], false)]].concat()).await;
    stage.tui.wait_for_text("149 old").await;
    let before = stage.tui.frames();
    for number in 0..2000 {
        stage.played.append(&format!("w{number} "));
    }
    stage.tui.wait_for_text("w1999").await;
    let frames = stage.tui.frames() - before;
    assert!(frames < 500, "{frames} frames for 2000 deltas");
}

#[tokio::test]
async fn another_session_shows_only_its_own_items() {
    let mut stage = Stage::with(vec![said("of the first")]).await;
    stage.tui.wait_for_text("of the first").await;
    stage.switch("two", vec![said("of the second")]).await;
    let screen = stage.tui.wait_for_text("of the second").await;
    assert!(!screen.contains("of the first"), "{}", screen.text());
    stage.switch("three", Vec::new()).await;
    stage
        .tui
        .wait_for(|screen| screen.contains("bezel") && !screen.contains("of the second"))
        .await;
}

#[tokio::test]
async fn a_lost_connection_leaves_the_conversation_in_sight() {
    let mut stage = Stage::with(vec![said("still here")]).await;
    stage.tui.wait_for_text("still here").await;
    stage.worker.take().expect("a worker").stop().await;
    let screen = stage.tui.wait_for_text("[none]").await;
    assert!(screen.contains("still here"), "{}", screen.text());
    stage.played.push(said("and more"));
    stage.attach("one").await;
    let screen = stage.tui.wait_for_text("and more").await;
    assert!(screen.contains("still here"), "{}", screen.text());
}
