//! Exclusive ownership: a `flock` on a file beside the database, gone when its holder dies. The same file says
//! whether the database was made: one that is gone or empty since was lost, and is not begun anew.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::OpenError;

/// What the id of a process takes at most, in decimal.
const HOLDER_BYTES: usize = 10;
/// Stands behind the holder once the database was made: its first page and its name are on the disk by then, so that
/// no power cut leaves this without them. It is not synced: a power cut that takes it along finds a database that was
/// just made.
const MADE: &str = "made\n";

/// The held lock. The lock file itself stays: removing it would let two owners lock two files.
#[derive(Debug)]
pub(crate) struct OwnerLock {
    file: File,
    was_made: bool,
}

impl OwnerLock {
    /// Takes the lock of the database at `path`, or says who has it.
    pub(crate) fn acquire(path: &Path) -> Result<Self, OpenError> {
        let lock_path = lock_path(path);
        let io = |source| OpenError::Io {
            path: lock_path.clone(),
            source,
        };
        // The standard library opens close-on-exec, so that no command that a tool starts inherits it.
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                let read = file.read_to_string(&mut holder);
                let holder = read
                    .ok()
                    .and_then(|_| holder.lines().next()?.trim().parse().ok());
                return Err(OpenError::Locked {
                    path: path.to_owned(),
                    holder,
                });
            }
            Err(errno) => return Err(io(errno.into())),
        }
        // Over what is there, always as long: a file that is emptied first has its blocks given up, and the next
        // owner waits for the disk to be done with them.
        let holder = format!("{:<HOLDER_BYTES$}\n", std::process::id());
        file.write_all_at(holder.as_bytes(), 0).map_err(io)?;
        let was_made = says_made(&mut file).map_err(io)?;
        Ok(OwnerLock { file, was_made })
    }

    /// Whether the database was there already, whatever is there now.
    pub(crate) fn was_made(&self) -> bool {
        self.was_made
    }

    /// The database is there.
    pub(crate) fn made(&self) -> std::io::Result<()> {
        match self.was_made {
            true => Ok(()),
            false => say_made(&self.file),
        }
    }
}

/// The database at `path` is there and on the disk, and nobody owns it yet.
pub(crate) fn made(path: &Path) -> std::io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(lock_path(path))?;
    file.write_all_at(format!("{:<HOLDER_BYTES$}\n", "").as_bytes(), 0)?;
    say_made(&file)
}

fn say_made(file: &File) -> std::io::Result<()> {
    file.write_all_at(MADE.as_bytes(), HOLDER_BYTES as u64 + 1)
}

/// Whether the database at `path` was made, for those who only read it.
pub(crate) fn was_made(path: &Path) -> bool {
    File::open(lock_path(path)).is_ok_and(|mut file| says_made(&mut file).unwrap_or(false))
}

fn says_made(file: &mut File) -> std::io::Result<bool> {
    let mut words = String::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_string(&mut words)?;
    Ok(words.ends_with(MADE))
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}
