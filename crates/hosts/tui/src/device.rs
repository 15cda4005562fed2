//! What the loop needs of a terminal, so that a test can stand in for one.

use std::future::Future;
use std::io;

use bezel_api_tui::ratatui::Frame;

use crate::terminal::event::TerminalEvent;

/// Something from the outside.
#[derive(Debug)]
pub(crate) enum DeviceEvent {
    /// Input that came together.
    Input(Vec<TerminalEvent>),
    /// The terminal has another size.
    Resized,
    /// The process was stopped and goes on: nothing on the screen can be relied on.
    Continued,
    /// A signal that asks to end, by number.
    Ended(i32),
    /// The terminal has gone.
    Gone,
}

/// A terminal, or what stands in for one.
pub(crate) trait Device: Send + 'static {
    /// The next thing from the outside. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = DeviceEvent> + Send;

    /// Draws a frame.
    fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()>;

    /// Draws the next frame over whatever is on the screen.
    fn invalidate(&mut self);

    /// Writes a sequence that does not change the screen's content.
    fn control(&mut self, bytes: &[u8]);

    /// Takes the terminal, or takes it back.
    fn enter(&mut self) -> io::Result<()>;

    /// Asks the terminal what it can do and how it looks; answers come as input.
    fn ask(&mut self);

    /// Gives the terminal back as it was.
    fn leave(&mut self);

    /// Stops the process as a shell's ctrl+z does; resolves when it goes on. False where that is impossible.
    fn stop(&mut self) -> impl Future<Output = bool> + Send;
}
