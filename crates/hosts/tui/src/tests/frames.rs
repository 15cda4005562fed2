//! When frames are drawn, and when not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_api_tui::{MouseButton, MouseEventKind, Placement, Slot, Toast, Ui, segment};
use bezel_presentation::StyledLine;
use bezel_presentation::text::Role;
use tokio::time::{advance, sleep};

use super::support::{basics, facet, harness};
use crate::TuiHarness;

async fn with_ui() -> (TuiHarness, Ui) {
    let ui: Arc<Mutex<Option<Ui>>> = Arc::default();
    let kept = Arc::clone(&ui);
    let tui = harness(vec![
        basics(),
        facet("drawing", move |cx| {
            *kept.lock().unwrap() = Some(cx.ui.clone());
            Ok(())
        }),
    ])
    .await;
    let ui = ui.lock().unwrap().take().unwrap();
    (tui, ui)
}

#[tokio::test(start_paused = true)]
async fn nothing_is_drawn_while_nothing_happens() {
    let (tui, _ui) = with_ui().await;
    let before = tui.frames();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(tui.frames(), before);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_changes_a_second_make_at_most_sixty_frames() {
    let (tui, ui) = with_ui().await;
    let before = tui.frames();
    for _ in 0..1000 {
        ui.redraw();
        sleep(Duration::from_millis(1)).await;
    }
    let drawn = tui.frames() - before;
    assert!((50..=61).contains(&drawn), "{drawn} frames");
}

#[tokio::test(start_paused = true)]
async fn a_key_is_drawn_at_once_whatever_was_drawn_before() {
    let (tui, ui) = with_ui().await;
    ui.redraw();
    sleep(Duration::from_millis(20)).await;
    let before = (tui.frames(), tokio::time::Instant::now());
    for letter in ["a", "b", "c"] {
        tui.type_text(letter).await;
    }
    assert_eq!(tui.frames(), before.0 + 3);
    assert_eq!(before.1.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_drags_and_wheel_turns_keeps_to_the_frame_rate() {
    let (tui, _ui) = with_ui().await;
    tui.mouse(MouseEventKind::Down(MouseButton::Left), 1, 1)
        .await;
    let (before, start) = (tui.frames(), tokio::time::Instant::now());
    for row in 0..20 {
        // Each is drawn, but not before a frame is due.
        tui.mouse(MouseEventKind::Drag(MouseButton::Left), 1, row)
            .await;
        tui.mouse(MouseEventKind::ScrollDown, 1, row).await;
    }
    assert_eq!(tui.frames() - before, 40);
    assert!(
        start.elapsed() >= Duration::from_millis(640),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_spinner_turns_ten_times_a_second_and_only_while_it_is_shown() {
    let running = Arc::new(AtomicBool::new(true));
    let shown = Arc::clone(&running);
    let tui = harness(vec![
        basics(),
        facet("spinning", move |cx| {
            let shown = Arc::clone(&shown);
            cx.slots.add(
                Slot::StatusLeft,
                Placement::default(),
                segment(move |cx| {
                    let spins = shown.load(Ordering::Relaxed);
                    Some(StyledLine::new(
                        if spins {
                            format!("{} works", cx.spinner())
                        } else {
                            "idle".into()
                        },
                        Role::Text,
                    ))
                }),
            );
            Ok(())
        }),
    ])
    .await;
    let before = tui.frames();
    sleep(Duration::from_secs(10)).await;
    let drawn = tui.frames() - before;
    assert!((99..=101).contains(&drawn), "{drawn} frames");
    running.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(1)).await;
    let still = tui.frames();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(tui.frames(), still);
    assert!(tui.screen().contains("idle"));
}

#[tokio::test(start_paused = true)]
async fn a_note_goes_away_by_itself() {
    let (tui, ui) = with_ui().await;
    ui.toast("for a while");
    ui.toast(Toast::error("longer"));
    tui.wait_for_text("for a while").await;
    advance(Duration::from_secs(5)).await;
    let screen = tui.wait_for(|screen| !screen.contains("for a while")).await;
    assert!(screen.contains("longer"));
    advance(Duration::from_secs(6)).await;
    tui.wait_for(|screen| !screen.contains("longer")).await;
}
