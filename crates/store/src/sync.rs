//! Bringing the log to the disk, and folding it back into the database, beside the writer.
//!
//! SQLite's own synchronous commit would hold the writer for as long as the disk takes. Here a
//! commit goes into the log at once and is visible; whoever needs it on the disk waits for one
//! `fdatasync` that all who wait share. The log file carries none of SQLite's locks, so another
//! descriptor of it is harmless, unlike one of the database itself. A log that was folded back and
//! begun again meanwhile was synced by SQLite before that.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::Notify;

/// A disk of whose last two syncs one was over within this is waited for in place the next time, on the runtime's
/// thread: handing the wait to another thread and back can cost as much as a short sync. One that has become slow
/// holds the runtime for two syncs; one that is slow now and then is not taken for slow.
const SHORT_SYNC_MICROSECONDS: u64 = 1_000;
/// How often whoever is about to sync lets the runtime's other tasks go first, as long as they commit: a sync in
/// place would hold them, and each would then need one of its own. What commits without end is not waited for.
const GATHERINGS: usize = 16;

/// The log could not be brought to the disk.
#[derive(Debug, Clone)]
pub(crate) struct LogBroken {
    /// What the system says.
    pub(crate) reason: String,
}

pub(crate) struct Log {
    files: Arc<Files>,
    committed: AtomicU64,
    synced: AtomicU64,
    /// How long the last sync took, and the one before it, in microseconds.
    took: [AtomicU64; 2],
    syncs: AtomicU64,
    /// How long all syncs took, in nanoseconds.
    spent: AtomicU64,
    /// Whether somebody syncs for all that wait.
    led: AtomicBool,
    /// That somebody has done so.
    ended: Notify,
    broken: OnceLock<LogBroken>,
}

/// What is brought to the disk.
struct Files {
    log: File,
    /// Where the log is; none where the path names no directory.
    directory: Option<File>,
    /// Whether the log's name is on the disk: brought there with the first sync, so that opening waits for no disk.
    named: AtomicBool,
}

impl Files {
    fn sync(&self) -> std::io::Result<()> {
        self.log.sync_data()?;
        if !self.named.load(Ordering::Relaxed) {
            self.sync_directory()?;
        }
        Ok(())
    }

    fn sync_directory(&self) -> std::io::Result<()> {
        self.directory.as_ref().map_or(Ok(()), File::sync_all)?;
        self.named.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Log {
    /// The log of an open database. Where the database itself may be new, its name is brought to the disk here.
    pub(crate) fn open(path: &Path, may_be_new: bool) -> std::io::Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push("-wal");
        let directory = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let files = Files {
            log: File::open(PathBuf::from(name))?,
            directory: directory.map(File::open).transpose()?,
            named: AtomicBool::new(false),
        };
        if may_be_new {
            files.sync_directory()?;
        }
        Ok(Log {
            files: Arc::new(files),
            committed: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            took: [const { AtomicU64::new(u64::MAX) }; 2],
            syncs: AtomicU64::new(0),
            spent: AtomicU64::new(0),
            led: AtomicBool::new(false),
            ended: Notify::new(),
            broken: OnceLock::new(),
        })
    }

    pub(crate) fn committed(&self, number: u64) {
        self.committed.fetch_max(number, Ordering::Release);
    }

    /// Why no further commit may be taken, once a sync failed.
    pub(crate) fn broken(&self) -> Option<LogBroken> {
        self.broken.get().cloned()
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    pub(crate) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Ordering::Relaxed))
    }

    /// The last commit that a sync which begins now brings to the disk: those who are about to commit have done
    /// so.
    async fn gather(&self) -> u64 {
        let mut last = self.committed.load(Ordering::Acquire);
        for _ in 0..GATHERINGS {
            tokio::task::yield_now().await;
            let now = self.committed.load(Ordering::Acquire);
            if now == last {
                break;
            }
            last = now;
        }
        last
    }

    /// One `fdatasync`. Where one is over sooner than another thread could be woken and heard, here and now; on a
    /// disk that takes its time, off the runtime.
    async fn sync(&self) -> Result<std::io::Result<()>, tokio::task::JoinError> {
        let timed = |files: &Files| {
            let started = Instant::now();
            let outcome = files.sync();
            (outcome, started.elapsed())
        };
        let [last, before] = &self.took;
        let is_short = |took: &AtomicU64| took.load(Ordering::Relaxed) < SHORT_SYNC_MICROSECONDS;
        let (outcome, took) = if is_short(last) || is_short(before) {
            timed(&self.files)
        } else {
            let files = Arc::clone(&self.files);
            tokio::task::spawn_blocking(move || timed(&files)).await?
        };
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.spent.fetch_add(nanoseconds, Ordering::Relaxed);
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        before.store(last.swap(took, Ordering::Relaxed), Ordering::Relaxed);
        Ok(outcome)
    }

    pub(crate) async fn sync_through(&self, number: u64) -> Result<(), LogBroken> {
        loop {
            // Before looking, so that no end of a sync is missed.
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            if self.synced.load(Ordering::Acquire) >= number {
                return Ok(());
            }
            if let Some(reason) = self.broken() {
                return Err(reason);
            }
            if let Some(_leading) = Leading::begin(self) {
                // Another one may have ended since.
                if self.synced.load(Ordering::Acquire) >= number {
                    return Ok(());
                }
                // Or failed: after a sync that did, no later one can be believed.
                if let Some(reason) = self.broken() {
                    return Err(reason);
                }
                return self.lead().await;
            }
            // All that wait hear of it at once: one that waits for another's turn would have to wait for what
            // that one does next.
            ended.await;
        }
    }

    /// Syncs for all that have committed.
    async fn lead(&self) -> Result<(), LogBroken> {
        let target = self.gather().await;
        let outcome = self.sync().await;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let reason = match outcome {
            Ok(Ok(())) => {
                self.synced.fetch_max(target, Ordering::Release);
                return Ok(());
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        // After a failed sync the kernel may call the lost pages clean: no later one can be believed.
        Err(self.broken.get_or_init(|| LogBroken { reason }).clone())
    }
}

/// Syncs for all that wait. However it ends, they hear of it, and one of them goes on where it was given up.
struct Leading<'log>(&'log Log);

impl<'log> Leading<'log> {
    fn begin(log: &'log Log) -> Option<Self> {
        let led = log.led.swap(true, Ordering::AcqRel);
        (!led).then(|| Leading(log))
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.led.store(false, Ordering::Release);
        self.0.ended.notify_waiters();
    }
}

/// Folds the log back into the database over a connection of its own, which neither stops the
/// writer nor waits for readers. Off the runtime where there is one.
pub(crate) fn checkpoint(path: &Path) {
    let path = path.to_owned();
    let run = move || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let folded = Connection::open_with_flags(&path, flags)
            .and_then(|connection| connection.execute_batch("PRAGMA wal_checkpoint(PASSIVE)"));
        if let Err(error) = folded {
            tracing::warn!(path = %path.display(), %error, "the log could not be folded back yet");
        }
    };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(run)),
        Err(_) => run(),
    }
}
