//! Lost connections and workers.

use bezel_sessions_contract::{RenewError, Renewal};

use super::support::Stage;

#[tokio::test]
async fn after_a_lost_connection_the_same_session_is_attached_again() {
    let stage = Stage::open("a1").await;
    assert!(stage.server.cut().await);
    let screen = stage.tui.wait_for_text("reconnecting").await;
    assert!(
        screen.row(0).contains("Fix the parser"),
        "{}",
        screen.text()
    );
    // The list is what was known last; it can still be looked at.
    stage.tui.press("ctrl+x s").await;
    stage.tui.wait_for_text("Try a new lexer").await;
    stage.tui.press("esc").await;
    stage.server.restore();
    stage
        .called(|calls| {
            calls
                .iter()
                .filter(|call| *call == "attach a1 with 2")
                .count()
                == 2
        })
        .await;
    stage.tui.wait_for_text("●").await;
}

#[tokio::test]
async fn a_worker_that_died_is_started_again_and_after_some_times_the_person_decides() {
    let mut stage = Stage::open("a1").await;
    // The server attaches, and no worker comes.
    let worker = stage.worker("a1");
    worker.stop().await;
    let attaches = |calls: &[String]| {
        calls
            .iter()
            .filter(|call| *call == "attach a1 with 2")
            .count()
    };
    stage.called(|calls| attaches(calls) == 2).await;
    stage.tui.wait_for_text("starting the session…").await;
    for round in 0..3 {
        let worker = stage.server.worker("a1");
        worker.activate();
        stage.tui.wait_for_text("●").await;
        worker.stop().await;
        if round < 2 {
            stage.called(|calls| attaches(calls) == round + 3).await;
            stage.tui.wait_for_text("starting the session…").await;
        }
    }
    let screen = stage
        .tui
        .wait_for_text("✗ the session stopped /restart")
        .await;
    assert!(
        screen.row(0).contains("Fix the parser"),
        "{}",
        screen.text()
    );
    assert_eq!(attaches(&stage.played.calls.borrow()), 4);
    stage.tui.press("f6").await;
    stage.called(|calls| attaches(calls) == 5).await;
    let worker = stage.server.worker("a1");
    worker.activate();
    stage.tui.wait_for_text("●").await;
}

#[tokio::test]
async fn a_session_that_somebody_else_deleted_is_not_opened_again_and_again() {
    let stage = Stage::open("a1").await;
    stage.played.change(|state| {
        state
            .sessions
            .retain(|known| known.session_id.as_str() != "a1")
    });
    stage.server.detach().await.unwrap();
    stage.tui.wait_for_text("the session was deleted").await;
    stage.tui.wait_for_text("no session /new").await;
    let calls = stage.played.calls.borrow().len();
    stage.tui.press("f3").await;
    stage.tui.wait_for_text("●").await;
    assert_eq!(stage.played.calls.borrow().len(), calls + 2);
}

#[tokio::test]
async fn opening_a_session_lets_its_process_give_way_to_one_of_now() {
    let mut stage = Stage::open("a2").await;
    *stage.played.renewal.lock().unwrap() = Ok(Renewal::Ending);
    stage.tui.press("ctrl+x s").await;
    stage.tui.wait_for_text("Fix the parser").await;
    stage.tui.type_text("parser").await;
    stage.tui.press("enter").await;
    stage
        .called(|calls| {
            calls.ends_with(&[
                "attach a1 with 2".into(),
                "renew if it differs with 2".into(),
            ])
        })
        .await;
    stage.worker("a1").stop().await;
    stage
        .called(|calls| calls.last().is_some_and(|call| call == "attach a1 with 2"))
        .await;
    let worker = stage.server.worker("a1");
    worker.activate();
    stage.tui.wait_for_text("●").await;
}

#[tokio::test]
async fn the_process_of_an_open_session_can_be_started_again_unless_something_runs_in_it() {
    let mut stage = Stage::open("a1").await;
    let asked = |calls: &[String]| {
        calls
            .last()
            .is_some_and(|call| call == "renew always with 2")
    };
    let reason = "occupied".to_owned();
    *stage.played.renewal.lock().unwrap() = Err(RenewError::Busy { reason });
    stage.tui.press("f6").await;
    stage.called(asked).await;
    stage.tui.wait_for_text("occupied").await;
    *stage.played.renewal.lock().unwrap() = Ok(Renewal::Ending);
    stage.tui.press("f6").await;
    stage
        .called(|calls| {
            calls
                .iter()
                .filter(|call| *call == "renew always with 2")
                .count()
                == 2
        })
        .await;
    stage.worker("a1").stop().await;
    stage
        .called(|calls| calls.last().is_some_and(|call| call == "attach a1 with 2"))
        .await;
}
