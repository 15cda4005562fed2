//! Start, failure, removal and end of facets.

use std::sync::{Arc, Mutex};

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::{
    Binding, Overlay, Placement, Program, Quit, RenderContext, Slot, TuiContext, Ui, View,
};
use bezel_context::Context;
use bezel_plugin::{FacetStatus, ManifestEntry};

use super::support::{Label, basics, command, facet, harness, says};
use crate::device::DeviceEvent;
use crate::{HarnessOptions, TuiHarness};

struct Panics;

impl View for Panics {
    fn render(&mut self, _area: Rect, _buffer: &mut Buffer, _cx: &RenderContext<'_>) {
        panic!("a bug in a view");
    }
}

async fn with_context() -> (TuiHarness, TuiContext) {
    let context: Arc<Mutex<Option<TuiContext>>> = Arc::default();
    let kept = Arc::clone(&context);
    let tui = harness(vec![
        basics(),
        facet("holding", move |cx| {
            *kept.lock().unwrap() = Some(cx.clone());
            Ok(())
        }),
    ])
    .await;
    let context = context.lock().unwrap().take().unwrap();
    (tui, context)
}

#[tokio::test(start_paused = true)]
async fn a_view_that_panics_is_replaced_by_a_note_and_the_rest_goes_on() {
    let tui = harness(vec![
        basics(),
        facet("broken", |cx| {
            cx.slots.add(Slot::Header, Placement::default(), Panics);
            Ok(())
        }),
    ])
    .await;
    let screen = tui.type_text("still here").await;
    assert!(
        screen.row(0).contains("a view of plugin `broken` failed"),
        "{}",
        screen.text()
    );
    assert!(screen.contains("> still here"));
}

#[tokio::test(start_paused = true)]
async fn removing_a_plugin_removes_everything_of_it() {
    let facets = vec![
        basics(),
        facet("gone", |cx| {
            cx.slots
                .add(Slot::Header, Placement::default(), Label::new("its header"));
            cx.slots
                .add(Slot::StatusLeft, Placement::default(), says("its status"));
            cx.commands
                .add(command("gone.go", "Go", |_, _| async { Ok(()) }));
            cx.keybindings.add(Binding::new("ctrl+x g", "gone.go")?);
            cx.help.add("Its view", &[("g", "Goes")])?;
            cx.ui
                .open(Overlay::new(Label::new("its overlay")).passive());
            Ok(())
        }),
    ];
    let mut tui = TuiHarness::start(HarnessOptions {
        facets,
        ..HarnessOptions::default()
    })
    .await
    .unwrap();
    let screen = tui.wait_for_text("its overlay").await;
    assert!(screen.contains("its header") && screen.contains("its status"));
    assert!(tui.running().remove("gone").await.is_empty());
    let screen = tui.wait_for(|screen| !screen.contains("its")).await;
    assert!(screen.row(0).starts_with("main"));
    let screen = tui.press("ctrl+x").await;
    assert!(
        screen.contains("ctrl+x …") && !screen.contains("g  Go"),
        "{}",
        screen.text()
    );
    tui.press("esc").await;
    tui.press("f1").await;
    assert!(!tui.wait_for_text("Help").await.contains("Its view"));
}

#[tokio::test(start_paused = true)]
async fn an_optional_plugin_that_fails_is_reported_and_leaves_nothing() {
    let failing = facet("optional", |cx| {
        cx.slots
            .add(Slot::Header, Placement::default(), Label::new("half"));
        Err("no configuration".into())
    });
    let entries = vec![ManifestEntry {
        required: false,
        ..ManifestEntry::required("optional", "1.0.0")
    }];
    let options = HarnessOptions {
        facets: vec![basics(), failing],
        entries,
        ..HarnessOptions::default()
    };
    let mut tui = TuiHarness::start(options).await.unwrap();
    let screen = tui.type_text("x").await;
    assert!(!screen.contains("half"), "{}", screen.text());
    let report = tui.running().report();
    let status = &report
        .iter()
        .find(|report| report.plugin.as_str() == "optional")
        .unwrap()
        .status;
    assert!(
        matches!(status, FacetStatus::Unavailable(reason) if reason.contains("no configuration")),
        "{status:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_required_plugin_that_fails_fails_the_start() {
    let failing = facet("needed", |_| Err("it is broken".into()));
    let result = TuiHarness::start(HarnessOptions {
        facets: vec![failing],
        ..HarnessOptions::default()
    })
    .await;
    let error = result.map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("needed") && error.contains("it is broken"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn two_plugins_that_want_one_name_are_told_to_the_person() {
    let wants = |plugin| {
        facet(plugin, |cx| {
            cx.commands
                .add(command("shared.name", "Shared", |_, _| async { Ok(()) }));
            Ok(())
        })
    };
    let tui = harness(vec![basics(), wants("first"), wants("second")]).await;
    let screen = tui.wait_for_text("both set command").await;
    assert!(
        screen.contains("`first`") && screen.contains("`second`"),
        "{}",
        screen.text()
    );
}

#[tokio::test(start_paused = true)]
async fn a_program_gets_the_terminal_and_gives_it_back() {
    let (tui, cx) = with_context().await;
    let status = cx
        .ui
        .run_program(&Context::background(), Program::new("true"))
        .await
        .unwrap();
    assert!(status.success());
    let error = cx
        .ui
        .run_program(&Context::background(), Program::new("/nowhere/at-all"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("/nowhere/at-all"));
    tui.type_text("x").await;
    assert_eq!(tui.steps(), ["enter", "leave", "enter", "leave", "enter"]);
}

#[tokio::test(start_paused = true)]
async fn the_process_can_be_suspended_and_goes_on() {
    let (tui, _cx) = with_context().await;
    tui.press("ctrl+z").await;
    tui.wait_for(|_| tui.steps().len() == 4).await;
    assert_eq!(tui.steps(), ["enter", "leave", "stop", "enter"]);
    let screen = tui.send(DeviceEvent::Continued).await;
    assert!(screen.contains("main"));
}

#[tokio::test(start_paused = true)]
async fn quitting_gives_the_terminal_back_and_carries_code_and_message() {
    let (tui, cx) = with_context().await;
    cx.ui.quit(Quit {
        code: 3,
        message: "resume with `bezel --continue`".into(),
    });
    let exit = tui.finished().await;
    assert_eq!(
        (exit.quit.code, exit.quit.message.as_str()),
        (3, "resume with `bezel --continue`")
    );
}

#[tokio::test(start_paused = true)]
async fn a_signal_ends_it_with_the_status_of_that_signal() {
    let (tui, _cx) = with_context().await;
    tui.send(DeviceEvent::Ended(15)).await;
    assert_eq!(tui.finished().await.quit.code, 143);
    let (tui, _cx) = with_context().await;
    tui.send(DeviceEvent::Gone).await;
    assert_eq!(tui.finished().await.quit.code, 129);
}

#[tokio::test(start_paused = true)]
async fn after_the_end_handles_fail_quietly() {
    let (tui, cx) = with_context().await;
    tui.stop().await;
    let ui: &Ui = &cx.ui;
    ui.redraw();
    ui.toast("late");
    let cancelled = Context::background().with_timeout(std::time::Duration::from_secs(1));
    assert!(
        !ui.confirm(&cancelled, bezel_api_tui::Confirm::new("Late", "?"))
            .await
    );
}

#[tokio::test(start_paused = true)]
async fn titles_and_notifications_are_cleaned_and_sent_when_they_matter() {
    let (tui, cx) = with_context().await;
    cx.ui.set_title("bezel\u{7}\u{1b}[31m: x");
    cx.ui.notify("seen");
    tui.type_text("x").await;
    tui.send(DeviceEvent::Input(vec![
        crate::terminal::event::TerminalEvent::FocusLost,
    ]))
    .await;
    cx.ui.notify("turn finished");
    tui.type_text("y").await;
    let controls = tui.controls();
    assert!(controls.contains("\u{1b}]2;bezel: x\u{7}"), "{controls:?}");
    assert!(
        controls.contains("\u{1b}]9;turn finished\u{7}") && !controls.contains("seen"),
        "{controls:?}"
    );
}
