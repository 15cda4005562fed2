//! How the composer looks, and its way to keys, mouse and pastes.

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::{Position, Rect};
use bezel_api_tui::{
    EventContext, Handled, InputEvent, KeyStroke, MouseButton, MouseEventKind, RenderContext, View,
};
use bezel_presentation::text::Role;
use bezel_presentation::wrap::truncate;
use bezel_presentation::{StyledLine, StyledSpan};
use tokio::time::Instant;

use super::layout::{Layout, shown};
use super::{AGAIN, Composer, Core};

/// The prompt mark and the space behind it.
const MARK: u16 = 2;

/// What stands in an empty composer.
const PLACEHOLDER: &str = "Ask for a change · @ for files · / for commands";

/// The composer in its slot.
pub(crate) struct ComposerView(pub(crate) Composer);

impl View for ComposerView {
    fn height(&mut self, width: u16, cx: &RenderContext<'_>) -> u16 {
        let mut core = self.0.lock();
        core.columns = columns(width);
        let layout = Layout::new(core.editor.draft(), core.columns);
        let most = usize::from((cx.screen().height / 3).clamp(1, 12));
        u16::try_from(layout.rows.len().clamp(1, most)).unwrap_or(1) + 2
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let mut core = self.0.lock();
        let core = &mut *core;
        core.columns = columns(area.width);
        let [top, text, bottom] = parts(area);
        let border = if cx.is_focused() {
            Role::Border
        } else {
            Role::Faint
        };
        rule(buffer, top, border, None, cx);
        rule(buffer, bottom, border, self.0.hint(core, cx), cx);

        let mark = if cx.is_focused() {
            Role::Accent
        } else {
            Role::Faint
        };
        cx.paint()
            .draw_line(buffer, text, &StyledLine::new("›", mark));
        let layout = Layout::new(core.editor.draft(), core.columns);
        let (row, column) = layout.position(core.editor.draft(), core.editor.cursor());
        let visible = usize::from(text.height).max(1);
        core.scroll = core
            .scroll
            .clamp((row + 1).saturating_sub(visible), row)
            .min(layout.rows.len().saturating_sub(visible));
        let field = Rect {
            x: text.x + MARK.min(text.width),
            width: text.width.saturating_sub(MARK),
            ..text
        };
        if core.editor.is_empty() {
            let placeholder = StyledLine::new(PLACEHOLDER, Role::Placeholder);
            let placeholder = truncate(&placeholder, usize::from(field.width));
            cx.paint().draw_line(buffer, field, &placeholder);
        }
        for (line, range) in field.rows().zip(layout.rows.iter().skip(core.scroll)) {
            let pieces = shown(core.editor.draft(), range.clone()).into_iter();
            let spans = pieces.map(|(piece, chip)| {
                StyledSpan::new(piece, if chip { Role::Link } else { Role::Text })
            });
            cx.paint()
                .draw_line(buffer, line, &StyledLine::from(spans.collect::<Vec<_>>()));
        }
        let x = field
            .x
            .saturating_add(u16::try_from(column).unwrap_or(u16::MAX))
            .min(area.right().saturating_sub(1));
        let y = field.y + u16::try_from(row - core.scroll).unwrap_or(0);
        cx.place_cursor(Position { x, y });
    }

    fn handle(&mut self, event: &InputEvent, cx: &mut EventContext) -> Handled {
        let handled = match event {
            InputEvent::Key(key) => self.0.press(KeyStroke::from(key), Instant::now()),
            InputEvent::Paste(text) => {
                self.0.paste(&mut self.0.lock(), text);
                true
            }
            InputEvent::Mouse(mouse) => match mouse.kind {
                MouseEventKind::Down(MouseButton::Left) => {
                    self.0.click(cx.area(), mouse.column, mouse.row)
                }
                _ => false,
            },
            InputEvent::Focused | InputEvent::Blurred => false,
        };
        if handled { Handled::Yes } else { Handled::No }
    }
}

impl Composer {
    /// What the lower edge says.
    fn hint(&self, core: &mut Core, cx: &RenderContext<'_>) -> Option<StyledLine> {
        if let Some(escaped) = core.escaped {
            if cx.now().saturating_duration_since(escaped) <= AGAIN {
                cx.redraw_at(escaped + AGAIN + AGAIN / 50);
                return Some(hints(&[("esc", "again to clear")]));
            }
            core.escaped = None;
        }
        if core.editor.draft().is_blank() || core.list.is_some() {
            return None;
        }
        self.running()
            .is_some()
            .then(|| hints(&[("enter", "steer"), ("tab", "queue")]))
    }

    fn click(&self, area: Rect, column: u16, row: u16) -> bool {
        let [_, text, _] = parts(area);
        if !text.contains(Position { x: column, y: row }) {
            return false;
        }
        let mut core = self.lock();
        let layout = Layout::new(core.editor.draft(), core.columns);
        let row = usize::from(row - text.y) + core.scroll;
        let column = usize::from(column.saturating_sub(text.x + MARK));
        let place = layout.place(core.editor.draft(), row, column);
        core.editor.place_cursor(place);
        true
    }
}

/// Columns for text: behind the mark, and one for the cursor behind the last letter.
fn columns(width: u16) -> usize {
    usize::from(width.saturating_sub(MARK + 1)).max(1)
}

fn parts(area: Rect) -> [Rect; 3] {
    let top = Rect {
        height: area.height.min(1),
        ..area
    };
    let bottom = Rect {
        y: area.bottom().saturating_sub(1).max(area.y),
        height: area.height.saturating_sub(1).min(1),
        ..area
    };
    let text = Rect {
        y: area.y + top.height,
        height: area.height.saturating_sub(2),
        ..area
    };
    [top, text, bottom]
}

fn rule(
    buffer: &mut Buffer,
    area: Rect,
    role: Role,
    hint: Option<StyledLine>,
    cx: &RenderContext<'_>,
) {
    let width = usize::from(area.width);
    let line = |columns: usize| StyledSpan::new("─".repeat(columns), role);
    let whole = match hint {
        Some(hint) if hint.width() + 6 <= width => {
            let left = width - hint.width() - 4;
            let mut whole = StyledLine::from(vec![line(left), StyledSpan::new(" ", Role::Border)]);
            hint.spans.into_iter().for_each(|span| whole.push(span));
            whole.push(StyledSpan::new(" ", Role::Border));
            whole.push(line(2));
            whole
        }
        _ => StyledLine::from(vec![line(width)]),
    };
    cx.paint().draw_line(buffer, area, &whole);
}

/// Keys and what they do, in one line.
pub(crate) fn hints(pairs: &[(&'static str, &'static str)]) -> StyledLine {
    let mut line = StyledLine::default();
    for (position, (key, text)) in pairs.iter().enumerate() {
        if position > 0 {
            line.push(StyledSpan::new(" · ", Role::Faint));
        }
        line.push(StyledSpan::new(*key, Role::Key));
        line.push(StyledSpan::new(format!(" {text}"), Role::Muted));
    }
    line
}
