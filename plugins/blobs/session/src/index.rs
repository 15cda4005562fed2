//! What is in the directory of blobs, as the names of its files say.
//!
//! `ID.SIZE.part` is an unfinished upload whose length is what has arrived, in order, without a gap.
//! `ID` is a complete blob, `ID.taken` one that a message holds too.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bezel_session_types::BlobId;
use sha2::Sha256;

/// How a blob stands.
#[derive(Debug)]
pub(crate) enum Stage {
    Unfinished(Unfinished),
    Complete,
    /// Complete, and its bytes are in a message: it may go when room is needed.
    Taken,
}

/// An upload that is under way.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    /// Bytes from the start that are in the file.
    pub(crate) received: u64,
    /// Of those bytes; made anew from the file after a restart.
    pub(crate) digest: Option<Sha256>,
    /// Chunks that came ahead of others, by their offset.
    pub(crate) early: BTreeMap<u64, Vec<u8>>,
}

/// A blob, complete or not.
#[derive(Debug)]
pub(crate) struct Known {
    /// Bytes of the whole, as announced.
    pub(crate) size: u64,
    pub(crate) stage: Stage,
    /// When it was last of use.
    pub(crate) touched: SystemTime,
}

/// All blobs of the session.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) known: HashMap<BlobId, Known>,
}

impl Known {
    pub(crate) fn received(&self) -> u64 {
        match &self.stage {
            Stage::Unfinished(unfinished) => unfinished.received,
            Stage::Complete | Stage::Taken => self.size,
        }
    }

    pub(crate) fn path(&self, directory: &Path, id: &BlobId) -> PathBuf {
        directory.join(match &self.stage {
            Stage::Unfinished(_) => format!("{id}.{}.part", self.size),
            Stage::Complete => id.to_string(),
            Stage::Taken => format!("{id}.taken"),
        })
    }
}

impl Index {
    /// Reads the directory; one that is not there has nothing. Of two files of one blob the complete one
    /// counts, and files that are none of ours are left alone.
    pub(crate) fn read(directory: &Path) -> io::Result<Self> {
        let mut index = Index::default();
        let entries = match std::fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(index),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let name = entry.file_name();
            let found = name.to_str().and_then(|name| parse(name, metadata.len()));
            let Some((id, size, stage)) = found else {
                continue;
            };
            let touched = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let found = Known {
                size,
                stage,
                touched,
            };
            match index.known.get(&id) {
                Some(known) if known.received() >= found.received() => {}
                _ => {
                    index.known.insert(id, found);
                }
            }
        }
        Ok(index)
    }

    /// Bytes that are held or promised.
    pub(crate) fn held(&self) -> u64 {
        self.known.values().map(|known| known.size).sum()
    }

    /// Bytes in memory that came ahead of others.
    pub(crate) fn early(&self) -> usize {
        let of = |known: &Known| match &known.stage {
            Stage::Unfinished(unfinished) => unfinished.early.values().map(Vec::len).sum(),
            Stage::Complete | Stage::Taken => 0,
        };
        self.known.values().map(of).sum()
    }

    /// What is to go first when room is needed: what a message holds too, then what nobody came back for in
    /// so long; of equals what was of no use for longest.
    pub(crate) fn dispensable(&self, patience: std::time::Duration) -> Option<BlobId> {
        let now = SystemTime::now();
        let candidate = |(id, known): (&BlobId, &Known)| {
            let taken = matches!(known.stage, Stage::Taken);
            let idle = now.duration_since(known.touched).unwrap_or_default();
            (taken || idle > patience).then(|| (!taken, known.touched, id.clone()))
        };
        let first = self.known.iter().filter_map(candidate).min();
        first.map(|(_, _, id)| id)
    }
}

fn parse(name: &str, length: u64) -> Option<(BlobId, u64, Stage)> {
    let (id, rest) = name.split_once('.').unwrap_or((name, ""));
    let id = BlobId::try_from(id.to_owned()).ok()?;
    match rest {
        "" => Some((id, length, Stage::Complete)),
        "taken" => Some((id, length, Stage::Taken)),
        part => {
            let size = part.strip_suffix(".part")?.parse().ok()?;
            let unfinished = Unfinished {
                received: length.min(size),
                ..Unfinished::default()
            };
            Some((id, size, Stage::Unfinished(unfinished)))
        }
    }
}
