//! A directory for what leaves nothing behind.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::failure::{Failure, Outcome};

/// A directory for the user alone; gone with this value.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it in the system's directory for temporary files.
    pub fn new() -> Outcome<Self> {
        let path = std::env::temp_dir().join(format!("bezel-{:016x}", rand::random::<u64>()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| {
                format!(
                    "cannot create the directory {}; set TMPDIR to a writable one",
                    path.display()
                )
            })
            .map_err(Failure::failed)?;
        Ok(Scratch(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "a scratch directory is left");
        }
    }
}
