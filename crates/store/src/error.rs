//! What can go wrong with a session database, one enum per operation.

use std::path::{Path, PathBuf};

use bezel_session_types::EntryId;
use rusqlite::ErrorCode;

/// A session database that could not be opened. The file is left as it was.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process owns it.
    #[error("session database {path} is in use{}: end that process, or work with the session through it", holder.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    Locked {
        /// The database.
        path: PathBuf,
        /// Who holds it, where the lock file says so.
        holder: Option<u32>,
    },
    /// There is no such file.
    #[error("there is no session database at {path}")]
    Missing {
        /// The database.
        path: PathBuf,
    },
    /// The database was made, and is gone or empty now.
    #[error(
        "session database {path} is gone or empty, though the session had one: nothing was changed; restore it from a copy or an export, or delete the session"
    )]
    Lost {
        /// The database.
        path: PathBuf,
    },
    /// The file is not a session database.
    #[error(
        "{path} is not a Bezel session database ({found}); it was left as it is: move it away, or name another file"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        found: &'static str,
    },
    /// The file is damaged.
    #[error(
        "session database {path} is damaged; it was left as it is: restore it from a copy ({source})"
    )]
    Torn {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// SQLite reads the file and finds it damaged.
    #[error(
        "session database {path} is damaged; it was left as it is: restore it from a copy ({found})"
    )]
    Damaged {
        /// The database.
        path: PathBuf,
        /// The first thing that is wrong.
        found: String,
    },
    /// The file was written by a later version.
    #[error(
        "session database {path} has format {found}, this program knows up to {known}: update Bezel"
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// The file's format.
        found: i64,
        /// The newest format known here.
        known: i64,
    },
    /// The file system refused.
    #[error(
        "cannot open session database {path}: {source}; check that the directory exists, is writable and has room"
    )]
    Io {
        /// The file that was refused.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// SQLite refused.
    #[error(
        "cannot open session database {path}: {source}; check that the directory is writable and the disk not full"
    )]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

/// A commit that did not happen. Nothing of its transaction is in the database.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// No room.
    #[error(
        "cannot write session database {path}: the disk is full; nothing was lost: make room and try again"
    )]
    Full {
        /// The database.
        path: PathBuf,
    },
    /// A row with that id is there already.
    #[error("cannot write session database {path}: an id is already in use ({source})")]
    Duplicate {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// A new entry continues one that does not exist.
    #[error("cannot write session database {path}: entry {parent} to continue does not exist")]
    UnknownParent {
        /// The database.
        path: PathBuf,
        /// The entry that was named.
        parent: EntryId,
    },
    /// The file is damaged.
    #[error(
        "cannot write session database {path}, which is damaged: restore it from a copy ({source})"
    )]
    Torn {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// SQLite refused.
    #[error("cannot write session database {path}: {source}")]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The system could not bring the log to the disk. The rows are there until a power cut; no
    /// further commit is taken, because nobody can say what the disk holds.
    #[error(
        "cannot bring session database {path} to the disk: {reason}; end the session and check the disk"
    )]
    Sync {
        /// The database.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The store is closed, or was told to take no further commit.
    #[error("session database {path} takes no further commit")]
    Stopped {
        /// The database.
        path: PathBuf,
    },
}

/// A read that failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store is closed.
    #[error("session database {path} is closed here: ask whoever opens it next")]
    Closed {
        /// The database.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error(
        "cannot read session database {path}, which is damaged: restore it from a copy ({source})"
    )]
    Torn {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// SQLite refused.
    #[error("cannot read session database {path}: {source}")]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// A row does not hold what this version writes.
    #[error("session database {path}: {row} cannot be understood: {source}")]
    Row {
        /// The database.
        path: PathBuf,
        /// Which row.
        row: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl ReadError {
    /// By what SQLite says of the database at `path`.
    pub(crate) fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match is_damage(&source) {
            true => ReadError::Torn { path, source },
            false => ReadError::Sqlite { path, source },
        }
    }
}

/// Whether SQLite says that the file itself is not what it has to be.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}
