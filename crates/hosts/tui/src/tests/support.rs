//! Facets to test with.

use std::sync::{Arc, Mutex};

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::{Position, Rect};
use bezel_api_tui::{
    Command, CommandArguments, EventContext, Facet, FacetError, Handled, InputEvent, KeyCode,
    KeyStroke, Placement, RenderContext, Slot, TuiContext, View, segment,
};
use bezel_context::Context;
use bezel_presentation::StyledLine;
use bezel_presentation::text::Role;

use crate::{HarnessOptions, TuiHarness};

/// A facet of this name with this setup.
pub(super) fn facet(
    plugin: &'static str,
    set_up: impl Fn(&TuiContext) -> Result<(), FacetError> + Send + Sync + 'static,
) -> Facet<TuiContext> {
    Facet::new(plugin, move |cx: TuiContext| {
        let result = set_up(&cx);
        async move { result }
    })
}

/// A harness with these facets, 80×24.
pub(super) async fn harness(facets: Vec<Facet<TuiContext>>) -> TuiHarness {
    TuiHarness::start(HarnessOptions {
        facets,
        ..HarnessOptions::default()
    })
    .await
    .unwrap()
}

/// Every event that a view saw, in words.
pub(super) type Seen = Arc<Mutex<Vec<String>>>;

/// Says its name in its place; main notes what it is offered.
pub(super) struct Label {
    pub(super) text: String,
    pub(super) seen: Seen,
    pub(super) takes: Handled,
    pub(super) rows: u16,
}

impl Label {
    pub(super) fn new(text: &str) -> Self {
        Label {
            text: text.into(),
            seen: Seen::default(),
            takes: Handled::No,
            rows: 1,
        }
    }
}

pub(super) fn describe(event: &InputEvent) -> String {
    match event {
        InputEvent::Key(key) => KeyStroke::from(key).to_string(),
        InputEvent::Mouse(mouse) => format!("{:?} {},{}", mouse.kind, mouse.column, mouse.row),
        other => format!("{other:?}"),
    }
}

impl View for Label {
    fn height(&mut self, _width: u16, _cx: &RenderContext<'_>) -> u16 {
        self.rows
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        for (number, row) in area.rows().enumerate() {
            let text = format!("{} {number} [{}x{}]", self.text, area.width, area.height);
            cx.paint()
                .draw_line(buffer, row, &StyledLine::new(text, Role::Text));
        }
    }

    fn handle(&mut self, event: &InputEvent, _cx: &mut EventContext) -> Handled {
        self.seen.lock().unwrap().push(describe(event));
        self.takes
    }
}

/// A composer that takes letters and pastes.
#[derive(Default)]
pub(super) struct Writer(pub(super) String);

impl View for Writer {
    fn height(&mut self, _width: u16, _cx: &RenderContext<'_>) -> u16 {
        u16::try_from(self.0.split('\n').count()).unwrap()
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let mark = if cx.is_focused() { '>' } else { '-' };
        for (row, line) in area.rows().zip(self.0.split('\n')) {
            cx.paint().draw_line(
                buffer,
                row,
                &StyledLine::new(format!("{mark} {line}"), Role::Text),
            );
        }
        let width = u16::try_from(self.0.chars().count()).unwrap();
        cx.place_cursor(Position::new(area.x + 2 + width, area.y));
    }

    fn handle(&mut self, event: &InputEvent, _cx: &mut EventContext) -> Handled {
        match event {
            InputEvent::Key(key) => match (KeyStroke::from(key).typed(), key.code) {
                (Some(letter), _) => self.0.push(letter),
                (None, KeyCode::Backspace) => {
                    self.0.pop();
                }
                _ => return Handled::No,
            },
            InputEvent::Paste(text) => self.0.push_str(text),
            _ => return Handled::No,
        }
        Handled::Yes
    }
}

/// A main view and a composer.
pub(super) fn basics() -> Facet<TuiContext> {
    facet("basics", |cx| {
        cx.slots
            .add(Slot::Main, Placement::default(), Label::new("main"));
        cx.slots
            .add(Slot::Composer, Placement::default(), Writer::default());
        Ok(())
    })
}

/// A segment that always says the same.
pub(super) fn says(text: &'static str) -> impl View {
    segment(move |_| Some(StyledLine::new(text, Role::Status)))
}

/// A command that does this, in a task of its own.
pub(super) fn command<F, Fut>(id: &'static str, title: &'static str, run: F) -> Command
where
    F: Fn(Context, CommandArguments) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = bezel_api_tui::CommandResult> + Send + 'static,
{
    Command::new(id, title).run(run)
}
