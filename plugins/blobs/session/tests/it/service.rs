//! The service over a connection, with the transfers that presentations use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bezel_blobs_contract::{
    BlobError, BlobsClient, CHUNK_BYTES, Chunk, MOST_IDS, Picture, Progress, ReadSource,
    TransferError, blob_id, download, upload,
};
use bezel_rpc::{CallError, Context};
use bezel_session_types::{
    BlobId, Entry, EntryBody, EntryId, InvocationId, Message, PromptPart, ResultContent,
    ToolResultMessage,
};
use bezel_testkit::{FakeSession, FakeSessionOptions};

use crate::{bytes, names};

async fn session(directory: &std::path::Path) -> (FakeSession, BlobsClient) {
    let facets = vec![bezel_blobs_session::facet()];
    let session = FakeSession::start(facets, directory, FakeSessionOptions::default()).await;
    let session = session.unwrap();
    session.connected().await;
    let blobs = session.remote().use_service();
    (session, blobs)
}

fn cx() -> Context {
    Context::background().with_timeout(std::time::Duration::from_secs(20))
}

async fn fetched(blobs: &BlobsClient, source: ReadSource) -> Result<Vec<u8>, TransferError> {
    let mut found = Vec::new();
    let take = |bytes: &[u8], _: Progress| {
        found.extend_from_slice(bytes);
        Ok(())
    };
    let size = download(&cx(), blobs, source, take).await?;
    assert_eq!(size, found.len() as u64);
    Ok(found)
}

#[tokio::test]
async fn bytes_of_any_size_go_up_and_come_down() {
    let directory = tempfile::tempdir().unwrap();
    let (_session, blobs) = session(directory.path()).await;
    for size in [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 9 * CHUNK_BYTES + 5] {
        let all = bytes(size);
        let mut told = Vec::new();
        let id = upload(&cx(), &blobs, &all, |progress| told.push(progress.done)).await;
        let id = id.unwrap();
        assert!(
            told.is_sorted() && told.last() == Some(&(size as u64)),
            "{told:?}"
        );
        assert_eq!(fetched(&blobs, ReadSource::Blob { id }).await.unwrap(), all);
    }
}

#[tokio::test]
async fn a_cut_upload_goes_on_where_it_stopped_also_in_another_worker() {
    let directory = tempfile::tempdir().unwrap();
    let (first, blobs) = session(directory.path()).await;
    let all = bytes(20 * CHUNK_BYTES);
    let (within, cancel) = cx().with_cancel();
    let stop = |progress: Progress| {
        if progress.done >= 8 * CHUNK_BYTES as u64 {
            cancel.cancel();
        }
    };
    let cut = upload(&within, &blobs, &all, stop).await.unwrap_err();
    assert!(
        matches!(cut, TransferError::Call(CallError::Rpc(_))),
        "{cut}"
    );
    drop(first);
    let (_second, blobs) = session(directory.path()).await;
    let known = blobs.stat(&cx(), vec![blob_id(&all)]).await.unwrap();
    assert!(known[0].received >= 8 * CHUNK_BYTES as u64 && !known[0].is_complete());
    let mut told = Vec::new();
    let id = upload(&cx(), &blobs, &all, |progress| told.push(progress.done)).await;
    assert!(told[0] >= 8 * CHUNK_BYTES as u64, "{told:?}");
    let id = id.unwrap();
    assert_eq!(fetched(&blobs, ReadSource::Blob { id }).await.unwrap(), all);
}

#[tokio::test]
async fn what_is_there_is_not_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let (_session, blobs) = session(directory.path()).await;
    let all = bytes(3 * CHUNK_BYTES);
    upload(&cx(), &blobs, &all, |_| ()).await.unwrap();
    let mut told = Vec::new();
    upload(&cx(), &blobs, &all, |progress| told.push(progress.done))
        .await
        .unwrap();
    assert_eq!(told, [all.len() as u64]);
}

#[tokio::test]
async fn two_clients_that_upload_one_blob_at_once_both_have_it() {
    let directory = tempfile::tempdir().unwrap();
    let (session, blobs) = session(directory.path()).await;
    let other: BlobsClient = session.remote().use_service();
    let all = bytes(12 * CHUNK_BYTES + 1);
    let cx = cx();
    let (one, two) = tokio::join!(
        upload(&cx, &blobs, &all, |_| ()),
        upload(&cx, &other, &all, |_| ()),
    );
    let id = one.unwrap();
    assert_eq!(id, two.unwrap());
    assert_eq!(
        names(&directory.path().join(".output/blobs")),
        [id.to_string()]
    );
    assert_eq!(fetched(&blobs, ReadSource::Blob { id }).await.unwrap(), all);
}

#[tokio::test]
async fn an_upload_gets_over_wrong_bytes_that_another_one_left() {
    let directory = tempfile::tempdir().unwrap();
    let (_session, blobs) = session(directory.path()).await;
    let all = bytes(6 * CHUNK_BYTES);
    let (id, wrong) = (blob_id(&all), Chunk::new(&[0; 10]));
    blobs
        .put(&cx(), id.clone(), all.len() as u64, 0, wrong)
        .await
        .unwrap();
    assert_eq!(upload(&cx(), &blobs, &all, |_| ()).await.unwrap(), id);
    assert_eq!(fetched(&blobs, ReadSource::Blob { id }).await.unwrap(), all);
}

#[tokio::test]
async fn bytes_that_do_not_hash_to_their_id_are_refused_and_thrown_away() {
    let directory = tempfile::tempdir().unwrap();
    let (_session, blobs) = session(directory.path()).await;
    let id = blob_id(b"right");
    let answer = blobs
        .put(&cx(), id.clone(), 5, 0, Chunk::new(b"wrong"))
        .await;
    assert_eq!(
        answer.unwrap_err().service(),
        Some(&BlobError::Mismatch { id: id.clone() })
    );
    assert!(names(&directory.path().join(".output/blobs")).is_empty());
    let ids = vec![id; MOST_IDS + 1];
    let answer = blobs.stat(&cx(), ids).await.unwrap_err();
    assert!(
        matches!(answer.service(), Some(BlobError::TooManyIds { .. })),
        "{answer}"
    );
}

#[tokio::test]
async fn a_damaged_file_is_not_given_out_as_the_blob() {
    let directory = tempfile::tempdir().unwrap();
    let (_session, blobs) = session(directory.path()).await;
    let id = upload(&cx(), &blobs, b"right", |_| ()).await.unwrap();
    let file = directory.path().join(".output/blobs").join(id.as_str());
    std::fs::write(file, "wrong").unwrap();
    let found = fetched(&blobs, ReadSource::Blob { id }).await;
    assert!(
        matches!(found, Err(TransferError::Damaged { .. })),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_small_call_overtakes_a_large_transfer() {
    let directory = tempfile::tempdir().unwrap();
    let (session, blobs) = session(directory.path()).await;
    let other: BlobsClient = session.remote().use_service();
    let all = bytes(60 * CHUNK_BYTES);
    let answered = Arc::new(AtomicBool::new(false));
    let (seen, cx) = (Arc::clone(&answered), cx());
    // Small calls, one after the other, while chunks go: each waits for those that are on their way, never for most.
    let mut chunks_between = Vec::new();
    let mut last = 0;
    let large = upload(&cx, &blobs, &all, |progress| {
        let chunks = progress.done / CHUNK_BYTES as u64;
        if seen.swap(false, Ordering::Relaxed) {
            chunks_between.push(chunks - last);
            last = chunks;
        }
    });
    let small = async {
        loop {
            other.stat(&cx, vec![blob_id(b"small")]).await.unwrap();
            answered.store(true, Ordering::Relaxed);
        }
    };
    tokio::select! {
        id = large => { id.unwrap(); }
        () = small => {}
    }
    let most = chunks_between.iter().max().copied();
    assert!(
        chunks_between.len() > 3 && most <= Some(16),
        "{chunks_between:?}"
    );
}

fn result(id: &str, text: String) -> Entry {
    let message = Message::ToolResult(ToolResultMessage {
        call_id: "c".into(),
        invocation_id: InvocationId::new(id),
        tool: "grep".into(),
        content: vec![ResultContent::text(text)],
        structured: None,
        details: serde_json::Value::Null,
        is_error: false,
    });
    Entry {
        id: EntryId::new(id),
        parent: None,
        seq: 1,
        created_at: 0,
        body: EntryBody::Message {
            message: Arc::new(message),
        },
    }
}

#[tokio::test]
async fn a_whole_output_is_read_by_the_id_of_its_result() {
    let directory = tempfile::tempdir().unwrap();
    let (session, blobs) = session(directory.path()).await;
    let outputs = directory.path().join(".output");
    std::fs::create_dir_all(&outputs).unwrap();
    let whole = bytes(4 * CHUNK_BYTES + 7);
    std::fs::write(outputs.join("long.txt"), &whole).unwrap();
    std::fs::write(outputs.join("linked.txt"), "never").unwrap();
    std::fs::remove_file(outputs.join("linked.txt")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", outputs.join("linked.txt")).unwrap();
    let marker = |name: &str| format!("[... it is in {}/{name}.txt; read ...]", outputs.display());
    session.agent.set_entries(vec![
        result("long", marker("long")),
        result("short", "all of it".into()),
        result("linked", marker("linked")),
    ]);
    let output = |id: &str| ReadSource::Output {
        result: InvocationId::new(id),
    };
    assert_eq!(fetched(&blobs, output("long")).await.unwrap(), whole);
    assert_eq!(
        fetched(&blobs, output("short")).await.unwrap(),
        b"all of it"
    );
    let found = fetched(&blobs, output("linked")).await.unwrap_err();
    assert!(found.to_string().contains("no plain file"), "{found}");
    for id in ["none", "../long", ""] {
        let error = fetched(&blobs, output(id)).await.unwrap_err();
        let TransferError::Call(error) = error else {
            panic!("{error}");
        };
        assert!(
            matches!(error.service(), Some(BlobError::UnknownResult { .. })),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_picture_is_uploaded_where_it_is_large_and_travels_along_where_it_is_small() {
    let directory = tempfile::tempdir().unwrap();
    let (_session, blobs) = session(directory.path()).await;
    let png = |size: usize| {
        let mut all = b"\x89PNG\r\n\x1a\n".to_vec();
        all.extend(bytes(size));
        all
    };
    assert_eq!(Picture::new(b"no picture".to_vec()), None);
    let small = Picture::new(png(100)).unwrap();
    let part = small.part(&cx(), &blobs, |_| ()).await.unwrap();
    assert!(matches!(part, PromptPart::Image(_)), "{part:?}");
    let large = Picture::new(png(100_000)).unwrap();
    let part = large.part(&cx(), &blobs, |_| ()).await.unwrap();
    let PromptPart::UploadedImage(uploaded) = part else {
        panic!("{part:?}");
    };
    assert_eq!(uploaded.media_type, "image/png");
    let blob: BlobId = uploaded.blob;
    assert_eq!(
        fetched(&blobs, ReadSource::Blob { id: blob })
            .await
            .unwrap(),
        png(100_000)
    );
}
