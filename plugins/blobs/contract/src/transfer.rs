//! A presentation's side: uploads that go on where they stopped, and downloads.
//!
//! Dropping or cancelling a transfer's future ends it between two chunks; what has arrived stays, and the
//! next upload of the same bytes goes on from there.

use std::io;
use std::ops::Range;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bezel_rpc::{CallError, Context, ErrorCode};
use bezel_session_types::{BlobId, ImageContent, PromptPart, UploadedImage};
use bytes::Bytes;
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt};
use sha2::{Digest, Sha256};

use crate::{BlobError, BlobStat, BlobsClient, CHUNK_BYTES, Chunk, Piece, ReadSource};

/// Chunks on their way at once: enough to fill a connection, few enough to hold up nobody.
const IN_FLIGHT: usize = 4;

/// How often an upload begins where the session says, when it turns out to be wrong there.
const ATTEMPTS: u32 = 3;

/// What is larger than this is uploaded before the prompt that it belongs to; what is smaller travels in it.
pub const INLINE_BYTES: usize = 32 * 1024;

/// How far a transfer is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is there.
    pub done: u64,
    /// All of it.
    pub total: u64,
}

/// Why a transfer ended early.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A call failed: the session refused, or the connection is lost.
    #[error(transparent)]
    Call(#[from] CallError<BlobError>),
    /// The session answers and takes nothing.
    #[error("the session took nothing of blob {id} after {received} bytes: try again")]
    Stuck {
        /// Which.
        id: BlobId,
        /// What it has.
        received: u64,
    },
    /// What is read became shorter meanwhile.
    #[error("the output ended after {received} of {size} bytes: it was removed or cut meanwhile")]
    Short {
        /// What came.
        received: u64,
        /// What was announced.
        size: u64,
    },
    /// The bytes of a blob are not those that its id names.
    #[error("the bytes that came for blob {id} have another digest: its file is damaged")]
    Damaged {
        /// Which.
        id: BlobId,
    },
    /// What takes the bytes failed.
    #[error("the bytes could not be written: {0}")]
    Sink(#[from] io::Error),
}

impl TransferError {
    /// The wire's code of a call that did not reach the session or was not answered by it.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            TransferError::Call(error) => error.code(),
            _ => None,
        }
    }
}

/// The name of these bytes.
pub fn blob_id(bytes: &[u8]) -> BlobId {
    BlobId::from_digest(Sha256::digest(bytes).into())
}

/// Makes the session have these bytes, and gives their name. Sends only what is missing there.
pub async fn upload(
    cx: &Context,
    blobs: &BlobsClient,
    bytes: &[u8],
    mut progress: impl FnMut(Progress),
) -> Result<BlobId, TransferError> {
    let upload = Upload {
        cx,
        blobs,
        bytes,
        id: blob_id(bytes),
    };
    let mut attempt = 1;
    loop {
        let known = blobs.stat(cx, vec![upload.id.clone()]).await?;
        let start = known
            .first()
            .map_or(Some(0), |known| upload.missing_from(known));
        match upload.run(start, &mut progress).await {
            // What a power cut or another uploader had left was wrong. It is thrown away now, and ours is right.
            Err(
                TransferError::Call(CallError::Service(BlobError::Mismatch { .. }))
                | TransferError::Stuck { .. },
            ) if attempt < ATTEMPTS => attempt += 1,
            ended => return ended.map(|()| upload.id),
        }
    }
}

struct Upload<'a> {
    cx: &'a Context,
    blobs: &'a BlobsClient,
    bytes: &'a [u8],
    id: BlobId,
}

impl Upload<'_> {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// From where to go on; `None` where all is there.
    fn missing_from(&self, known: &BlobStat) -> Option<u64> {
        match known.size == Some(self.size()) {
            true if known.is_complete() => None,
            true => Some(known.received),
            false => Some(0),
        }
    }

    async fn run(
        &self,
        start: Option<u64>,
        progress: &mut impl FnMut(Progress),
    ) -> Result<(), TransferError> {
        let total = self.size();
        let Some(mut start) = start else {
            progress(Progress { done: total, total });
            return Ok(());
        };
        loop {
            progress(Progress { done: start, total });
            let reached = self.pass(start, progress).await?;
            if reached == total {
                return Ok(());
            }
            // A chunk was too far ahead of a lost one, or somebody else's upload was thrown away.
            if reached <= start {
                let id = self.id.clone();
                let received = reached;
                return Err(TransferError::Stuck { id, received });
            }
            start = reached;
        }
    }

    /// Sends everything from `start` on once, and says how much is there in the end.
    async fn pass(
        &self,
        start: u64,
        progress: &mut impl FnMut(Progress),
    ) -> Result<u64, TransferError> {
        let mut chunks = chunks(start, self.size());
        let mut calls = FuturesUnordered::new();
        let mut reached = start;
        let mut complete = false;
        loop {
            while calls.len() < IN_FLIGHT
                && !complete
                && let Some(chunk) = chunks.next()
            {
                calls.push(self.put(chunk));
            }
            let Some(stat) = calls.try_next().await? else {
                return Ok(reached);
            };
            complete |= stat.is_complete();
            if stat.received > reached {
                reached = stat.received;
                let total = self.size();
                progress(Progress {
                    done: reached,
                    total,
                });
            }
        }
    }

    async fn put(&self, range: Range<u64>) -> Result<BlobStat, CallError<BlobError>> {
        let bytes = usize::try_from(range.start)
            .ok()
            .zip(usize::try_from(range.end).ok())
            .and_then(|(start, end)| self.bytes.get(start..end))
            .expect("chunks are ranges of the bytes");
        let chunk = Chunk::new(bytes);
        self.blobs
            .put(self.cx, self.id.clone(), self.size(), range.start, chunk)
            .await
    }
}

/// The chunks from `start` to `size`; one empty chunk where there is nothing.
fn chunks(start: u64, size: u64) -> impl Iterator<Item = Range<u64>> {
    let step = CHUNK_BYTES as u64;
    let starts = (start..size.max(1)).step_by(CHUNK_BYTES);
    starts.map(move |at| at..size.min(at.saturating_add(step)))
}

/// Writes a blob or a whole output to `sink`, in order, and says how large it is. Several chunks are asked
/// for at once. A blob's digest is checked at the end: what `sink` got before counts only then.
pub async fn download(
    cx: &Context,
    blobs: &BlobsClient,
    source: ReadSource,
    mut sink: impl FnMut(&[u8], Progress) -> io::Result<()>,
) -> Result<u64, TransferError> {
    let read = |offset: u64| {
        let source = source.clone();
        async move {
            let length = u32::try_from(CHUNK_BYTES).unwrap_or(u32::MAX);
            let piece = blobs.read(cx, source, offset, length).await?;
            let bytes = piece.chunk.bytes().map_err(CallError::Service)?;
            Ok::<(u64, Vec<u8>), CallError<BlobError>>((piece.size, bytes))
        }
    };
    let (size, first) = read(0).await?;
    let mut digest = Sha256::new();
    let mut done = 0;
    let mut take = |bytes: &[u8]| -> Result<(), TransferError> {
        done += bytes.len() as u64;
        digest.update(bytes);
        sink(bytes, Progress { done, total: size })?;
        Ok(())
    };
    let begun = first.len() as u64;
    take(&first)?;
    let rest = (begun..size).step_by(CHUNK_BYTES).map(|at| async move {
        let (_, bytes) = read(at).await?;
        let whole = CHUNK_BYTES.min(usize::try_from(size - at).unwrap_or(CHUNK_BYTES));
        match bytes.get(..whole) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => {
                let received = at + bytes.len() as u64;
                Err(TransferError::Short { received, size })
            }
        }
    });
    let mut rest = futures::stream::iter(rest).buffered(IN_FLIGHT);
    while let Some(bytes) = rest.try_next().await? {
        take(&bytes)?;
    }
    drop(rest);
    match source {
        ReadSource::Blob { id } if BlobId::from_digest(digest.finalize().into()) != id => {
            Err(TransferError::Damaged { id })
        }
        _ => Ok(size),
    }
}

impl Piece {
    /// A piece of `bytes` from `offset` on, a chunk at most.
    pub fn of(bytes: &[u8], offset: u64, length: u32) -> Self {
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let length = usize::try_from(length)
            .unwrap_or(CHUNK_BYTES)
            .min(CHUNK_BYTES);
        let end = start.saturating_add(length).min(bytes.len());
        Piece {
            size: bytes.len() as u64,
            chunk: Chunk::new(&bytes[start..end]),
        }
    }
}

/// A picture that goes with a prompt. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    media_type: &'static str,
    bytes: Bytes,
}

impl Picture {
    /// A picture of a file's bytes; `None` where they are no picture that a model takes.
    pub fn new(bytes: impl Into<Bytes>) -> Option<Self> {
        let bytes = bytes.into();
        let media_type = ImageContent::media_type_of(&bytes)?;
        Some(Picture { media_type, bytes })
    }

    /// Its type.
    pub fn media_type(&self) -> &'static str {
        self.media_type
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The part of a prompt that shows it. A small one is in the part; a larger one is uploaded first, as far as
    /// the session does not have it.
    pub async fn part(
        &self,
        cx: &Context,
        blobs: &BlobsClient,
        progress: impl FnMut(Progress),
    ) -> Result<PromptPart, TransferError> {
        let media_type = self.media_type.to_owned();
        let uploaded = match self.bytes.len() {
            0..=INLINE_BYTES => None,
            _ => match upload(cx, blobs, &self.bytes, progress).await {
                // A session without the plugin, or of before it, takes what fits into a message.
                Err(error) if error.code() == Some(ErrorCode::UnknownService) => None,
                blob => Some(blob?),
            },
        };
        Ok(match uploaded {
            Some(blob) => PromptPart::UploadedImage(UploadedImage { media_type, blob }),
            None => PromptPart::Image(ImageContent {
                media_type,
                data: BASE64_STANDARD.encode(&self.bytes),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_gapless_and_nothing_is_one_empty_chunk() {
        let all: Vec<_> = chunks(10, 10 + 2 * CHUNK_BYTES as u64 + 1).collect();
        let step = CHUNK_BYTES as u64;
        assert_eq!(
            all,
            [
                10..10 + step,
                10 + step..10 + 2 * step,
                10 + 2 * step..11 + 2 * step
            ]
        );
        assert!(chunks(0, 0).eq(std::iter::once(0..0)));
        assert_eq!(chunks(7, 7).count(), 0);
    }

    #[test]
    fn a_call_with_a_whole_chunk_is_not_cut_by_the_wire() {
        let chunk = Chunk::new(&[255; CHUNK_BYTES]);
        assert_eq!(chunk.bytes().map(|bytes| bytes.len()), Ok(CHUNK_BYTES));
        // Beside it: the id, two numbers and the names of the members.
        assert!(chunk.0.len() + 64 + 40 + 80 < 64 * 1024);
    }
}
