//! Saving the whole output of a call.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering;

use bezel_transcript_contract::ToolStatus;

use super::items::{called, said};
use super::support::Stage;

/// With a call of a long output that is selected, and where the output goes.
async fn selected() -> (Stage, tempfile::TempDir, std::path::PathBuf) {
    let call = called("t", "bash", ToolStatus::Done, "head\n…\ntail");
    let stage = Stage::with(vec![said("go"), call]).await;
    stage.tui.wait_for_text("tail").await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.txt");
    stage.tui.press("ctrl+up").await;
    (stage, directory, path)
}

async fn save(stage: &Stage, path: &std::path::Path) {
    stage.tui.press("s").await;
    stage.tui.wait_for_text("bash-t.txt").await;
    stage.tui.press("ctrl+u").await;
    stage.tui.type_text(path.to_str().unwrap()).await;
    stage.tui.press("enter").await;
}

#[tokio::test]
async fn the_whole_output_goes_into_a_private_file_of_the_persons_choice() {
    let (stage, _directory, path) = selected().await;
    let whole: String = (0..30_000).map(|line| format!("row {line}\n")).collect();
    (*stage.played.whole.lock().unwrap()).clone_from(&whole);
    save(&stage, &path).await;
    stage.tui.wait_for_text("saved").await;
    assert!(std::fs::read_to_string(&path).unwrap() == whole);
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_file_that_is_there_is_not_replaced() {
    let (stage, _directory, path) = selected().await;
    std::fs::write(&path, "mine").unwrap();
    save(&stage, &path).await;
    stage.tui.wait_for_text("cannot make").await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

#[tokio::test]
async fn a_save_that_fails_leaves_no_file() {
    let (stage, directory, path) = selected().await;
    stage.played.broken.store(true, Ordering::Relaxed);
    save(&stage, &path).await;
    stage.tui.wait_for_text("could not be saved").await;
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn what_still_runs_and_what_is_no_call_cannot_be_saved() {
    let call = called("t", "bash", ToolStatus::Running, "so far");
    let stage = Stage::with(vec![said("go"), call]).await;
    stage.tui.wait_for_text("so far").await;
    stage.tui.press("ctrl+up").await;
    stage.tui.press("s").await;
    stage.tui.wait_for_text("when the call has ended").await;
    stage.tui.press("up").await;
    stage.tui.press("s").await;
    stage
        .tui
        .wait_for_text("only the output of a tool call")
        .await;
}
