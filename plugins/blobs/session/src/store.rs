//! The blobs on the disk: taken in by chunks, checked, given out.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bezel_blobs_contract::{BlobError, BlobStat, CHUNK_BYTES, Chunk, Piece};
use bezel_session_types::BlobId;
use sha2::{Digest, Sha256};

use crate::index::{Index, Known, Stage, Unfinished};
use crate::limits::StoreLimits;

/// The blobs of one session. Every function may block on the disk.
#[derive(Debug)]
pub struct BlobStore {
    directory: PathBuf,
    limits: StoreLimits,
    // A plain mutex, held for one chunk's work on the disk: whoever calls is on a thread that may block.
    index: Mutex<Option<Index>>,
}

impl BlobStore {
    /// Blobs in `directory`, which is made when there is something to keep. Nothing is read before the first use.
    pub fn new(directory: impl Into<PathBuf>, limits: StoreLimits) -> Self {
        BlobStore {
            directory: directory.into(),
            limits,
            index: Mutex::new(None),
        }
    }

    /// How much there is of a blob.
    pub fn stat(&self, id: &BlobId) -> Result<BlobStat, BlobError> {
        self.with(|index| Ok(stat(index, id)))
    }

    /// Takes a chunk in; see [`put`](bezel_blobs_contract::Blobs::put).
    pub fn put(
        &self,
        id: &BlobId,
        size: u64,
        offset: u64,
        chunk: &Chunk,
    ) -> Result<BlobStat, BlobError> {
        let bytes = chunk.bytes()?;
        if bytes.len() > CHUNK_BYTES {
            let limit = CHUNK_BYTES as u64;
            return Err(BlobError::ChunkTooLarge { limit });
        }
        if size > self.limits.blob {
            let limit = self.limits.blob;
            return Err(BlobError::BlobTooLarge { size, limit });
        }
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > size) {
            return Err(BlobError::Malformed {
                message: format!(
                    "a chunk of {} bytes at {offset} goes beyond the {size} bytes of blob {id}",
                    bytes.len()
                ),
            });
        }
        self.with(|index| {
            self.begin(index, id, size)?;
            let early = self.limits.early.saturating_sub(index.early());
            let Some(known) = index.known.get_mut(id) else {
                return Ok(stat(index, id));
            };
            known.touched = SystemTime::now();
            let path = known.path(&self.directory, id);
            if let Stage::Unfinished(unfinished) = &mut known.stage {
                if offset <= unfinished.received {
                    let added = append(&path, unfinished, offset, &bytes);
                    added.map_err(|error| storage("written", &path, &error))?;
                } else if bytes.len() <= early {
                    unfinished.early.insert(offset, bytes);
                }
                if unfinished.received == size {
                    self.finish(index, id)?;
                }
            }
            Ok(stat(index, id))
        })
    }

    /// A piece of a complete blob.
    pub fn read(&self, id: &BlobId, offset: u64, length: u32) -> Result<Piece, BlobError> {
        let path = self.complete(id)?;
        read_piece(&path, offset, length).map_err(|error| storage("read", &path, &error))
    }

    /// All bytes of a complete blob of at most `limit` bytes. The caller keeps them elsewhere: from now on the
    /// blob may go when room is needed.
    pub fn take(&self, id: &BlobId, limit: u64) -> Result<Vec<u8>, BlobError> {
        let path = self.complete(id)?;
        let bytes = File::open(&path).and_then(|file| {
            let mut bytes = Vec::new();
            file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
            Ok(bytes)
        });
        let bytes = bytes.map_err(|error| storage("read", &path, &error))?;
        if bytes.len() as u64 > limit {
            let size = self.stat(id)?.received;
            return Err(BlobError::BlobTooLarge { size, limit });
        }
        self.with(|index| {
            let Some(known) = index.known.get_mut(id) else {
                return Ok(());
            };
            known.touched = SystemTime::now();
            if matches!(known.stage, Stage::Complete) {
                let from = known.path(&self.directory, id);
                known.stage = Stage::Taken;
                let to = known.path(&self.directory, id);
                std::fs::rename(&from, &to).map_err(|error| {
                    known.stage = Stage::Complete;
                    storage("renamed", &from, &error)
                })?;
            }
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Where the complete blob lies.
    fn complete(&self, id: &BlobId) -> Result<PathBuf, BlobError> {
        self.with(|index| match index.known.get(id) {
            Some(known) if !matches!(known.stage, Stage::Unfinished(_)) => {
                Ok(known.path(&self.directory, id))
            }
            _ => Err(BlobError::Unknown { id: id.clone() }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Index>> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&mut Index) -> Result<T, BlobError>,
    ) -> Result<T, BlobError> {
        let mut index = self.lock();
        let index = match &mut *index {
            Some(index) => index,
            none => {
                let read = Index::read(&self.directory);
                none.insert(read.map_err(|error| storage("listed", &self.directory, &error))?)
            }
        };
        work(index)
    }

    /// Makes sure that the blob is known. An upload that announced another size is thrown away: the digest
    /// belongs to one size, and whoever is right shall not have to wait for whoever is wrong.
    fn begin(&self, index: &mut Index, id: &BlobId, size: u64) -> Result<(), BlobError> {
        match index.known.get(id) {
            Some(known) if known.size == size => return Ok(()),
            Some(known) if !matches!(known.stage, Stage::Unfinished(_)) => {
                return Err(BlobError::Mismatch { id: id.clone() });
            }
            Some(_) => self.remove(index, id)?,
            None => {}
        }
        while index.held() + size > self.limits.total || index.known.len() >= self.limits.count {
            let Some(oldest) = index.dispensable(self.limits.patience) else {
                return Err(BlobError::Full {
                    held: index.held(),
                    limit: self.limits.total,
                });
            };
            self.remove(index, &oldest)?;
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(|error| storage("made", &self.directory, &error))?;
        let known = Known {
            size,
            stage: Stage::Unfinished(Unfinished {
                digest: Some(Sha256::new()),
                ..Unfinished::default()
            }),
            touched: SystemTime::now(),
        };
        let path = known.path(&self.directory, id);
        create(&path).map_err(|error| storage("made", &path, &error))?;
        index.known.insert(id.clone(), known);
        Ok(())
    }

    fn remove(&self, index: &mut Index, id: &BlobId) -> Result<(), BlobError> {
        let Some(known) = index.known.get(id) else {
            return Ok(());
        };
        let path = known.path(&self.directory, id);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(storage("removed", &path, &error))
            }
            _ => {
                index.known.remove(id);
                Ok(())
            }
        }
    }

    /// Checks the digest; then the blob is there for good, also after a power cut, or it is gone.
    fn finish(&self, index: &mut Index, id: &BlobId) -> Result<(), BlobError> {
        let Some(known) = index.known.get_mut(id) else {
            return Ok(());
        };
        let from = known.path(&self.directory, id);
        let digest = match &mut known.stage {
            Stage::Unfinished(unfinished) => unfinished.digest.take(),
            Stage::Complete | Stage::Taken => return Ok(()),
        };
        if digest
            .map(|digest| BlobId::from_digest(digest.finalize().into()))
            .as_ref()
            != Some(id)
        {
            self.remove(index, id)?;
            return Err(BlobError::Mismatch { id: id.clone() });
        }
        let complete = Known {
            size: known.size,
            stage: Stage::Complete,
            touched: known.touched,
        };
        let to = complete.path(&self.directory, id);
        let kept = File::open(&from)
            .and_then(|file| file.sync_all())
            .and_then(|()| std::fs::rename(&from, &to))
            .and_then(|()| File::open(&self.directory)?.sync_all());
        kept.map_err(|error| storage("kept", &from, &error))?;
        *known = complete;
        Ok(())
    }
}

fn stat(index: &Index, id: &BlobId) -> BlobStat {
    let known = index.known.get(id);
    BlobStat {
        id: id.clone(),
        received: known.map_or(0, Known::received),
        size: known.map(|known| known.size),
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

/// Adds a chunk that begins at or before the end of what is there, and those that waited for it.
fn append(path: &Path, unfinished: &mut Unfinished, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    // What a failed write may have left behind the end is written over.
    let mut digest = match unfinished.digest.take() {
        Some(digest) => digest,
        None => digest_of(&file, unfinished.received)?,
    };
    let added = add(&file, &mut digest, unfinished, offset, bytes);
    unfinished.digest = Some(digest);
    added?;
    while let Some(early) = unfinished.early.first_entry()
        && *early.key() <= unfinished.received
    {
        let (offset, bytes) = early.remove_entry();
        let Some(mut digest) = unfinished.digest.take() else {
            break;
        };
        let added = add(&file, &mut digest, unfinished, offset, &bytes);
        unfinished.digest = Some(digest);
        added?;
    }
    Ok(())
}

fn add(
    file: &File,
    digest: &mut Sha256,
    unfinished: &mut Unfinished,
    offset: u64,
    bytes: &[u8],
) -> io::Result<()> {
    let known = usize::try_from(unfinished.received.saturating_sub(offset)).unwrap_or(usize::MAX);
    let Some(new) = bytes.get(known..).filter(|new| !new.is_empty()) else {
        return Ok(());
    };
    file.write_all_at(new, unfinished.received)?;
    digest.update(new);
    unfinished.received += new.len() as u64;
    Ok(())
}

fn digest_of(file: &File, length: u64) -> io::Result<Sha256> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < length {
        let most = usize::try_from(length - at).unwrap_or(CHUNK_BYTES);
        let part = &mut buffer[..most.min(CHUNK_BYTES)];
        file.read_exact_at(part, at)?;
        digest.update(&*part);
        at += part.len() as u64;
    }
    Ok(digest)
}

/// A piece of a file, a chunk at most. What is no plain file is not opened: a link leads elsewhere, and a pipe
/// may never answer.
pub(crate) fn read_piece(path: &Path, offset: u64, length: u32) -> io::Result<Piece> {
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "it is no plain file",
        ));
    }
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let length = u64::from(length)
        .min(CHUNK_BYTES as u64)
        .min(size.saturating_sub(offset));
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(CHUNK_BYTES)];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(Piece {
        size,
        chunk: Chunk::new(&bytes),
    })
}

pub(crate) fn storage(what: &str, path: &Path, error: &io::Error) -> BlobError {
    // The path stays here: a presentation has no use for it.
    tracing::warn!(path = %path.display(), %error, "a file of the session could not be {what}");
    BlobError::Storage {
        message: format!(
            "one could not be {what}: {error}. Check that its disk has room and is writable"
        ),
    }
}
