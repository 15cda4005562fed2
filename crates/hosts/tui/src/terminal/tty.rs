//! The terminal as a device.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bezel_api_tui::ratatui::layout::Size;
use bezel_api_tui::ratatui::{Frame, Terminal};
use rustix::fs::{Mode, OFlags};
use rustix::termios::{
    OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr, ttyname,
};
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::TerminalError;
use super::backend::TtyBackend;
use super::event::{Reply, TerminalEvent};
use super::options::TerminalOptions;
use super::parser::Parser;
use super::restore::Restore;
use super::unsure::UnsureRows;
use crate::device::{Device, DeviceEvent};

/// A lone escape is the Esc key when nothing follows it for so long. Programs that send sequences send them
/// in one piece; a slow line may cut them.
const ESCAPE_TIMEOUT: Duration = Duration::from_millis(25);

/// How long a process may take to notice that it was stopped.
const STOP_TIMEOUT: Duration = Duration::from_millis(200);

/// How long answers to our questions are waited for before the terminal is given back.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(60);

/// Title remembered, alternate screen, bracketed paste, focus reports, colour scheme reports.
const ENTER: &[u8] = b"\x1b[22;2t\x1b[?1049h\x1b[?2004h\x1b[?1004h\x1b[?2031h";

/// Button presses, drags and the wheel, in the encoding without limits; not every move.
const MOUSE: &[u8] = b"\x1b[?1000h\x1b[?1002h\x1b[?1006h";

/// Modified keys that the old encoding cannot tell apart: the kitty protocol's first level.
const KITTY_KEYS: &[u8] = b"\x1b[>1u";

/// The same in xterm's way, which tmux understands.
const XTERM_KEYS: &[u8] = b"\x1b[>4;2m";

/// A terminal that this process sits at.
pub(crate) struct Tty {
    /// The terminal, of which tokio needs no more than that it can be read like a pipe.
    input: pipe::Receiver,
    parser: Parser,
    escape_at: Option<Instant>,
    terminal: Terminal<TtyBackend>,
    unsure: UnsureRows,
    raw: Termios,
    mouse: bool,
    tmux: bool,
    ask_background: bool,
    /// Whether questions are out that have not all been answered.
    asked: bool,
    kitty: bool,
    resized: Signal,
    continued: Signal,
    ends: [(i32, Signal); 3],
    restore: Restore,
}

impl Tty {
    /// Opens the terminal that this process sits at, without touching it.
    pub(crate) fn open(options: &TerminalOptions) -> Result<Self, TerminalError> {
        Tty::open_at(&terminal_path()?, options)
    }

    /// Opens the terminal of this name.
    pub(crate) fn open_at(path: &Path, options: &TerminalOptions) -> Result<Self, TerminalError> {
        let unusable = |attempt: &'static str| {
            move |source: io::Error| TerminalError::Unusable { attempt, source }
        };
        // Opened anew, so that other programs at the same terminal never see it non-blocking.
        let open = |flags| {
            rustix::fs::open(
                path,
                flags | OFlags::NOCTTY | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .map(File::from)
        };
        let input = open(OFlags::RDONLY | OFlags::NONBLOCK)
            .map_err(io::Error::from)
            .map_err(unusable("open"))?;
        let output = open(OFlags::RDWR)
            .map_err(io::Error::from)
            .map_err(unusable("open"))?;
        let before = tcgetattr(&output)
            .map_err(io::Error::from)
            .map_err(unusable("read the settings of"))?;
        let size = size_of(&output).map_err(unusable("read the size of"))?;
        let mut raw = before.clone();
        raw.make_raw();
        let kept = output.try_clone().map_err(unusable("open"))?;
        let terminal = Terminal::new(TtyBackend::new(output, size)).map_err(unusable("set up"))?;
        let listen = |kind: SignalKind| signal(kind).map(|stream| (kind.as_raw_value(), stream));
        let signals = || {
            Ok::<_, io::Error>((
                signal(SignalKind::window_change())?,
                signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
                [
                    listen(SignalKind::terminate())?,
                    listen(SignalKind::hangup())?,
                    listen(SignalKind::interrupt())?,
                ],
            ))
        };
        let (resized, continued, ends) = signals().map_err(unusable("hear the signals of"))?;
        Ok(Tty {
            input: pipe::Receiver::from_file_unchecked(input).map_err(unusable("read"))?,
            parser: Parser::default(),
            escape_at: None,
            terminal,
            unsure: UnsureRows::default(),
            raw,
            mouse: options.mouse,
            tmux: options.tmux,
            ask_background: options.ask_background,
            asked: false,
            kitty: false,
            resized,
            continued,
            ends,
            restore: Restore::new(kept, before),
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.terminal.backend_mut().write_now(bytes)
    }

    /// Reads what is there; `None` when the terminal has gone.
    fn read_ready(
        input: &pipe::Receiver,
        parser: &mut Parser,
        events: &mut Vec<TerminalEvent>,
    ) -> Option<()> {
        let mut bytes = [0; 4096];
        loop {
            match input.try_read(&mut bytes) {
                Ok(0) => return None,
                Ok(length) => parser.feed(&bytes[..length], events),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// What answers mean for how the terminal is used.
    fn learn(&mut self, events: &[TerminalEvent]) {
        for event in events {
            match event {
                TerminalEvent::Reply(Reply::Keyboard) if !self.kitty => {
                    self.kitty = true;
                    self.control(KITTY_KEYS);
                }
                TerminalEvent::Reply(Reply::Attributes) => self.asked = false,
                _ => {}
            }
        }
    }

    /// Answers that arrive after the terminal was given back would be typed into the shell.
    fn await_answers(&mut self) {
        let end = std::time::Instant::now() + ANSWER_TIMEOUT;
        while self.asked {
            let left = end.saturating_duration_since(std::time::Instant::now());
            let mut fds = [rustix::event::PollFd::new(
                &self.input,
                rustix::event::PollFlags::IN,
            )];
            let timeout = rustix::event::Timespec {
                tv_sec: 0,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            if left.is_zero() || !matches!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(1..)) {
                return;
            }
            let mut events = Vec::new();
            let gone = Self::read_ready(&self.input, &mut self.parser, &mut events).is_none();
            self.asked &= !gone && !events.contains(&TerminalEvent::Reply(Reply::Attributes));
        }
    }
}

impl Device for Tty {
    async fn next(&mut self) -> DeviceEvent {
        loop {
            let escape_at = self.escape_at;
            let [
                (terminate_number, terminate),
                (hangup_number, hangup),
                (interrupt_number, interrupt),
            ] = &mut self.ends;
            let mut events = Vec::new();
            tokio::select! {
                biased;
                ready = self.input.readable() => {
                    if ready.is_err() || Self::read_ready(&self.input, &mut self.parser, &mut events).is_none() {
                        return DeviceEvent::Gone;
                    }
                }
                () = tokio::time::sleep_until(escape_at.unwrap_or_else(Instant::now)), if escape_at.is_some() => {
                    self.parser.flush(&mut events);
                }
                _ = self.resized.recv() => {
                    if let Ok(size) = size_of(&self.input) {
                        self.terminal.backend_mut().set_size(size);
                    }
                    return DeviceEvent::Resized;
                }
                _ = self.continued.recv() => return DeviceEvent::Continued,
                _ = terminate.recv() => return DeviceEvent::Ended(*terminate_number),
                _ = hangup.recv() => return DeviceEvent::Ended(*hangup_number),
                _ = interrupt.recv() => return DeviceEvent::Ended(*interrupt_number),
            }
            self.escape_at = self
                .parser
                .is_waiting()
                .then(|| Instant::now() + ESCAPE_TIMEOUT);
            if !events.is_empty() {
                self.learn(&events);
                return DeviceEvent::Input(events);
            }
        }
    }

    fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let unsure = &mut self.unsure;
        let drawn = self.terminal.draw(|frame| {
            render(frame);
            unsure.mark(frame.buffer_mut());
        });
        drawn.map(|_| ())
    }

    fn invalidate(&mut self) {
        self.terminal.backend_mut().forget();
        if let Err(error) = self.terminal.clear() {
            tracing::debug!(%error, "could not clear the terminal");
        }
    }

    fn control(&mut self, bytes: &[u8]) {
        if let Err(error) = self.write(bytes) {
            tracing::debug!(%error, "could not write to the terminal");
        }
    }

    fn enter(&mut self) -> io::Result<()> {
        tcsetattr(&self.input, OptionalActions::Now, &self.raw)?;
        if let Ok(size) = size_of(&self.input) {
            self.terminal.backend_mut().set_size(size);
        }
        self.write(ENTER)?;
        if self.mouse {
            self.write(MOUSE)?;
        }
        if self.kitty {
            self.write(KITTY_KEYS)?;
        } else if self.tmux {
            self.write(XTERM_KEYS)?;
        }
        Ok(())
    }

    fn ask(&mut self) {
        if !self.ask_background {
            return;
        }
        self.asked = true;
        self.control(b"\x1b]11;?\x1b\\\x1b[?u\x1b[c");
    }

    fn leave(&mut self) {
        self.await_answers();
        self.restore.leave();
        self.terminal.backend_mut().forget();
    }

    async fn stop(&mut self) -> bool {
        use rustix::process::{Signal, getpid, kill_process};
        if let Err(error) = kill_process(getpid(), Signal::TSTP) {
            tracing::warn!(%error, "could not stop the process");
            return false;
        }
        // Where no shell can continue the process the kernel does not stop it either. A process that was
        // stopped may find the time over before it hears that it goes on.
        let asked = Instant::now();
        let continued = tokio::time::timeout(STOP_TIMEOUT, self.continued.recv())
            .await
            .is_ok();
        continued || asked.elapsed() > 2 * STOP_TIMEOUT
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        self.await_answers();
    }
}

fn terminal_path() -> Result<PathBuf, TerminalError> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let Some(stream) = streams.iter().find(|stream| isatty(stream)) else {
        return Err(TerminalError::NoTerminal);
    };
    let name = ttyname(stream, Vec::new())
        .ok()
        .and_then(|name| name.into_string().ok());
    Ok(name.map_or_else(|| PathBuf::from("/dev/tty"), PathBuf::from))
}

fn size_of(terminal: impl AsFd) -> io::Result<Size> {
    let size = tcgetwinsize(terminal)?;
    // A terminal that does not know its size says zero.
    let or = |value: u16, default: u16| if value == 0 { default } else { value };
    Ok(Size::new(or(size.ws_col, 80), or(size.ws_row, 24)))
}
