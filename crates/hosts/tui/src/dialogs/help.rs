//! Help: every key and command.

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::{
    EventContext, Handled, HelpEntry, HelpGroup, InputEvent, Overlay, OverlayPlacement,
    RenderContext, View,
};
use bezel_presentation::text::{self, Role, TextStyle};
use bezel_presentation::{StyledLine, StyledSpan, wrap};

use super::line_edit::LineEdit;
use super::scroll::Scroll;

/// Columns of the keys.
const KEYS: usize = 22;

/// From this width on there are two columns of groups.
const WIDE: u16 = 90;

struct HelpView {
    groups: Vec<HelpGroup>,
    query: LineEdit,
    scroll: Scroll,
}

/// The overlay.
pub(crate) fn help(groups: Vec<HelpGroup>) -> Overlay {
    let view = HelpView {
        groups,
        query: LineEdit::default(),
        scroll: Scroll::default(),
    };
    let overlay = Overlay::new(view)
        .title("Help")
        .hints("type to search · ↑↓ scroll · esc close");
    overlay.placement(OverlayPlacement::Center {
        width: 120,
        height: 64,
    })
}

impl HelpView {
    /// The groups as lines, those that match alone.
    fn lines(&self, width: usize) -> Vec<Vec<StyledLine>> {
        let query = self.query.text().to_lowercase();
        let matches = |group: &HelpGroup, entry: &HelpEntry| {
            let slash = entry.slash.as_deref().unwrap_or_default();
            let text =
                format!("{} {} {} {slash}", group.title, entry.keys, entry.text).to_lowercase();
            query.split_whitespace().all(|word| text.contains(word))
        };
        let lines = |group: &HelpGroup| {
            let entries: Vec<StyledLine> = group
                .entries
                .iter()
                .filter(|entry| matches(group, entry))
                .flat_map(|entry| entry_lines(entry, width))
                .collect();
            if entries.is_empty() {
                return None;
            }
            let title = StyledLine::new(
                group.title.to_string(),
                TextStyle::role(Role::AccentAlternate).bold(),
            );
            Some(
                [title]
                    .into_iter()
                    .chain(entries)
                    .chain([StyledLine::default()])
                    .collect(),
            )
        };
        self.groups.iter().filter_map(lines).collect()
    }

    /// Groups side by side where there is room, in columns of about the same height.
    fn columns(&self, width: u16) -> Vec<Vec<StyledLine>> {
        if width < WIDE {
            return vec![
                self.lines(usize::from(width))
                    .into_iter()
                    .flatten()
                    .collect(),
            ];
        }
        let groups = self.lines(usize::from(width / 2 - 2));
        let total: usize = groups.iter().map(Vec::len).sum();
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for group in groups {
            let column = if left.len() + group.len() / 2 <= total / 2 && right.is_empty() {
                &mut left
            } else {
                &mut right
            };
            column.extend(group);
        }
        vec![left, right]
    }
}

fn entry_lines(entry: &HelpEntry, width: usize) -> Vec<StyledLine> {
    let slash = entry.slash.as_ref().map(|slash| format!("/{slash}"));
    let keys = if entry.keys.is_empty() {
        slash.clone().unwrap_or_default()
    } else {
        entry.keys.clone()
    };
    let mut first = StyledLine::new(format!("  {keys}"), Role::Key);
    let used = text::width(&keys) + 2;
    let indent = KEYS.min(width / 2);
    if used < indent {
        first.push(StyledSpan::new(" ".repeat(indent - used), Role::Text));
    } else {
        first.push(StyledSpan::new("  ", Role::Text));
    }
    let rest = StyledLine::new(" ".repeat(indent), Role::Text);
    let mut wrapper = wrap::Wrapper::new(width, first, rest);
    wrapper.push(&StyledSpan::new(entry.text.to_string(), Role::Text));
    if let Some(slash) = slash.filter(|slash| *slash != keys) {
        wrapper.push(&StyledSpan::new(format!("  {slash}"), Role::Muted));
    }
    wrapper.finish()
}

impl View for HelpView {
    fn height(&mut self, width: u16, _cx: &RenderContext<'_>) -> u16 {
        let unfiltered = HelpView {
            groups: self.groups.clone(),
            query: LineEdit::default(),
            scroll: self.scroll,
        };
        let rows = unfiltered
            .columns(width)
            .iter()
            .map(Vec::len)
            .max()
            .unwrap_or(0);
        u16::try_from(rows + 2).unwrap_or(u16::MAX)
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        cx.paint()
            .draw_line(buffer, area, &StyledLine::new("❯ ", Role::Accent));
        let query = Rect {
            x: area.x + 2,
            width: area.width.saturating_sub(2),
            height: 1,
            ..area
        };
        self.query.render(query, buffer, "type to search", cx);
        let body = Rect {
            y: area.y + 2.min(area.height),
            height: area.height.saturating_sub(2),
            ..area
        };
        let columns = self.columns(area.width);
        let total = columns.iter().map(Vec::len).max().unwrap_or(0);
        let top = self.scroll.fit(total, usize::from(body.height));
        if total == 0 {
            cx.paint().draw_line(
                buffer,
                body,
                &StyledLine::new("  nothing matches", Role::Muted),
            );
        }
        let count = u16::try_from(columns.len()).unwrap_or(1).max(1);
        for (position, lines) in columns.iter().enumerate() {
            let width = body.width / count;
            let x = body.x + width * u16::try_from(position).unwrap_or(0);
            let column = Rect { x, width, ..body };
            cx.paint()
                .draw_lines(buffer, column, lines.get(top..).unwrap_or_default());
        }
        self.scroll.draw_bar(
            Rect {
                width: body.width + 2,
                ..body
            },
            buffer,
            cx,
        );
    }

    fn handle(&mut self, event: &InputEvent, _cx: &mut EventContext) -> Handled {
        if self.scroll.keys(event) == Handled::Yes {
            return Handled::Yes;
        }
        let handled = self.query.handle(event);
        if handled == Handled::Yes {
            self.scroll.rewind();
        }
        handled
    }
}
