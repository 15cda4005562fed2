//! The owner's handle.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use tokio::sync::watch;

use crate::lock::OwnerLock;
use crate::open::{classify, open_owned};
use crate::schema::CURRENT;
use crate::sync::{Log, LogBroken, checkpoint};
use crate::transaction::{Prepared, sqlite_error};
use crate::{CommitError, Committed, OpenError, Queries, ReadError, Transaction};

/// One session's database, owned. Clones share it; [`Store::close`] closes it and frees the lock, or else the end of
/// the last of them.
///
/// Commits are short (a few pages into the log, no disk sync) and run in the caller's thread.
/// Bringing them to the disk is [`Store::synced`]'s, off the runtime.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    path: PathBuf,
    // A plain mutex: held for one transaction or one read, never across an await.
    writer: Mutex<Owned>,
    log: Log,
    last: watch::Sender<u64>,
}

struct Owned {
    /// None once it is closed.
    writer: Option<Writer>,
    commits: u64,
}

struct Writer {
    connection: Connection,
    seq: u64,
    unchecked_bytes: usize,
    allowed: Option<u64>,
    // After the connection, so that the lock outlives it.
    _lock: OwnerLock,
}

/// Text written since the last checkpoint after which the next one is due.
const CHECKPOINT_BYTES: usize = 1 << 20;
/// What a commit adds to the log besides its text, roughly.
const COMMIT_OVERHEAD: usize = 4 * 4096;

impl Store {
    /// Opens the database at `path` as its only owner; makes it where there is none. Its directory
    /// must exist. Blocks for as long as the disk takes.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let lock = OwnerLock::acquire(path)?;
        let connection = open_owned(path, lock.was_made())?;
        let io = |source| OpenError::Io {
            path: path.to_owned(),
            source,
        };
        let seq = last_seq(&connection).map_err(|source| classify(path, source))?;
        let log = Log::open(path, seq == 0).map_err(io)?;
        lock.made().map_err(io)?;
        let writer = Writer {
            connection,
            seq,
            unchecked_bytes: 0,
            allowed: None,
            _lock: lock,
        };
        let owned = Owned {
            writer: Some(writer),
            commits: 0,
        };
        Ok(Store(Arc::new(Inner {
            path: path.to_owned(),
            writer: Mutex::new(owned),
            log,
            last: watch::Sender::new(seq),
        })))
    }

    /// Gives the database up, whoever still holds the store: its lock is free once this returns. Commits and reads
    /// through it fail from now on; what was committed can still be waited for to be on the disk.
    pub fn close(&self) {
        let writer = self.writer().writer.take();
        drop(writer);
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Writes everything of `transaction` or nothing. Once it returns, the rows survive `kill -9`.
    pub fn commit(&self, transaction: Transaction) -> Result<Committed, CommitError> {
        let prepared = Prepared::new(transaction);
        let now = now();
        let mut owned = self.writer();
        let Owned { writer, commits } = &mut *owned;
        if let Some(LogBroken { reason }) = self.0.log.broken() {
            return Err(CommitError::Sync {
                path: self.0.path.clone(),
                reason,
            });
        }
        let Some(writer) = writer.as_mut().filter(|writer| writer.allowed != Some(0)) else {
            return Err(CommitError::Stopped {
                path: self.0.path.clone(),
            });
        };
        let before = writer.seq;
        let seq = writer.write(&self.0.path, &prepared, now)?;
        writer.seq = seq;
        *commits += 1;
        writer.allowed = writer.allowed.map(|left| left - 1);
        writer.unchecked_bytes += prepared.bytes + COMMIT_OVERHEAD;
        let due = writer.unchecked_bytes >= CHECKPOINT_BYTES;
        if due {
            writer.unchecked_bytes = 0;
        }
        let number = *commits;
        self.0.log.committed(number);
        drop(owned);
        self.0.last.send_replace(seq);
        if due {
            checkpoint(&self.0.path);
        }
        Ok(prepared.finish(before, seq, now, number))
    }

    /// Waits until `committed` is on the disk. Callers that wait at the same time share one sync.
    pub async fn synced(&self, committed: &Committed) -> Result<(), CommitError> {
        self.sync_through(committed.number).await
    }

    /// Waits until everything that was committed before the call is on the disk.
    pub async fn sync(&self) -> Result<(), CommitError> {
        let number = self.writer().commits;
        self.sync_through(number).await
    }

    async fn sync_through(&self, number: u64) -> Result<(), CommitError> {
        let synced = self.0.log.sync_through(number).await;
        synced.map_err(|LogBroken { reason }| CommitError::Sync {
            path: self.0.path.clone(),
            reason,
        })
    }

    /// Follows the greatest sequence number that is committed.
    pub fn committed(&self) -> watch::Receiver<u64> {
        self.0.last.subscribe()
    }

    /// Reads between two commits. Keep it short: commits wait for it.
    pub fn read<T>(
        &self,
        read: impl FnOnce(&Queries<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        match &self.writer().writer {
            Some(writer) => read(&Queries::new(&writer.connection, &self.0.path, CURRENT)),
            None => Err(ReadError::Closed {
                path: self.0.path.clone(),
            }),
        }
    }

    /// Takes no more than `commits` further commits, as if the process died after the last: for
    /// tests of recovery.
    #[doc(hidden)]
    pub fn stop_after(&self, commits: u64) {
        if let Some(writer) = &mut self.writer().writer {
            writer.allowed = Some(commits);
        }
    }

    /// How many commits this handle made: for tests of recovery.
    #[doc(hidden)]
    pub fn commits(&self) -> u64 {
        self.writer().commits
    }

    /// How often the log was brought to the disk: for tests of what shares a sync.
    #[doc(hidden)]
    pub fn syncs(&self) -> u64 {
        self.0.log.syncs()
    }

    /// How long all of these took together: for measurements that set the disk apart.
    #[doc(hidden)]
    pub fn sync_time(&self) -> Duration {
        self.0.log.spent()
    }

    /// Lets the file grow by no more than `pages` pages: a full disk, for tests.
    #[doc(hidden)]
    pub fn limit_growth(&self, pages: i64) -> Result<(), CommitError> {
        let owned = self.writer();
        let Some(writer) = &owned.writer else {
            return Err(CommitError::Stopped {
                path: self.0.path.clone(),
            });
        };
        let limit = writer
            .connection
            .pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0))
            .and_then(|count| {
                let limit = count.saturating_add(pages).min(i64::from(u32::MAX) - 1);
                writer
                    .connection
                    .pragma_update_and_check(None, "max_page_count", limit, |_| Ok(()))
            });
        limit.map_err(|source| sqlite_error(&self.0.path, source))
    }

    fn writer(&self) -> MutexGuard<'_, Owned> {
        self.0.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Store")
            .field("path", &self.0.path)
            .finish_non_exhaustive()
    }
}

impl Writer {
    fn write(&self, path: &Path, prepared: &Prepared, now: i64) -> Result<u64, CommitError> {
        let run = |sql| {
            let done = self
                .connection
                .prepare_cached(sql)
                .and_then(|mut sql| sql.execute([]));
            done.map_err(|source| sqlite_error(path, source))
        };
        run("BEGIN IMMEDIATE")?;
        let mut seq = self.seq;
        let written = prepared
            .write(&self.connection, path, &mut seq, now)
            .and_then(|()| run("COMMIT").map(|_| seq));
        if written.is_err()
            && !self.connection.is_autocommit()
            && let Err(error) = run("ROLLBACK")
        {
            tracing::warn!(%error, "a failed transaction could not be rolled back");
        }
        written
    }
}

fn last_seq(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row(
        "SELECT max(
            coalesce((SELECT max(seq) FROM entries), 0),
            coalesce((SELECT max(seq) FROM inbox), 0),
            coalesce((SELECT max(seq) FROM journal), 0),
            coalesce((SELECT max(seq) FROM usage), 0))",
        [],
        |row| row.get::<_, i64>(0).map(|seq| seq as u64),
    )
}

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
