//! Pictures that are uploaded before their message.

use std::collections::HashSet;

use bezel_blobs_contract::{CHUNK_BYTES, blob_id};
use bezel_chat_contract::PromptPart;
use bezel_session_types::UploadedImage;
use tokio::sync::Semaphore;

use super::support::{SESSION, Stage, waited};

const CHUNKS: usize = 12;

/// A picture of so many chunks, and its file.
fn picture() -> (Vec<u8>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    bytes.resize(CHUNKS * CHUNK_BYTES, 7);
    std::fs::write(directory.path().join("shot.png"), &bytes).unwrap();
    (bytes, directory)
}

async fn write(stage: &Stage, directory: &tempfile::TempDir) {
    stage.tui.type_text("see ").await;
    let path = directory.path().join("shot.png");
    stage.tui.paste(path.to_str().unwrap()).await;
    stage.tui.wait_for_text("see [image shot.png]").await;
}

fn uploaded(bytes: &[u8]) -> [PromptPart; 2] {
    let text = "see".into();
    let image = UploadedImage {
        media_type: "image/png".into(),
        blob: blob_id(bytes),
    };
    [PromptPart::Text { text }, PromptPart::UploadedImage(image)]
}

#[tokio::test]
async fn a_large_picture_is_in_the_session_before_the_message_that_names_it() {
    let (bytes, directory) = picture();
    let stage = Stage::attached().await;
    write(&stage, &directory).await;
    stage.tui.type_text("\n").await;
    let prompts = stage.played.prompted(1).await;
    assert_eq!(prompts[0].content, uploaded(&bytes));
    let known = stage.played.blobs.stat(&blob_id(&bytes)).unwrap();
    assert!(known.is_complete());
    // The same picture again: nothing of it is sent.
    write(&stage, &directory).await;
    stage.tui.type_text("\n").await;
    stage.played.prompted(2).await;
    assert_eq!(stage.played.chunks.borrow().len(), CHUNKS);
}

#[tokio::test]
async fn after_a_lost_connection_only_what_is_missing_is_sent() {
    let (bytes, directory) = picture();
    let stage = Stage::attached().await;
    stage
        .played
        .chunk_gate
        .forget_permits(Semaphore::MAX_PERMITS);
    stage.played.chunk_gate.add_permits(5);
    write(&stage, &directory).await;
    stage.tui.type_text("\n").await;
    stage.tui.wait_for_text("(41%) see [image shot.png]").await;
    assert!(stage.server.cut().await);
    stage.tui.wait_for_text("waiting").await;
    assert!(stage.played.prompts.borrow().is_empty());
    stage.played.chunk_gate.add_permits(1000);
    stage.server.restore();
    stage.bind(SESSION).await;
    let prompts = stage.played.prompted(1).await;
    assert_eq!(prompts[0].content, uploaded(&bytes));
    // Calls of the lost connection may have been let in, or not; what was answered before is not sent again.
    let chunks = stage.played.chunks.borrow().clone();
    let first: HashSet<u64> = chunks[..5].iter().copied().collect();
    assert_eq!(first.len(), 5);
    assert!(
        chunks[5..].iter().all(|chunk| !first.contains(chunk)),
        "{chunks:?}"
    );
}

#[tokio::test]
async fn a_message_is_taken_back_while_its_picture_is_uploaded() {
    let (_bytes, directory) = picture();
    let stage = Stage::attached().await;
    stage
        .played
        .chunk_gate
        .forget_permits(Semaphore::MAX_PERMITS);
    write(&stage, &directory).await;
    stage.tui.type_text("\n").await;
    stage.tui.wait_for_text("sending (0%) see").await;
    stage.tui.press("esc").await;
    let screen = stage
        .tui
        .wait_for(|screen| !screen.contains("sending"))
        .await;
    assert_eq!(Stage::written(&screen).trim_end(), "see [image shot.png]");
    stage.played.chunk_gate.add_permits(1000);
    // What is sent next is not held up, and the picture is not among it.
    stage.tui.press("ctrl+u").await;
    stage.tui.type_text("never mind\n").await;
    let prompts = stage.played.prompted(1).await;
    let text = "never mind".into();
    assert_eq!(prompts[0].content, [PromptPart::Text { text }]);
}

#[tokio::test]
async fn keys_are_answered_while_a_picture_is_uploaded() {
    let (_bytes, directory) = picture();
    let stage = Stage::attached().await;
    stage
        .played
        .chunk_gate
        .forget_permits(Semaphore::MAX_PERMITS);
    write(&stage, &directory).await;
    stage.tui.type_text("\n").await;
    stage.tui.wait_for_text("sending (0%)").await;
    let screen = stage.tui.type_text("meanwhile").await;
    assert_eq!(Stage::written(&screen), "meanwhile");
    stage.played.chunk_gate.add_permits(1000);
    waited(&stage.played.prompts, |prompts| prompts.len() == 1).await;
}
