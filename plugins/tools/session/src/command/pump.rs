//! Moves a command's output from its pipe into its spool.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use super::output::{Spool, TooMuch};

/// Read at once while the output is short.
const SMALL_READ: usize = 16 * 1024;
/// Read at once when the output goes to the disk.
const LARGE_READ: usize = 256 * 1024;
/// The pipe's size then, so that reader and writer wait for each other less.
const LARGE_PIPE: usize = 1024 * 1024;
/// Moved at most before the runtime is asked again.
const BURST_BYTES: usize = 64 * 1024 * 1024;
/// A writer that pauses no longer than this is waited for without going back to the runtime.
const SHORT_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// How a move ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// There may be more.
    Some,
    /// Nobody can write any more.
    End,
    /// The command wrote more than may be saved.
    TooMuch,
}

/// The reading end of a command's output.
#[derive(Debug)]
pub(crate) struct Pump {
    receiver: pipe::Receiver,
    spool: Arc<Spool>,
    /// A move to the disk that runs on a thread of its own; at most one.
    large: Option<JoinHandle<io::Result<Moved>>>,
    stop: Arc<AtomicBool>,
    grown: bool,
}

impl Pump {
    pub(crate) fn new(receiver: pipe::Receiver, spool: Arc<Spool>) -> Self {
        Pump {
            receiver,
            spool,
            large: None,
            stop: Arc::default(),
            grown: false,
        }
    }

    /// Waits for output and takes it in. Dropping the future loses nothing.
    pub(crate) async fn move_some(&mut self) -> io::Result<Moved> {
        if self.large.is_none() {
            self.receiver.readable().await?;
            if !self.spool.blocks() {
                return self.move_small();
            }
            self.start_large()?;
        }
        let Some(large) = &mut self.large else {
            return Ok(Moved::Some);
        };
        let moved = large.await;
        self.large = None;
        let moved = moved.map_err(io::Error::other)??;
        if moved == Moved::Some {
            // The thread read behind the runtime's back: this read makes the runtime wait for the next output.
            return self.move_small();
        }
        Ok(moved)
    }

    /// Takes in what is there already, for a command whose processes have ended.
    pub(crate) async fn drain(&mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::Release);
        if let Some(large) = self.large.take() {
            large.await.map_err(io::Error::other)??;
        }
        loop {
            let mut buffer = [0; SMALL_READ];
            match self.receiver.try_read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) if self.spool.push(&buffer[..length]) == Err(TooMuch) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn move_small(&mut self) -> io::Result<Moved> {
        let mut buffer = [0; SMALL_READ];
        match self.receiver.try_read(&mut buffer) {
            Ok(0) => Ok(Moved::End),
            Ok(length) => match self.spool.push(&buffer[..length]) {
                Ok(()) => Ok(Moved::Some),
                Err(TooMuch) => Ok(Moved::TooMuch),
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Moved::Some),
            Err(error) => Err(error),
        }
    }

    fn start_large(&mut self) -> io::Result<()> {
        if !self.grown {
            self.grown = true;
            // The system may refuse; then the pipe stays as it was.
            if let Err(error) = rustix::pipe::fcntl_setpipe_size(&self.receiver, LARGE_PIPE) {
                tracing::debug!(%error, "a command's pipe could not be enlarged");
            }
        }
        let reader = self.receiver.as_fd().try_clone_to_owned()?;
        let (spool, stop) = (Arc::clone(&self.spool), Arc::clone(&self.stop));
        self.large = Some(tokio::task::spawn_blocking(move || {
            move_large(&reader, &spool, &stop)
        }));
        Ok(())
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn move_large(reader: &OwnedFd, spool: &Spool, stop: &AtomicBool) -> io::Result<Moved> {
    let mut buffer = vec![0; LARGE_READ];
    let mut moved = 0;
    while moved < BURST_BYTES && !stop.load(Ordering::Acquire) {
        match rustix::io::read(reader, &mut buffer) {
            Ok(0) => return Ok(Moved::End),
            Ok(length) => {
                moved += length;
                if spool.push(&buffer[..length]) == Err(TooMuch) {
                    return Ok(Moved::TooMuch);
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut waited = [PollFd::new(reader, PollFlags::IN)];
                if poll(&mut waited, Some(&SHORT_PAUSE)) == Ok(0) {
                    return Ok(Moved::Some);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Moved::Some)
}
