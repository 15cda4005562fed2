//! Giving the terminal back, whatever happens.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcsetattr};

/// Turns off everything that was turned on, in reverse, and shows what was there before.
const LEAVE: &[u8] = b"\x1b[<u\x1b[>4;0m\x1b[?2031l\x1b[?1006l\x1b[?1002l\x1b[?1000l\x1b[?1004l\x1b[?2004l\x1b[m\x1b[?25h\x1b[?1049l\x1b[23;2t";

/// What the terminal was like before. A process has one terminal, so there is one such place.
static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);

/// Panics while the screen was drawn on, to be told when it no longer is.
static REPORTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Taken {
    file: File,
    before: Termios,
}

fn taken() -> MutexGuard<'static, Option<Taken>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn reports() -> MutexGuard<'static, Vec<String>> {
    REPORTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the terminal back when it is dropped: at the end, and when the drawing task unwinds or is ended.
pub(super) struct Restore(());

impl Restore {
    /// Remembers what the terminal was like.
    pub(super) fn new(file: File, before: Termios) -> Self {
        *taken() = Some(Taken { file, before });
        Restore(())
    }

    /// Gives the terminal back for now.
    pub(super) fn leave(&self) {
        give_back(&taken());
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        let mut taken = taken();
        give_back(&taken);
        *taken = None;
        drop(taken);
        for report in reports().drain(..) {
            eprintln!("{report}");
        }
    }
}

fn give_back(taken: &Option<Taken>) {
    let Some(Taken { file, before }) = taken else {
        return;
    };
    // The terminal may have gone: then there is nothing to give back and nobody to tell.
    let mut out: &File = file;
    out.write_all(LEAVE).ok();
    tcflush(file, QueueSelector::IFlush).ok();
    tcsetattr(file, OptionalActions::Now, before).ok();
}

/// Keeps panic messages off the screen while it is drawn on: they go to the log, and to standard error once
/// the terminal has been given back. Call it once, early; it keeps the hook that was there for all else.
pub fn install_panic_hook() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if taken().is_none() {
            return before(info);
        }
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("<unnamed>");
        tracing::error!(thread = name, "{info}");
        reports().push(format!("thread '{name}' {info}"));
    }));
}
