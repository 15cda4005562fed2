//! Copying a session's tree into a new file: the entries with their ids and the labels on them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bezel_session_types::{EntryId, LaneName, SessionId};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, params};
use serde::{Deserialize, Serialize};

use crate::ancestry;
use crate::error::is_damage;
use crate::lock::made;
use crate::schema::migrate;
use crate::store::now;
use crate::transaction::tip_key;

/// Where a fork's origin is kept.
const ORIGIN: &str = "session/parent";

/// Which entries a fork takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkScope {
    /// The path to the entry that it begins at.
    Path,
    /// Everything, with the tips of the other lanes.
    Tree,
}

/// What a fork came from, as it is kept in the fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkOrigin {
    /// The session.
    pub session_id: SessionId,
    /// The entry that the fork's main lane began at.
    pub entry: EntryId,
}

/// A fork that was not made. What there was of its file is deleted.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The source has no such entry.
    #[error("there is no entry {entry} to fork at: choose one of the session's tree")]
    Unknown {
        /// Which.
        entry: EntryId,
    },
    /// The file system refused.
    #[error(
        "cannot write the fork {path}: {source}; check that the directory is writable and has room"
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The source is damaged.
    #[error(
        "cannot fork session database {path}, which is damaged: restore it from a copy ({source})"
    )]
    Torn {
        /// The source.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// SQLite refused.
    #[error("cannot write the fork {path}: {source}; check that the disk is not full")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

/// Writes a new database at `target` with the tree, or one path, of `source`, which may be in use. The
/// fork is idle: it has no operation, no waiting message, no receipt and an empty ledger. The file is on
/// the disk when this returns. Blocks for as long as the disk takes.
pub fn fork(
    source: &Path,
    target: &Path,
    scope: ForkScope,
    origin: &ForkOrigin,
) -> Result<u64, ForkError> {
    watched(source, target, scope, origin, &|_| ())
}

/// The same, telling `done` of each step after it: where a crash may come between one and the next.
fn watched(
    source: &Path,
    target: &Path,
    scope: ForkScope,
    origin: &ForkOrigin,
    done: &dyn Fn(&'static str),
) -> Result<u64, ForkError> {
    let io = |source| ForkError::Io {
        path: target.to_owned(),
        source,
    };
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(target);
    drop(created.map_err(io)?);
    done("created");
    let written = write(source, target, scope, origin, done).and_then(|entries| {
        File::open(target)
            .and_then(|file| file.sync_all())
            .and_then(|()| made(target))
            .map_err(io)?;
        Ok(entries)
    });
    if written.is_err()
        && let Err(error) = std::fs::remove_file(target)
    {
        tracing::warn!(path = %target.display(), %error, "an unfinished fork remains");
    }
    written
}

fn write(
    source: &Path,
    target: &Path,
    scope: ForkScope,
    origin: &ForkOrigin,
    done: &dyn Fn(&'static str),
) -> Result<u64, ForkError> {
    let sqlite = |source| ForkError::Sqlite {
        path: target.to_owned(),
        source,
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(target, flags).map_err(sqlite)?;
    let attached = (|| {
        // Nobody sees the file before it is whole, and the caller syncs it once.
        connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF;")?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        migrate(&mut connection)?;
        done("migrated");
        let path = source.to_string_lossy();
        connection.execute("ATTACH DATABASE ?1 AS source", params![path])
    })();
    attached.map_err(sqlite)?;
    done("attached");
    let copied = copy(&mut connection, scope, origin, done);
    let copied = copied.map_err(|error| match is_damage(&error) {
        true => ForkError::Torn {
            path: source.to_owned(),
            source: error,
        },
        false => sqlite(error),
    })?;
    done("committed");
    let entries = copied.ok_or_else(|| ForkError::Unknown {
        entry: origin.entry.clone(),
    })?;
    let closed = connection
        .execute_batch("DETACH DATABASE source")
        .and_then(|()| connection.close().map_err(|(_, error)| error));
    closed.map_err(sqlite)?;
    done("closed");
    Ok(entries)
}

/// All from one state of the source. How many entries there are; none where it lacks the entry.
fn copy(
    connection: &mut Connection,
    scope: ForkScope,
    origin: &ForkOrigin,
    done: &dyn Fn(&'static str),
) -> rusqlite::Result<Option<u64>> {
    fn text<T: Serialize>(value: &T) -> String {
        serde_json::to_string(value).expect("stored values have text keys")
    }
    let transaction = connection.transaction()?;
    let entry = origin.entry.as_str();
    let entries = match scope {
        ForkScope::Tree => {
            transaction.execute(
                r#"INSERT INTO "values" SELECT key, value FROM source."values"
                   WHERE key >= 'tip/' AND key < 'tip0'"#,
                [],
            )?;
            transaction.execute("INSERT INTO entries SELECT * FROM source.entries", [])?
        }
        ForkScope::Path => transaction.execute(
            "INSERT INTO entries
             WITH RECURSIVE walk (seq, parent) AS (
                SELECT seq, parent FROM source.entries WHERE id = ?1
                UNION ALL
                SELECT above.seq, above.parent FROM walk JOIN source.entries AS above
                ON above.seq = walk.parent)
             SELECT copied.* FROM walk JOIN source.entries AS copied ON copied.seq = walk.seq
             ORDER BY copied.seq",
            params![entry],
        )?,
    };
    done("entries copied");
    let found: i64 = transaction.query_row(
        "SELECT count(*) FROM entries WHERE id = ?1",
        params![entry],
        |row| row.get(0),
    )?;
    if found == 0 {
        return Ok(None);
    }
    ancestry::fill(&transaction)?;
    done("ancestry filled");
    transaction.execute(
        r#"INSERT INTO "values" SELECT key, value FROM source."values"
           WHERE key >= 'label/' AND key < 'label0' AND substr(key, 7) IN (SELECT id FROM entries)"#,
        [],
    )?;
    done("labels copied");
    let set = r#"INSERT OR REPLACE INTO "values" (key, value) VALUES (?1, ?2)"#;
    let tip = tip_key(&LaneName::main());
    transaction.execute(set, params![tip, text(&origin.entry)])?;
    transaction.execute(set, params![ORIGIN, text(origin)])?;
    done("marked");
    transaction.execute(
        "INSERT INTO journal (seq, created_at, kind, body)
         SELECT max(seq) + 1, ?1, 'session_forked', ?2 FROM entries",
        params![now(), text(origin)],
    )?;
    done("journalled");
    transaction.commit()?;
    Ok(Some(entries as u64))
}

impl crate::Queries<'_> {
    /// What the session was forked from; none where it was not.
    pub fn origin(&self) -> Result<Option<ForkOrigin>, crate::ReadError> {
        self.value(ORIGIN)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Mutex;

    use bezel_session_types::{EntryBody, Message, UserMessage};

    use super::*;
    use crate::{Reader, Store, Transaction};

    /// In a child: the directory to work in, and the step after which the process ends.
    const DIRECTORY: &str = "BEZEL_FORK_TEST_DIRECTORY";
    const STEP: &str = "BEZEL_FORK_TEST_STEP";

    fn origin() -> ForkOrigin {
        ForkOrigin {
            session_id: SessionId::new("parent"),
            entry: EntryId::new("e9"),
        }
    }

    /// A session of ten entries with a label, its owner at work.
    fn parent(path: &Path) -> Store {
        let store = Store::open(path).unwrap();
        for index in 0..10 {
            let id = EntryId::new(format!("e{index}"));
            let before = (index > 0).then(|| EntryId::new(format!("e{}", index - 1)));
            let mut transaction = Transaction::new();
            let message = Message::User(UserMessage::text(format!("text of {id}")));
            transaction.append(id.clone(), before, EntryBody::from(message));
            transaction.set_tip(&LaneName::main(), Some(&id));
            transaction.set_value("label/e3", &"here");
            store.commit(transaction).unwrap();
        }
        store
    }

    fn everything(path: &Path) -> String {
        let reader = Reader::open(path).unwrap();
        let read = reader.read(|queries| {
            Ok(format!(
                "{:?} {:?} {:?} {:?}",
                queries.entries_after(0, 1_000)?,
                queries.values("")?,
                queries.journal(0, 1_000)?,
                queries.check()?
            ))
        });
        read.unwrap()
    }

    #[test]
    fn a_process_that_ends_within_a_fork() {
        let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
            return;
        };
        let last = std::env::var(STEP).unwrap();
        let end = |step: &'static str| {
            if step == last {
                // Nothing is rolled back or tidied up: as a kill leaves it.
                std::process::exit(9);
            }
        };
        for (scope, name) in [(ForkScope::Path, "path.db"), (ForkScope::Tree, "tree.db")] {
            if !directory.join(name).exists() {
                let (source, target) = (directory.join("session.db"), directory.join(name));
                watched(&source, &target, scope, &origin(), &end).unwrap();
            }
        }
    }

    #[test]
    fn a_fork_that_ends_after_any_step_leaves_the_parent_as_it_was_and_no_part_of_a_tree() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let store = parent(&path("session.db"));
        let before = everything(&path("session.db"));
        let steps = Mutex::new(Vec::new());
        let note = |step| steps.lock().unwrap().push(step);
        watched(
            &path("session.db"),
            &path("whole.db"),
            ForkScope::Path,
            &origin(),
            &note,
        )
        .unwrap();
        let steps = steps.into_inner().unwrap();
        assert!(steps.len() >= 10, "{steps:?}");
        for step in &steps {
            for name in ["path.db", "tree.db"] {
                let ended = Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "fork::tests::a_process_that_ends_within_a_fork"])
                    .env(DIRECTORY, directory.path())
                    .env(STEP, step)
                    .output()
                    .unwrap();
                assert_eq!(ended.status.code(), Some(9), "{step}: {ended:?}");
                assert_eq!(everything(&path("session.db")), before, "after {step}");
                // Whoever comes upon the file finds all of the tree or no session at all.
                let found = Reader::open(path(name));
                let whole = matches!(*step, "committed" | "closed");
                match found {
                    Ok(reader) => {
                        let read = reader.read(|queries| Ok((queries.count()?, queries.origin()?)));
                        let expected = if whole {
                            (10, Some(origin()))
                        } else {
                            (0, None)
                        };
                        assert_eq!(read.unwrap(), expected, "after {step}");
                    }
                    Err(error) => assert!(!whole, "after {step}: {error}"),
                }
            }
            // The owner goes on, and the same fork is made at another place.
            for (index, scope) in [ForkScope::Path, ForkScope::Tree].into_iter().enumerate() {
                let again = path(&format!("again {step} {index}"));
                assert_eq!(
                    fork(&path("session.db"), &again, scope, &origin()).unwrap(),
                    10
                );
            }
            for name in ["path.db", "tree.db"] {
                for suffix in ["", "-journal", "-wal", "-shm"] {
                    let left = path(&format!("{name}{suffix}"));
                    if left.exists() {
                        std::fs::remove_file(left).unwrap();
                    }
                }
            }
        }
        drop(store);
    }
}
