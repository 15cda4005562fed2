//! Hears when something is removed from a directory, without looking again and again.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches one directory.
pub(super) struct Removals(AsyncFd<OwnedFd>);

impl Removals {
    /// Hears of what is removed from `directory` from now on, and of its own end.
    pub(super) fn of(directory: &Path) -> io::Result<Self> {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let removals = WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        inotify::add_watch(&watch, directory, removals)?;
        // SAFETY: an `OwnedFd` is open for as long as it lives and its number never changes; the `AsyncFd` owns
        // it until it is dropped itself.
        let registered = unsafe { AsyncFd::register_with_interest(watch, Interest::READABLE) };
        Ok(Removals(registered?))
    }

    /// Waits until something was removed. What, is for the caller to find out.
    pub(super) async fn next(&self) -> io::Result<()> {
        let mut events = [0; 4096];
        loop {
            let mut ready = self.0.readable().await?;
            match rustix::io::read(self.0.get_ref(), &mut events) {
                Ok(_) => return Ok(()),
                Err(Errno::WOULDBLOCK) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_removed_file_is_heard_of_and_a_new_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        let removals = Removals::of(directory.path()).unwrap();
        std::fs::write(&file, "").unwrap();
        let mut next = std::pin::pin!(removals.next());
        tokio::select! {
            biased;
            heard = &mut next => panic!("{heard:?}"),
            () = tokio::task::yield_now() => {}
        }
        std::fs::remove_file(&file).unwrap();
        next.await.unwrap();
        assert!(Removals::of(&file).is_err());
    }
}
