//! The one task that draws: input, requests, frames, and what is to be done with the terminal.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bezel_api_tui::{Quit, Toast};
use bezel_presentation::text::sanitize;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::device::{Device, DeviceEvent};
use crate::mailbox::Mailbox;
use crate::programs;
use crate::stage::{Effect, Stage};
use crate::terminal::TerminalOptions;
use crate::terminal::event::TerminalEvent;

/// Changes of state make at most 60 frames a second; a key makes one at once.
const FRAME: Duration = Duration::from_micros(16_667);

/// How long the first frame waits for facets that are slow to set up.
const FIRST_FRAME: Duration = Duration::from_millis(10);

/// A terminal takes no more than this for its clipboard.
const CLIPBOARD_LIMIT: usize = 100_000;

/// Draws a stage on a device.
pub(crate) struct Presenter<D> {
    pub(crate) stage: Stage,
    pub(crate) device: D,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) options: TerminalOptions,
    /// Resolves when all facets are set up.
    pub(crate) ready: oneshot::Receiver<()>,
    /// Counts the frames drawn.
    pub(crate) frames: watch::Sender<u64>,
    /// Asks the presenter to end.
    pub(crate) stop: oneshot::Receiver<()>,
}

/// When the next frame is due.
struct Frames {
    dirty: bool,
    last: Instant,
}

impl Frames {
    /// When to draw: changes as soon as the rate allows, what views asked for when they asked for it.
    fn due(&self, redraw_at: Option<Instant>) -> Option<Instant> {
        let soonest = self.last + FRAME;
        if self.dirty {
            Some(soonest)
        } else {
            redraw_at.map(|at| at.max(soonest))
        }
    }
}

impl<D: Device> Presenter<D> {
    /// Takes the terminal, draws until the end, and gives it back.
    pub(crate) async fn run(mut self) -> Quit {
        if let Err(error) = self.device.enter() {
            return Quit {
                code: 1,
                message: format!("could not set up the terminal: {error}"),
            };
        }
        tokio::select! {
            biased;
            _ = &mut self.ready => {}
            () = tokio::time::sleep(FIRST_FRAME) => {}
        }
        self.stage.take_requests();
        let mut frames = Frames {
            dirty: false,
            last: Instant::now(),
        };
        let quit = match self.draw(&mut frames) {
            Some(quit) => quit,
            None => {
                self.device.ask();
                self.draw_until_the_end(&mut frames).await
            }
        };
        self.device.leave();
        quit
    }

    async fn draw_until_the_end(&mut self, frames: &mut Frames) -> Quit {
        loop {
            let due = frames.due(self.stage.redraw_at());
            tokio::select! {
                biased;
                event = self.device.next() => {
                    match event {
                        DeviceEvent::Input(events) => {
                            let urgent = events.iter().any(TerminalEvent::is_urgent);
                            events.into_iter().for_each(|event| self.stage.handle(event));
                            self.take_requests(frames);
                            if !urgent && !self.stage.has_effects() {
                                frames.dirty = true;
                                continue;
                            }
                        }
                        DeviceEvent::Resized => {}
                        DeviceEvent::Continued => {
                            if let Err(error) = self.device.enter() {
                                return Quit { code: 1, message: format!("could not take the terminal back: {error}") };
                            }
                            self.device.invalidate();
                        }
                        DeviceEvent::Ended(signal) => {
                            let code = u8::try_from(128 + signal).unwrap_or(u8::MAX);
                            return Quit { code, message: String::new() };
                        }
                        DeviceEvent::Gone => return Quit { code: 129, message: String::new() },
                    }
                    frames.dirty = true;
                }
                () = self.mailbox.filled() => {
                    self.take_requests(frames);
                    // A frame only when one is due: the loop comes back for it.
                    if !self.stage.has_effects() {
                        continue;
                    }
                }
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.take_requests(frames);
                }
                _ = &mut self.stop => return Quit::default(),
            }
            if let Some(quit) = self.carry_out().await {
                return quit;
            }
            if let Some(quit) = self.draw(frames) {
                return quit;
            }
            if let Some(quit) = self.carry_out().await {
                return quit;
            }
        }
    }

    fn take_requests(&mut self, frames: &mut Frames) {
        frames.dirty |= self.stage.take_requests() | self.mailbox.take_dirty();
    }

    /// Draws a frame. Something where that is no longer possible.
    fn draw(&mut self, frames: &mut Frames) -> Option<Quit> {
        frames.dirty = false;
        self.mailbox.take_dirty();
        let now = Instant::now();
        frames.last = now;
        let Presenter { device, stage, .. } = self;
        match device.draw(|frame| stage.draw(frame, now)) {
            Ok(()) => {
                self.frames.send_modify(|count| *count += 1);
                None
            }
            Err(error) => {
                tracing::warn!(%error, "the terminal cannot be written to");
                Some(Quit {
                    code: 129,
                    message: String::new(),
                })
            }
        }
    }

    /// Does with the terminal what was asked for.
    async fn carry_out(&mut self) -> Option<Quit> {
        for effect in self.stage.take_effects() {
            match effect {
                Effect::Copy(text) => self.copy(&text),
                Effect::SetTitle(title) => self.control_text("\x1b]2;", &title),
                Effect::Notify(text) => {
                    // Some terminals know one of the two.
                    self.control_text("\x1b]9;", &text);
                    self.device.control(b"\x07");
                }
                Effect::Repaint => self.device.invalidate(),
                Effect::RunProgram { program, reply } => {
                    self.device.leave();
                    let result = programs::run(&program).await;
                    // Whoever asked may have stopped waiting; the program has ended all the same.
                    reply.send(result).ok();
                    self.take_back();
                }
                Effect::Edit {
                    text,
                    extension,
                    reply,
                } => {
                    self.device.leave();
                    let result = programs::edit(&self.options, &text, &extension).await;
                    reply.send(result).ok();
                    self.take_back();
                }
                Effect::Suspend => {
                    self.device.leave();
                    let stopped = self.device.stop().await;
                    self.take_back();
                    if !stopped {
                        self.stage
                            .toast(Toast::warning("There is no shell to go back to"));
                    }
                }
                Effect::Quit(quit) => return Some(quit),
                _ => {}
            }
        }
        None
    }

    fn take_back(&mut self) {
        if let Err(error) = self.device.enter() {
            tracing::warn!(%error, "could not take the terminal back");
        }
        self.device.invalidate();
    }

    fn copy(&mut self, text: &str) {
        if text.len() > CLIPBOARD_LIMIT {
            self.stage
                .toast(Toast::warning("Too long for the terminal's clipboard"));
            return;
        }
        self.device
            .control(format!("\x1b]52;c;{}\x07", STANDARD.encode(text)).as_bytes());
    }

    fn control_text(&mut self, begin: &str, text: &str) {
        let clean = sanitize(text, 1).replace('\n', " ");
        self.device
            .control(format!("{begin}{clean}\x07").as_bytes());
    }
}
