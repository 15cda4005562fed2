//! Where the workspace is, what files it has and where it builds.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use cargo_metadata::{Metadata, MetadataCommand};

use crate::command;

/// The checkout that xtask belongs to.
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The checkout whose `cargo xtask` is running.
    pub(crate) fn here() -> Self {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().unwrap_or(&manifest).to_path_buf();
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Every package, its dependencies and the resolved graph, as cargo sees them.
    pub(crate) fn metadata(&self) -> Result<Metadata> {
        MetadataCommand::new()
            .manifest_path(self.root.join("Cargo.toml"))
            .exec()
            .context("ask cargo for the workspace's packages")
    }

    /// The build directory, wherever `CARGO_TARGET_DIR` or a cargo configuration put it.
    pub(crate) fn target(&self) -> Result<PathBuf> {
        let metadata = MetadataCommand::new()
            .manifest_path(self.root.join("Cargo.toml"))
            .no_deps()
            .exec()
            .context("ask cargo for the build directory")?;
        Ok(metadata.target_directory.into_std_path_buf())
    }

    /// Paths of all files that are in the repository or would be added to it, sorted, relative to
    /// the root.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        let listed = command::output(
            command::program("git")
                .current_dir(&self.root)
                .args(["ls-files", "-z", "--cached", "--others"])
                .arg("--exclude-standard"),
        )
        .context("list the repository's files (git is needed for it)")?;
        let mut files: Vec<PathBuf> = listed
            .split('\0')
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
            .filter(|path| self.root.join(path).is_file())
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }
}
