//! `/fork`: a copy of the open session is made and opened.

use bezel_sessions_contract::SessionError;

use super::support::Stage;

#[tokio::test]
async fn a_fork_asks_what_to_take_and_opens_the_copy() {
    for (keys, taken) in [("enter", "fork path"), ("down enter", "fork all")] {
        let stage = Stage::open("a1").await;
        stage.tui.press("f8").await;
        let screen = stage.tui.wait_for_text("The whole tree").await;
        assert!(screen.contains("This path"), "{}", screen.text());
        for key in keys.split(' ') {
            stage.tui.press(key).await;
        }
        let calls = stage
            .called(|calls| calls.contains(&"attach fresh with 2".into()))
            .await;
        assert!(calls.contains(&taken.into()), "{calls:?}");
        stage.tui.wait_for_text("this is the new session").await;
        let screen = stage.tui.wait_for_text("A copy").await;
        assert!(screen.row(0).contains("A copy"), "{}", screen.text());
    }
}

#[tokio::test]
async fn a_fork_that_is_not_wanted_or_refused_leaves_the_session_open() {
    let stage = Stage::open("a1").await;
    stage.tui.press("f8").await;
    stage.tui.wait_for_text("The whole tree").await;
    stage.tui.press("esc").await;
    let message = "nothing there".to_owned();
    *stage.played.refuse.lock().unwrap() = Some(SessionError::Invalid { message });
    stage.tui.press("f8").await;
    stage.tui.wait_for_text("The whole tree").await;
    stage.tui.press("enter").await;
    let screen = stage.tui.wait_for_text("nothing to copy yet").await;
    assert!(
        screen.row(0).contains("Fix the parser"),
        "{}",
        screen.text()
    );
    let calls = stage.played.calls.borrow().clone();
    assert!(
        !calls.iter().any(|call| call.starts_with("fork")),
        "{calls:?}"
    );
}
