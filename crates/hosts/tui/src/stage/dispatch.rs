//! Who gets which input.

use bezel_api_tui::backend::{ViewId, event_context};
use bezel_api_tui::ratatui::layout::{Position, Rect};
use bezel_api_tui::{
    BindingEntry, Focus, Handled, InputEvent, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
    KeyStroke, Layer, MouseButton, MouseEvent, MouseEventKind, Slot,
};

use tokio::time::Instant;

use super::Stage;
use super::keys::Match;
use crate::terminal::event::{Reply, TerminalEvent};

impl Stage {
    /// Takes something that the terminal reported.
    pub(crate) fn handle(&mut self, event: TerminalEvent) {
        match event {
            TerminalEvent::Key(event) if event.kind != KeyEventKind::Release => {
                self.handle_key(event)
            }
            TerminalEvent::Key(_) => {}
            TerminalEvent::Mouse(event) => self.handle_mouse(event),
            TerminalEvent::Paste(text) => {
                self.marking.clear();
                self.keys.give_up();
                let event = InputEvent::Paste(text);
                if self
                    .overlays
                    .top_modal()
                    .is_none_or(|id| self.makes_way(id))
                {
                    self.typed = Some(Instant::now());
                }
                if self.offer(&event) == Handled::No && self.focus == Focus::Main {
                    self.type_into_composer(&event);
                }
            }
            TerminalEvent::FocusGained => self.terminal_focused = true,
            TerminalEvent::FocusLost => self.terminal_focused = false,
            TerminalEvent::Reply(reply) => self.learn(reply),
        }
        self.show_ask();
        self.tell_focus();
    }

    fn learn(&mut self, reply: Reply) {
        match reply {
            Reply::Background(red, green, blue) => self.theme.ground_color(red, green, blue),
            Reply::Scheme(kind) => self.theme.ground_is(kind),
            Reply::Keyboard | Reply::Attributes => return,
        }
        self.frame.paint = self.theme.paint();
    }

    fn handle_key(&mut self, event: KeyEvent) {
        self.marking.clear();
        let stroke = KeyStroke::from(&event);
        let input = InputEvent::Key(event);
        let closes = stroke.code == KeyCode::Esc || stroke == interrupt();
        if let Some(id) = self.overlays.top_modal()
            && (closes || !self.makes_way(id))
        {
            self.answered = Some(Instant::now());
            if self.keys.is_pending() {
                // The rest of a chord: its letters are no answers, and its command waits for nobody's dialog.
                self.keys.press(stroke, Layer::AfterViews);
                return;
            }
            match self.handle_in(id, &input) {
                Handled::Yes => {}
                Handled::No if closes => self.overlays.close(id),
                Handled::No => self.begin_chord(stroke),
            }
            return;
        }
        self.typed = Some(Instant::now());
        if self.keys.is_pending() {
            // What does not go on ends the chord, and means nothing else.
            self.press(stroke, Layer::AfterViews);
            return;
        }
        if self.press(stroke, Layer::BeforeViews) || self.offer(&input) == Handled::Yes {
            return;
        }
        if self.press(stroke, Layer::AfterViews) {
            return;
        }
        if self.focus == Focus::Main && stroke.typed().is_some() {
            self.type_into_composer(&input);
        }
    }

    /// Takes note that a chord has begun, in either layer; what is a whole one means nothing here.
    fn begin_chord(&mut self, stroke: KeyStroke) {
        if matches!(self.keys.press(stroke, Layer::BeforeViews), Match::Nothing) {
            self.keys.press(stroke, Layer::AfterViews);
        }
    }

    /// True where the stroke belongs to a binding.
    fn press(&mut self, stroke: KeyStroke, layer: Layer) -> bool {
        match self.keys.press(stroke, layer) {
            Match::Nothing => false,
            Match::Begun => true,
            Match::Complete(binding) => {
                self.start(&binding);
                true
            }
        }
    }

    fn start(&mut self, binding: &BindingEntry) {
        self.runner.run(&binding.command, binding.arguments.clone());
    }

    /// Offers input to the focused view, then to main if the composer has the focus.
    fn offer(&mut self, event: &InputEvent) -> Handled {
        let Some(focused) = self.wants_focus() else {
            return Handled::No;
        };
        if self.handle_in(focused, event) == Handled::Yes {
            return Handled::Yes;
        }
        match self.slots.single(Slot::Main) {
            Some(main) if main != focused && self.overlays.top_modal().is_none() => {
                self.handle_in(main, event)
            }
            _ => Handled::No,
        }
    }

    fn type_into_composer(&mut self, event: &InputEvent) {
        if let Some(composer) = self.slots.single(Slot::Composer)
            && self.handle_in(composer, event) == Handled::Yes
        {
            self.focus = Focus::Composer;
        }
    }

    pub(super) fn handle_in(&mut self, id: ViewId, event: &InputEvent) -> Handled {
        let focused = self.focused == Some(id);
        if let Some(overlay) = self.overlays.get(id) {
            return overlay
                .view
                .handle(event, &mut event_context(overlay.area, focused));
        }
        match self.slots.get(id) {
            Some(slot) => slot
                .view
                .handle(event, &mut event_context(slot.area, focused)),
            None => Handled::No,
        }
    }

    fn handle_mouse(&mut self, event: MouseEvent) {
        let position = Position::new(event.column, event.row);
        let input = InputEvent::Mouse(event);
        match event.kind {
            MouseEventKind::Down(button) => {
                self.marking.clear();
                self.keys.give_up();
                self.mouse_owner = None;
                let Some((id, area)) = self.under(position) else {
                    return;
                };
                if self.handle_in(id, &input) == Handled::Yes {
                    self.mouse_owner = Some(id);
                } else if button == MouseButton::Left {
                    self.marking.begin(area, position);
                }
            }
            MouseEventKind::Drag(_) => {
                if let Some(id) = self.mouse_owner {
                    self.handle_in(id, &input);
                } else {
                    self.marking.drag(position);
                }
            }
            MouseEventKind::Up(_) => {
                if let Some(id) = self.mouse_owner.take() {
                    self.handle_in(id, &input);
                }
                self.marking.release();
            }
            _ => {
                let taken = match self.under(position) {
                    Some((id, _)) => self.handle_in(id, &input),
                    None => Handled::No,
                };
                // The wheel means main wherever nobody else wants it.
                if taken == Handled::No
                    && self.overlays.top_modal().is_none()
                    && let Some(main) = self.slots.single(Slot::Main)
                {
                    self.handle_in(main, &input);
                }
            }
        }
    }

    /// What lies under the mouse; nothing outside of a modal overlay.
    fn under(&mut self, position: Position) -> Option<(ViewId, Rect)> {
        let modal = self.overlays.top_modal();
        if let Some(overlay) = self.overlays.at(position) {
            return (modal.is_none() || modal == Some(overlay.id))
                .then_some((overlay.id, overlay.area));
        }
        if modal.is_some() {
            return None;
        }
        self.slots.at(position).map(|slot| (slot.id, slot.area))
    }
}

fn interrupt() -> KeyStroke {
    KeyStroke::new(KeyCode::Char('c'), KeyModifiers::CONTROL)
}
