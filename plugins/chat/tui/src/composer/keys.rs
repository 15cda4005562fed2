//! What keys do in the composer.

use bezel_api_tui::{CommandArguments, KeyCode, KeyModifiers, KeyStroke};
use bezel_chat_contract::Delivery;
use tokio::time::Instant;

use super::editor::Motion;
use super::layout::Layout;
use super::{AGAIN, Composer, Core};

/// The keys that the composer handles itself, for the help.
pub(crate) const HELP: &[(&str, &str)] = &[
    (
        "enter",
        "Send; while the agent works: steer it; empty: send what is held",
    ),
    (
        "tab, alt+q",
        "While the agent works: queue the message for after this turn",
    ),
    (
        "shift+enter, ctrl+j",
        "New line; so do alt+enter, and \\ before enter",
    ),
    (
        "esc",
        "Interrupt the agent; twice: clear the input, or look back in the conversation",
    ),
    (
        "up, down",
        "Move; at the edge: earlier and later messages; empty: what waits",
    ),
    ("alt+up", "Take the last pending message back"),
    ("@", "Complete a file"),
    ("/", "Complete a command"),
    (
        "alt+left, alt+right",
        "Move by words; so do alt+b, alt+f and ctrl with an arrow",
    ),
    (
        "ctrl+a, ctrl+e",
        "Start and end of the line; so do home and end",
    ),
    (
        "ctrl+w, alt+d",
        "Delete the word before, after; alt+backspace too",
    ),
    ("ctrl+u, ctrl+k", "Delete to the start or end of the line"),
    ("ctrl+y", "Put back what was deleted"),
    ("ctrl+/", "Undo"),
    ("ctrl+c", "Clear the input, or interrupt"),
];

/// The command of the tree, which another plugin has.
const TREE: &str = "tree.open";

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

impl Composer {
    /// Handles a key. False leaves it to others.
    pub(super) fn press(&self, stroke: KeyStroke, now: Instant) -> bool {
        let mut core = self.lock();
        let core = &mut *core;
        let key = (stroke.code, stroke.modifiers);
        if core.list.is_some() && self.press_in_list(core, key) {
            return true;
        }
        if key != (KeyCode::Esc, NONE) {
            core.escaped = None;
        }
        match key {
            (KeyCode::Enter, NONE) => self.enter(core),
            (KeyCode::Enter, SHIFT | ALT) | (KeyCode::Char('j'), CTRL) => {
                self.edited(core, |core| core.editor.type_text("\n"))
            }
            (KeyCode::Tab, NONE) | (KeyCode::Char('q'), ALT) => return self.queue(core, key),
            (KeyCode::Esc, NONE) => return self.escape(core, now),
            (KeyCode::Char('c'), CTRL) => return self.stop(core),
            (KeyCode::Up, NONE) => return self.up(core),
            (KeyCode::Down, NONE) => return self.down(core),
            (KeyCode::Up, ALT) => {
                if self.services.outbox.is_empty()
                    && self.services.chat.state().get().queue.is_empty()
                {
                    return false;
                }
                self.take_back_later();
            }
            (KeyCode::Char('/' | '_' | '-' | '7'), CTRL) => self.edited(core, |core| {
                core.editor.undo();
            }),
            (KeyCode::Char('y'), CTRL) => self.edited(core, |core| core.editor.yank()),
            // What the help promises: a message seldom begins so, and a space or a paste begins one that does.
            (KeyCode::Char('?'), NONE | SHIFT) if core.editor.is_empty() => return false,
            key => match (motion(key), deletion(key), kill(key)) {
                // An empty line leaves these to the transcript.
                (Some(Motion::LineStart | Motion::LineEnd), ..)
                    if core.editor.is_empty() && !has_ctrl(key) =>
                {
                    return false;
                }
                (Some(motion), ..) => {
                    core.history(&self.services).stop();
                    core.editor.go(motion);
                    self.complete(core);
                }
                (_, Some(_), _) | (_, _, Some(_)) if core.editor.is_empty() => {
                    return key != (KeyCode::Char('d'), CTRL);
                }
                (_, Some(motion), _) => self.edited(core, |core| core.editor.delete(motion)),
                (_, _, Some(motion)) => self.edited(core, |core| core.editor.kill(motion)),
                _ => match stroke.typed() {
                    Some(letter) => self.edited(core, |core| {
                        core.editor.type_text(letter.encode_utf8(&mut [0; 4]))
                    }),
                    None => return false,
                },
            },
        }
        true
    }

    fn press_in_list(&self, core: &mut Core, key: (KeyCode, KeyModifiers)) -> bool {
        let step = |core: &mut Core, by| {
            if let Some(list) = &mut core.list {
                list.step(by);
            }
        };
        match key {
            (KeyCode::Up, NONE) | (KeyCode::Char('p'), CTRL) => step(core, -1),
            (KeyCode::Down, NONE) | (KeyCode::Char('n'), CTRL) => step(core, 1),
            (KeyCode::PageUp, NONE) => step(core, -5),
            (KeyCode::PageDown, NONE) => step(core, 5),
            (KeyCode::Tab, NONE) => self.accept(core, false),
            (KeyCode::Enter, NONE) => self.accept(core, true),
            (KeyCode::Esc, NONE) => {
                core.dismissed = core.list.as_ref().map(|list| list.trigger.range.start);
                self.close_list(core);
            }
            _ => return false,
        }
        true
    }

    fn edited(&self, core: &mut Core, edit: impl FnOnce(&mut Core)) {
        edit(core);
        core.history(&self.services).stop();
        self.complete(core);
    }

    fn enter(&self, core: &mut Core) {
        // For terminals that send nothing else for shift+enter.
        let cursor = core.editor.cursor();
        if core.editor.text()[..cursor].ends_with('\\') && cursor == core.editor.text().len() {
            return self.edited(core, |core| {
                core.editor.replace_range(cursor - 1..cursor, "\n")
            });
        }
        self.submit(core, Delivery::Steer);
    }

    fn queue(&self, core: &mut Core, key: (KeyCode, KeyModifiers)) -> bool {
        if core.editor.draft().is_blank() {
            return key.0 != KeyCode::Tab;
        }
        if self.running().is_some() || key.0 != KeyCode::Tab {
            self.submit(core, Delivery::Queue);
        }
        true
    }

    fn escape(&self, core: &mut Core, now: Instant) -> bool {
        if self.interrupt() {
            core.escaped = None;
            return true;
        }
        if core.editor.is_empty() {
            if !self.services.outbox.is_empty() {
                self.take_back_later();
                return true;
            }
            // The second one looks back; the first is for whoever else wants it.
            return match core.escaped.replace(now) {
                Some(before) if now.saturating_duration_since(before) <= AGAIN => {
                    core.escaped = None;
                    self.look_back()
                }
                _ => false,
            };
        }
        match core.escaped {
            Some(before) if now.saturating_duration_since(before) <= AGAIN => self.clear(core),
            _ => core.escaped = Some(now),
        }
        true
    }

    /// Opens the tree of the conversation, where there is one.
    fn look_back(&self) -> bool {
        let commands = self.services.commands.list();
        let tree = commands
            .iter()
            .find(|entry| &*entry.id == TREE && entry.enabled);
        if let Some(tree) = tree {
            self.services
                .commands
                .run(&tree.id, CommandArguments::default());
        }
        tree.is_some()
    }

    fn stop(&self, core: &mut Core) -> bool {
        if core.editor.is_empty() {
            return self.interrupt();
        }
        self.clear(core);
        true
    }

    fn up(&self, core: &mut Core) -> bool {
        let layout = Layout::new(core.editor.draft(), core.columns);
        let browsing = core.history(&self.services).is_browsing();
        let chat = self.services.chat.state();
        if !browsing && core.editor.is_empty() && !chat.is_stale() && !chat.get().queue.is_empty() {
            // What waits comes before what was said.
            self.services
                .commands
                .run("chat.queue", CommandArguments::default());
            return true;
        }
        if !browsing && core.editor.go_rows(&layout, -1) {
            return true;
        }
        if browsing
            && core.editor.cursor() < core.editor.text().len()
            && core.editor.go_rows(&layout, -1)
        {
            return true;
        }
        let current = core.editor.draft().clone();
        match core.history(&self.services).older(&current, || self.said()) {
            Some(draft) => core.editor.replace(draft),
            // At the oldest message, or without any, the cursor goes to the start.
            None => core.editor.go(Motion::Start),
        }
        true
    }

    fn down(&self, core: &mut Core) -> bool {
        let layout = Layout::new(core.editor.draft(), core.columns);
        if core.editor.go_rows(&layout, 1) {
            return true;
        }
        match core.history(&self.services).newer() {
            Some(draft) => core.editor.replace(draft),
            None if core.editor.is_empty() => return false,
            None => core.editor.go(Motion::End),
        }
        true
    }

    /// Taking back locks the composer, which is locked while a key is handled.
    fn take_back_later(&self) {
        let composer = self.clone();
        self.services
            .spawner
            .spawn("take back", async move { composer.take_back() });
    }
}

fn has_ctrl((_, modifiers): (KeyCode, KeyModifiers)) -> bool {
    modifiers.contains(CTRL)
}

fn motion(key: (KeyCode, KeyModifiers)) -> Option<Motion> {
    Some(match key {
        (KeyCode::Left, NONE | SHIFT) | (KeyCode::Char('b'), CTRL) => Motion::Left,
        (KeyCode::Right, NONE | SHIFT) | (KeyCode::Char('f'), CTRL) => Motion::Right,
        (KeyCode::Left, CTRL | ALT) | (KeyCode::Char('b'), ALT) => Motion::WordLeft,
        (KeyCode::Right, CTRL | ALT) | (KeyCode::Char('f'), ALT) => Motion::WordRight,
        (KeyCode::Home, NONE) | (KeyCode::Char('a'), CTRL) => Motion::LineStart,
        (KeyCode::End, NONE) | (KeyCode::Char('e'), CTRL) => Motion::LineEnd,
        _ => return None,
    })
}

fn deletion(key: (KeyCode, KeyModifiers)) -> Option<Motion> {
    Some(match key {
        (KeyCode::Backspace, NONE | SHIFT) | (KeyCode::Char('h'), CTRL) => Motion::Left,
        (KeyCode::Delete, NONE) | (KeyCode::Char('d'), CTRL) => Motion::Right,
        _ => return None,
    })
}

fn kill(key: (KeyCode, KeyModifiers)) -> Option<Motion> {
    Some(match key {
        (KeyCode::Char('w'), CTRL) | (KeyCode::Backspace, ALT | CTRL) => Motion::WordLeft,
        (KeyCode::Char('d'), ALT) | (KeyCode::Delete, ALT | CTRL) => Motion::WordRight,
        (KeyCode::Char('u'), CTRL) => Motion::LineStart,
        (KeyCode::Char('k'), CTRL) => Motion::LineEnd,
        _ => return None,
    })
}
