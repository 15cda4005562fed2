//! A whole session as one file, to take along: an SQLite database with the session's tables, its saved
//! output and what else is known of it.
//!
//! | Table | Holds |
//! |---|---|
//! | those of a session | as in the session's own database, in the format that `user_version` names |
//! | `package` | one row, `facts`: JSON of [`PackageFacts`] |
//! | `outputs` | `name`, `content`: one row for each file of the output directory |
//! | `seal` | one row, `digest`: of everything else, see [`crate::seal`]; earlier packages have none |
//!
//! The `application_id` is "Bzlx", so that nobody takes such a file for a session that is worked in. A plain
//! copy of a session's database is taken as a package without facts and outputs.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bezel_session_types::SessionId;
use rusqlite::{Connection, OpenFlags, params};
use serde::{Deserialize, Serialize};

use crate::error::is_damage;
use crate::open::{self, Marks};
use crate::schema::{APPLICATION_ID, has_table, migrate};
use crate::seal::{is_unbroken, seal};
use crate::{OpenError, Queries, ReadError, Reader};

/// Marks a file as a packed session: "Bzlx".
const PACKAGE_ID: i64 = 0x427a_6c78;

/// What a package tells of its session besides the session's own rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageFacts {
    /// The session that it was.
    pub session_id: SessionId,
    /// Its title; empty where it had none.
    #[serde(default)]
    pub title: String,
    /// Where it worked.
    pub directory: PathBuf,
    /// Where its long output was, as its tree names it.
    pub output_directory: PathBuf,
    /// The product that packed it.
    pub version: String,
}

/// A session that was not packed or unpacked. What was begun is removed again.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// There is something at the place to write to.
    #[error("{path} is there already: name another file, or remove that one first")]
    Exists {
        /// The place.
        path: PathBuf,
    },
    /// The file system refused.
    #[error(
        "cannot use {path}: {source}; check that its directory is writable and the disk not full"
    )]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The session could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file to unpack is no package.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An output's name would lead elsewhere.
    #[error(
        "{path} holds an output with the name `{name}`, which is no file name; it was left as it is"
    )]
    OutputName {
        /// The package.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// SQLite refused.
    #[error(
        "cannot copy session database {path}: {source}; check that it is whole and the disk not full"
    )]
    Sqlite {
        /// Which file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

impl Reader {
    /// Packs the session, as it is at one moment, into a new file at `target`, with the files of `outputs`,
    /// a directory that need not be there. The owner may go on writing. Blocks for as long as the disk takes.
    pub fn pack(
        &self,
        facts: &PackageFacts,
        outputs: &Path,
        target: &Path,
    ) -> Result<(), PackageError> {
        missing(target)?;
        let part = Unfinished::beside(target)?;
        let copied = self
            .on_connection(|connection| {
                // Nothing is written into the session, which is open to read alone; into the new file it is.
                connection.execute_batch("PRAGMA query_only = OFF")?;
                let copied = copy(connection, &part.0);
                connection.execute_batch("PRAGMA query_only = ON")?;
                copied
            })
            .and_then(|()| fill(&part.0, facts, outputs));
        copied.map_err(|wrong| wrong.at(self.path()))?;
        part.publish(target)
    }

    /// Writes a new file at `target` from what the session holds at one moment. It takes its name once it is whole
    /// and on the disk; where `write` fails nothing is left. Blocks for as long as the disk takes.
    pub fn write_out(
        &self,
        target: &Path,
        write: impl FnOnce(&Queries<'_>, &mut dyn Write) -> Result<(), WriteOutError>,
    ) -> Result<(), PackageError> {
        missing(target)?;
        let part = Unfinished::beside(target)?;
        let file = OpenOptions::new().write(true).open(&part.0);
        let mut out = BufWriter::new(file.map_err(|source| io_error(&part.0, source))?);
        let written = self.read(|queries| Ok(write(queries, &mut out)))?;
        let written = written.and_then(|()| out.flush().map_err(WriteOutError::Write));
        written.map_err(|error| match error {
            WriteOutError::Read(error) => PackageError::Read(error),
            WriteOutError::Write(source) => io_error(&part.0, source),
        })?;
        part.publish(target)
    }
}

/// A session that was not written out.
#[derive(Debug, thiserror::Error)]
pub enum WriteOutError {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Refuses a place where something is.
fn missing(target: &Path) -> Result<(), PackageError> {
    match target.try_exists() {
        Ok(false) => Ok(()),
        Ok(true) => Err(PackageError::Exists {
            path: target.to_owned(),
        }),
        Err(source) => Err(io_error(target, source)),
    }
}

/// A packed session, to be unpacked.
pub struct Package {
    path: PathBuf,
    connection: Connection,
    facts: Option<PackageFacts>,
}

impl Package {
    /// Opens a package, or a plain session database, and checks that it is whole. Writes nothing into it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let marks = Marks {
            application_ids: &[PACKAGE_ID, APPLICATION_ID],
        };
        let connection = open::open_whole(path, &marks)?;
        let classify = |source| open::classify(path, source);
        if !is_unbroken(&connection).map_err(classify)? {
            return Err(OpenError::Damaged {
                path: path.to_owned(),
                found: "it does not hold what was packed".to_owned(),
            });
        }
        let facts = read_facts(&connection).map_err(classify)?;
        Ok(Package {
            path: path.to_owned(),
            connection,
            facts,
        })
    }

    /// What it tells of its session; nothing where it is a plain database.
    pub fn facts(&self) -> Option<&PackageFacts> {
        self.facts.as_ref()
    }

    /// Makes a session database at `database`, where there is none, and its output in `outputs`. Where
    /// the tree names the old output directory, it names `named` then.
    pub fn unpack(
        &self,
        database: &Path,
        outputs: &Path,
        named: &Path,
    ) -> Result<(), PackageError> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(database)
            .map_err(|source| io_error(database, source))?;
        copy(&self.connection, database)
            .and_then(|()| {
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let mut copy = Connection::open_with_flags(database, flags)?;
                copy.execute_batch("PRAGMA trusted_schema = OFF")?;
                self.unpack_outputs(outputs)?;
                copy.execute_batch(
                    "DROP TABLE IF EXISTS outputs; DROP TABLE IF EXISTS package;
                     DROP TABLE IF EXISTS seal;",
                )?;
                copy.pragma_update(None, "application_id", APPLICATION_ID)?;
                migrate(&mut copy)?;
                if let Some(facts) = &self.facts {
                    let (old, new) = (in_json(&facts.output_directory), in_json(named));
                    copy.execute(
                        "UPDATE entries SET body = replace(body, ?1, ?2) WHERE instr(body, ?1) > 0",
                        params![old, new],
                    )?;
                    copy.execute_batch("VACUUM")?;
                }
                Ok(())
            })
            .map_err(|wrong| wrong.at(&self.path))
    }

    fn unpack_outputs(&self, outputs: &Path) -> Result<(), Wrong> {
        if self.facts.is_none() {
            return Ok(());
        }
        let mut rows = self
            .connection
            .prepare("SELECT name, content FROM outputs ORDER BY name")?;
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            let plain = Path::new(&name)
                .file_name()
                .is_some_and(|file| file == name.as_str());
            if !plain || name.contains('\0') {
                return Err(PackageError::OutputName {
                    path: self.path.clone(),
                    name,
                }
                .into());
            }
            let content = row.get_ref(1)?.as_bytes().map_err(rusqlite::Error::from)?;
            let path = outputs.join(&name);
            let wrong = |source| io_error(&path, source);
            std::fs::create_dir_all(outputs).map_err(wrong)?;
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
                .map_err(wrong)?;
            io::Write::write_all(&mut file, content).map_err(wrong)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Package {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Package")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// What failed within a copy; which file SQLite speaks of is known outside.
pub(crate) enum Wrong {
    Sqlite(rusqlite::Error),
    Other(PackageError),
}

impl From<rusqlite::Error> for Wrong {
    fn from(source: rusqlite::Error) -> Self {
        Wrong::Sqlite(source)
    }
}

impl From<PackageError> for Wrong {
    fn from(error: PackageError) -> Self {
        Wrong::Other(error)
    }
}

impl Wrong {
    fn at(self, path: &Path) -> PackageError {
        match self {
            Wrong::Sqlite(source) if is_damage(&source) => PackageError::Open(OpenError::Torn {
                path: path.to_owned(),
                source,
            }),
            Wrong::Sqlite(source) => PackageError::Sqlite {
                path: path.to_owned(),
                source,
            },
            Wrong::Other(error) => error,
        }
    }
}

/// The file that is written before it takes its name; gone when this is dropped.
struct Unfinished(PathBuf);

impl Unfinished {
    fn beside(target: &Path) -> Result<Self, PackageError> {
        let mut name = target.as_os_str().to_owned();
        name.push(format!(".part-{}", std::process::id()));
        let path = PathBuf::from(name);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| io_error(&path, source))?;
        Ok(Unfinished(path))
    }

    /// Gives it its name once it is on the disk.
    fn publish(self, target: &Path) -> Result<(), PackageError> {
        File::open(&self.0)
            .and_then(|file| file.sync_all())
            .map_err(|source| io_error(&self.0, source))?;
        // Unlike a renaming, a link never takes another file's place.
        std::fs::hard_link(&self.0, target).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => PackageError::Exists {
                path: target.to_owned(),
            },
            _ => io_error(target, source),
        })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        for suffix in ["", "-journal"] {
            let mut name = self.0.as_os_str().to_owned();
            name.push(suffix);
            if let Err(error) = std::fs::remove_file(PathBuf::from(name))
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(path = %self.0.display(), %error, "an unfinished file remains");
            }
        }
    }
}

/// One state of the database, without what was deleted from it.
fn copy(connection: &Connection, target: &Path) -> Result<(), Wrong> {
    let target = target.to_str().ok_or_else(|| {
        let unusable = io::Error::new(io::ErrorKind::InvalidInput, "its path is no UTF-8");
        io_error(target, unusable)
    })?;
    connection.execute("VACUUM INTO ?1", params![target])?;
    Ok(())
}

fn fill(part: &Path, facts: &PackageFacts, outputs: &Path) -> Result<(), Wrong> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(part, flags)?;
    connection.pragma_update(None, "application_id", PACKAGE_ID)?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(
        "CREATE TABLE package (facts TEXT NOT NULL) STRICT;
         CREATE TABLE outputs (name TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT;",
    )?;
    let facts = serde_json::to_string(facts).expect("facts have text keys");
    transaction.execute("INSERT INTO package (facts) VALUES (?1)", params![facts])?;
    let wrong = |source| io_error(outputs, source);
    let files = match std::fs::read_dir(outputs) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            seal(&transaction)?;
            transaction.commit()?;
            return Ok(());
        }
        Err(error) => return Err(wrong(error).into()),
    };
    for file in files {
        let file = file.map_err(wrong)?;
        // Names that are no text and folders are not the session's own: nothing in the tree names them.
        let (Ok(name), true) = (
            file.file_name().into_string(),
            file.file_type().map_err(wrong)?.is_file(),
        ) else {
            continue;
        };
        let content =
            std::fs::read(file.path()).map_err(|source| io_error(&file.path(), source))?;
        transaction.execute(
            "INSERT INTO outputs (name, content) VALUES (?1, ?2)",
            params![name, content],
        )?;
    }
    seal(&transaction)?;
    transaction.commit()?;
    Ok(())
}

fn read_facts(connection: &Connection) -> rusqlite::Result<Option<PackageFacts>> {
    if !has_table(connection, "package")? {
        return Ok(None);
    }
    connection.query_row("SELECT facts FROM package", [], |row| {
        let text = row.get_ref(0)?.as_str()?;
        serde_json::from_str(text).map(Some).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
        })
    })
}

/// A path as it stands within a JSON string.
fn in_json(path: &Path) -> String {
    let quoted = serde_json::Value::from(path.to_string_lossy()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn io_error(path: &Path, source: io::Error) -> PackageError {
    PackageError::Io {
        path: path.to_owned(),
        source,
    }
}
