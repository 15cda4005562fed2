//! How slots share the screen.

use bezel_api_tui::ratatui::style::{Color, Modifier};
use bezel_api_tui::{Facet, Placement, Slot, ThemeChoice, Toast, TuiContext};
use bezel_presentation::text::Role;
use bezel_presentation::theme::{Color as ThemeColor, ColorDepth, Theme, dark, light};

use super::support::{Label, Writer, facet, harness, says};
use crate::terminal::TerminalOptions;
use crate::terminal::event::{Reply, TerminalEvent};
use crate::{HarnessOptions, TuiHarness};

fn full() -> Facet<TuiContext> {
    facet("full", |cx| {
        cx.slots
            .add(Slot::Header, Placement::default(), Label::new("header"));
        cx.slots
            .add(Slot::Main, Placement::default(), Label::new("main"));
        cx.slots.add(
            Slot::AboveComposer,
            Placement::order(2),
            Label::new("second above"),
        );
        cx.slots.add(
            Slot::AboveComposer,
            Placement::order(1),
            Label::new("first above"),
        );
        cx.slots
            .add(Slot::Composer, Placement::default(), Writer::default());
        cx.slots.add(
            Slot::StatusLeft,
            Placement::order(1).importance(9),
            says("a model"),
        );
        cx.slots
            .add(Slot::StatusLeft, Placement::order(2), says("12% used"));
        cx.slots.add(
            Slot::StatusRight,
            Placement::default().importance(5),
            says("connected"),
        );
        cx.ui.toast(Toast::warning(
            "This is a warning that is long enough to go on in a second row of its note.",
        ));
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn slots_share_80_by_24() {
    let tui = harness(vec![full()]).await;
    insta::assert_snapshot!(tui.screen().text());
}

#[tokio::test(start_paused = true)]
async fn slots_share_120_by_40() {
    let options = HarnessOptions {
        facets: vec![full()],
        size: (120, 40),
        ..HarnessOptions::default()
    };
    let tui = TuiHarness::start(options).await.unwrap();
    insta::assert_snapshot!(tui.screen().text());
}

#[tokio::test(start_paused = true)]
async fn a_resize_shares_anew() {
    let tui = harness(vec![full()]).await;
    let small = tui.resize(40, 8).await;
    insta::assert_snapshot!(small.text(), @r"
    header 0 [40x1]
    m▌ This is a warning that is long
    m▌ enough to go on in a second row of
    m▌ its note.
    first above 0 [40x1]
    second above 0 [40x1]
    >
     a model · 12% used           connected
    ");
}

#[tokio::test(start_paused = true)]
async fn of_two_views_for_one_place_the_higher_order_shows_until_it_is_removed() {
    let handle = std::sync::Arc::new(std::sync::Mutex::new(None));
    let kept = std::sync::Arc::clone(&handle);
    let tui = harness(vec![facet("screens", move |cx| {
        let upper = cx
            .slots
            .add(Slot::Main, Placement::order(5), Label::new("upper"));
        cx.slots
            .add(Slot::Main, Placement::order(5), Label::new("late"));
        cx.slots
            .add(Slot::Main, Placement::order(1), Label::new("lower"));
        *kept.lock().unwrap() = Some(upper);
        Ok(())
    })])
    .await;
    assert!(tui.screen().row(0).starts_with("upper"));
    handle.lock().unwrap().take().unwrap().remove();
    tui.wait_for(|screen| screen.row(0).starts_with("late"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn both_themes_and_no_colours_reach_the_cells() {
    let color = |theme: ThemeChoice, colors: ColorDepth| async move {
        let terminal = TerminalOptions {
            theme,
            colors,
            ..TerminalOptions::default()
        };
        let options = HarnessOptions {
            facets: vec![full()],
            terminal,
            ..HarnessOptions::default()
        };
        let tui = TuiHarness::start(options).await.unwrap();
        let screen = tui.screen();
        let (x, y) = screen.find("a model").unwrap();
        screen.style(x, y).fg
    };
    let shown = [
        color(ThemeChoice::Dark, ColorDepth::TrueColor).await,
        color(ThemeChoice::Light, ColorDepth::TrueColor).await,
        color(ThemeChoice::Dark, ColorDepth::Ansi16).await,
        color(ThemeChoice::Dark, ColorDepth::None).await,
    ];
    let status = |theme: Theme| match theme.look(Role::Status).foreground {
        Some(ThemeColor::Rgb(red, green, blue)) => Color::Rgb(red, green, blue),
        other => panic!("{other:?}"),
    };
    let expected = [status(dark()), status(light()), Color::Gray, Color::Reset];
    assert_ne!(expected[0], expected[1]);
    assert_eq!(shown, expected.map(Some));
}

#[tokio::test(start_paused = true)]
async fn the_automatic_theme_follows_what_the_terminal_answers() {
    let terminal = TerminalOptions {
        theme: ThemeChoice::Auto,
        ..TerminalOptions::default()
    };
    let options = HarnessOptions {
        facets: vec![full()],
        terminal,
        ..HarnessOptions::default()
    };
    let tui = TuiHarness::start(options).await.unwrap();
    let color = |screen: &crate::Screen| {
        let (x, y) = screen.find("a model").unwrap();
        screen.style(x, y).fg
    };
    let dark = color(&tui.screen());
    let answer = vec![TerminalEvent::Reply(Reply::Background(250, 250, 240))];
    let light = color(&tui.send(crate::device::DeviceEvent::Input(answer)).await);
    assert_ne!(dark, light);
    assert!(light.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_title_in_a_frame_is_bold_in_the_accent() {
    let tui = harness(vec![full()]).await;
    tui.press("f1").await;
    let screen = tui.wait_for_text("Help").await;
    let (x, y) = screen.find("Help").unwrap();
    assert!(screen.style(x, y).add_modifier.contains(Modifier::BOLD));
    insta::assert_snapshot!(screen.text());
}
