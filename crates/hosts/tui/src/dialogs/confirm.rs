//! Yes or no.

use bezel_api_tui::backend::ConfirmParts;
use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::{Position, Rect};
use bezel_api_tui::{
    EventContext, Handled, InputEvent, KeyCode, KeyStroke, MouseButton, MouseEventKind, Overlay,
    OverlayPlacement, RenderContext, View,
};
use bezel_presentation::StyledLine;
use bezel_presentation::markdown::MarkdownText;
use bezel_presentation::text::{self, Role, TextStyle};
use tokio::sync::oneshot;

use super::Close;

struct ConfirmView {
    body: MarkdownText,
    /// Yes, then no.
    labels: [String; 2],
    danger: bool,
    selected: usize,
    buttons: [Rect; 2],
    reply: Option<oneshot::Sender<bool>>,
    close: Close,
}

pub(super) fn overlay(
    confirm: ConfirmParts,
    reply: oneshot::Sender<bool>,
    close: Close,
) -> Overlay {
    let ConfirmParts {
        title,
        body,
        yes,
        no,
        danger,
    } = confirm;
    let view = ConfirmView {
        body: MarkdownText::from(body.as_str()),
        labels: [yes, no],
        danger,
        selected: usize::from(danger),
        buttons: [Rect::ZERO; 2],
        reply: Some(reply),
        close,
    };
    let overlay = Overlay::new(view)
        .title(title)
        .hints("←→ choose · enter confirm · esc cancel");
    overlay.placement(OverlayPlacement::Center {
        width: 64,
        height: 24,
    })
}

impl ConfirmView {
    fn answer(&mut self, yes: bool) -> Handled {
        // Whoever asked may have stopped waiting.
        self.reply.take().and_then(|reply| reply.send(yes).ok());
        self.close.close();
        Handled::Yes
    }

    fn initial(label: &str) -> Option<char> {
        label
            .chars()
            .next()
            .map(|letter| letter.to_ascii_lowercase())
    }
}

impl View for ConfirmView {
    fn height(&mut self, width: u16, cx: &RenderContext<'_>) -> u16 {
        let lines = self.body.lines(usize::from(width), cx.highlighter()).len();
        u16::try_from(lines + 2).unwrap_or(u16::MAX)
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let text = Rect {
            height: area.height.saturating_sub(2),
            ..area
        };
        cx.paint().draw_lines(
            buffer,
            text,
            self.body.lines(usize::from(area.width), cx.highlighter()),
        );
        let mut x = area.x;
        for (position, label) in self.labels.iter().enumerate() {
            let width = u16::try_from(text::width(label) + 4).unwrap_or(area.width);
            let button = Rect {
                x,
                y: area.bottom().saturating_sub(1),
                width,
                height: 1,
            }
            .intersection(area);
            let role = if position == 0 && self.danger {
                Role::Error
            } else {
                Role::Accent
            };
            let style = if position == self.selected {
                TextStyle::role(role).bold().on(Role::Selection)
            } else {
                TextStyle::role(Role::Muted)
            };
            cx.paint().draw_line(
                buffer,
                button,
                &StyledLine::new(format!("  {label}  "), style),
            );
            self.buttons[position] = button;
            x += width + 2;
        }
    }

    fn handle(&mut self, event: &InputEvent, _cx: &mut EventContext) -> Handled {
        match event {
            InputEvent::Key(event) => {
                let stroke = KeyStroke::from(event);
                match stroke.code {
                    KeyCode::Enter => self.answer(self.selected == 0),
                    KeyCode::Esc => self.answer(false),
                    KeyCode::Left | KeyCode::Right | KeyCode::Tab => {
                        self.selected = 1 - self.selected;
                        Handled::Yes
                    }
                    _ => {
                        let typed = stroke.typed().map(|letter| letter.to_ascii_lowercase());
                        let [yes, no] =
                            [0, 1].map(|position| Self::initial(&self.labels[position]));
                        match typed {
                            Some('y') if no != Some('y') => self.answer(true),
                            Some('n') if yes != Some('n') => self.answer(false),
                            Some(_) if typed == yes && yes != no => self.answer(true),
                            Some(_) if typed == no && yes != no => self.answer(false),
                            _ => Handled::No,
                        }
                    }
                }
            }
            InputEvent::Mouse(mouse) if mouse.kind == MouseEventKind::Down(MouseButton::Left) => {
                let at = Position::new(mouse.column, mouse.row);
                match self.buttons.iter().position(|button| button.contains(at)) {
                    Some(position) => self.answer(position == 0),
                    None => Handled::No,
                }
            }
            _ => Handled::No,
        }
    }
}
