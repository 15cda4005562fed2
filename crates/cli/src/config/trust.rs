//! Which projects may configure Bezel: their file can name commands that Bezel runs.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::paths::{PathsError, create_private, replace_private};

/// The trusted projects, in a file of the state directory.
#[derive(Debug, Clone)]
pub struct TrustStore {
    file: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    version: u32,
    trusted: BTreeSet<PathBuf>,
}

/// Why the trusted projects could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file cannot be read.
    #[error("cannot read the trusted projects in {}: {error}", file.display())]
    Read {
        /// Which file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file holds something else.
    #[error("{} is damaged ({error}): remove it and trust your projects again", file.display())]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// What is wrong in it.
        error: serde_json::Error,
    },
    /// The file cannot be written.
    #[error("cannot write the trusted projects to {}: {error}", file.display())]
    Write {
        /// Which file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Its directory cannot be made.
    #[error(transparent)]
    Directory(#[from] PathsError),
    /// The project's directory does not exist.
    #[error("cannot trust {}: {error}", directory.display())]
    Project {
        /// As it was given.
        directory: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl TrustStore {
    /// The store in `file`, which need not exist.
    pub fn new(file: PathBuf) -> Self {
        TrustStore { file }
    }

    /// Whether `project`, or a directory above it, is trusted.
    pub fn trusts(&self, project: &Path) -> Result<bool, TrustError> {
        let stored = self.read()?;
        if stored.trusted.is_empty() {
            return Ok(false);
        }
        let project = project
            .canonicalize()
            .unwrap_or_else(|_| project.to_owned());
        Ok(project
            .ancestors()
            .any(|directory| stored.trusted.contains(directory)))
    }

    /// Trusts `directory` and what lies below. Returns its full path.
    pub fn trust(&self, directory: &Path) -> Result<PathBuf, TrustError> {
        let full = canonical(directory)?;
        self.change(|trusted| {
            trusted.insert(full.clone());
        })?;
        Ok(full)
    }

    /// Takes trust back. Returns the full path, and whether it was trusted.
    pub fn untrust(&self, directory: &Path) -> Result<(PathBuf, bool), TrustError> {
        // A project that was deleted can still lose its trust.
        let full = directory
            .canonicalize()
            .or_else(|_| std::path::absolute(directory));
        let full = full.map_err(|error| TrustError::Project {
            directory: directory.to_owned(),
            error,
        })?;
        let mut was = false;
        self.change(|trusted| was = trusted.remove(&full))?;
        Ok((full, was))
    }

    fn read(&self) -> Result<Stored, TrustError> {
        match std::fs::read(&self.file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| TrustError::Damaged {
                file: self.file.clone(),
                error,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Stored::default()),
            Err(error) => Err(TrustError::Read {
                file: self.file.clone(),
                error,
            }),
        }
    }

    /// Reads, changes and replaces the file under a lock, so that two changes at once both hold.
    fn change(&self, change: impl FnOnce(&mut BTreeSet<PathBuf>)) -> Result<(), TrustError> {
        if let Some(directory) = self.file.parent() {
            create_private(directory)?;
        }
        let write = |error| TrustError::Write {
            file: self.file.clone(),
            error,
        };
        let lock = std::fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.file.with_extension("lock"))
            .map_err(write)?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| write(error.into()))?;
        let mut stored = self.read()?;
        stored.version = 1;
        change(&mut stored.trusted);
        let text = serde_json::to_vec_pretty(&stored).map_err(|error| write(error.into()))?;
        replace_private(&self.file, &text).map_err(write)
    }
}

fn canonical(directory: &Path) -> Result<PathBuf, TrustError> {
    let full = directory
        .canonicalize()
        .map_err(|error| TrustError::Project {
            directory: directory.to_owned(),
            error,
        })?;
    if full.is_dir() {
        return Ok(full);
    }
    let error = io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory");
    Err(TrustError::Project {
        directory: directory.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_trusted_with_what_lies_below_until_trust_is_taken_back() {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join("project");
        let below = project.join("crates/x");
        std::fs::create_dir_all(&below).unwrap();
        let store = TrustStore::new(home.path().join("state/trust.json"));
        assert!(!store.trusts(&project).unwrap());
        store.trust(&project).unwrap();
        assert!(store.trusts(&below).unwrap());
        assert!(!store.trusts(home.path()).unwrap());
        assert!(store.untrust(&project).unwrap().1);
        assert!(!store.trusts(&below).unwrap());
        assert!(!store.untrust(&project).unwrap().1);
    }

    #[test]
    fn a_damaged_store_is_named_and_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("trust.json");
        std::fs::write(&file, "{").unwrap();
        let store = TrustStore::new(file.clone());
        let error = store.trust(home.path()).unwrap_err().to_string();
        assert!(error.contains("trust.json is damaged"), "{error}");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "{");
    }

    #[test]
    fn a_link_to_a_trusted_project_is_trusted() {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&project, &link).unwrap();
        let store = TrustStore::new(home.path().join("trust.json"));
        store.trust(&project).unwrap();
        assert!(store.trusts(&link).unwrap());
    }
}
