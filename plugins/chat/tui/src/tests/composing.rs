//! Writing in the composer.

use bezel_api_tui::{Launch, MouseButton, MouseEventKind};

use super::support::{Stage, text, waited};

#[tokio::test]
async fn an_empty_composer_invites() {
    let stage = Stage::attached().await;
    let screen = stage.tui.wait_for_text("Ask for a change").await;
    insta::assert_snapshot!(screen.text().trim_start());
    assert_eq!(screen.cursor(), Some((2, 21)));
}

#[tokio::test]
async fn in_a_narrow_terminal_the_invitation_says_that_it_goes_on() {
    let stage = Stage::attached().await;
    stage.tui.resize(24, 10).await;
    stage.tui.wait_for_text("Ask for a change · @ …").await;
}

#[tokio::test]
async fn several_lines_grow_the_composer_up_to_a_third() {
    let stage = Stage::attached().await;
    stage.tui.type_text("one").await;
    stage.tui.press("shift+enter").await;
    stage.tui.type_text("two").await;
    stage.tui.press("ctrl+j").await;
    stage.tui.type_text("three\\\n").await;
    let screen = stage.tui.type_text("four").await;
    assert_eq!(Stage::written(&screen), "one\ntwo\nthree\nfour");
    assert_eq!(screen.cursor(), Some((6, 21)));
    stage.tui.paste("a\nb\nc\nd\ne\nf").await;
    let screen = stage.tui.press("ctrl+j").await;
    assert_eq!(Stage::written(&screen).split('\n').count(), 8);
    stage.tui.type_text("last").await;
    stage.tui.press("enter").await;
    assert_eq!(
        text(&stage.played.prompted(1).await[0]),
        "one\ntwo\nthree\nfoura\nb\nc\nd\ne\nf\nlast"
    );
}

#[tokio::test]
async fn a_long_paste_is_short_on_the_screen_and_whole_when_sent() {
    let stage = Stage::attached().await;
    stage.tui.type_text("explain ").await;
    let long: String = (1..=123).map(|line| format!("line {line}\n")).collect();
    let screen = stage.tui.paste(&long).await;
    assert_eq!(Stage::written(&screen), "explain [pasted 123 lines]");
    stage.tui.press("enter").await;
    let sent = text(&stage.played.prompted(1).await[0]);
    assert!(
        sent.starts_with("explain line 1\n") && sent.ends_with("line 123"),
        "{sent}"
    );
}

#[tokio::test]
async fn a_picture_is_attached_by_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("my shot.png");
    std::fs::write(&path, b"\x89PNG\r\n\x1a\nrest").unwrap();
    let stage = Stage::attached().await;
    stage.tui.type_text("what is ").await;
    stage.tui.paste(&format!("'{}'", path.display())).await;
    stage.tui.wait_for_text("what is [image my shot.png]").await;
    stage.tui.type_text("?").await;
    stage.tui.press("enter").await;
    assert_eq!(
        text(&stage.played.prompted(1).await[0]),
        "what is<image/png>?"
    );
    // What only looks like a path stays text.
    stage.tui.paste("/nowhere/at/all.png").await;
    stage.tui.wait_for_text("/nowhere/at/all.png").await;
}

#[tokio::test]
async fn files_are_completed_after_an_at_sign() {
    let stage = Stage::attached().await;
    stage.tui.type_text("look at @ma").await;
    let screen = stage.tui.wait_for_text("src/main.rs").await;
    assert!(screen.contains("› src/main.rs"), "{}", screen.text());
    let screen = stage.tui.press("tab").await;
    assert_eq!(Stage::written(&screen), "look at @src/main.rs");
    assert!(!screen.contains("› src/main.rs"), "{}", screen.text());
    stage.tui.type_text("and @notes").await;
    stage.tui.wait_for_text("docs/my notes.md").await;
    stage.tui.press("enter").await;
    stage.tui.press("enter").await;
    assert_eq!(
        text(&stage.played.prompted(1).await[0]),
        "look at @src/main.rs and @\"docs/my notes.md\""
    );
}

#[tokio::test]
async fn a_directory_is_a_step_and_esc_closes_the_list_for_this_word() {
    let stage = Stage::attached().await;
    stage.tui.type_text("@src").await;
    let screen = stage.tui.wait_for_text("src/lib.rs").await;
    insta::assert_snapshot!(screen.text().trim_start());
    stage.tui.press("up").await;
    stage.tui.press("tab").await;
    waited(&stage.played.searched, |searched| {
        searched.last().is_some_and(|query| query == "src/")
    })
    .await;
    stage
        .tui
        .wait_for(|screen| Stage::written(screen) == "@src/" && screen.contains("src/lib.rs"))
        .await;
    stage.tui.press("esc").await;
    let screen = stage.tui.type_text("li").await;
    assert!(!screen.contains("src/lib.rs"), "{}", screen.text());
    stage.tui.type_text(" @li").await;
    stage.tui.wait_for_text("src/lib.rs").await;
}

#[tokio::test]
async fn commands_are_completed_and_run() {
    let stage = Stage::attached().await;
    let screen = stage.tui.type_text("/").await;
    assert!(
        screen.contains("/compact [what matters]") && screen.contains("/help"),
        "{}",
        screen.text()
    );
    insta::assert_snapshot!(screen.text().trim_start());
    let screen = stage.tui.type_text("gr").await;
    assert!(screen.contains("› /greet <name>"), "{}", screen.text());
    // It needs an argument: enter only completes its name.
    let screen = stage.tui.press("enter").await;
    assert_eq!(Stage::written(&screen), "/greet");
    stage.tui.type_text("Ada\n").await;
    let screen = stage.tui.wait_for_text("hello Ada").await;
    assert!(screen.contains("Ask for a change"), "{}", screen.text());
    stage.tui.type_text("/comp\n").await;
    assert_eq!(
        waited(&stage.played.compacted, |compacted| !compacted.is_empty()).await,
        [None]
    );
    stage.tui.type_text("/compact keep the plan\n").await;
    let compacted = waited(&stage.played.compacted, |compacted| compacted.len() == 2).await;
    assert_eq!(compacted[1].as_deref(), Some("keep the plan"));
    assert!(stage.played.prompts.borrow().is_empty());
}

#[tokio::test]
async fn a_mistyped_command_is_kept_and_a_path_is_text() {
    let stage = Stage::attached().await;
    stage.tui.type_text("/nonsense please\n").await;
    let screen = stage
        .tui
        .wait_for_text("there is no command /nonsense")
        .await;
    assert_eq!(Stage::written(&screen), "/nonsense please");
    stage.tui.press("ctrl+u").await;
    stage.tui.type_text("/etc/hosts is wrong\n").await;
    assert_eq!(
        text(&stage.played.prompted(1).await[0]),
        "/etc/hosts is wrong"
    );
}

#[tokio::test]
async fn a_command_that_is_only_similar_does_not_run_unless_it_is_chosen() {
    let stage = Stage::attached().await;
    // Letters of /compact in this order, and no beginning of it.
    let screen = stage.tui.type_text("/cpct").await;
    assert!(screen.contains("/compact"), "{}", screen.text());
    stage.tui.press("enter").await;
    let screen = stage.tui.wait_for_text("there is no command /cpct").await;
    assert_eq!(Stage::written(&screen), "/cpct");
    assert!(stage.played.compacted.borrow().is_empty());
    stage.tui.press("ctrl+u").await;
    stage.tui.type_text("/cpct").await;
    stage.tui.press("down").await;
    stage.tui.press("up").await;
    stage.tui.press("enter").await;
    waited(&stage.played.compacted, |compacted| !compacted.is_empty()).await;
}

#[tokio::test]
async fn a_question_mark_in_an_empty_composer_opens_the_help() {
    let stage = Stage::attached().await;
    stage.tui.press("?").await;
    stage.tui.wait_for_text("Help").await;
    stage.tui.press("esc").await;
    let screen = stage.tui.type_text("why?").await;
    assert_eq!(Stage::written(&screen), "why?");
}

#[tokio::test]
async fn a_refused_compaction_says_why() {
    let stage = Stage::attached().await;
    stage.played.refuse("nothing said yet");
    stage.tui.type_text("/compact\n").await;
    stage.tui.wait_for_text("nothing said").await;
}

#[tokio::test]
async fn earlier_messages_come_back() {
    let stage = Stage::attached().await;
    stage.played.say(&["from before"]);
    stage.tui.type_text("just now\n").await;
    stage.played.prompted(1).await;
    stage.tui.type_text("draft").await;
    let written = async |key: &str| Stage::written(&stage.tui.press(key).await);
    assert_eq!(written("up").await, "just now");
    assert_eq!(written("up").await, "from before");
    assert_eq!(written("up").await, "from before");
    assert_eq!(written("down").await, "just now");
    assert_eq!(written("down").await, "draft");
}

#[tokio::test]
async fn esc_twice_clears_and_the_text_can_be_had_back() {
    let stage = Stage::attached().await;
    stage.tui.type_text("never mind").await;
    let screen = stage.tui.press("esc").await;
    assert!(screen.contains("esc again to clear"), "{}", screen.text());
    assert_eq!(Stage::written(&screen), "never mind");
    let screen = stage.tui.press("esc").await;
    assert!(screen.contains("Ask for a change"), "{}", screen.text());
    let screen = stage.tui.press("up").await;
    assert_eq!(Stage::written(&screen), "never mind");
    let screen = stage.tui.press("ctrl+c").await;
    assert!(screen.contains("Ask for a change"), "{}", screen.text());
}

#[tokio::test(start_paused = true)]
async fn esc_twice_in_an_empty_line_looks_back_and_once_or_slowly_does_not() {
    let stage = Stage::detached(Launch::default()).await;
    stage.tui.press("esc").await;
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    let screen = stage.tui.press("esc").await;
    assert!(!screen.contains("the tree"), "{}", screen.text());
    stage.tui.press("esc").await;
    stage.tui.wait_for_text("the tree is open").await;
}

#[tokio::test(start_paused = true)]
async fn esc_alone_clears_nothing_after_a_second() {
    let stage = Stage::detached(Launch::default()).await;
    stage.tui.type_text("keep me").await;
    stage.tui.press("esc").await;
    let screen = stage
        .tui
        .wait_for(|screen| !screen.contains("again to clear"))
        .await;
    assert_eq!(Stage::written(&screen), "keep me");
    let screen = stage.tui.press("esc").await;
    assert_eq!(Stage::written(&screen), "keep me");
}

#[tokio::test]
async fn keys_of_emacs_edit() {
    let stage = Stage::attached().await;
    stage.tui.type_text("one two three").await;
    let written = async |key: &str| Stage::written(&stage.tui.press(key).await);
    assert_eq!(written("ctrl+w").await, "one two");
    assert_eq!(written("ctrl+a").await, "one two");
    assert_eq!(written("alt+d").await, " two");
    assert_eq!(written("ctrl+y").await, "one two");
    assert_eq!(written("ctrl+k").await, "one");
    assert_eq!(written("ctrl+/").await, "one two");
    stage.tui.press("alt+b").await;
    stage.tui.press("ctrl+d").await;
    assert_eq!(written("ctrl+e").await, "ne two");
    assert_eq!(written("alt+backspace").await, "ne");
    assert_eq!(
        written("ctrl+u").await,
        "Ask for a change · @ for files · / for commands"
    );
}

#[tokio::test]
async fn a_click_places_the_cursor() {
    let stage = Stage::attached().await;
    stage.tui.type_text("hello").await;
    let screen = stage
        .tui
        .mouse(MouseEventKind::Down(MouseButton::Left), 4, 21)
        .await;
    assert_eq!(screen.cursor(), Some((4, 21)));
    let screen = stage.tui.type_text("X").await;
    assert_eq!(Stage::written(&screen), "heXllo");
}

#[tokio::test]
async fn a_resize_keeps_the_text_and_breaks_it_anew() {
    let stage = Stage::attached().await;
    stage
        .tui
        .type_text("the quick brown fox jumps over the lazy dog")
        .await;
    let screen = stage.tui.resize(24, 12).await;
    assert_eq!(
        Stage::written(&screen),
        "the quick brown fox\njumps over the lazy\ndog"
    );
    let screen = stage.tui.resize(100, 30).await;
    assert_eq!(
        Stage::written(&screen),
        "the quick brown fox jumps over the lazy dog"
    );
}

#[tokio::test]
async fn files_are_looked_for_again_once_there_is_a_session() {
    let mut stage = Stage::detached(Launch::default()).await;
    stage.tui.type_text("@lib").await;
    stage.attach("one").await;
    stage.tui.wait_for_text("src/lib.rs").await;
}
