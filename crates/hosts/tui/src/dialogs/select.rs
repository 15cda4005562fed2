//! Choosing from a list.

use std::sync::{Arc, MutexGuard, PoisonError};

use bezel_api_tui::backend::{Chosen, SelectContent, SelectRequest, SelectRow};
use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::{Position, Rect};
use bezel_api_tui::{
    EventContext, Handled, InputEvent, KeyCode, KeyModifiers, KeyStroke, MouseButton,
    MouseEventKind, Overlay, OverlayPlacement, RenderContext, View,
};
use bezel_presentation::fuzzy::{Fuzzy, Kind, Ranked};
use bezel_presentation::markdown::MarkdownText;
use bezel_presentation::text::{self, Role, TextStyle};
use bezel_presentation::{StyledLine, StyledSpan, wrap};

use super::Close;
use super::line_edit::LineEdit;
use super::scroll::Scroll;

/// With less width than this there is no room for a preview beside the list.
const LEAST_FOR_PREVIEW: u16 = 80;

/// A list with previews is at least so high.
const PREVIEW_ROWS: usize = 16;

/// Rows above the list: the search line and a free one.
const HEAD: u16 = 2;

struct SelectView {
    request: Option<SelectRequest>,
    query: LineEdit,
    /// The query and the revision of the content that `ranked` is for.
    ranked_for: Option<(String, u64)>,
    ranked: Vec<Ranked>,
    selected: usize,
    /// What is drawn, top to bottom.
    rows: Vec<Row>,
    scroll: Scroll,
    list: Rect,
    fuzzy: Fuzzy,
    preview: Option<(Arc<str>, MarkdownText)>,
    close: Close,
}

/// A row of the list as it is drawn.
enum Row {
    Heading(Arc<str>),
    /// An item, by its position among the ranked ones.
    Item(usize),
}

pub(super) fn overlay(request: SelectRequest, close: Close) -> Overlay {
    let content = || {
        request
            .content
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    };
    content().backend = Some(close.backend());
    let wide = content().rows.iter().any(|row| row.preview.is_some());
    let actions = request
        .actions
        .iter()
        .map(|action| format!("{} {} · ", action.chord, action.name))
        .collect::<String>();
    let title = request.title.clone();
    let query = LineEdit::new(request.query.clone(), false);
    let view = SelectView {
        request: Some(request),
        query,
        ranked_for: None,
        ranked: Vec::new(),
        selected: 0,
        rows: Vec::new(),
        scroll: Scroll::default(),
        list: Rect::ZERO,
        fuzzy: Fuzzy::new(Kind::Text),
        preview: None,
        close,
    };
    let size = if wide { (124, 32) } else { (76, 24) };
    let overlay = Overlay::new(view)
        .title(title)
        .hints(format!("{actions}enter choose · esc cancel"));
    overlay.placement(OverlayPlacement::Center {
        width: size.0,
        height: size.1,
    })
}

fn lock(request: &SelectRequest) -> MutexGuard<'_, SelectContent> {
    request
        .content
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

impl SelectView {
    /// Ranks the items anew if the query or the items have changed.
    fn rank(&mut self) {
        let Some(request) = &self.request else { return };
        let content = lock(request);
        let wanted = (self.query.text().to_owned(), content.revision);
        if self.ranked_for.as_ref() == Some(&wanted) {
            return;
        }
        let first_time = self.ranked_for.is_none();
        let same_query = self
            .ranked_for
            .as_ref()
            .is_some_and(|(query, _)| *query == wanted.0);
        let kept = self.ranked.get(self.selected).map(|ranked| ranked.index);
        self.ranked = rank(&mut self.fuzzy, &wanted.0, &content.rows);
        let position = |wanted: Option<usize>| {
            self.ranked
                .iter()
                .position(|ranked| Some(ranked.index) == wanted)
        };
        self.selected = if first_time {
            position(content.rows.iter().position(|row| row.current)).unwrap_or(0)
        } else if same_query {
            position(kept)
                .unwrap_or(self.selected)
                .min(self.ranked.len().saturating_sub(1))
        } else {
            0
        };
        self.rows.clear();
        let mut group: Option<Arc<str>> = None;
        for (position, ranked) in self.ranked.iter().enumerate() {
            let own = content.rows[ranked.index].group.clone();
            if wanted.0.trim().is_empty() && own.is_some() && own != group {
                self.rows.extend(own.clone().map(Row::Heading));
                group = own;
            }
            self.rows.push(Row::Item(position));
        }
        if !same_query {
            self.scroll.rewind();
        }
        drop(content);
        self.ranked_for = Some(wanted);
        self.reveal();
    }

    fn row_of_selected(&self) -> usize {
        let is_selected =
            |row: &Row| matches!(row, Row::Item(position) if *position == self.selected);
        self.rows.iter().position(is_selected).unwrap_or(0)
    }

    fn reveal(&mut self) {
        let row = self.row_of_selected();
        let page = usize::from(self.list.height).max(1);
        // With the first item of a group its heading is shown too.
        if row > 0 && matches!(self.rows.get(row - 1), Some(Row::Heading(_))) {
            self.scroll.reveal(row - 1, page);
        }
        self.scroll.reveal(row, page);
    }

    fn step(&mut self, by: isize) {
        let last = self.ranked.len().saturating_sub(1);
        self.selected = match self.selected.checked_add_signed(by) {
            // One step beyond an end goes round; a page stops there.
            None if by == -1 => last,
            None => 0,
            Some(next) if next > last => {
                if by == 1 {
                    0
                } else {
                    last
                }
            }
            Some(next) => next,
        };
        self.reveal();
    }

    fn choose(&mut self, action: Option<Arc<str>>) -> Handled {
        let Some(index) = self.ranked.get(self.selected).map(|ranked| ranked.index) else {
            return Handled::Yes;
        };
        if let Some(request) = self.request.take() {
            let value = lock(&request)
                .rows
                .get(index)
                .map(|row| Arc::clone(&row.value));
            lock(&request).backend = None;
            // Whoever asked may have stopped waiting.
            request
                .reply
                .send(value.map(|value| Chosen { value, action }))
                .ok();
        }
        self.close.close();
        Handled::Yes
    }

    fn handle_key(&mut self, stroke: KeyStroke) -> Option<Handled> {
        let page = isize::try_from(self.list.height).unwrap_or(1).max(2) - 1;
        let plain = stroke.modifiers.is_empty();
        let control = stroke.modifiers == KeyModifiers::CONTROL;
        // What the list's owner bound goes before what every list knows: its hints name it.
        if let Some(action) = self.action(stroke) {
            return Some(self.choose(Some(action)));
        }
        match stroke.code {
            KeyCode::Enter if plain => return Some(self.choose(None)),
            KeyCode::Esc => {
                self.close.close();
                return Some(Handled::Yes);
            }
            KeyCode::Up if plain => self.step(-1),
            KeyCode::Down if plain => self.step(1),
            KeyCode::Char('p' | 'k') if control => self.step(-1),
            KeyCode::Char('n' | 'j') if control => self.step(1),
            KeyCode::PageUp => self.step(-page),
            KeyCode::PageDown => self.step(page),
            _ => return None,
        }
        Some(Handled::Yes)
    }

    /// The name of what the list's owner bound to a stroke.
    fn action(&self, stroke: KeyStroke) -> Option<Arc<str>> {
        let mut actions = self.request.as_ref()?.actions.iter();
        let bound = actions.find(|action| action.chord.strokes() == [stroke])?;
        Some(Arc::clone(&bound.name))
    }

    fn render_row(
        &self,
        row: &SelectRow,
        ranked: &Ranked,
        selected: bool,
        area: Rect,
        buffer: &mut Buffer,
        cx: &RenderContext<'_>,
    ) {
        if selected {
            buffer.set_style(area, cx.paint().ground(Role::Selection));
        }
        let width = usize::from(area.width);
        let mark = if selected { "▌ " } else { "  " };
        let mut line = StyledLine::new(mark, Role::Accent);
        let detail = wrap::truncate_text(&row.detail, width / 2);
        let detail_width = text::width(&detail);
        let current = if row.current { 2 } else { 0 };
        let room = width.saturating_sub(4 + detail_width + current + usize::from(detail_width > 0));
        let label = wrap::truncate_text(&row.label, room);
        for (position, letter) in label.chars().enumerate() {
            let matched = u32::try_from(position)
                .is_ok_and(|position| ranked.positions.binary_search(&position).is_ok());
            let style = if matched {
                TextStyle::role(Role::Match)
            } else {
                TextStyle {
                    bold: selected,
                    ..TextStyle::default()
                }
            };
            line.push(StyledSpan::new(letter.to_string(), style));
        }
        if row.current {
            line.push(StyledSpan::new(" ✓", Role::Success));
        }
        let gap = width.saturating_sub(line.width() + detail_width + 1);
        line.push(StyledSpan::new(" ".repeat(gap), Role::Text));
        line.push(StyledSpan::new(detail.into_owned(), Role::Muted));
        cx.paint().draw_line(buffer, area, &line);
    }

    fn render_preview(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let Some(request) = &self.request else { return };
        let index = self.ranked.get(self.selected).map(|ranked| ranked.index);
        let preview = index.and_then(|index| {
            lock(request)
                .rows
                .get(index)
                .and_then(|row| row.preview.clone())
        });
        for y in area.top()..area.bottom() {
            buffer[(area.x, y)]
                .set_symbol("│")
                .set_style(cx.style(Role::Border));
        }
        let Some(preview) = preview else { return };
        let known = self.preview.take().filter(|(source, _)| *source == preview);
        let (_, markdown) = self
            .preview
            .insert(known.unwrap_or_else(|| (preview.clone(), MarkdownText::from(&*preview))));
        let text = Rect {
            x: area.x + 2,
            width: area.width.saturating_sub(2),
            ..area
        };
        cx.paint().draw_lines(
            buffer,
            text,
            markdown.lines(usize::from(text.width), cx.highlighter()),
        );
    }
}

/// Rows whose label matches, the best first, then those that have the words elsewhere. Letters scattered
/// over all that a row says would match far too much.
fn rank(fuzzy: &mut Fuzzy, query: &str, rows: &[SelectRow]) -> Vec<Ranked> {
    let mut ranked = fuzzy.rank(query, rows.iter().map(|row| row.label.as_str()));
    let mut missing = vec![true; rows.len()];
    ranked
        .iter()
        .for_each(|ranked| missing[ranked.index] = false);
    let query = query.to_lowercase();
    for (index, row) in rows.iter().enumerate().filter(|(index, _)| missing[*index]) {
        let group = row.group.as_deref().unwrap_or_default();
        let text = [
            row.label.as_str(),
            row.detail.as_str(),
            row.search.as_str(),
            group,
        ]
        .join(" ")
        .to_lowercase();
        if query.split_whitespace().all(|word| text.contains(word)) {
            ranked.push(Ranked {
                index,
                score: 0,
                positions: Vec::new(),
            });
        }
    }
    ranked
}

impl View for SelectView {
    fn height(&mut self, width: u16, _cx: &RenderContext<'_>) -> u16 {
        let Some(request) = &self.request else {
            return HEAD;
        };
        let content = lock(request);
        let groups = content
            .rows
            .iter()
            .filter(|row| row.group.is_some())
            .map(|row| &row.group);
        let mut headings = groups.collect::<Vec<_>>();
        headings.dedup();
        let previews = content.rows.iter().any(|row| row.preview.is_some());
        let least = if previews && width >= LEAST_FOR_PREVIEW {
            PREVIEW_ROWS
        } else {
            1
        };
        let rows = (content.rows.len() + headings.len()).max(least);
        u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(HEAD)
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        self.rank();
        let Some(request) = &self.request else { return };
        let (total, loading, has_previews) = {
            let content = lock(request);
            (
                content.rows.len(),
                content.loading,
                content.rows.iter().any(|row| row.preview.is_some()),
            )
        };
        let placeholder = request.placeholder.clone();
        let count = match (loading, self.ranked.len()) {
            (true, shown) => format!("{} {shown}", cx.spinner()),
            (false, shown) if shown == total => format!("{total}"),
            (false, shown) => format!("{shown}/{total}"),
        };
        let count_width = u16::try_from(text::width(&count)).unwrap_or(0);
        cx.paint()
            .draw_line(buffer, area, &StyledLine::new("❯ ", Role::Accent));
        let query = Rect {
            x: area.x + 2,
            width: area.width.saturating_sub(count_width + 4),
            height: 1,
            ..area
        };
        self.query.render(query, buffer, &placeholder, cx);
        let corner = Rect {
            x: area.right().saturating_sub(count_width),
            width: count_width,
            height: 1,
            ..area
        };
        cx.paint()
            .draw_line(buffer, corner, &StyledLine::new(count, Role::Faint));

        let mut list = Rect {
            y: area.y + HEAD.min(area.height),
            height: area.height.saturating_sub(HEAD),
            ..area
        };
        if has_previews && area.width >= LEAST_FOR_PREVIEW {
            let half = list.width / 2;
            let right = Rect {
                x: list.x + half + 1,
                width: list.width - half - 1,
                ..list
            };
            list.width = half;
            self.render_preview(right, buffer, cx);
        }
        if self.list.height != list.height {
            self.list = list;
            self.reveal();
        }
        self.list = list;
        let Some(request) = &self.request else { return };
        let content = lock(request);
        if self.rows.is_empty() {
            let text = match (loading, total) {
                (true, _) => "…",
                (false, 0) => request.empty.as_str(),
                (false, _) => "nothing matches",
            };
            cx.paint().draw_line(
                buffer,
                list,
                &StyledLine::new(format!("  {text}"), Role::Muted),
            );
            return;
        }
        let top = self.scroll.fit(self.rows.len(), usize::from(list.height));
        for (area, row) in list.rows().zip(&self.rows[top..]) {
            match row {
                Row::Heading(group) => {
                    let heading = StyledLine::new(
                        format!("  {group}"),
                        TextStyle::role(Role::AccentAlternate).bold(),
                    );
                    cx.paint().draw_line(buffer, area, &heading);
                }
                Row::Item(position) => {
                    let ranked = &self.ranked[*position];
                    if let Some(row) = content.rows.get(ranked.index) {
                        self.render_row(row, ranked, *position == self.selected, area, buffer, cx);
                    }
                }
            }
        }
        let beside = Rect {
            width: list.width + 1,
            ..list
        };
        if list.width == area.width {
            self.scroll.draw_bar(
                Rect {
                    width: list.width + 2,
                    ..list
                },
                buffer,
                cx,
            );
        } else {
            self.scroll.draw_bar(beside, buffer, cx);
        }
    }

    fn handle(&mut self, event: &InputEvent, _cx: &mut EventContext) -> Handled {
        self.rank();
        match event {
            InputEvent::Key(key) => match self.handle_key(KeyStroke::from(key)) {
                Some(handled) => handled,
                None => self.query.handle(event),
            },
            InputEvent::Mouse(mouse) if mouse.kind == MouseEventKind::Down(MouseButton::Left) => {
                let at = Position::new(mouse.column, mouse.row);
                if !self.list.contains(at) {
                    return Handled::No;
                }
                let top = self
                    .scroll
                    .fit(self.rows.len(), usize::from(self.list.height));
                match self.rows.get(top + usize::from(at.y - self.list.y)) {
                    Some(Row::Item(position)) => {
                        self.selected = *position;
                        self.choose(None)
                    }
                    _ => Handled::Yes,
                }
            }
            InputEvent::Mouse(_) => self.scroll.wheel(event),
            _ => self.query.handle(event),
        }
    }
}

impl Drop for SelectView {
    fn drop(&mut self) {
        if let Some(request) = &self.request {
            lock(request).backend = None;
        }
    }
}
