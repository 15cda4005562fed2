//! A view that cannot take the screen down with it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bezel_api_tui::backend::OwnerId;
use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::{EventContext, Handled, InputEvent, RenderContext, View};
use bezel_presentation::text::Role;
use bezel_presentation::{StyledLine, wrap};

/// A view of a facet. Once it has panicked a note stands in its place.
pub(super) struct GuardedView {
    pub(super) owner: OwnerId,
    view: Option<Box<dyn View>>,
}

impl GuardedView {
    pub(super) fn new(owner: OwnerId, view: Box<dyn View>) -> Self {
        GuardedView {
            owner,
            view: Some(view),
        }
    }

    pub(super) fn height(&mut self, width: u16, cx: &RenderContext<'_>) -> u16 {
        self.call(|view| view.height(width, cx)).unwrap_or(1)
    }

    pub(super) fn width(&mut self, available: u16, cx: &RenderContext<'_>) -> u16 {
        self.call(|view| view.width(available, cx))
            .unwrap_or(available)
    }

    pub(super) fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let area = area.intersection(*buffer.area());
        if area.is_empty() || self.call(|view| view.render(area, buffer, cx)).is_some() {
            return;
        }
        let note = format!(
            "a view of plugin `{}` failed; the log has the details",
            self.owner.plugin
        );
        let line = wrap::truncate(&StyledLine::new(note, Role::Error), usize::from(area.width));
        cx.paint().draw_line(buffer, area, &line);
    }

    pub(super) fn handle(&mut self, event: &InputEvent, cx: &mut EventContext) -> Handled {
        self.call(|view| view.handle(event, cx))
            .unwrap_or(Handled::No)
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut dyn View) -> T) -> Option<T> {
        let view = self.view.as_mut()?;
        match catch_unwind(AssertUnwindSafe(|| call(&mut **view))) {
            Ok(value) => Some(value),
            Err(_) => {
                tracing::error!(plugin = %self.owner.plugin, "a view panicked and was taken off the screen");
                // What panicked once must not run again, its destructor included if that panics too.
                let view = self.view.take();
                if catch_unwind(AssertUnwindSafe(|| drop(view))).is_err() {
                    tracing::error!(plugin = %self.owner.plugin, "the view panicked again while it was dropped");
                }
                None
            }
        }
    }
}
