//! The file that the paired clients are kept in: digests of tokens, for the user alone.

use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::clients::Clients;

/// The form of the file.
const VERSION: u32 = 1;

/// Why the paired clients cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The file system refused.
    #[error("cannot use {}: {cause}; make its directory writable and see that the disk is not full", file.display())]
    Io { file: PathBuf, cause: io::Error },
    /// Its content is not what was written.
    #[error("cannot read {}: {cause}; move it away, and pair the clients again", file.display())]
    Content {
        file: PathBuf,
        cause: serde_json::Error,
    },
    /// A later build wrote it.
    #[error("{} is of a later version, {version}; use the newer build", file.display())]
    Later { file: PathBuf, version: u32 },
    /// Others could have put clients of their own into it.
    #[error("{} is open to other users; remove it, and pair the clients again", file.display())]
    Exposed { file: PathBuf },
}

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    #[serde(flatten)]
    clients: Clients,
}

/// What `file` holds; nobody where there is none. Waits for the disk.
pub(crate) fn read(file: &Path) -> Result<Clients, FileError> {
    let failed = |cause| FileError::Io {
        file: file.to_owned(),
        cause,
    };
    let text = match std::fs::read(file) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Clients::default()),
        read => read.map_err(failed)?,
    };
    if std::fs::metadata(file).map_err(failed)?.mode() & 0o077 != 0 {
        return Err(FileError::Exposed {
            file: file.to_owned(),
        });
    }
    let Content { version, clients } =
        serde_json::from_slice(&text).map_err(|cause| FileError::Content {
            file: file.to_owned(),
            cause,
        })?;
    if version > VERSION {
        return Err(FileError::Later {
            file: file.to_owned(),
            version,
        });
    }
    Ok(clients)
}

/// Replaces the file whole. Waits for the disk.
pub(crate) fn write(file: &Path, clients: Clients) -> Result<(), FileError> {
    let failed = |cause| FileError::Io {
        file: file.to_owned(),
        cause,
    };
    let content = Content {
        version: VERSION,
        clients,
    };
    let text = serde_json::to_vec_pretty(&content).expect("clients are plain structures");
    let replace = || {
        // A temporary file is made with mode 0600.
        let mut fresh = NamedTempFile::new_in(file.parent().unwrap_or(Path::new(".")))?;
        fresh.write_all(&text)?;
        fresh.as_file().sync_all()?;
        fresh.persist(file)?;
        Ok(())
    };
    replace().map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use jiff::Timestamp;

    use super::*;
    use crate::clients::Grant;
    use crate::secret::new_token;

    #[test]
    fn what_is_written_is_read_again_and_holds_no_token() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("access.json");
        assert_eq!(read(&file).unwrap(), Clients::default());
        let mut clients = Clients::default();
        let (token, fingerprint) = new_token();
        clients.add(Grant::of_owner("me"), fingerprint, Timestamp::UNIX_EPOCH);
        write(&file, clients.clone()).unwrap();
        assert_eq!(read(&file).unwrap(), clients);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains(&token["bezel_".len()..]), "{text}");
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_cannot_be_trusted_is_refused_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("access.json");
        write(&file, Clients::default()).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            read(&file)
                .unwrap_err()
                .to_string()
                .contains("open to other users")
        );
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&file, "{}").unwrap();
        assert!(
            read(&file)
                .unwrap_err()
                .to_string()
                .contains("move it away")
        );
        std::fs::write(&file, r#"{"version":9,"paired":[],"revoked":[]}"#).unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("newer build"));
    }
}
