//! Dialogs as a person meets them.

use std::sync::{Arc, Mutex};

use bezel_api_tui::{
    Ask, AskOption, Confirm, Facet, Input, Message, MouseButton, MouseEventKind, Overlay,
    OverlayPlacement, Select, SelectFeed, SelectItem, Toast, TuiContext,
};

use super::support::{Label, basics, command, facet, harness};
use crate::{Screen, TuiHarness};

fn fruits() -> Select<&'static str> {
    let item = |name, color: &str| {
        SelectItem::new(name, name)
            .detail(color)
            .group(if name < "d" { "First" } else { "Second" })
    };
    Select::new("Fruit").items([
        item("apple", "red"),
        item("banana", "yellow"),
        item("damson", "blue"),
        item("elderberry", "black").current(true),
    ])
}

/// Opens a dialog at once and shows its result as a toast.
fn asks<F, Fut>(ask: F) -> Vec<Facet<TuiContext>>
where
    F: Fn(TuiContext, bezel_context::Context) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = String> + Send + 'static,
{
    let asking = facet("asking", move |cx| {
        let (context, ask) = (cx.clone(), ask.clone());
        cx.commands.add(command("ask", "Ask", move |cx, _| {
            let (ui, answer) = (context.ui.clone(), ask(context.clone(), cx));
            async move {
                ui.toast(Toast::info(format!("answer: {}", answer.await)));
                Ok(())
            }
        }));
        let commands = cx.commands.clone();
        cx.on_activate(move || {
            commands.run("ask", Default::default());
            async { Ok(()) }
        });
        Ok(())
    });
    vec![basics(), asking]
}

async fn asked<F, Fut>(ask: F) -> TuiHarness
where
    F: Fn(TuiContext, bezel_context::Context) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = String> + Send + 'static,
{
    harness(asks(ask)).await
}

async fn answer(tui: &TuiHarness) -> String {
    let screen = tui.wait_for_text("answer: ").await;
    let row = (0..24)
        .map(|y| screen.row(y))
        .find(|row| row.contains("answer: "))
        .unwrap();
    row.split("answer: ").nth(1).unwrap().to_owned()
}

async fn select_fruit() -> TuiHarness {
    let tui = asked(|cx, context| async move {
        let select = fruits().action("ctrl+d", "delete").unwrap();
        format!(
            "{:?}",
            cx.ui
                .select(&context, select)
                .await
                .map(|chosen| (chosen.value, chosen.action))
        )
    })
    .await;
    tui.wait_for_text("Fruit").await;
    tui
}

#[tokio::test(start_paused = true)]
async fn a_list_shows_its_groups_and_what_is_in_use() {
    let tui = select_fruit().await;
    insta::assert_snapshot!(tui.screen().text());
    tui.press("enter").await;
    assert_eq!(answer(&tui).await, "Some((\"elderberry\", None))");
}

#[tokio::test(start_paused = true)]
async fn a_list_is_searched_by_typing() {
    let tui = select_fruit().await;
    let screen = tui.type_text("ban").await;
    assert!(
        screen.contains("1/4") && screen.contains("banana") && !screen.contains("apple"),
        "{}",
        screen.text()
    );
    assert!(tui.type_text("zz").await.contains("nothing matches"));
    tui.press("backspace").await;
    tui.press("backspace").await;
    tui.press("enter").await;
    assert_eq!(answer(&tui).await, "Some((\"banana\", None))");
}

#[tokio::test(start_paused = true)]
async fn arrows_go_round_and_an_action_key_ends_with_its_name() {
    let tui = select_fruit().await;
    tui.press("down down").await;
    tui.press("ctrl+d").await;
    assert_eq!(answer(&tui).await, "Some((\"banana\", Some(\"delete\")))");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_a_list_was_given_goes_before_the_keys_of_every_list() {
    let tui = asked(|cx, context| async move {
        let select = fruits().action("ctrl+n", "new").unwrap();
        let chosen = cx.ui.select(&context, select).await;
        format!("{:?}", chosen.map(|chosen| (chosen.value, chosen.action)))
    })
    .await;
    tui.wait_for_text("Fruit").await;
    // What it was not given steps as ever.
    tui.press("ctrl+j").await;
    tui.press("ctrl+n").await;
    assert_eq!(answer(&tui).await, "Some((\"apple\", Some(\"new\")))");
}

#[tokio::test(start_paused = true)]
async fn keys_that_one_row_has_no_room_for_are_named_over_several() {
    let tui = asked(|cx, context| async move {
        let mut select = fruits();
        for (chord, name) in [
            ("ctrl+r", "rename"),
            ("ctrl+d", "delete"),
            ("ctrl+s", "archive"),
        ] {
            select = select.action(chord, name).unwrap();
        }
        cx.ui.select(&context, select).await;
        String::new()
    })
    .await;
    let screen = tui.wait_for_text("Fruit").await;
    insta::assert_snapshot!(screen.text());
    let narrow = tui.resize(40, 24).await;
    for key in [
        "ctrl+r rename",
        "ctrl+d delete",
        "ctrl+s archive",
        "enter choose",
        "esc cancel",
    ] {
        assert!(narrow.contains(key), "{key} is not in\n{}", narrow.text());
    }
    // A low screen has rows for the list first.
    let low = tui.resize(40, 7).await;
    assert!(
        low.contains("elderberry") && low.contains("ctrl+r rename"),
        "{}",
        low.text()
    );
}

#[tokio::test(start_paused = true)]
async fn a_click_chooses_and_esc_cancels() {
    let tui = select_fruit().await;
    let (x, y) = tui.screen().find("damson").unwrap();
    tui.mouse(MouseEventKind::Down(MouseButton::Left), x, y)
        .await;
    assert_eq!(answer(&tui).await, "Some((\"damson\", None))");
    let tui = select_fruit().await;
    let screen = tui.press("esc").await;
    assert_eq!(answer(&tui).await, "None");
    assert!(!screen.contains("Fruit"), "{}", screen.text());
}

#[tokio::test(start_paused = true)]
async fn items_that_arrive_later_keep_what_is_selected() {
    let feed: Arc<Mutex<Option<SelectFeed<u8>>>> = Arc::default();
    let kept = Arc::clone(&feed);
    let tui = asked(move |cx, context| {
        let kept = Arc::clone(&kept);
        async move {
            let select = Select::new("Numbers")
                .item(SelectItem::new("one", 1_u8))
                .item(SelectItem::new("two", 2));
            *kept.lock().unwrap() = Some(select.feed());
            select.feed().loading(true);
            format!(
                "{:?}",
                cx.ui
                    .select(&context, select)
                    .await
                    .map(|chosen| chosen.value)
            )
        }
    })
    .await;
    tui.wait_for_text("⠋ 2").await;
    tui.press("down").await;
    let feed = feed.lock().unwrap().take().unwrap();
    feed.loading(false);
    feed.replace([
        SelectItem::new("one", 10),
        SelectItem::new("two", 20),
        SelectItem::new("three", 30),
    ]);
    tui.wait_for_text("three").await;
    tui.press("enter").await;
    assert_eq!(answer(&tui).await, "Some(20)");
}

#[tokio::test(start_paused = true)]
async fn a_preview_stands_beside_the_list_where_there_is_room() {
    let facets = asks(|cx, context| async move {
        let item = |name: &'static str| {
            SelectItem::new(name, name).preview(format!("# About {name}\n\nText of *{name}*."))
        };
        let select = Select::new("Pages").items([item("first"), item("second")]);
        format!(
            "{:?}",
            cx.ui
                .select(&context, select)
                .await
                .map(|chosen| chosen.value)
        )
    });
    let options = crate::HarnessOptions {
        facets,
        size: (120, 40),
        ..Default::default()
    };
    let tui = TuiHarness::start(options).await.unwrap();
    tui.wait_for_text("About first").await;
    let screen = tui.press("down").await;
    assert!(screen.contains("Text of second."));
    insta::assert_snapshot!(screen.text());
}

#[tokio::test(start_paused = true)]
async fn a_line_is_asked_for_and_refused_until_it_passes() {
    let tui = asked(|cx, context| async move {
        let check = |text: &str| (text.len() < 3).then(|| "At least three letters.".to_owned());
        let input = Input::new("Name")
            .prompt("What is it called?")
            .placeholder("name")
            .check(check);
        format!("{:?}", cx.ui.input(&context, input).await)
    })
    .await;
    tui.wait_for_text("What is it called?").await;
    tui.type_text("ab").await;
    let refused = tui.press("enter").await;
    insta::assert_snapshot!(refused.text());
    assert!(!tui.type_text("c").await.contains("At least"));
    tui.press("enter").await;
    assert_eq!(answer(&tui).await, "Some(\"abc\")");
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_never_on_the_screen() {
    let tui = asked(|cx, context| async move {
        format!(
            "{:?}",
            cx.ui.input(&context, Input::new("Key").secret()).await
        )
    })
    .await;
    tui.wait_for_text("Key").await;
    let screen = tui.type_text("hunter2").await;
    assert!(screen.contains("•••••••") && !screen.contains("hunter2"));
    assert_eq!(
        screen.cursor().map(|(x, _)| x),
        screen.find("•").map(|(x, _)| x + 7)
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_by_key_letter_or_button() {
    let ask = || {
        asked(|cx, context| async move {
            let confirm = Confirm::new("Delete", "**Really** delete it?")
                .labels("Delete", "Keep")
                .danger();
            cx.ui.confirm(&context, confirm).await.to_string()
        })
    };
    let tui = ask().await;
    let screen = tui.wait_for_text("Really delete it?").await;
    insta::assert_snapshot!(screen.text());
    tui.press("enter").await;
    assert_eq!(answer(&tui).await, "false");
    let tui = ask().await;
    tui.wait_for_text("Really").await;
    tui.press("d").await;
    assert_eq!(answer(&tui).await, "true");
    let tui = ask().await;
    let screen = tui.wait_for_text("Really").await;
    let (x, y) = (0..24)
        .filter_map(|y| Some((screen.row(y).find("Delete  ")?, y)))
        .next_back()
        .unwrap();
    let x = u16::try_from(screen.row(y)[..x].chars().count()).unwrap();
    tui.mouse(MouseEventKind::Down(MouseButton::Left), x, y)
        .await;
    assert_eq!(answer(&tui).await, "true");
}

#[tokio::test(start_paused = true)]
async fn a_message_is_read_scrolled_and_closed() {
    let body = (1..60)
        .map(|number| format!("- line {number}"))
        .collect::<Vec<_>>()
        .join("\n");
    let tui = asked(move |cx, context| {
        let body = body.clone();
        async move {
            cx.ui.message(&context, Message::new("Read", body)).await;
            "read".into()
        }
    })
    .await;
    tui.wait_for_text("line 1").await;
    assert!(tui.press("end").await.contains("line 59"));
    tui.press("enter").await;
    assert_eq!(answer(&tui).await, "read");
}

#[tokio::test(start_paused = true)]
async fn a_dialog_goes_when_nobody_waits_for_it_any_more() {
    let tui = asked(|cx, context| async move {
        let short = context.with_timeout(std::time::Duration::from_secs(1));
        format!(
            "{:?}",
            cx.ui
                .select(&short, fruits())
                .await
                .map(|chosen| chosen.value)
        )
    })
    .await;
    tui.wait_for_text("Fruit").await;
    assert_eq!(answer(&tui).await, "None");
    tui.wait_for(|screen| !screen.contains("Fruit")).await;
}

#[tokio::test(start_paused = true)]
async fn while_a_dialog_is_open_nobody_else_gets_keys() {
    let tui = select_fruit().await;
    let screen = tui.type_text("app").await;
    assert!(screen.row(23).starts_with('-'), "{}", screen.text());
    assert!(
        !screen.contains("- app") && !screen.contains("> app"),
        "{}",
        screen.text()
    );
    let screen = tui.press("esc").await;
    assert!(
        screen.row(23).starts_with('>'),
        "the composer has the focus again: {}",
        screen.text()
    );
    assert!(tui.type_text("x").await.contains("> x"));
}

#[tokio::test(start_paused = true)]
async fn overlays_tell_their_holder_when_they_have_closed() {
    let tui = asked(|cx, _| async move {
        let handle = cx.ui.open(
            Overlay::new(Label::new("within"))
                .title("Above")
                .hints("esc close"),
        );
        handle.closed().await;
        handle.is_closed().to_string()
    })
    .await;
    let screen = tui.wait_for_text("within").await;
    insta::assert_snapshot!(screen.text());
    // The view does not use esc, so the host closes it.
    tui.press("esc").await;
    assert_eq!(answer(&tui).await, "true");
}

#[tokio::test(start_paused = true)]
async fn a_passive_overlay_above_the_composer_leaves_it_the_keys() {
    let tui = asked(|cx, _| async move {
        let mut list = Label::new("completion");
        list.rows = 3;
        let overlay = Overlay::new(list)
            .placement(OverlayPlacement::AboveComposer { height: 8 })
            .passive();
        cx.ui.open(overlay).closed().await;
        String::new()
    })
    .await;
    tui.wait_for_text("completion 2").await;
    let screen = tui.type_text("typed").await;
    assert!(screen.row(23).starts_with("> typed"), "{}", screen.text());
    assert_eq!(screen.find("completion 2").map(|(_, y)| y), Some(21));
}

#[tokio::test(start_paused = true)]
async fn every_key_and_command_is_in_the_help_and_can_be_searched() {
    let tui = harness(vec![
        basics(),
        facet("helpful", |cx| {
            cx.commands
                .add(command("helpful.go", "Go somewhere", |_, _| async { Ok(()) }).slash("go"));
            cx.keybindings
                .add(bezel_api_tui::Binding::new("ctrl+x g", "helpful.go")?);
            cx.help
                .add("Composer", &[("shift+enter, ctrl+j", "New line")])?;
            Ok(())
        }),
    ])
    .await;
    tui.press("f1").await;
    let screen = tui.wait_for_text("Help").await;
    for text in [
        "Composer",
        "shift+enter, ctrl+j",
        "New line",
        "ctrl+x g",
        "Go somewhere  /go",
        "f1, ?",
    ] {
        assert!(screen.contains(text), "{text} is not in\n{}", screen.text());
    }
    let screen = tui.type_text("somewhere").await;
    assert!(screen.contains("ctrl+x g") && !screen.contains("New line"));
    assert!(!tui.press("esc").await.contains("Help"));
}

#[tokio::test(start_paused = true)]
async fn the_palette_starts_what_is_chosen() {
    let tui = harness(vec![
        basics(),
        facet("helpful", |cx| {
            let ui = cx.ui.clone();
            cx.commands.add(
                command("helpful.go", "Go somewhere", move |_, _| {
                    ui.toast("went");
                    async { Ok(()) }
                })
                .slash("go")
                .description("Travels."),
            );
            cx.keybindings
                .add(bezel_api_tui::Binding::new("ctrl+x g", "helpful.go")?);
            cx.commands
                .add(command("helpful.off", "Not now", |_, _| async { Ok(()) }).enabled(|| false));
            Ok(())
        }),
    ])
    .await;
    tui.press("ctrl+p").await;
    let screen: Screen = tui.wait_for_text("Commands").await;
    assert!(
        screen.contains("/go  ctrl+x g") && !screen.contains("Not now"),
        "{}",
        screen.text()
    );
    tui.type_text("travel").await;
    tui.press("enter").await;
    tui.wait_for_text("went").await;
}

/// Asks by itself, as plugins do, some time after the start.
async fn asks_later(after: u64) -> TuiHarness {
    let asking = facet("asking", move |cx| {
        let ui = cx.ui.clone();
        cx.spawner().spawn("asking", async move {
            tokio::time::sleep(std::time::Duration::from_millis(after)).await;
            let ask = Ask::new("May it run?", "`touch x`")
                .option(AskOption::new("Once").key('y'))
                .option(AskOption::new("Always").key('a'));
            let answer = ui.ask(&bezel_context::Context::background(), ask).await;
            ui.toast(Toast::info(format!("answer: {answer:?}")));
        });
        Ok(())
    });
    harness(vec![basics(), asking]).await
}

#[tokio::test(start_paused = true)]
async fn what_is_typed_when_a_question_comes_answers_nothing_and_goes_on_in_the_composer() {
    for pace in [300, 700, 1_100] {
        let tui = asks_later(1_000).await;
        for typed in 1..=12 {
            tokio::time::sleep(std::time::Duration::from_millis(pace)).await;
            let screen = tui.type_text("a").await;
            let line = format!("> {}", "a".repeat(typed));
            assert!(screen.contains(&line), "{pace}: {}", screen.text());
            assert!(!screen.contains("answer:"), "{pace}: {}", screen.text());
        }
        // After a pause it comes, and takes its letters once it was there to be seen.
        tui.wait_for_text("May it run?").await;
        tokio::time::sleep(std::time::Duration::from_millis(1_300)).await;
        tui.press("a").await;
        assert_eq!(answer(&tui).await, "Some(Option(1))");
    }
}

#[tokio::test(start_paused = true)]
async fn the_letters_of_a_chord_answer_no_question() {
    let tui = asks_later(1_000).await;
    tui.wait_for_text("May it run?").await;
    tokio::time::sleep(std::time::Duration::from_millis(1_300)).await;
    for chord in ["ctrl+x a", "ctrl+x ctrl+x", "ctrl+x y"] {
        let screen = tui.press(chord).await;
        assert!(screen.contains("May it run?"), "{chord}: {}", screen.text());
        assert!(!screen.contains("answer:"), "{chord}: {}", screen.text());
    }
    tui.press("a").await;
    assert_eq!(answer(&tui).await, "Some(Option(1))");
}
