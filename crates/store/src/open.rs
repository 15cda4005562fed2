//! Opening a file: what it is, whether it is whole, and the connection's settings.
//!
//! A live database is touched through SQLite alone. Closing any other descriptor of it would drop
//! the locks that SQLite holds in this process.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::OpenError;
use crate::lock::was_made;
use crate::schema::{APPLICATION_ID, CURRENT, migrate};

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens for the owner, who holds the lock; makes the file where there is none. One that was made and has lost
/// what it held is refused and left as it is.
pub(crate) fn open_owned(path: &Path, was_made: bool) -> Result<Connection, OpenError> {
    if !is_there(path)? {
        if was_made {
            return Err(OpenError::Lost {
                path: path.to_owned(),
            });
        }
        let created = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        if let Err(source) = created
            && source.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(OpenError::Io {
                path: path.to_owned(),
                source,
            });
        }
    }
    let sqlite = |source| classify(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(sqlite)?;
    connection.set_prepared_statement_cache_capacity(48);
    // Checkpoints run beside the writer (see `sync`), the automatic one is only the last resort.
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = OFF;
             PRAGMA cache_size = -512; PRAGMA wal_autocheckpoint = 16384; PRAGMA temp_store = MEMORY;",
        )
        .map_err(sqlite)?;
    migrate(&mut connection).map_err(sqlite)?;
    Ok(connection)
}

/// Whether there is a file with something in it, which may be all that a torn log has left of a new one. A file
/// whose making was cut off is brought back to what it was before that: nothing.
fn is_there(path: &Path) -> Result<bool, OpenError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.len() > 0 => match inspect(path) {
            Err(OpenError::Sqlite { source, .. }) if is_cut_off(&source) => {
                roll_back(path)?;
                let left = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0);
                match left {
                    true => inspect(path).map(|_| true),
                    false => Ok(false),
                }
            }
            Err(error) => Err(error),
            Ok(_) => Ok(true),
        },
        Ok(_) => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(OpenError::Io {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Whether a transaction without SQLite's log was cut off, which only the making of a file has.
fn is_cut_off(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(rusqlite::ffi::SQLITE_READONLY_ROLLBACK)
}

/// Takes back what such a transaction has written: SQLite does so for whoever may write.
fn roll_back(path: &Path) -> Result<(), OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
    });
    connection.map_err(|source| classify(path, source))
}

/// What a whole SQLite file holds.
enum Contents {
    Session,
    Nothing,
}

/// Opens for reading beside the owner.
pub(crate) fn open_reading(path: &Path) -> Result<Connection, OpenError> {
    let missing = || {
        let path = path.to_owned();
        match was_made(&path) {
            true => OpenError::Lost { path },
            false => OpenError::Missing { path },
        }
    };
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.len() > 0 => match inspect(path) {
            Ok((connection, Contents::Session)) => Ok(connection),
            Ok((_, Contents::Nothing)) => Err(OpenError::Missing {
                path: path.to_owned(),
            }),
            Err(OpenError::Sqlite { source, .. }) if is_cut_off(&source) => Err(missing()),
            Err(error) => Err(error),
        },
        Ok(_) => Err(missing()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(missing()),
        Err(source) => Err(OpenError::Io {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Opens read-only and refuses what is foreign, damaged or newer. Writes nothing into the database.
fn inspect(path: &Path) -> Result<(Connection, Contents), OpenError> {
    let marks = Marks {
        application_ids: &[APPLICATION_ID],
    };
    let classify = |source| classify(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(classify)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(classify)?;
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(classify)?;
    connection
        .execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -512;")
        .map_err(classify)?;
    let contents = marks.recognise(path, &connection)?;
    Ok((connection, contents))
}

/// Opens a file that somebody brought, reads all of it and refuses one that is not whole or that holds what
/// runs by itself. Writes nothing into it.
pub(crate) fn open_whole(path: &Path, marks: &Marks) -> Result<Connection, OpenError> {
    if !std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0) {
        return Err(OpenError::Missing {
            path: path.to_owned(),
        });
    }
    let classify = |source| classify(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(classify)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(classify)?;
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(classify)?;
    connection
        .execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")
        .map_err(classify)?;
    if let Contents::Nothing = marks.recognise(path, &connection)? {
        return Err(OpenError::Missing {
            path: path.to_owned(),
        });
    }
    let foreign = |found| OpenError::Foreign {
        path: path.to_owned(),
        found,
    };
    let runs: bool = connection
        .query_row(
            "SELECT count(*) > 0 FROM sqlite_schema WHERE type IN ('trigger', 'view')",
            [],
            |row| row.get(0),
        )
        .map_err(classify)?;
    if runs {
        return Err(foreign("it holds triggers or views, which no session has"));
    }
    let whole: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(classify)?;
    if whole != "ok" {
        return Err(OpenError::Damaged {
            path: path.to_owned(),
            found: whole,
        });
    }
    Ok(connection)
}

/// By what a file is known.
pub(crate) struct Marks {
    pub(crate) application_ids: &'static [i64],
}

impl Marks {
    fn recognise(&self, path: &Path, connection: &Connection) -> Result<Contents, OpenError> {
        let classify = |source| classify(path, source);
        let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let application = number("application_id").map_err(classify)?;
        let version = number("user_version").map_err(classify)?;
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(classify)?;
        // A crash between making the file and its first migration leaves a header and no table.
        if application == 0 && tables == 0 {
            return Ok(Contents::Nothing);
        }
        if !self.application_ids.contains(&application) {
            return Err(OpenError::Foreign {
                path: path.to_owned(),
                found: "an SQLite file of another program",
            });
        }
        if version > CURRENT {
            return Err(OpenError::Newer {
                path: path.to_owned(),
                found: version,
                known: CURRENT,
            });
        }
        // SQLite takes a last page that is cut off for a whole one. What a log still holds may be missing here.
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let pages = number("page_count").map_err(classify)?;
        let needed = pages * number("page_size").map_err(classify)?;
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let found = length(path);
        if found < u64::try_from(needed).unwrap_or(0) && length(Path::new(&log)) == 0 {
            return Err(OpenError::Damaged {
                path: path.to_owned(),
                found: format!("it ends after {found} of {needed} bytes"),
            });
        }
        Ok(Contents::Session)
    }
}

pub(crate) fn classify(path: &Path, source: rusqlite::Error) -> OpenError {
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::Foreign {
            path: path.to_owned(),
            found: "not an SQLite file",
        },
        Some(ErrorCode::DatabaseCorrupt) => OpenError::Torn {
            path: path.to_owned(),
            source,
        },
        _ => OpenError::Sqlite {
            path: path.to_owned(),
            source,
        },
    }
}
