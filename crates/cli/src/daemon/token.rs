//! The secret that local clients show, in a file that only the user can read.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read or written.
    #[error("cannot use the token file {}: {error}", file.display())]
    File {
        /// Which file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Nothing is in it.
    #[error("the token file {} is empty: remove it and run `bezel server stop`", file.display())]
    Empty {
        /// Which file.
        file: PathBuf,
    },
    /// Others could have read or planted it.
    #[error("the token file {} is open to other users: remove it and run `bezel server stop`", file.display())]
    Exposed {
        /// Which file.
        file: PathBuf,
    },
}

/// The token in `file`, made there first if there is none. Client and server may both be first: one of
/// them makes it, and never in part.
pub fn read_or_create_token(file: &Path) -> Result<String, TokenError> {
    match read_token(file) {
        Err(TokenError::File { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
        known => return known,
    }
    let bytes: [u8; 32] = rand::random();
    let token = bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    });
    let wrong = |error| TokenError::File {
        file: file.to_owned(),
        error,
    };
    let fresh = file.with_extension(format!("new-{}", &token[..16]));
    let mut handle = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&fresh)
        .map_err(wrong)?;
    let linked = handle
        .write_all(token.as_bytes())
        .and_then(|()| std::fs::hard_link(&fresh, file));
    std::fs::remove_file(&fresh).map_err(wrong)?;
    match linked {
        Ok(()) => Ok(token),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read_token(file),
        Err(error) => Err(wrong(error)),
    }
}

/// The token in `file`.
pub fn read_token(file: &Path) -> Result<String, TokenError> {
    let wrong = |error| TokenError::File {
        file: file.to_owned(),
        error,
    };
    let text = std::fs::read_to_string(file).map_err(wrong)?;
    let metadata = std::fs::metadata(file).map_err(wrong)?;
    if metadata.mode() & 0o077 != 0 || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(TokenError::Exposed {
            file: file.to_owned(),
        });
    }
    let token = text.trim();
    if token.is_empty() {
        return Err(TokenError::Empty {
            file: file.to_owned(),
        });
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_for_the_user_alone() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        let token = read_or_create_token(&file).unwrap();
        assert_eq!(token.len(), 64);
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read_or_create_token(&file).unwrap(), token);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(read_token(&file), Err(TokenError::Exposed { .. })));
    }

    #[test]
    fn many_that_are_first_at_once_agree() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        let tokens: Vec<String> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..16)
                .map(|_| scope.spawn(|| read_or_create_token(&file).unwrap()))
                .collect();
            makers
                .into_iter()
                .map(|maker| maker.join().unwrap())
                .collect()
        });
        assert!(tokens.iter().all(|token| *token == tokens[0]));
    }
}
