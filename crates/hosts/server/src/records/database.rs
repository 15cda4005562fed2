//! `server.db`: who writes it holds the server's lock; it is made by the first write.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::tables::{Contents, Tables, Write};

/// Marks the file in SQLite's own header field: "Bzlr".
const APPLICATION_ID: i64 = 0x427a_6c72;

/// Each step brings a file from version `index` to `index + 1`. A released step never changes.
const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE workspaces (
    id TEXT PRIMARY KEY,
    root TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    owner TEXT NOT NULL,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    directory TEXT NOT NULL,
    model TEXT,
    thinking_level TEXT,
    permission_mode TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE workers (
    session_id TEXT PRIMARY KEY,
    credential BLOB NOT NULL,
    process TEXT NOT NULL
) STRICT, WITHOUT ROWID;
",
    "
ALTER TABLE sessions ADD COLUMN parent_id TEXT;
ALTER TABLE sessions ADD COLUMN agent TEXT;
ALTER TABLE sessions ADD COLUMN archived_at INTEGER;
",
];

const CURRENT: i64 = MIGRATIONS.len() as i64;

/// Records that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// Not a file of this program.
    #[error(
        "{path} is not Bezel's record file; it was left as it is: move it away, and sessions are found again by their own files"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error(
        "the record file {path} is damaged; it was left as it is: move it away, and sessions are found again by their own files ({source})"
    )]
    Torn {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The file was written by a later version.
    #[error(
        "the record file {path} has format {found}, this program knows up to {known}: update Bezel"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format known here.
        known: i64,
    },
    /// No room.
    #[error("cannot write the record file {path}: the disk is full; make room and try again")]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// SQLite refused.
    #[error("cannot use the record file {path}: {source}; check that its directory is writable")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The file system refused.
    #[error("cannot use {path}: {source}; check that its directory exists and is writable")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// The open file, once there is one. Its calls wait for the disk.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    connection: Option<Connection>,
}

impl Database {
    /// Opens the file and reads it; without a file there is nothing to read and none is made.
    pub(crate) fn load(path: &Path) -> Result<(Self, Contents), RecordsError> {
        let mut database = Database {
            path: path.to_owned(),
            connection: None,
        };
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.len() > 0 => {
                let contents = database
                    .open()?
                    .read()
                    .map_err(|source| database.wrong(source))?;
                Ok((database, contents))
            }
            Ok(_) => Ok((database, Contents::default())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok((database, Contents::default()))
            }
            Err(source) => Err(RecordsError::Io {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Makes all changes or none. Of a deleted session nothing is left in the file, nor in the log beside it.
    pub(crate) fn apply(&mut self, writes: &[Write]) -> Result<(), RecordsError> {
        let deletes = (writes.iter()).any(|write| matches!(write, Write::DeleteSession(_)));
        let connection = self.open()?;
        let written = connection.write(writes).and_then(|()| match deletes {
            true => connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())),
            false => Ok(()),
        });
        written.map_err(|source| self.wrong(source))
    }

    fn open(&mut self) -> Result<&mut Connection, RecordsError> {
        if self.connection.is_none() {
            let io = |source| RecordsError::Io {
                path: self.path.clone(),
                source,
            };
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&self.path);
            match file {
                Ok(file) => drop(file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io(error)),
            }
            let connection = self.connect()?;
            self.connection = Some(connection);
        }
        Ok(self.connection.as_mut().expect("it was opened above"))
    }

    fn connect(&self) -> Result<Connection, RecordsError> {
        let wrong = |source| self.wrong(source);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags).map_err(wrong)?;
        connection
            .busy_timeout(Duration::from_secs(2))
            .map_err(wrong)?;
        let number = |connection: &Connection, name| {
            connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0))
        };
        let tables = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| {
                row.get::<_, i64>(0)
            })
            .map_err(wrong)?;
        let application = number(&connection, "application_id").map_err(wrong)?;
        if application != APPLICATION_ID && (application != 0 || tables != 0) {
            return Err(RecordsError::Foreign {
                path: self.path.clone(),
            });
        }
        let found = number(&connection, "user_version").map_err(wrong)?;
        if found > CURRENT {
            return Err(RecordsError::Newer {
                path: self.path.clone(),
                found,
                known: CURRENT,
            });
        }
        // A file that is made just now holds nothing that a sync would keep: it comes without one.
        let synchronous = if found == 0 { "OFF" } else { "NORMAL" };
        connection
            .execute_batch(&format!(
                "PRAGMA synchronous = {synchronous}; PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON;
                 PRAGMA secure_delete = ON; PRAGMA cache_size = -256; PRAGMA temp_store = MEMORY;"
            ))
            .map_err(wrong)?;
        migrate(&mut connection, found).map_err(wrong)?;
        connection
            .execute_batch("PRAGMA synchronous = NORMAL")
            .map_err(wrong)?;
        Ok(connection)
    }

    fn wrong(&self, source: rusqlite::Error) -> RecordsError {
        let path = self.path.clone();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => RecordsError::Foreign { path },
            Some(ErrorCode::DatabaseCorrupt) => RecordsError::Torn { path, source },
            Some(ErrorCode::DiskFull) => RecordsError::Full { path },
            _ => RecordsError::Sqlite { path, source },
        }
    }
}

fn migrate(connection: &mut Connection, found: i64) -> rusqlite::Result<()> {
    let reached = usize::try_from(found).unwrap_or(0);
    for (index, step) in MIGRATIONS.iter().enumerate().skip(reached) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", index as i64 + 1)?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bezel_context::WorkspaceId;

    use super::super::tables::WorkspaceRow;
    use super::*;

    fn workspace(number: usize) -> Write {
        let root = PathBuf::from(format!("/{}/{number}", "long".repeat(200)));
        let name = "x".repeat(2000);
        Write::Workspace(WorkspaceRow {
            id: WorkspaceId::new(format!("w{number}")),
            root,
            name,
        })
    }

    #[test]
    fn a_full_disk_is_told_and_what_was_written_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("server.db");
        let (mut database, _) = Database::load(&path).unwrap();
        database.apply(&[workspace(0)]).unwrap();
        let connection = database.connection.as_ref().unwrap();
        connection
            .pragma_update(None, "max_page_count", 40)
            .unwrap();
        let (written, error) = (1..1000)
            .find_map(|number| {
                database
                    .apply(&[workspace(number)])
                    .err()
                    .map(|error| (number, error))
            })
            .unwrap();
        assert!(matches!(error, RecordsError::Full { .. }), "{error}");
        assert!(error.to_string().contains("make room"), "{error}");
        drop(database);
        assert_eq!(Database::load(&path).unwrap().1.workspaces.len(), written);
    }

    #[test]
    fn either_all_changes_of_a_write_are_there_or_none() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("server.db");
        let (mut database, _) = Database::load(&path).unwrap();
        assert!(database.apply(&[workspace(1), workspace(1)]).is_err());
        database.apply(&[workspace(2)]).unwrap();
        assert_eq!(Database::load(&path).unwrap().1.workspaces.len(), 1);
    }

    #[test]
    fn the_record_file_is_readable_by_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("server.db");
        let (mut database, _) = Database::load(&path).unwrap();
        assert!(
            !path.exists(),
            "nothing is made before there is something to keep"
        );
        database.apply(&[workspace(1)]).unwrap();
        for name in ["server.db", "server.db-wal"] {
            let mode = std::fs::metadata(scratch.path().join(name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o077, 0, "{name}");
        }
    }
}
