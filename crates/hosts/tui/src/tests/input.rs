//! Where keys, pastes and the mouse go.

use std::sync::{Arc, Mutex};

use bezel_api_tui::{
    Binding, Chord, Focus, Handled, MouseButton, MouseEventKind, Placement, Slot, Toast, TuiContext,
};

use super::support::{Label, Seen, Writer, basics, command, facet, harness};
use crate::terminal::TerminalOptions;
use crate::{HarnessOptions, TuiHarness};

fn toasts(cx: &TuiContext, id: &'static str) {
    let ui = cx.ui.clone();
    cx.commands.add(command(id, id, move |_, _| {
        ui.toast(Toast::info(format!("ran {id}")));
        async { Ok(()) }
    }));
}

#[tokio::test(start_paused = true)]
async fn what_is_typed_before_there_is_a_server_is_in_the_composer() {
    let tui = harness(vec![basics()]).await;
    let screen = tui.type_text("hello").await;
    assert!(screen.row(23).starts_with("> hello"), "{}", screen.text());
    assert_eq!(screen.cursor(), Some((7, 23)));
}

#[tokio::test(start_paused = true)]
async fn keys_go_to_the_focus_then_to_main_then_to_bindings() {
    let seen = Seen::default();
    let kept = Arc::clone(&seen);
    let tui = harness(vec![facet("order", move |cx| {
        let main = Label {
            seen: Arc::clone(&kept),
            ..Label::new("main")
        };
        cx.slots.add(Slot::Main, Placement::default(), main);
        cx.slots
            .add(Slot::Composer, Placement::default(), Writer::default());
        toasts(cx, "late");
        toasts(cx, "early");
        cx.keybindings.add(Binding::new("ctrl+t", "late")?);
        cx.keybindings.add(Binding::new("x", "late")?);
        cx.keybindings
            .add(Binding::new("ctrl+e", "early")?.before_views());
        Ok(())
    })])
    .await;
    tui.type_text("x").await;
    tui.press("ctrl+t").await;
    tui.wait_for_text("ran late").await;
    tui.press("ctrl+e").await;
    let screen = tui.wait_for_text("ran early").await;
    assert!(screen.row(23).starts_with("> x"));
    assert_eq!(*seen.lock().unwrap(), ["ctrl+t"]);
}

#[tokio::test(start_paused = true)]
async fn with_the_focus_on_main_typing_goes_back_to_the_composer() {
    let tui = harness(vec![
        basics(),
        facet("focus", |cx| {
            cx.ui.focus(Focus::Main);
            Ok(())
        }),
    ])
    .await;
    assert!(tui.screen().row(23).starts_with('-'));
    assert!(tui.type_text("hi").await.row(23).starts_with("> hi"));
}

#[tokio::test(start_paused = true)]
async fn a_chord_shows_what_may_follow_and_ends_with_any_other_key() {
    let tui = harness(vec![
        basics(),
        facet("chords", |cx| {
            toasts(cx, "sessions");
            toasts(cx, "models");
            cx.keybindings.add(Binding::new("ctrl+x s", "sessions")?);
            cx.keybindings.add(Binding::new("ctrl+x m", "models")?);
            Ok(())
        }),
    ])
    .await;
    let screen = tui.press("ctrl+x").await;
    insta::assert_snapshot!(screen.text());
    let screen = tui.press("z").await;
    assert!(
        !screen.contains("ctrl+x …") && !screen.contains("z"),
        "{}",
        screen.text()
    );
    tui.press("ctrl+x m").await;
    tui.wait_for_text("ran models").await;
}

#[tokio::test(start_paused = true)]
async fn a_person_s_own_keys_win_and_can_free_a_chord() {
    let own = |chord: &str, command: Option<&str>| {
        (chord.parse::<Chord>().unwrap(), command.map(Arc::from))
    };
    let terminal = TerminalOptions {
        keys: vec![own("ctrl+t", Some("own")), own("ctrl+g", None)],
        ..TerminalOptions::default()
    };
    let facets = vec![
        basics(),
        facet("keys", |cx| {
            toasts(cx, "own");
            toasts(cx, "plugin");
            cx.keybindings.add(Binding::new("ctrl+t", "plugin")?);
            cx.keybindings.add(Binding::new("ctrl+g", "plugin")?);
            Ok(())
        }),
    ];
    let tui = TuiHarness::start(HarnessOptions {
        facets,
        terminal,
        ..HarnessOptions::default()
    })
    .await
    .unwrap();
    tui.press("ctrl+g").await;
    tui.press("ctrl+t").await;
    let screen = tui.wait_for_text("ran own").await;
    assert!(!screen.contains("ran plugin"));
}

#[tokio::test(start_paused = true)]
async fn a_conditional_binding_comes_first_while_its_condition_holds() {
    let holds = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let condition = Arc::clone(&holds);
    let tui = harness(vec![
        basics(),
        facet("keys", move |cx| {
            let condition = Arc::clone(&condition);
            toasts(cx, "always");
            toasts(cx, "sometimes");
            cx.keybindings.add(Binding::new("ctrl+t", "always")?);
            let binding = Binding::new("ctrl+t", "sometimes")?;
            cx.keybindings
                .add(binding.when(move || condition.load(std::sync::atomic::Ordering::Relaxed)));
            Ok(())
        }),
    ])
    .await;
    tui.press("ctrl+t").await;
    assert!(
        !tui.wait_for_text("ran sometimes")
            .await
            .contains("ran always")
    );
    holds.store(false, std::sync::atomic::Ordering::Relaxed);
    tui.press("ctrl+t").await;
    tui.wait_for_text("ran always").await;
}

#[tokio::test(start_paused = true)]
async fn the_mouse_reaches_what_lies_under_it_and_the_wheel_reaches_main() {
    let seen = Seen::default();
    let kept = Arc::clone(&seen);
    let tui = harness(vec![facet("mouse", move |cx| {
        let main = Label {
            seen: Arc::clone(&kept),
            takes: Handled::Yes,
            ..Label::new("main")
        };
        cx.slots.add(Slot::Main, Placement::default(), main);
        cx.slots
            .add(Slot::Composer, Placement::default(), Writer::default());
        Ok(())
    })])
    .await;
    tui.mouse(MouseEventKind::Down(MouseButton::Left), 3, 2)
        .await;
    tui.mouse(MouseEventKind::Drag(MouseButton::Left), 5, 23)
        .await;
    tui.mouse(MouseEventKind::Up(MouseButton::Left), 5, 23)
        .await;
    tui.mouse(MouseEventKind::ScrollUp, 5, 23).await;
    let expected = [
        "Down(Left) 3,2",
        "Drag(Left) 5,23",
        "Up(Left) 5,23",
        "ScrollUp 5,23",
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn text_that_the_mouse_marks_is_copied() {
    let tui = harness(vec![basics()]).await;
    tui.mouse(MouseEventKind::Down(MouseButton::Left), 0, 0)
        .await;
    let marked = tui
        .mouse(MouseEventKind::Drag(MouseButton::Left), 5, 1)
        .await;
    assert_eq!(marked.style(0, 0).bg, marked.style(5, 1).bg);
    assert_ne!(marked.style(5, 1).bg, marked.style(6, 1).bg);
    tui.mouse(MouseEventKind::Up(MouseButton::Left), 5, 1).await;
    tui.wait_for_text("Copied").await;
    // "main 0 [80x23]\nmain 1" in base 64.
    assert!(
        tui.controls()
            .contains("\u{1b}]52;c;bWFpbiAwIFs4MHgyM10KbWFpbiAx\u{7}"),
        "{:?}",
        tui.controls()
    );
    let unmarked = tui.type_text("x").await;
    assert_eq!(unmarked.style(0, 0).bg, unmarked.style(70, 10).bg);
}

#[tokio::test(start_paused = true)]
async fn ctrl_c_pressed_twice_leaves() {
    let tui = harness(vec![basics()]).await;
    tui.press("ctrl+c").await;
    tui.wait_for_text("Press ctrl+c again").await;
    tokio::time::advance(std::time::Duration::from_secs(3)).await;
    tui.press("ctrl+c").await;
    tui.press("ctrl+c").await;
    let exit = tui.finished().await;
    assert_eq!((exit.quit.code, exit.failures.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_fails_or_does_not_exist_says_so() {
    let commands: Arc<Mutex<Option<bezel_api_tui::Commands>>> = Arc::default();
    let kept = Arc::clone(&commands);
    let tui = harness(vec![
        basics(),
        facet("failing", move |cx| {
            cx.commands
                .add(command("failing.error", "Try", |_, _| async {
                    Err("the disk is full; free some space".into())
                }));
            cx.commands
                .add(command("failing.panic", "Panic", |_, _| async {
                    panic!("a bug")
                }));
            *kept.lock().unwrap() = Some(cx.commands.clone());
            Ok(())
        }),
    ])
    .await;
    let commands = commands.lock().unwrap().take().unwrap();
    commands.run("failing.error", Default::default());
    tui.wait_for_text("Try: the disk is full; free some space")
        .await;
    commands.run("failing.panic", Default::default());
    tui.wait_for_text("Panic failed unexpectedly").await;
    commands.run("missing", Default::default());
    tui.wait_for_text("there is no command `missing`").await;
}

#[tokio::test(start_paused = true)]
async fn a_paste_is_one_event_for_the_composer() {
    let tui = harness(vec![basics()]).await;
    let screen = tui.paste("one\ntwo").await;
    assert!(
        screen.contains("> one") && screen.contains("> two"),
        "{}",
        screen.text()
    );
}
