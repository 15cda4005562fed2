//! A question with options, lines for something else, and a way out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bezel_api_tui::backend::AskParts;
use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::{Position, Rect};
use bezel_api_tui::{
    Answer, EventContext, Handled, InputEvent, KeyCode, KeyModifiers, KeyStroke, MouseButton,
    MouseEventKind, Overlay, OverlayPlacement, RenderContext, View,
};
use bezel_presentation::markdown::MarkdownText;
use bezel_presentation::text::{Role, TextStyle, sanitize};
use bezel_presentation::{StyledLine, StyledSpan, wrap};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Close;
use super::scroll::Scroll;
use super::text_edit::TextEdit;

/// A question that comes by itself takes no answer so long after it can be seen, and comes only after the person has
/// typed nothing for as long: what is meant for the composer answers nothing.
pub(crate) const SURPRISE: Duration = Duration::from_millis(1_200);

/// Rows of the question that can always be seen.
const LEAST_BODY: usize = 6;

/// What is asked, and how far the person is with it. It outlives the dialog that shows it.
pub(crate) struct AskState {
    title: String,
    body: MarkdownText,
    choices: Vec<Choice>,
    selected: usize,
    edit: TextEdit,
    reply: Option<oneshot::Sender<Answer>>,
    by_itself: bool,
}

struct Choice {
    label: String,
    detail: String,
    key: Option<char>,
    after_reading: bool,
    kind: ChoiceKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChoiceKind {
    Option,
    Text,
    Cancel,
}

impl AskState {
    pub(crate) fn new(ask: AskParts, reply: oneshot::Sender<Answer>) -> Self {
        let clean = |text: &str| sanitize(text, 4).replace('\n', " ");
        let plain = |label: String, kind| Choice {
            label: clean(&label),
            detail: String::new(),
            key: None,
            after_reading: false,
            kind,
        };
        let options = ask.options.into_iter();
        let mut choices: Vec<Choice> = options
            .map(|option| Choice {
                label: clean(&option.label),
                detail: clean(&option.detail),
                key: option.key,
                after_reading: option.after_reading,
                kind: ChoiceKind::Option,
            })
            .collect();
        choices.extend(ask.text.map(|label| plain(label, ChoiceKind::Text)));
        choices.extend(ask.cancel.map(|label| plain(label, ChoiceKind::Cancel)));
        AskState {
            title: ask.title,
            body: MarkdownText::from(sanitize(&ask.body, 4).as_ref()),
            choices,
            selected: 0,
            edit: TextEdit::default(),
            reply: Some(reply),
            by_itself: true,
        }
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// The person asked for it: it takes keys at once.
    pub(crate) fn asked_for(&mut self) {
        self.by_itself = false;
    }

    /// Whether it came without the person's doing.
    pub(crate) fn is_by_itself(&self) -> bool {
        self.by_itself
    }

    pub(crate) fn lock(state: &Mutex<Self>) -> MutexGuard<'_, Self> {
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writes(&self) -> bool {
        self.kind_of(self.selected) == Some(ChoiceKind::Text)
    }

    fn kind_of(&self, place: usize) -> Option<ChoiceKind> {
        self.choices.get(place).map(|choice| choice.kind)
    }

    /// What choosing the selected one answers; nothing where it is still to be written.
    fn answer(&self) -> Option<Answer> {
        match self.kind_of(self.selected)? {
            ChoiceKind::Option => Some(Answer::Option(self.selected)),
            ChoiceKind::Cancel => Some(Answer::Cancel),
            ChoiceKind::Text => {
                let text = self.edit.text().trim();
                (!text.is_empty()).then(|| Answer::Text(text.to_owned()))
            }
        }
    }

    /// The choices as rows, each with the place of its choice.
    fn rows(&mut self, width: usize) -> Vec<(usize, StyledLine)> {
        let mut rows = Vec::new();
        for (place, choice) in self.choices.iter().enumerate() {
            let selected = place == self.selected;
            let (mark, number) = (
                if selected { "❯ " } else { "  " },
                format!("{}. ", place + 1),
            );
            let indent = 2 + number.len();
            let head = |mut line: StyledLine| {
                let mut whole = StyledLine::new(mark, TextStyle::role(Role::Accent).bold());
                whole.push(StyledSpan::new(number.clone(), Role::Faint));
                whole.spans.append(&mut line.spans);
                whole
            };
            let name = match (choice.kind, selected) {
                (_, true) => TextStyle::role(Role::Text).bold(),
                (ChoiceKind::Option, false) => TextStyle::role(Role::Text),
                (ChoiceKind::Text | ChoiceKind::Cancel, false) => TextStyle::role(Role::Muted),
            };
            let room = width.saturating_sub(indent).max(1);
            let mut lines = if choice.kind == ChoiceKind::Text {
                // One column more for the cursor behind a full row.
                self.edit.fit(room.saturating_sub(1));
                written(&self.edit, &choice.label, name, selected).into_iter()
            } else {
                let mut line = StyledLine::new(choice.label.clone(), name);
                if let Some(key) = choice.key {
                    line.push(StyledSpan::new(format!("  {key}"), Role::Key));
                }
                wrap::wrap(&line, room).into_iter()
            };
            let first = rows.len();
            rows.extend(lines.next().map(|line| (place, head(line))));
            let detail = StyledLine::new(choice.detail.clone(), Role::Muted);
            let details = (!choice.detail.is_empty()).then(|| wrap::wrap(&detail, room));
            for mut line in lines.chain(details.into_iter().flatten()) {
                let mut whole = StyledLine::new(" ".repeat(indent), Role::Text);
                whole.spans.append(&mut line.spans);
                rows.push((place, whole));
            }
            if selected {
                rows[first..]
                    .iter_mut()
                    .for_each(|(_, line)| line.background = Some(Role::Selection));
            }
        }
        rows
    }
}

/// The rows of what is written, or what stands there while that is nothing.
fn written(edit: &TextEdit, label: &str, name: TextStyle, selected: bool) -> Vec<StyledLine> {
    match (edit.text(), selected) {
        ("", true) => vec![StyledLine::new(label.to_owned(), Role::Placeholder)],
        ("", false) => vec![StyledLine::new(label.to_owned(), name)],
        (text, selected) => {
            let role = if selected { Role::Text } else { Role::Muted };
            let rows = edit.rows().into_iter();
            rows.map(|row| StyledLine::new(text[row].to_owned(), role))
                .collect()
        }
    }
}

struct AskView {
    state: Arc<Mutex<AskState>>,
    by_itself: bool,
    /// When it could first be seen.
    seen: Option<Instant>,
    /// Rows of the question that were on the screen, from the first on, and whether these are all.
    read: usize,
    all_read: bool,
    body: Scroll,
    choices: Scroll,
    /// The place of the choice in each row of the last drawing.
    drawn: Vec<usize>,
    list: Rect,
    close: Close,
}

pub(crate) fn overlay(state: Arc<Mutex<AskState>>, close: Close) -> Overlay {
    let (title, hints, by_itself) = {
        let state = AskState::lock(&state);
        let most = state.choices.len().min(9);
        let writes = state
            .choices
            .iter()
            .any(|choice| choice.kind == ChoiceKind::Text);
        let newline = if writes {
            " · shift+enter new line"
        } else {
            ""
        };
        let hints = format!("↑↓ 1–{most} choose · enter answer · esc put aside{newline}");
        (state.title.clone(), hints, state.by_itself)
    };
    let view = AskView {
        state,
        by_itself,
        seen: None,
        read: 0,
        all_read: false,
        body: Scroll::default(),
        choices: Scroll::default(),
        drawn: Vec::new(),
        list: Rect::ZERO,
        close,
    };
    Overlay::new(view)
        .title(title)
        .hints(hints)
        .placement(OverlayPlacement::AboveComposer { height: 30 })
}

impl AskView {
    fn give(&mut self, answer: Answer) {
        let reply = AskState::lock(&self.state).reply.take();
        // Whoever asked may have stopped waiting.
        reply.and_then(|reply| reply.send(answer).ok());
        self.close.close();
    }

    fn choose(&mut self, place: usize) -> Handled {
        let answer = {
            let mut state = AskState::lock(&self.state);
            state.selected = place;
            let waits = state
                .choices
                .get(place)
                .is_some_and(|choice| choice.after_reading);
            if waits && !self.all_read {
                self.body.page_down();
                return Handled::Yes;
            }
            state.answer()
        };
        if let Some(answer) = answer {
            self.give(answer);
        }
        Handled::Yes
    }

    /// Whether it came so lately that what is pressed may be meant for something else.
    fn surprises(&self) -> bool {
        self.by_itself && self.seen.is_none_or(|seen| seen.elapsed() < SURPRISE)
    }

    fn handle_key(&mut self, stroke: KeyStroke, event: &InputEvent) -> Handled {
        let interrupt = KeyStroke::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        if stroke.code == KeyCode::Esc || stroke == interrupt {
            self.close.put_aside();
            return Handled::Yes;
        }
        if self.surprises() {
            return Handled::Yes;
        }
        let mut state = AskState::lock(&self.state);
        let count = state.choices.len();
        let moves = matches!(stroke.code, KeyCode::Up | KeyCode::Down);
        let newline = stroke.code == KeyCode::Enter && !stroke.modifiers.is_empty();
        if state.writes() && (moves || newline) && state.edit.handle(event) == Handled::Yes {
            return Handled::Yes;
        }
        match stroke.code {
            KeyCode::Up | KeyCode::BackTab if count > 0 => {
                state.selected = (state.selected + count - 1) % count;
                return Handled::Yes;
            }
            KeyCode::Down | KeyCode::Tab if count > 0 => {
                state.selected = (state.selected + 1) % count;
                return Handled::Yes;
            }
            KeyCode::Enter if state.writes() && state.edit.continues() => return Handled::Yes,
            KeyCode::Enter => {
                let selected = state.selected;
                drop(state);
                return self.choose(selected);
            }
            KeyCode::PageUp | KeyCode::PageDown => return self.body.keys(event),
            _ if state.writes() => return state.edit.handle(event),
            _ => {}
        }
        let Some(letter) = stroke.typed() else {
            return Handled::No;
        };
        let by_key = |choice: &Choice| {
            choice
                .key
                .is_some_and(|key| key.eq_ignore_ascii_case(&letter))
        };
        let number = letter
            .to_digit(10)
            .and_then(|number| usize::try_from(number).ok());
        let numbered = number
            .and_then(|number| number.checked_sub(1))
            .filter(|place| *place < count);
        if let Some(place) = state.choices.iter().position(by_key).or(numbered) {
            drop(state);
            return self.choose(place);
        }
        Self::write(&mut state, event)
    }

    /// Text that is meant for no choice begins another answer.
    fn write(state: &mut AskState, event: &InputEvent) -> Handled {
        let text = |choice: &Choice| choice.kind == ChoiceKind::Text;
        let Some(place) = state.choices.iter().position(text) else {
            return Handled::No;
        };
        state.selected = place;
        state.edit.handle(event)
    }
}

impl View for AskView {
    fn height(&mut self, width: u16, cx: &RenderContext<'_>) -> u16 {
        let mut state = AskState::lock(&self.state);
        let width = usize::from(width);
        let choices = state.rows(width).len();
        let body = state.body.lines(width, cx.highlighter()).len();
        u16::try_from(body + 1 + choices).unwrap_or(u16::MAX)
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let mut state = AskState::lock(&self.state);
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let rows = state.rows(width);
        let selected = state.selected;
        let written = state.writes().then(|| state.edit.cursor());
        let body = state.body.lines(width, cx.highlighter());
        // The choices first, but for the beginning of the question.
        let least = body.len().min(LEAST_BODY) + 1;
        let listed = rows.len().min(height.saturating_sub(least).max(1));
        let told = height.saturating_sub(listed + 1).min(body.len());
        let part = |y: usize, height: usize| {
            Rect {
                y: area.y + u16::try_from(y).unwrap_or(area.height),
                height: u16::try_from(height).unwrap_or(0),
                ..area
            }
            .intersection(area)
        };
        let beside = |part: Rect| Rect {
            width: part.width + 2,
            ..part
        };
        let top = self.body.fit(body.len(), told);
        self.seen.get_or_insert_with(Instant::now);
        if top <= self.read {
            self.read = self.read.max(top + told);
        }
        self.all_read |= self.read >= body.len();
        let below = body.len() - (top + told).min(body.len());
        let question = part(0, told);
        cx.paint().draw_lines(buffer, question, &body[top..]);
        self.body.draw_bar(beside(question), buffer, cx);
        if below > 0 || !self.all_read {
            let more = match below {
                0 => "↑ read from the top: page up".to_owned(),
                1 => "↓ 1 more row: page down".to_owned(),
                rows => format!("↓ {rows} more rows: page down"),
            };
            let line = StyledLine::new(more, TextStyle::role(Role::Warning).bold());
            cx.paint().draw_line(buffer, part(told, 1), &line);
        }

        let of_selected = |(place, _): &(usize, StyledLine)| *place == selected;
        self.choices.fit(rows.len(), listed);
        if let Some(last) = rows.iter().rposition(of_selected) {
            self.choices.reveal(last, listed);
        }
        let first = rows.iter().position(of_selected);
        if let Some(first) = first {
            let cursor = written.map_or(0, |(row, _)| row);
            self.choices.reveal(first + cursor, listed);
        }
        let top = self.choices.fit(rows.len(), listed);
        self.list = part(height.saturating_sub(listed), listed);
        self.drawn.clear();
        for (row, (place, line)) in self.list.rows().zip(&rows[top..]) {
            self.drawn.push(*place);
            cx.paint().draw_line(buffer, row, line);
        }
        if let (Some((row, column)), Some(first)) = (written, first)
            && let Some(row) = (first + row).checked_sub(top)
            && row < listed
        {
            // Mark and number stand before it.
            let before = 2 + (selected + 1).to_string().len() + 2;
            let part = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
            let x = self.list.x.saturating_add(part(before + column));
            let last = self.list.right().saturating_sub(1);
            cx.place_cursor(Position::new(x.min(last), self.list.y + part(row)));
        }
        self.choices.draw_bar(beside(self.list), buffer, cx);
    }

    fn handle(&mut self, event: &InputEvent, _cx: &mut EventContext) -> Handled {
        match event {
            InputEvent::Key(key) => self.handle_key(KeyStroke::from(key), event),
            InputEvent::Paste(_) => Self::write(&mut AskState::lock(&self.state), event),
            InputEvent::Mouse(mouse) if mouse.kind == MouseEventKind::Down(MouseButton::Left) => {
                if self.surprises() {
                    return Handled::Yes;
                }
                let at = Position::new(mouse.column, mouse.row);
                if !self.list.contains(at) {
                    return Handled::No;
                }
                match self.drawn.get(usize::from(at.y - self.list.y)) {
                    Some(place) => self.choose(*place),
                    None => Handled::No,
                }
            }
            _ => self.body.wheel(event),
        }
    }
}
