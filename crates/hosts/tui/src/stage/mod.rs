//! The screen without a terminal: views, overlays, focus, keys. Takes input and requests, draws frames, and
//! says what is to be done with the terminal.

mod asks;
mod dispatch;
mod guard;
mod hints;
mod keys;
mod layout;
mod marking;
mod overlays;
mod slots;
mod themes;
mod toasts;

use std::collections::VecDeque;
use std::sync::Arc;

use bezel_api_tui::backend::{self, DialogRequest, OwnerId, Registries, Request, Runner, ViewId};
use bezel_api_tui::ratatui::Frame;
use bezel_api_tui::ratatui::layout::{Rect, Size};
use bezel_api_tui::{CommandArguments, Focus, InputEvent, Slot, Toast};
use bezel_presentation::highlight::Highlighter;
use bezel_presentation::text::Role;
use tokio::time::Instant;

use self::asks::Asks;
use self::keys::Keys;
use self::marking::Marking;
use self::overlays::Overlays;
use self::slots::SlotViews;
use self::themes::ThemeState;
use self::toasts::Toasts;
use crate::dialogs::{AskState, Dialog};
use crate::mailbox::Mailbox;
use crate::terminal::TerminalOptions;
use crate::{dialogs, screen};

pub(crate) use self::overlays::draw_frame;

/// What the loop is to do with the terminal. The same as the requests that ask for it.
pub(crate) type Effect = Request;

/// The screen.
pub(crate) struct Stage {
    registries: Arc<Registries>,
    mailbox: Arc<Mailbox>,
    runner: Runner,
    /// Owner of what the host opens itself.
    own: OwnerId,
    frame: backend::Frame,
    theme: ThemeState,
    slots: SlotViews,
    overlays: Overlays,
    asks: Asks,
    /// When a question comes that waits for a pause in what the person types.
    ask_at: Option<Instant>,
    /// The question that came by itself last, and when.
    came: Option<(ViewId, Instant)>,
    /// When something was typed last that was meant for no dialog.
    typed: Option<Instant>,
    /// When a dialog took a key last.
    answered: Option<Instant>,
    toasts: Toasts,
    keys: Keys,
    focus: Focus,
    /// Who was told last that it has the focus.
    focused: Option<ViewId>,
    marking: Marking,
    /// Who gets the mouse until its button is released.
    mouse_owner: Option<ViewId>,
    terminal_focused: bool,
    effects: VecDeque<Effect>,
}

impl Stage {
    pub(crate) fn new(
        registries: Arc<Registries>,
        mailbox: Arc<Mailbox>,
        own: OwnerId,
        options: &TerminalOptions,
        highlighter: Highlighter,
        now: Instant,
    ) -> Self {
        let theme = ThemeState::new(options.theme.clone(), options.colors, options.background);
        let frame = backend::Frame {
            paint: theme.paint(),
            size: Size::ZERO,
            asks: 0,
            now,
            started: now,
            highlighter,
            redraw_at: Default::default(),
            cursor: Default::default(),
        };
        let keys = Keys::new(&registries);
        Stage {
            runner: registries.runner(),
            registries,
            mailbox,
            own,
            frame,
            theme,
            slots: SlotViews::default(),
            overlays: Overlays::default(),
            asks: Asks::default(),
            ask_at: None,
            came: None,
            typed: None,
            answered: None,
            toasts: Toasts::default(),
            keys,
            focus: Focus::default(),
            focused: None,
            marking: Marking::default(),
            mouse_owner: None,
            terminal_focused: true,
            effects: VecDeque::new(),
        }
    }

    /// Carries out what handles asked for. True where the screen has to be drawn.
    pub(crate) fn take_requests(&mut self) -> bool {
        let requests = self.mailbox.take();
        let mut changed = !requests.is_empty();
        for request in requests {
            self.carry_out(request);
        }
        self.keys.follow(&self.registries);
        if self.theme.follow(self.registries.themes()) {
            self.frame.paint = self.theme.paint();
            changed = true;
        }
        changed |= self.show_ask();
        self.tell_focus();
        changed
    }

    /// What is to be done with the terminal, in order.
    pub(crate) fn take_effects(&mut self) -> VecDeque<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether something is to be done with the terminal.
    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Shows a note of the host's own.
    pub(crate) fn toast(&mut self, toast: Toast) {
        self.toasts.show(toast, Instant::now());
    }

    /// When a view wants to be drawn though nothing changes.
    pub(crate) fn redraw_at(&self) -> Option<Instant> {
        let view = self.frame.redraw_at.get();
        match (view, self.ask_at) {
            (Some(view), Some(ask)) => Some(view.min(ask)),
            (view, ask) => view.or(ask),
        }
    }

    /// Draws everything.
    pub(crate) fn draw(&mut self, out: &mut Frame<'_>, now: Instant) {
        let screen = out.area();
        let Stage {
            frame,
            slots,
            overlays,
            toasts,
            ..
        } = self;
        frame.now = now;
        frame.size = screen.as_size();
        frame.redraw_at.set(None);
        frame.cursor.set(None);
        let focused = self.focused;
        let buffer = out.buffer_mut();
        let composer = slots.draw(screen, buffer, frame, focused);
        overlays.draw(screen, composer, buffer, frame, focused);
        toasts.draw(screen, buffer, frame);
        self.draw_chord(screen, buffer);
        let marked = self.frame.paint.ground(Role::Marked);
        if let Some(text) = self.marking.draw(buffer, marked) {
            self.effects.push_back(Request::Copy(text));
            self.toasts.show(Toast::success("Copied"), now);
            self.frame.redraw_at.set(Some(now));
        }
        if let Some(position) = self
            .frame
            .cursor
            .get()
            .filter(|position| screen.contains(*position))
        {
            out.set_cursor_position(position);
        }
    }

    fn carry_out(&mut self, request: Request) {
        match request {
            Request::AddView {
                owner,
                id,
                slot,
                placement,
                view,
            } => self.slots.add(owner, id, slot, placement, view),
            Request::RemoveView(id) => self.slots.remove(id),
            Request::OpenOverlay {
                owner,
                id,
                overlay,
                closed,
            } => {
                self.overlays.open(owner, id, overlay.into(), Some(closed));
            }
            Request::OpenDialog { owner, id, dialog } => self.open_dialog(owner, id, dialog),
            Request::CloseOverlay(id) => {
                self.overlays.close(id);
                self.asks.remove(id);
            }
            Request::PutAside(id) => {
                self.overlays.close(id);
                self.asks.put_aside();
            }
            Request::ShowAsks => {
                if !self.asks.bring_back() {
                    self.toasts
                        .show(Toast::info("Nothing is asked"), Instant::now());
                }
            }
            Request::RemoveOwner(owner) => {
                self.asks.remove_owner(&owner);
                self.slots.remove_owner(&owner);
                self.overlays.remove_owner(&owner);
            }
            Request::Toast(toast) => self.toasts.show(toast, Instant::now()),
            Request::Focus(focus) => self.focus = focus,
            Request::SelectTheme(choice) => {
                self.theme.choose(choice);
                self.frame.paint = self.theme.paint();
            }
            Request::ShowHelp => {
                let help = dialogs::help(self.registries.help());
                self.overlays
                    .open(self.own.clone(), ViewId::next(), help.into(), None);
            }
            Request::ShowPalette => self
                .runner
                .run(screen::PALETTE, CommandArguments::default()),
            Request::Notify(text) => {
                if !self.terminal_focused {
                    self.effects.push_back(Request::Notify(text));
                }
            }
            effect @ (Request::Copy(_)
            | Request::SetTitle(_)
            | Request::RunProgram { .. }
            | Request::Edit { .. }
            | Request::Repaint
            | Request::Suspend
            | Request::Quit(_)) => self.effects.push_back(effect),
        }
    }

    fn open_dialog(&mut self, owner: OwnerId, id: ViewId, dialog: DialogRequest) {
        let close = dialogs::Close::new(Arc::clone(&self.mailbox), id);
        match dialogs::build(dialog, close) {
            Dialog::Overlay(overlay) => self.overlays.open(owner, id, overlay.into(), None),
            Dialog::Ask(ask) => {
                if !self.terminal_focused {
                    let call = format!("Bezel asks: {}", ask.title());
                    self.effects.push_back(Request::Notify(call));
                }
                self.asks.add(owner, id, *ask);
            }
        }
    }

    /// Opens the next question that was not put aside, once no dialog is open. True where one was opened.
    fn show_ask(&mut self) -> bool {
        self.frame.asks = self.asks.len();
        self.ask_at = None;
        if self.overlays.top_modal().is_some() {
            return false;
        }
        let Some((owner, id, state)) = self.asks.next() else {
            return false;
        };
        let now = Instant::now();
        if AskState::lock(&state).is_by_itself() {
            let quiet = self.typed.map(|typed| typed + dialogs::SURPRISE);
            if let Some(quiet) = quiet.filter(|quiet| *quiet > now) {
                self.ask_at = Some(quiet);
                return false;
            }
            self.came = Some((id, now));
        }
        let close = dialogs::Close::new(Arc::clone(&self.mailbox), id);
        let overlay = dialogs::ask_overlay(state, close);
        self.overlays.open(owner, id, overlay.into(), None);
        true
    }

    /// Takes a question back that came while the person was about to type. True where there was one.
    fn makes_way(&mut self, id: ViewId) -> bool {
        let now = Instant::now();
        let lately = |at: Instant| now < at + dialogs::SURPRISE;
        let came = self
            .came
            .is_some_and(|(other, at)| other == id && lately(at));
        // Who answers one question after the other types nothing.
        if !came
            || self
                .answered
                .is_some_and(|at| now < at + 2 * dialogs::SURPRISE)
        {
            return false;
        }
        self.came = None;
        self.overlays.close(id);
        self.tell_focus();
        true
    }

    /// Who gets the keys: the topmost modal overlay, else the focused slot, else the other one.
    fn wants_focus(&self) -> Option<ViewId> {
        let composer = || self.slots.single(Slot::Composer);
        let main = || self.slots.single(Slot::Main);
        self.overlays.top_modal().or_else(|| match self.focus {
            Focus::Composer => composer().or_else(main),
            Focus::Main => main().or_else(composer),
        })
    }

    /// Tells views that they have got or lost the focus.
    fn tell_focus(&mut self) {
        let wanted = self.wants_focus();
        if wanted == self.focused {
            return;
        }
        if let Some(id) = std::mem::replace(&mut self.focused, wanted) {
            self.handle_in(id, &InputEvent::Blurred);
        }
        if let Some(id) = wanted {
            self.handle_in(id, &InputEvent::Focused);
        }
    }

    fn draw_chord(&self, screen: Rect, buffer: &mut bezel_api_tui::ratatui::buffer::Buffer) {
        // A dialog keeps its keys: what may follow is not run then.
        if self.keys.is_pending() && self.overlays.top_modal().is_none() {
            let commands = self.registries.command_entries();
            dialogs::draw_continuations(
                &self.keys.typed(),
                &self.keys.continuations(),
                &commands,
                screen,
                buffer,
                &self.frame,
            );
        }
    }
}
