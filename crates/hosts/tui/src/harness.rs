//! A terminal for tests: the real host with keys from a test and a screen that can be read.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bezel_api_tui::ratatui::backend::TestBackend;
use bezel_api_tui::ratatui::buffer::{Buffer, CellWidth};
use bezel_api_tui::ratatui::layout::Position;
use bezel_api_tui::ratatui::style::Style;
use bezel_api_tui::ratatui::{Frame, Terminal};
use bezel_api_tui::{
    Chord, Facet, KeyCode, KeyEvent, KeyModifiers, Launch, MouseEvent, MouseEventKind, ThemeChoice,
    TuiContext,
};
use bezel_context::Context;
use bezel_plugin::{AssemblyError, Deadlines, Manifest, ManifestEntry};
use bezel_rpc::{Connect, ConnectError, Credential, Hello, Role, Transport};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};

use crate::device::{Device, DeviceEvent};
use crate::host::{RunningTui, TuiExit, TuiHost, TuiOptions};
use crate::terminal::TerminalOptions;
use crate::terminal::event::TerminalEvent;

/// How long a screen is waited for, by the runtime's clock.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the screen showed after one frame.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    buffer: Buffer,
    cursor: Option<Position>,
}

impl Screen {
    /// All rows, without the blanks at their ends.
    pub fn text(&self) -> String {
        let rows = (0..self.buffer.area.height).map(|y| self.row(y));
        rows.collect::<Vec<_>>().join("\n")
    }

    /// All rows with every spinner standing still as `*`: which frame it shows is the clock's.
    pub fn still_text(&self) -> String {
        const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
        self.text().replace(FRAMES, "*")
    }

    /// One row, without the blanks at its end; empty where there is none.
    pub fn row(&self, y: u16) -> String {
        let mut row = String::new();
        let mut x = 0;
        while let Some(cell) = self.buffer.cell((x, y)) {
            row.push_str(cell.symbol());
            x += cell.symbol().cell_width().max(1);
        }
        row.trim_end().to_owned()
    }

    /// Whether a row has this text.
    pub fn contains(&self, text: &str) -> bool {
        self.find(text).is_some()
    }

    /// Where a text begins first: column and row.
    pub fn find(&self, text: &str) -> Option<(u16, u16)> {
        (0..self.buffer.area.height).find_map(|y| {
            let row = self.row(y);
            let at = row.find(text)?;
            Some((
                u16::try_from(bezel_presentation::text::width(&row[..at])).ok()?,
                y,
            ))
        })
    }

    /// How a cell looks.
    pub fn style(&self, x: u16, y: u16) -> Style {
        self.buffer
            .cell((x, y))
            .map(|cell| cell.style())
            .unwrap_or_default()
    }

    /// Where the cursor is shown.
    pub fn cursor(&self) -> Option<(u16, u16)> {
        self.cursor.map(|position| (position.x, position.y))
    }

    /// The cells themselves.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }
}

/// What a harness runs.
pub struct HarnessOptions {
    /// The facets to run, each as a required plugin, in this order.
    pub facets: Vec<Facet<TuiContext>>,
    /// Entries that replace the plain ones: for configuration, or to make a plugin optional.
    pub entries: Vec<ManifestEntry>,
    /// Columns and rows.
    pub size: (u16, u16),
    /// Where the server is; without one the presentation waits for it forever.
    pub connect: Option<Arc<dyn Connect>>,
    /// Who the presentation is.
    pub hello: Hello,
    /// How the terminal is used; the theme is the dark one.
    pub terminal: TerminalOptions,
    /// What the person asked for.
    pub launch: Launch,
}

impl Default for HarnessOptions {
    fn default() -> Self {
        HarnessOptions {
            facets: Vec::new(),
            entries: Vec::new(),
            size: (80, 24),
            connect: None,
            hello: Hello {
                role: Role::Presentation,
                product_version: "0.0.0".into(),
                credential: Credential::none(),
            },
            terminal: TerminalOptions {
                theme: ThemeChoice::Dark,
                ..TerminalOptions::default()
            },
            launch: Launch::default(),
        }
    }
}

/// A running presentation under test.
pub struct TuiHarness {
    running: RunningTui,
    input: mpsc::UnboundedSender<Fake>,
    screens: watch::Receiver<Screen>,
    log: Arc<Mutex<Log>>,
}

/// What the presentation did with the terminal beside drawing.
#[derive(Debug, Default)]
struct Log {
    controls: String,
    /// Taken and given back, in order: `enter`, `leave`, `stop`.
    steps: Vec<&'static str>,
}

enum Fake {
    Event(DeviceEvent, oneshot::Sender<Screen>),
    Resize(u16, u16, oneshot::Sender<Screen>),
}

impl TuiHarness {
    /// Starts the facets and waits for the first frame.
    pub async fn start(options: HarnessOptions) -> Result<Self, AssemblyError> {
        let HarnessOptions {
            facets,
            mut entries,
            size,
            connect,
            hello,
            terminal,
            launch,
        } = options;
        let mut manifest = Manifest::default();
        for facet in &facets {
            let id = facet.plugin().as_str();
            let own = entries
                .iter()
                .position(|entry| entry.id.as_str() == id)
                .map(|at| entries.remove(at));
            manifest
                .plugins
                .push(own.unwrap_or_else(|| ManifestEntry::required(id, "0.0.0")));
        }
        let (input, incoming) = mpsc::unbounded_channel();
        let (sender, screens) = watch::channel(Screen::default());
        let log = Arc::new(Mutex::new(Log::default()));
        let Ok(backend) = Terminal::new(TestBackend::new(size.0, size.1));
        let device = FakeDevice {
            incoming,
            terminal: backend,
            screens: sender,
            drawn: None,
            log: Arc::clone(&log),
        };
        let options = TuiOptions {
            manifest,
            facets,
            connect: connect.unwrap_or_else(nowhere),
            hello,
            terminal,
            launch,
            deadlines: Deadlines::default(),
        };
        let running = TuiHost::start_on(device, options).await?;
        // An error means that it has ended already: then there is no first frame.
        let _ended = running
            .frames()
            .wait_for(|frames| *frames > 0)
            .await
            .is_err();
        Ok(TuiHarness {
            running,
            input,
            screens,
            log,
        })
    }

    /// The screen of the last frame.
    pub fn screen(&self) -> Screen {
        self.screens.borrow().clone()
    }

    /// Presses chords, separated by spaces as in `ctrl+x s`, and gives the frame that follows.
    pub async fn press(&self, chords: &str) -> Screen {
        let chord: Chord = match chords.parse() {
            Ok(chord) => chord,
            Err(error) => panic!("{error}"),
        };
        let keys = chord.strokes().iter().map(|stroke| {
            let shift = matches!(stroke.code, KeyCode::Char(letter) if letter.is_uppercase());
            let modifiers = if shift {
                stroke.modifiers | KeyModifiers::SHIFT
            } else {
                stroke.modifiers
            };
            TerminalEvent::Key(KeyEvent::new(stroke.code, modifiers))
        });
        self.send(DeviceEvent::Input(keys.collect())).await
    }

    /// Types text, letter by letter, and gives the frame that follows.
    pub async fn type_text(&self, text: &str) -> Screen {
        let keys = text.chars().map(|letter| {
            let code = if letter == '\n' {
                KeyCode::Enter
            } else {
                KeyCode::Char(letter)
            };
            TerminalEvent::Key(KeyEvent::new(code, KeyModifiers::NONE))
        });
        self.send(DeviceEvent::Input(keys.collect())).await
    }

    /// Pastes text and gives the frame that follows.
    pub async fn paste(&self, text: &str) -> Screen {
        self.send(DeviceEvent::Input(vec![TerminalEvent::Paste(text.into())]))
            .await
    }

    /// Uses the mouse and gives the frame that follows.
    pub async fn mouse(&self, kind: MouseEventKind, column: u16, row: u16) -> Screen {
        let event = MouseEvent {
            kind,
            column,
            row,
            modifiers: KeyModifiers::NONE,
        };
        self.send(DeviceEvent::Input(vec![TerminalEvent::Mouse(event)]))
            .await
    }

    /// Gives the terminal another size and the frame that follows.
    pub async fn resize(&self, width: u16, height: u16) -> Screen {
        let (drawn, screen) = oneshot::channel();
        let sent = self.input.send(Fake::Resize(width, height, drawn)).is_ok();
        self.frame(sent, screen).await
    }

    pub(crate) async fn send(&self, event: DeviceEvent) -> Screen {
        let (drawn, screen) = oneshot::channel();
        let sent = self.input.send(Fake::Event(event, drawn)).is_ok();
        self.frame(sent, screen).await
    }

    async fn frame(&self, sent: bool, screen: oneshot::Receiver<Screen>) -> Screen {
        match screen.await {
            Ok(screen) if sent => screen,
            // It has ended: what it showed last is all there is.
            _ => self.screen(),
        }
    }

    /// Waits for a frame that fits.
    ///
    /// # Panics
    ///
    /// When none comes within half a minute of the runtime's clock, with the last screen.
    pub async fn wait_for(&self, mut fits: impl FnMut(&Screen) -> bool) -> Screen {
        let mut screens = self.screens.clone();
        let found = tokio::time::timeout(PATIENCE, screens.wait_for(|screen| fits(screen))).await;
        match found {
            Ok(Ok(screen)) => return screen.clone(),
            Ok(Err(_)) => {}
            Err(_) => {}
        }
        panic!(
            "the screen never showed what was waited for; at last it showed:\n{}",
            self.screen().text()
        );
    }

    /// Waits for a frame with this text; panics as [`TuiHarness::wait_for`] does.
    pub async fn wait_for_text(&self, text: &str) -> Screen {
        self.wait_for(|screen| screen.contains(text)).await
    }

    /// Sequences written beside frames: clipboard, title, notifications.
    pub fn controls(&self) -> String {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .controls
            .clone()
    }

    /// What was done with the terminal as a whole, in order: `enter`, `leave`, `stop`.
    pub fn steps(&self) -> Vec<&'static str> {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .steps
            .clone()
    }

    /// Frames drawn so far.
    pub fn frames(&self) -> u64 {
        *self.running.frames().borrow()
    }

    /// The presentation itself.
    pub fn running(&mut self) -> &mut RunningTui {
        &mut self.running
    }

    /// Waits until the person, a signal or a facet ends it.
    pub async fn finished(self) -> TuiExit {
        self.running.finished().await
    }

    /// Ends it.
    pub async fn stop(self) -> TuiExit {
        self.running.stop().await
    }
}

struct FakeDevice {
    incoming: mpsc::UnboundedReceiver<Fake>,
    terminal: Terminal<TestBackend>,
    screens: watch::Sender<Screen>,
    /// Who waits for the next frame.
    drawn: Option<oneshot::Sender<Screen>>,
    log: Arc<Mutex<Log>>,
}

impl FakeDevice {
    fn log(&self, note: impl FnOnce(&mut Log)) {
        note(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Device for FakeDevice {
    async fn next(&mut self) -> DeviceEvent {
        match self.incoming.recv().await {
            Some(Fake::Event(event, drawn)) => {
                self.drawn = Some(drawn);
                event
            }
            Some(Fake::Resize(width, height, drawn)) => {
                self.drawn = Some(drawn);
                self.terminal.backend_mut().resize(width, height);
                DeviceEvent::Resized
            }
            None => DeviceEvent::Gone,
        }
    }

    fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let mut cursor = None;
        let Ok(frame) = self.terminal.draw(|frame| {
            render(frame);
            cursor = Some(());
        });
        let buffer = frame.buffer.clone();
        let backend = self.terminal.backend();
        let cursor = cursor.and(backend.cursor_visible().then(|| backend.cursor_position()));
        let screen = Screen { buffer, cursor };
        self.screens.send_replace(screen.clone());
        if let Some(drawn) = self.drawn.take() {
            // A test may not care.
            drawn.send(screen).ok();
        }
        Ok(())
    }

    fn invalidate(&mut self) {
        let Ok(()) = self.terminal.clear();
    }

    fn control(&mut self, bytes: &[u8]) {
        self.log(|log| log.controls.push_str(&String::from_utf8_lossy(bytes)));
    }

    fn enter(&mut self) -> io::Result<()> {
        self.log(|log| log.steps.push("enter"));
        Ok(())
    }

    fn ask(&mut self) {}

    fn leave(&mut self) {
        self.log(|log| log.steps.push("leave"));
    }

    async fn stop(&mut self) -> bool {
        self.log(|log| log.steps.push("stop"));
        true
    }
}

/// A server that is never reached.
pub(crate) fn nowhere() -> Arc<dyn Connect> {
    Arc::new(Nowhere)
}

struct Nowhere;

impl Connect for Nowhere {
    fn connect<'c>(&'c self, _cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        std::future::pending().boxed()
    }
}
