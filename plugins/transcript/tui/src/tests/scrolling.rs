//! Scrolling and older pages.

use std::sync::atomic::Ordering;

use bezel_api_tui::{MouseButton, MouseEventKind};
use tokio::sync::Semaphore;

use super::items::{answer, said, text};
use super::support::{Stage, numbers, waited};

fn many(range: std::ops::Range<u32>) -> Vec<bezel_transcript_contract::Item> {
    range
        .map(|number| said(&format!("{number} said")))
        .collect()
}

#[tokio::test]
async fn the_view_stays_where_it_was_scrolled_to() {
    let stage = Stage::with(many(0..50)).await;
    stage.tui.wait_for_text("49 said").await;
    let screen = stage.tui.press("pageup").await;
    let seen = numbers(&screen);
    assert!(
        !seen.contains(&49) && screen.contains("↓ to the end ctrl+end"),
        "{}",
        screen.text()
    );
    stage.played.push(said("50 said"));
    let screen = stage.tui.wait_for_text("↓ new").await;
    assert_eq!(numbers(&screen), seen);
    let screen = stage.tui.press("ctrl+end").await;
    assert!(
        screen.contains("50 said") && !screen.contains("↓"),
        "{}",
        screen.text()
    );
    // Page after page leads down to the end again, and then it follows.
    stage.tui.press("pageup").await;
    stage.tui.press("pageup").await;
    stage.tui.press("pagedown").await;
    stage.tui.press("pagedown").await;
    stage.played.push(said("51 said"));
    stage.tui.wait_for_text("51 said").await;
}

#[tokio::test]
async fn the_wheel_scrolls_and_the_hint_leads_back() {
    let stage = Stage::with(many(0..50)).await;
    let before = numbers(&stage.tui.wait_for_text("49 said").await);
    stage.tui.mouse(MouseEventKind::ScrollUp, 10, 5).await;
    let screen = stage.tui.mouse(MouseEventKind::ScrollUp, 10, 5).await;
    assert_eq!(
        numbers(&screen),
        before.iter().map(|number| number - 3).collect::<Vec<_>>()
    );
    let (x, y) = screen.find("↓ to the end ctrl+end").unwrap();
    let screen = stage
        .tui
        .mouse(MouseEventKind::Down(MouseButton::Left), x, y)
        .await;
    assert_eq!(numbers(&screen), before);
}

#[tokio::test]
async fn an_answer_that_grows_below_moves_nothing() {
    let items = [
        many(0..30),
        vec![answer("a", vec![text("start\n\n")], false)],
    ]
    .concat();
    let stage = Stage::with(items).await;
    stage.tui.wait_for_text("start").await;
    let seen = numbers(&stage.tui.press("pageup").await);
    stage.played.append(&"more and more\n\n".repeat(30));
    let screen = stage.tui.wait_for_text("↓ new").await;
    assert_eq!(numbers(&screen), seen);
}

#[tokio::test]
async fn older_items_are_fetched_at_the_beginning_and_the_view_stays() {
    let stage = Stage::detached((60, 20)).await;
    *stage.played.older.lock().unwrap() = many(0..230);
    stage.played.show(many(230..250));
    let mut stage = stage;
    stage.attach("one").await;
    stage.tui.wait_for_text("249 said").await;
    stage.played.gate.forget_permits(Semaphore::MAX_PERMITS);
    let screen = stage.tui.press("ctrl+home").await;
    assert_eq!(numbers(&screen)[0], 230);
    assert_eq!(
        waited(&stage.played.pages, |pages| !pages.is_empty()).await,
        ["230 said"]
    );
    let screen = stage.tui.wait_for_text("loading earlier messages…").await;
    let seen = numbers(&screen);
    stage.played.gate.add_permits(1000);
    let screen = stage
        .tui
        .wait_for(|screen| !screen.contains("loading"))
        .await;
    assert_eq!(numbers(&screen)[..seen.len() - 1], seen[..seen.len() - 1]);
    let screen = stage.tui.press("pageup").await;
    assert!(numbers(&screen)[0] < 230, "{}", screen.text());
    // All the way up, page by page.
    loop {
        let screen = stage.tui.press("ctrl+home").await;
        if numbers(&screen).first() == Some(&0) {
            assert!(!screen.contains("earlier messages"), "{}", screen.text());
            break;
        }
        stage
            .tui
            .wait_for(|screen| !screen.contains("loading"))
            .await;
    }
    assert_eq!(stage.played.pages.borrow().len(), 3);
}

#[tokio::test]
async fn a_page_that_does_not_come_says_so_and_is_asked_for_again() {
    let mut stage = Stage::detached((80, 20)).await;
    *stage.played.older.lock().unwrap() = many(0..10);
    stage.played.show(many(10..40));
    stage.played.broken.store(true, Ordering::SeqCst);
    stage.attach("one").await;
    stage.tui.wait_for_text("39 said").await;
    stage.tui.press("ctrl+home").await;
    stage
        .tui
        .wait_for_text("earlier messages could not be loaded: the session could not be read")
        .await;
    stage.played.broken.store(false, Ordering::SeqCst);
    stage.tui.press("pageup").await;
    stage
        .tui
        .wait_for(|screen| !screen.contains("earlier messages"))
        .await;
    let screen = stage.tui.press("ctrl+home").await;
    assert_eq!(numbers(&screen)[0], 0);
}

#[tokio::test]
async fn a_resize_keeps_the_place() {
    let long = "word ".repeat(60);
    let items: Vec<_> = (0..30)
        .map(|number| said(&format!("{number} {long}")))
        .collect();
    let stage = Stage::with(items).await;
    stage.tui.wait_for_text("29 word").await;
    stage.tui.press("pageup").await;
    let screen = stage.tui.press("pageup").await;
    let first = numbers(&screen)[0];
    let screen = stage.tui.resize(40, 20).await;
    let narrow = numbers(&screen);
    assert!(
        narrow[0] == first || narrow[0] == first + 1,
        "{first} became {narrow:?}"
    );
    let screen = stage.tui.resize(140, 45).await;
    assert!(!numbers(&screen).is_empty(), "{}", screen.text());
}
