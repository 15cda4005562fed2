//! Something to read.

use bezel_api_tui::backend::message_parts;
use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::{
    EventContext, Handled, InputEvent, KeyCode, Message, Overlay, OverlayPlacement, RenderContext,
    View,
};
use bezel_presentation::markdown::MarkdownText;
use tokio::sync::oneshot;

use super::Close;
use super::scroll::Scroll;

struct MessageView {
    body: MarkdownText,
    scroll: Scroll,
    reply: Option<oneshot::Sender<()>>,
    close: Close,
}

pub(super) fn overlay(message: Message, reply: oneshot::Sender<()>, close: Close) -> Overlay {
    let (title, body) = message_parts(message);
    let view = MessageView {
        body: MarkdownText::from(body.as_str()),
        scroll: Scroll::default(),
        reply: Some(reply),
        close,
    };
    let overlay = Overlay::new(view).title(title).hints("enter close");
    overlay.placement(OverlayPlacement::Center {
        width: 84,
        height: 30,
    })
}

impl View for MessageView {
    fn height(&mut self, width: u16, cx: &RenderContext<'_>) -> u16 {
        let lines = self.body.lines(usize::from(width), cx.highlighter());
        u16::try_from(lines.len()).unwrap_or(u16::MAX)
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let lines = self.body.lines(usize::from(area.width), cx.highlighter());
        let top = self.scroll.fit(lines.len(), usize::from(area.height));
        cx.paint().draw_lines(buffer, area, &lines[top..]);
        let beside = Rect {
            width: area.width + 2,
            ..area
        };
        self.scroll.draw_bar(beside, buffer, cx);
    }

    fn handle(&mut self, event: &InputEvent, _cx: &mut EventContext) -> Handled {
        if let InputEvent::Key(key) = event
            && matches!(key.code, KeyCode::Enter | KeyCode::Esc | KeyCode::Char('q'))
        {
            // Whoever asked may have stopped waiting.
            self.reply.take().and_then(|reply| reply.send(()).ok());
            self.close.close();
            return Handled::Yes;
        }
        self.scroll.keys(event)
    }
}
