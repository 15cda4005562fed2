//! What is kept of each server that this client is paired with: a file for the user alone.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use bezel_sockets::Endpoint;
use serde::{Deserialize, Serialize};

use crate::paths::replace_private;

/// A server that this client is paired with. It holds the token, and so it has no debug form.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) url: String,
    pub(super) token: String,
    #[serde(default)]
    pub(super) ca: Option<PathBuf>,
    #[serde(default)]
    pub(super) allow_insecure: bool,
}

/// Why what was kept cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KnownError {
    /// The file system refused.
    #[error("cannot use {}: {error}; make its directory writable or set BEZEL_HOME to one that is", file.display())]
    Io {
        /// Which file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is not what was written.
    #[error("cannot read {}: it is not what Bezel wrote; remove it and pair again", file.display())]
    Content {
        /// Which file.
        file: PathBuf,
    },
    /// Others could have read the token.
    #[error("{} is open to other users: take this client's access back (`bezel access revoke`), remove the file and pair again", file.display())]
    Exposed {
        /// Which file.
        file: PathBuf,
    },
}

/// Where a server is kept.
pub(super) fn file(state: &Path, endpoint: &Endpoint) -> PathBuf {
    let safe = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => character,
        _ => '_',
    };
    let name: String = endpoint.to_string().chars().map(safe).collect();
    state.join("remotes").join(format!("{name}.json"))
}

/// What `file` holds of a server; none where this client is not paired with it.
pub(super) fn read(file: &Path, endpoint: &Endpoint) -> Result<Option<Known>, KnownError> {
    let failed = |error| KnownError::Io {
        file: file.to_owned(),
        error,
    };
    let text = match std::fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(failed)?,
    };
    let metadata = std::fs::metadata(file).map_err(failed)?;
    if metadata.mode() & 0o077 != 0 || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(KnownError::Exposed {
            file: file.to_owned(),
        });
    }
    // The causes are left out: they could quote the token.
    let known: Known = serde_json::from_slice(&text).map_err(|_| KnownError::Content {
        file: file.to_owned(),
    })?;
    // Two addresses may lead to one name of a file; a token goes to its own server alone.
    Ok((known.url == endpoint.to_string()).then_some(known))
}

/// Keeps a server.
pub(super) fn write(file: &Path, known: &Known) -> Result<(), KnownError> {
    let failed = |error| KnownError::Io {
        file: file.to_owned(),
        error,
    };
    if let Some(directory) = file.parent() {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(directory).map_err(failed)?;
    }
    let text = serde_json::to_vec_pretty(known).map_err(|error| failed(error.into()))?;
    replace_private(file, &text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_kept_per_server_and_for_the_user_alone() {
        let state = tempfile::tempdir().unwrap();
        let endpoint: Endpoint = "https://build.example/a_b".parse().unwrap();
        let file = file(state.path(), &endpoint);
        assert!(read(&file, &endpoint).unwrap().is_none());
        let known = Known {
            url: endpoint.to_string(),
            token: "bezel_secret".into(),
            ca: None,
            allow_insecure: false,
        };
        write(&file, &known).unwrap();
        assert!(read(&file, &endpoint).unwrap() == Some(known));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        let other: Endpoint = "https://build.example/a/b".parse().unwrap();
        assert_eq!(super::file(state.path(), &other), file);
        assert!(read(&file, &other).unwrap().is_none());
        std::fs::write(&file, "bezel_secret").unwrap();
        let error = read(&file, &endpoint).err().unwrap().to_string();
        assert!(
            error.contains("pair again") && !error.contains("secret"),
            "{error}"
        );
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(
            read(&file, &endpoint),
            Err(KnownError::Exposed { .. })
        ));
    }
}
