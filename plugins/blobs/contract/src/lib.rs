//! Bytes of a session by their digest, in chunks: pictures on their way in, whole outputs on their way out.
//!
//! A message of the wire is bounded, and what is large in one piece delays what is small. So bytes travel
//! in chunks of which each call holds one, below the size at which the wire cuts messages into parts. They
//! are named by what they are: sending them twice, or in turns with somebody else, has one effect, and an
//! upload goes on where it stopped, also after the worker was killed.
//!
//! [`upload`] and [`download`] are what a presentation uses.

mod local;
mod transfer;

use bezel_rpc::{Context, service};
use bezel_session_types::{BlobId, InvocationId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use local::{BlobShelf, Take};
pub use transfer::{INLINE_BYTES, Picture, Progress, TransferError, blob_id, download, upload};

/// Bytes of a chunk at most. In base64 they are 64,000 letters: with the words around them a call stays below
/// the 64 KiB at which the wire cuts messages.
pub const CHUNK_BYTES: usize = 48_000;

/// Bytes of a blob at most.
pub const MAX_BLOB_BYTES: u64 = 64 * 1024 * 1024;

/// Ids that one [`Blobs::stat`] may ask for.
pub const MOST_IDS: usize = 256;

/// The blobs of one session, and the whole outputs of its tools.
#[service("blobs", version = "1.0")]
pub trait Blobs {
    /// How much there is of each of these blobs, in their order, so that nothing is sent twice. At most 256 ids.
    #[scope(read)]
    async fn stat(&self, cx: &Context, ids: Vec<BlobId>) -> Result<Vec<BlobStat>, BlobError>;

    /// Adds a chunk at `offset` to the blob `id` of `size` bytes, and says how much there is then.
    ///
    /// Chunks may come repeatedly, overlap and overtake each other a little; one that is too far ahead is
    /// not kept, and the answer says where to go on. What an answer counts survives the worker; the answer
    /// that says that all is there comes after the blob has been synced to the disk.
    #[scope(operate)]
    async fn put(
        &self,
        cx: &Context,
        id: BlobId,
        size: u64,
        offset: u64,
        chunk: Chunk,
    ) -> Result<BlobStat, BlobError>;

    /// Up to `length` bytes from `offset` on; a chunk's worth at most, whatever is asked for, and none
    /// beyond the end.
    #[scope(read)]
    async fn read(
        &self,
        cx: &Context,
        source: ReadSource,
        offset: u64,
        length: u32,
    ) -> Result<Piece, BlobError>;
}

/// How much there is of a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlobStat {
    /// Which.
    pub id: BlobId,
    /// Bytes from the start that are there.
    pub received: u64,
    /// Bytes of the whole as its uploader announced them; absent where nothing is known of the blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl BlobStat {
    /// Whether all of it is there.
    pub fn is_complete(&self) -> bool {
        self.size == Some(self.received)
    }
}

/// What is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReadSource {
    /// A complete blob.
    Blob {
        /// Which.
        id: BlobId,
    },
    /// The whole output of a tool call that has ended: all of it where its result is shortened, the
    /// result's text otherwise.
    Output {
        /// The call, as the transcript names its item.
        result: InvocationId,
    },
}

/// A part of what is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Piece {
    /// Bytes of the whole.
    pub size: u64,
    /// The bytes.
    pub chunk: Chunk,
}

/// Bytes in base64, standard alphabet, padded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Chunk(String);

impl Chunk {
    /// A chunk of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        use base64::Engine;
        Chunk(base64::prelude::BASE64_STANDARD.encode(bytes))
    }

    /// The bytes. Their number is checked before anything is decoded.
    pub fn bytes(&self) -> Result<Vec<u8>, BlobError> {
        use base64::Engine;
        if self.0.len() > CHUNK_BYTES.div_ceil(3) * 4 {
            return Err(BlobError::ChunkTooLarge {
                limit: CHUNK_BYTES as u64,
            });
        }
        let bytes = base64::prelude::BASE64_STANDARD.decode(&self.0);
        bytes.map_err(|error| BlobError::Malformed {
            message: format!("the chunk is no base64: {error}"),
        })
    }
}

/// Why a blob could not be taken in or given out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum BlobError {
    /// The session has no such blob, or not all of it.
    #[error("this session does not have all of blob {id}: upload it first")]
    Unknown {
        /// Which.
        id: BlobId,
    },
    /// No tool call of this id has ended in this session.
    #[error("this session has no result {result}: it may be of another session, or still run")]
    UnknownResult {
        /// Which.
        result: InvocationId,
    },
    /// The bytes are not those that the id names. What was there of them was thrown away.
    #[error(
        "the bytes that came for blob {id} have another digest and were thrown away: upload it again from its start"
    )]
    Mismatch {
        /// Which.
        id: BlobId,
    },
    /// A chunk is larger than it may be.
    #[error("a chunk may have {limit} bytes: send smaller ones")]
    ChunkTooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// A blob is larger than it may be.
    #[error("a blob of {size} bytes is too large, {limit} are allowed: send something smaller")]
    BlobTooLarge {
        /// What was announced.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The session holds as much as it may.
    #[error(
        "this session holds uploads of {held} bytes that no message has taken yet, {limit} bytes are allowed: \
         send what was uploaded, or use another session"
    )]
    Full {
        /// Bytes that are held or promised.
        held: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// Too many ids at once.
    #[error("{count} blobs were asked for at once, {limit} are allowed: ask in several calls")]
    TooManyIds {
        /// How many.
        count: u64,
        /// The limit.
        limit: u64,
    },
    /// The call makes no sense.
    #[error("{message}")]
    Malformed {
        /// What is wrong with it.
        message: String,
    },
    /// The session's disk failed.
    #[error("the session's files could not be used: {message}")]
    Storage {
        /// What happened.
        message: String,
    },
}
