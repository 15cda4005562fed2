//! A line of text.

use bezel_api_tui::backend::{InputCheck, InputParts};
use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::{
    EventContext, Handled, InputEvent, KeyCode, Overlay, OverlayPlacement, RenderContext, View,
};
use bezel_presentation::text::Role;
use bezel_presentation::{StyledLine, wrap};
use tokio::sync::oneshot;

use super::Close;
use super::line_edit::LineEdit;

struct InputView {
    prompt: String,
    placeholder: String,
    edit: LineEdit,
    check: Option<InputCheck>,
    /// What is wrong with the text, from the last attempt to enter it.
    refused: Option<String>,
    reply: Option<oneshot::Sender<Option<String>>>,
    close: Close,
}

pub(super) fn overlay(
    input: InputParts,
    reply: oneshot::Sender<Option<String>>,
    close: Close,
) -> Overlay {
    let InputParts {
        title,
        prompt,
        placeholder,
        initial,
        secret,
        check,
    } = input;
    let edit = LineEdit::new(initial, secret);
    let view = InputView {
        prompt,
        placeholder,
        edit,
        check,
        refused: None,
        reply: Some(reply),
        close,
    };
    let overlay = Overlay::new(view)
        .title(title)
        .hints("enter accept · esc cancel");
    overlay.placement(OverlayPlacement::Center {
        width: 64,
        height: 16,
    })
}

impl InputView {
    fn lines(&self, width: u16) -> (Vec<StyledLine>, Vec<StyledLine>) {
        let wrapped = |text: &str, role| {
            let lines = text
                .lines()
                .map(|line| StyledLine::new(line.to_owned(), role));
            lines
                .flat_map(|line| wrap::wrap(&line, usize::from(width)))
                .collect::<Vec<_>>()
        };
        let above = wrapped(&self.prompt, Role::Muted);
        let below = self
            .refused
            .as_deref()
            .map_or_else(Vec::new, |text| wrapped(text, Role::Error));
        (above, below)
    }

    fn answer(&mut self, text: Option<String>) -> Handled {
        // Whoever asked may have stopped waiting.
        self.reply.take().and_then(|reply| reply.send(text).ok());
        self.close.close();
        Handled::Yes
    }
}

impl View for InputView {
    fn height(&mut self, width: u16, _cx: &RenderContext<'_>) -> u16 {
        let (above, below) = self.lines(width);
        let rows = above.len()
            + 1
            + usize::from(!above.is_empty())
            + below.len()
            + usize::from(!below.is_empty());
        u16::try_from(rows).unwrap_or(u16::MAX)
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let (above, below) = self.lines(area.width);
        cx.paint().draw_lines(buffer, area, &above);
        let gap = if above.is_empty() { 0 } else { above.len() + 1 };
        let y = area.y.saturating_add(u16::try_from(gap).unwrap_or(0));
        let row = |y: u16, height: u16| Rect { y, height, ..area }.intersection(area);
        let line = row(y, 1);
        cx.paint()
            .draw_line(buffer, line, &StyledLine::new("❯ ", Role::Accent));
        let text = Rect {
            x: line.x + 2,
            width: line.width.saturating_sub(2),
            ..line
        };
        self.edit.render(text, buffer, &self.placeholder, cx);
        cx.paint()
            .draw_lines(buffer, row(y + 2, area.height), &below);
    }

    fn handle(&mut self, event: &InputEvent, _cx: &mut EventContext) -> Handled {
        if let InputEvent::Key(key) = event {
            match key.code {
                KeyCode::Enter => {
                    let text = self.edit.text().to_owned();
                    return match self.check.as_ref().and_then(|check| check(&text)) {
                        Some(reason) => {
                            self.refused = Some(reason);
                            Handled::Yes
                        }
                        None => self.answer(Some(text)),
                    };
                }
                KeyCode::Esc => return self.answer(None),
                _ => {}
            }
        }
        let handled = self.edit.handle(event);
        if handled == Handled::Yes {
            self.refused = None;
        }
        handled
    }
}
