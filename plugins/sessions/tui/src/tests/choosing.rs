//! Switching, creating, renaming, deleting.

use bezel_sessions_contract::SessionError;

use super::support::{Stage, still};

#[tokio::test]
async fn the_picker_shows_the_current_project_first_and_switches() {
    let stage = Stage::open("b1").await;
    stage.tui.press("ctrl+x s").await;
    let screen = stage.tui.wait_for_text("Other projects").await;
    insta::assert_snapshot!(still(&screen));
    stage.tui.type_text("docs").await;
    stage.tui.press("enter").await;
    stage
        .called(|calls| calls.contains(&"attach a2 with 2".into()))
        .await;
    let screen = stage
        .tui
        .wait_for(|screen| screen.row(0).contains("Write the docs"))
        .await;
    assert!(!screen.contains("Other projects"), "{}", screen.text());
    assert!(
        stage.tui.controls().contains("Write the docs · bezel"),
        "the terminal's title follows"
    );
}

#[tokio::test]
async fn sessions_are_created_and_renamed() {
    let stage = Stage::open("a1").await;
    stage.tui.press("f3").await;
    stage
        .called(|calls| calls.ends_with(&["create".into(), "attach fresh with 2".into()]))
        .await;
    stage
        .tui
        .wait_for(|screen| screen.row(0).contains("new session"))
        .await;
    stage.tui.press("f7").await;
    stage
        .tui
        .wait_for(|screen| screen.row(0).contains("Another title"))
        .await;
    stage.tui.press("f4").await;
    stage.tui.wait_for_text("Rename the session").await;
    stage.tui.type_text("!").await;
    stage.tui.press("enter").await;
    stage
        .called(|calls| {
            calls
                .last()
                .is_some_and(|call| call == "rename fresh Another title!")
        })
        .await;
}

#[tokio::test]
async fn a_session_is_deleted_after_a_question_and_a_new_one_takes_its_place() {
    let stage = Stage::open("a2").await;
    stage.tui.press("f5").await;
    let screen = stage.tui.wait_for_text("Delete Write the docs").await;
    assert!(
        screen.contains("The agent is working in it now"),
        "{}",
        screen.text()
    );
    stage.tui.press("enter").await;
    stage
        .tui
        .wait_for(|screen| !screen.contains("Delete Write"))
        .await;
    assert_eq!(stage.played.state.get().sessions.len(), 3);
    stage.tui.press("f5").await;
    stage.tui.wait_for_text("Delete Write the docs").await;
    stage.tui.press("left").await;
    stage.tui.press("enter").await;
    stage.tui.wait_for_text("the session is deleted").await;
    let calls = stage
        .called(|calls| {
            calls
                .last()
                .is_some_and(|call| call == "attach fresh with 2")
        })
        .await;
    assert!(calls.contains(&"remove a2".to_owned()), "{calls:?}");
}

#[tokio::test]
async fn a_session_is_begun_from_the_picker_with_the_key_that_it_names() {
    let stage = Stage::open("a1").await;
    stage.tui.press("ctrl+x s").await;
    let screen = stage.tui.wait_for_text("Write the docs").await;
    assert!(screen.contains("ctrl+n new"), "{}", screen.text());
    assert!(screen.contains("esc cancel"), "{}", screen.text());
    stage.tui.press("ctrl+n").await;
    stage
        .called(|calls| calls.ends_with(&["create".into(), "attach fresh with 2".into()]))
        .await;
}

#[tokio::test]
async fn the_picker_deletes_and_renames_without_leaving() {
    let stage = Stage::open("a1").await;
    stage.tui.press("ctrl+x s").await;
    stage.tui.wait_for_text("Try a new lexer").await;
    stage.tui.type_text("lexer").await;
    stage.tui.press("ctrl+r").await;
    stage.tui.wait_for_text("Rename the session").await;
    stage.tui.press("ctrl+u").await;
    stage.tui.type_text("Old idea").await;
    stage.tui.press("enter").await;
    stage
        .tui
        .wait_for(|screen| screen.contains("Old idea") && screen.contains("Sessions"))
        .await;
    stage.tui.type_text("idea").await;
    stage.tui.press("ctrl+d").await;
    stage.tui.wait_for_text("Delete Old idea").await;
    stage.tui.press("left").await;
    stage.tui.press("enter").await;
    let screen = stage
        .tui
        .wait_for(|screen| screen.contains("Sessions") && !screen.contains("Old idea"))
        .await;
    assert!(screen.contains("Write the docs"), "{}", screen.text());
}

#[tokio::test]
async fn a_session_is_archived_from_the_picker_and_found_again_when_it_is_asked_for() {
    let stage = Stage::open("a1").await;
    stage.tui.press("ctrl+x s").await;
    stage.tui.wait_for_text("Write the docs").await;
    stage.tui.press("ctrl+o").await;
    stage.tui.wait_for_text("no session is archived").await;
    stage.tui.wait_for_text("Write the docs").await;
    stage.tui.type_text("docs").await;
    stage.tui.press("ctrl+s").await;
    let away = |screen: &bezel_host_tui::Screen| {
        screen.contains("Sessions") && screen.contains("Write the docs is archived")
    };
    stage.tui.wait_for(away).await;
    stage
        .called(|calls| calls.contains(&"archive a2 true".into()))
        .await;
    stage.tui.press("ctrl+o").await;
    stage.tui.wait_for_text("Archived sessions").await;
    stage.tui.press("ctrl+s").await;
    stage
        .called(|calls| calls.contains(&"archive a2 false".into()))
        .await;
    stage
        .tui
        .wait_for(|screen| screen.contains("search sessions"))
        .await;
}

#[tokio::test]
async fn the_open_session_is_not_archived_and_what_sessions_began_is_not_listed() {
    let stage = Stage::open("a1").await;
    stage.played.change(|state| {
        for session in &mut state.sessions {
            if session.session_id.as_str() == "a2" {
                session.parent_id = Some(bezel_session_types::SessionId::new("a1"));
            }
        }
    });
    stage.tui.press("ctrl+x s").await;
    let screen = stage.tui.wait_for_text("Fix the parser").await;
    assert!(!screen.contains("Write the docs"), "{}", screen.text());
    stage.tui.type_text("parser").await;
    stage.tui.press("ctrl+s").await;
    stage.tui.wait_for_text("this session is open").await;
}

#[tokio::test]
async fn an_error_of_the_server_is_shown_and_the_session_stays() {
    let stage = Stage::open("a1").await;
    *stage.played.refuse.lock().unwrap() = Some(SessionError::Directory {
        directory: "/code/parser".into(),
        reason: "it is gone".into(),
    });
    stage.tui.press("f3").await;
    stage.tui.wait_for_text("cannot work in /code/parser").await;
    let screen = stage.tui.screen();
    assert!(
        screen.row(0).contains("Fix the parser") && screen.contains("●"),
        "{}",
        screen.text()
    );
}
