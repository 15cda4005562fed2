//! A program in a pseudo-terminal, driven like a person would: keys in, screen bytes out.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

/// How long a program may take to show what is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running program and the terminal that it thinks it has.
pub(super) struct Pty {
    master: File,
    child: Child,
}

impl Pty {
    /// Starts the program with a terminal of 120 × 40 as its controlling one. `raw` turns the
    /// kernel's own echo and line editing off before it starts.
    pub(super) fn start(mut command: Command, raw: bool) -> Result<Self> {
        let (master, slave) = open(raw).context("open a pseudo-terminal")?;
        let copy = || slave.try_clone().context("share the terminal");
        command
            .stdin(copy()?)
            .stdout(copy()?)
            .stderr(Stdio::from(copy()?))
            .env("TERM", "xterm-256color")
            .env("COLORTERM", "truecolor");
        let controlling = copy()?;
        let take_terminal = move || {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(&controlling)?;
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes two system calls, one of them on a
        // descriptor that it owns and that exec closes; it neither allocates nor takes a lock, and
        // both calls are async-signal-safe.
        unsafe { command.pre_exec(take_terminal) };
        let child = command
            .spawn()
            .with_context(|| format!("start {command:?} in a terminal"))?;
        Ok(Self {
            master: master.into(),
            child,
        })
    }

    pub(super) fn process(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(self.child.id().cast_signed())
    }

    /// Types.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.master
            .write_all(bytes)
            .context("type into the terminal")
    }

    /// What the program writes next; nothing when the deadline comes first.
    pub(super) fn read(&mut self, deadline: Instant) -> Result<Vec<u8>> {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = left
            .try_into()
            .context("a deadline within the kernel's range")?;
        let mut watched = [PollFd::new(&self.master, PollFlags::IN)];
        if poll(&mut watched, Some(&timeout)).context("wait for the terminal")? == 0 {
            return Ok(Vec::new());
        }
        let mut buffer = vec![0; 64 * 1024];
        // A terminal whose program has ended reads as an error.
        let length = self
            .master
            .read(&mut buffer)
            .context("the program in the terminal has ended")?;
        buffer.truncate(length);
        Ok(buffer)
    }

    /// Reads until `wanted` was written, and returns all that was read up to then.
    pub(super) fn wait_for(&mut self, wanted: &[u8]) -> Result<Vec<u8>> {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            // The wanted bytes may be cut in two by a read.
            let from = seen.len().saturating_sub(wanted.len());
            let chunk = self.read(deadline)?;
            if chunk.is_empty() && Instant::now() >= deadline {
                let tail = seen.len().saturating_sub(2_000);
                bail!(
                    "waited {} s for {:?}; the terminal's last bytes were {:?}",
                    PATIENCE.as_secs(),
                    String::from_utf8_lossy(wanted),
                    String::from_utf8_lossy(seen.get(tail..).unwrap_or_default())
                );
            }
            seen.extend_from_slice(&chunk);
            let fresh = seen.get(from..).unwrap_or_default();
            if fresh.windows(wanted.len()).any(|window| window == wanted) {
                return Ok(seen);
            }
        }
    }

    /// Reads whatever comes for this long; the pause between two keys.
    pub(super) fn drain(&mut self, duration: Duration) -> Result<Vec<u8>> {
        let deadline = Instant::now() + duration;
        let mut seen = Vec::new();
        while Instant::now() < deadline {
            seen.extend(self.read(deadline)?);
        }
        Ok(seen)
    }

    /// Milliseconds from each key to its echo, with a pause after each.
    pub(super) fn echoes(&mut self, keys: &[&str], pause: Duration) -> Result<Vec<f64>> {
        let mut taken = Vec::new();
        for key in keys {
            let typed = Instant::now();
            self.send(key.as_bytes())?;
            self.wait_for(key.as_bytes())?;
            taken.push(typed.elapsed().as_secs_f64() * 1e3);
            self.drain(pause)?;
        }
        Ok(taken)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // The program may have ended by itself; then there is nothing to do.
        if self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}

fn open(raw: bool) -> Result<(OwnedFd, OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let path = ptsname(&master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(path, flags, Mode::empty())?;
    tcsetwinsize(
        slave.as_fd(),
        Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )?;
    if raw {
        let mut attributes = tcgetattr(&slave)?;
        attributes.make_raw();
        tcsetattr(&slave, OptionalActions::Now, &attributes)?;
    }
    Ok((master, slave))
}
