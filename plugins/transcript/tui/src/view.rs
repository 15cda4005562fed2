//! The transcript in the middle of the screen.

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::{Position, Rect};
use bezel_api_tui::{
    EventContext, Focus, Handled, InputEvent, KeyCode, KeyModifiers, KeyStroke, MouseButton,
    MouseEvent, MouseEventKind, RenderContext, Toast, View,
};
use bezel_presentation::text::{Role, TextStyle};
use bezel_presentation::{StyledLine, StyledSpan, format, wrap};

use crate::conversation::Older;
use crate::core::{Core, Transcript};
use crate::entry::{GUTTER, Layout, Mark, Row};
use crate::saving;
use crate::scroll::{self, Anchor, Visible};
use crate::welcome::Welcome;

/// Rows that one turn of the wheel moves.
const WHEEL: isize = 3;

/// The keys of the transcript, for the help.
pub(crate) const HELP: &[(&str, &str)] = &[
    ("pageup, pagedown", "Scroll"),
    ("ctrl+home, ctrl+end", "To the beginning, to the end"),
    ("ctrl+up, ctrl+down", "Select an item"),
    ("up, down", "Selecting: the one before, the one after"),
    ("enter, space", "Selecting: open or close it"),
    ("y", "Selecting: copy it"),
    ("s", "Selecting: save the whole output of a tool call"),
    ("esc", "Selecting: back to the composer"),
];

/// The transcript in its slot.
pub(crate) struct TranscriptView {
    transcript: Transcript,
    welcome: Welcome,
    hits: Vec<Hit>,
    /// Where the way to the end is shown.
    pill: Rect,
}

/// A row in sight that can be clicked.
struct Hit {
    y: u16,
    entry: usize,
}

impl TranscriptView {
    pub(crate) fn new(transcript: Transcript, welcome: Welcome) -> Self {
        TranscriptView {
            transcript,
            welcome,
            hits: Vec::new(),
            pill: Rect::ZERO,
        }
    }

    fn draw(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>, core: &mut Core) {
        core.width = area.width;
        core.height = usize::from(area.height);
        core.highlighter = cx.highlighter().clone();
        let services = &self.transcript.services;
        let layout = Layout {
            width: area.width,
            all_open: core.all_open,
            renderers: &services.renderers,
            highlighter: cx.highlighter(),
        };
        let top = scroll::top(
            &mut core.anchor,
            &mut core.conversation,
            core.height,
            &layout,
        );
        let visible = scroll::visible(&mut core.conversation, top, core.height, &layout);
        let selected = core
            .selected
            .as_deref()
            .filter(|_| cx.is_focused())
            .and_then(|id| core.conversation.position(id));
        let mut wanted = Vec::new();
        for part in &visible {
            if part.entry == 0 {
                note_older(
                    &core.conversation.older,
                    core.conversation.has_older(),
                    part,
                    area,
                    buffer,
                    cx,
                );
            }
            let Some(entry) = core.conversation.entry(part.entry) else {
                continue;
            };
            if entry.wants_whole(layout.all_open) {
                wanted.push(part.entry);
            }
            let elapsed = entry.elapsed(&services.clock).map(format::duration);
            let (can_open, runs) = (entry.can_open(), entry.runs());
            let hits = &mut self.hits;
            entry.each_row(part.first..part.last, &layout, |index, row| {
                let y = area.y + u16::try_from(part.y + index - part.first).unwrap_or(0);
                if row.head && can_open {
                    hits.push(Hit {
                        y,
                        entry: part.entry,
                    });
                }
                let line = Rect {
                    y,
                    height: 1,
                    ..area
                };
                draw_row(&row, line, buffer, cx);
                if index == 0
                    && let Some(elapsed) = &elapsed
                {
                    draw_time(elapsed, line, buffer, cx);
                }
                if selected == Some(part.entry) {
                    let bar = StyledLine::new("▌", Role::Accent);
                    cx.paint().draw_line(buffer, line, &bar);
                }
            });
            if runs {
                // Keeps the spinner turning and the time going.
                cx.spinner();
            }
        }
        if top.entry == 0
            && top.row == 0
            && core.anchor != Anchor::End
            && core.conversation.older == Older::Idle
        {
            self.transcript.fetch_older(core);
        }
        for index in wanted {
            self.transcript.fetch_whole(core, index);
        }
        if core.anchor == Anchor::End {
            core.unseen = false;
        } else {
            self.pill = draw_pill(core.unseen, area, buffer, cx);
        }
    }

    fn press(&mut self, stroke: KeyStroke, focused: bool) -> bool {
        let transcript = self.transcript.clone();
        let mut core = transcript.lock();
        let core = &mut *core;
        let page = isize::try_from(core.height.saturating_sub(2).max(1)).unwrap_or(1);
        let (none, ctrl, shift) = (
            KeyModifiers::NONE,
            KeyModifiers::CONTROL,
            KeyModifiers::SHIFT,
        );
        match (stroke.code, stroke.modifiers) {
            (KeyCode::PageUp, _) => transcript.scroll(core, -page),
            (KeyCode::PageDown, _) => transcript.scroll(core, page),
            (KeyCode::Home, _) => transcript.go_to_start(core),
            (KeyCode::End, _) => transcript.go_to_end(core),
            (KeyCode::Up, modifiers)
                if modifiers == ctrl || modifiers == shift || (focused && modifiers == none) =>
            {
                self.select(core, -1);
            }
            (KeyCode::Down, modifiers)
                if modifiers == ctrl || modifiers == shift || (focused && modifiers == none) =>
            {
                // Below the newest item there is the composer.
                let newest = core
                    .conversation
                    .entries()
                    .last()
                    .map(|last| last.id().to_owned());
                if focused && core.selected.is_some() && core.selected == newest {
                    return self.leave(core);
                }
                self.select(core, 1);
            }
            (KeyCode::Enter | KeyCode::Char(' '), modifiers) if focused && modifiers == none => {
                let Some(index) = core
                    .selected
                    .as_deref()
                    .and_then(|id| core.conversation.position(id))
                else {
                    return false;
                };
                transcript.toggle(core, index);
                transcript.reveal(core, index);
            }
            (KeyCode::Char('y'), modifiers) if focused && modifiers == none => {
                let Some(index) = core
                    .selected
                    .as_deref()
                    .and_then(|id| core.conversation.position(id))
                else {
                    return false;
                };
                let text = core
                    .conversation
                    .entries()
                    .get(index)
                    .map(crate::entry::Entry::to_text)
                    .unwrap_or_default();
                copy(&transcript, text);
            }
            (KeyCode::Char('s'), modifiers) if focused && modifiers == none => {
                let Some(index) = core
                    .selected
                    .as_deref()
                    .and_then(|id| core.conversation.position(id))
                else {
                    return false;
                };
                saving::save(&transcript, core, index);
            }
            (KeyCode::Esc, modifiers) if focused && modifiers == none => return self.leave(core),
            _ => return false,
        }
        true
    }

    fn select(&self, core: &mut Core, step: isize) {
        self.transcript.select(core, step);
        if core.selected.is_some() {
            self.transcript.services.ui.focus(Focus::Main);
        }
    }

    fn leave(&self, core: &mut Core) -> bool {
        core.selected = None;
        self.transcript.services.ui.focus(Focus::Composer);
        true
    }

    fn mouse(&mut self, mouse: &MouseEvent, area: Rect) -> bool {
        let transcript = self.transcript.clone();
        let mut core = transcript.lock();
        let at = Position {
            x: mouse.column,
            y: mouse.row,
        };
        match mouse.kind {
            MouseEventKind::ScrollUp => transcript.scroll(&mut core, -WHEEL),
            MouseEventKind::ScrollDown => transcript.scroll(&mut core, WHEEL),
            MouseEventKind::Down(MouseButton::Left) if self.pill.contains(at) => {
                transcript.go_to_end(&mut core)
            }
            MouseEventKind::Down(MouseButton::Left) if area.contains(at) => {
                let Some(hit) = self.hits.iter().find(|hit| hit.y == at.y) else {
                    return false;
                };
                transcript.toggle(&mut core, hit.entry);
            }
            _ => return false,
        }
        true
    }
}

/// Puts text on the clipboard and says so.
pub(crate) fn copy(transcript: &Transcript, text: String) {
    let ui = &transcript.services.ui;
    if text.trim().is_empty() {
        return ui.toast("there is no text to copy");
    }
    let lines = format::count(text.lines().count(), "line", "lines");
    ui.copy(text);
    ui.toast(Toast::success(format!("copied {lines}")));
}

impl View for TranscriptView {
    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let transcript = self.transcript.clone();
        let mut core = transcript.lock();
        self.hits.clear();
        self.pill = Rect::ZERO;
        transcript.sync(&mut core);
        // The last row stays free: what is below begins apart.
        let area = Rect {
            height: area.height.saturating_sub(u16::from(area.height > 3)),
            ..area
        };
        if core.conversation.is_empty() {
            self.welcome
                .draw(area, buffer, cx, core.conversation.is_known());
        } else {
            self.draw(area, buffer, cx, &mut core);
        }
    }

    fn handle(&mut self, event: &InputEvent, cx: &mut EventContext) -> Handled {
        let handled = match event {
            InputEvent::Key(key) => self.press(KeyStroke::from(key), cx.is_focused()),
            InputEvent::Mouse(mouse) => self.mouse(mouse, cx.area()),
            InputEvent::Blurred => {
                self.transcript.lock().selected = None;
                false
            }
            InputEvent::Paste(_) | InputEvent::Focused => false,
        };
        if handled { Handled::Yes } else { Handled::No }
    }
}

fn draw_row(row: &Row<'_>, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
    let inner = |columns: u16| {
        let columns = columns.min(area.width);
        Rect {
            x: area.x + columns,
            width: area.width - columns,
            ..area
        }
    };
    let mark = match row.mark {
        Mark::None => None,
        Mark::Bar => {
            buffer.set_style(area, cx.paint().ground(Role::UserMessage));
            let bar = StyledLine::new("▌", TextStyle::role(Role::Accent).on(Role::UserMessage));
            cx.paint().draw_line(buffer, area, &bar);
            return cx.paint().draw_line(buffer, inner(GUTTER), row.line);
        }
        Mark::Waiting => Some(("○", Role::Warning)),
        Mark::Running => Some((cx.spinner(), Role::Accent)),
        Mark::Done => Some(("✓", Role::Success)),
        Mark::Failed => Some(("✗", Role::Error)),
        Mark::Interrupted => Some(("⊘", Role::Muted)),
    };
    match mark {
        Some((sign, role)) => {
            cx.paint()
                .draw_line(buffer, inner(GUTTER), &StyledLine::new(sign, role));
            cx.paint().draw_line(buffer, inner(GUTTER + 2), row.line);
        }
        None => {
            let mut field = inner(GUTTER + row.indent);
            field.width = field.width.saturating_sub(1);
            cx.paint().draw_line(buffer, field, row.line);
        }
    }
}

fn draw_time(elapsed: &str, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
    let width = u16::try_from(elapsed.len()).unwrap_or(0);
    let x = area.right().saturating_sub(width + 1).max(area.x);
    cx.paint().draw_line(
        buffer,
        Rect { x, width, ..area },
        &StyledLine::new(elapsed.to_owned(), Role::Faint),
    );
}

fn note_older(
    older: &Older,
    has_older: bool,
    part: &Visible,
    area: Rect,
    buffer: &mut Buffer,
    cx: &RenderContext<'_>,
) {
    // The note stands in the first row of the gap, and an empty one follows.
    if part.gap < 2 {
        return;
    }
    let line = match older {
        Older::Loading => StyledLine::from(vec![
            StyledSpan::new(format!("{} ", cx.spinner()), Role::Accent),
            StyledSpan::new("loading earlier messages…", Role::Muted),
        ]),
        Older::Failed(reason) => StyledLine::new(
            format!("earlier messages could not be loaded: {reason} · scroll up to try again"),
            Role::Warning,
        ),
        Older::Idle if has_older => StyledLine::new("↑ earlier messages", Role::Faint),
        Older::Idle => return,
    };
    let x = area.x + GUTTER.min(area.width);
    let y = area.y + u16::try_from(part.gap_y).unwrap_or(0);
    let field = Rect {
        x,
        y,
        width: area.width.saturating_sub(GUTTER + 1),
        height: 1,
    };
    cx.paint().draw_line(
        buffer,
        field,
        &wrap::truncate(&line, usize::from(field.width)),
    );
}

fn draw_pill(unseen: bool, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) -> Rect {
    let on = |role: Role| TextStyle::role(role).on(Role::Surface);
    let line = if unseen {
        StyledLine::from(vec![
            StyledSpan::new(" ↓ new ", on(Role::Accent).bold()),
            StyledSpan::new("ctrl+end ", on(Role::Faint)),
        ])
    } else {
        StyledLine::new(" ↓ to the end ctrl+end ", on(Role::Faint))
    };
    let width = u16::try_from(line.width()).unwrap_or(0).min(area.width);
    let pill = Rect {
        x: area.right() - width,
        y: area.bottom().saturating_sub(1),
        width,
        height: 1,
    };
    cx.paint().draw_line(buffer, pill, &line);
    pill
}
