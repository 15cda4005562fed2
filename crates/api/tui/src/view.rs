//! Views: what draws into a place of the screen and takes input there.

use std::time::Duration;

use bezel_presentation::highlight::Highlighter;
use bezel_presentation::{StyledLine, TextStyle};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyEvent, MouseEvent};
use ratatui::layout::{Position, Rect, Size};
use ratatui::style::Style;
use ratatui::text::Line;
use tokio::time::Instant;

use crate::Paint;
use crate::backend::Frame;

/// How often a spinner turns: a person sees that something runs, and the machine hardly does.
pub const SPINNER_INTERVAL: Duration = Duration::from_millis(100);

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Something on the screen. The host calls it from one task, never from two at once.
///
/// A view holds what it shows (state watchers, shared values) and calls [`crate::Ui::redraw`] when that has
/// changed; after input that it handled the host draws anyway. A view that panics is replaced by a note
/// that names its plugin.
pub trait View: Send + 'static {
    /// Rows that it wants at this width. Slots that stack their views ask for it; zero hides the view.
    fn height(&mut self, width: u16, cx: &RenderContext<'_>) -> u16 {
        let (_, _) = (width, cx);
        1
    }

    /// Columns that it wants of those available. The status line asks for it; zero hides the view.
    fn width(&mut self, available: u16, cx: &RenderContext<'_>) -> u16 {
        let _unused = cx;
        available
    }

    /// Draws into `area`, which lies within the buffer. Cells that it leaves alone stay blank.
    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>);

    /// Takes input, or leaves it to the next in line.
    fn handle(&mut self, event: &InputEvent, cx: &mut EventContext) -> Handled {
        let (_, _) = (event, cx);
        Handled::No
    }
}

/// What a person did.
#[derive(Debug, Clone, PartialEq)]
pub enum InputEvent {
    /// A key went down or repeats. Releases are not delivered.
    Key(KeyEvent),
    /// The mouse did something; positions are the screen's. Moves without a button are not delivered.
    Mouse(MouseEvent),
    /// Text was pasted; line ends are `\n`.
    Paste(String),
    /// The view got the keyboard.
    Focused,
    /// The view lost the keyboard.
    Blurred,
}

/// Whether a view used an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handled {
    /// It did; nobody else gets it.
    Yes,
    /// It did not; the next in line gets it.
    No,
}

/// What a view may know and ask while it draws.
pub struct RenderContext<'a> {
    frame: &'a Frame,
    focused: bool,
}

impl<'a> RenderContext<'a> {
    pub(crate) fn new(frame: &'a Frame, focused: bool) -> Self {
        RenderContext { frame, focused }
    }

    /// The look of a role or style under the current theme.
    pub fn style(&self, style: impl Into<TextStyle>) -> Style {
        self.frame.paint.style(style)
    }

    /// The current theme's looks, ready for the screen.
    pub fn paint(&self) -> &'a Paint {
        &self.frame.paint
    }

    /// A styled line, ready for the screen. Borrows the text.
    pub fn line<'b>(&self, line: &'b StyledLine) -> Line<'b> {
        self.frame.paint.line(line)
    }

    /// The whole screen.
    pub fn screen(&self) -> Size {
        self.frame.size
    }

    /// Whether keys go to this view.
    pub fn is_focused(&self) -> bool {
        self.focused
    }

    /// How many questions wait for the person, shown or put aside.
    pub fn asks(&self) -> usize {
        self.frame.asks
    }

    /// When this frame is drawn.
    pub fn now(&self) -> Instant {
        self.frame.now
    }

    /// Asks for another frame at `at` even if nothing changes until then; for clocks and animations. It
    /// holds for one frame: a view that no longer asks costs no wake-up.
    pub fn redraw_at(&self, at: Instant) {
        let earliest = self
            .frame
            .redraw_at
            .get()
            .map_or(at, |current| current.min(at));
        self.frame.redraw_at.set(Some(earliest));
    }

    /// The current picture of a spinner; keeps it turning while it is drawn.
    pub fn spinner(&self) -> &'static str {
        let step = SPINNER_INTERVAL.as_millis();
        let since = self
            .frame
            .now
            .saturating_duration_since(self.frame.started)
            .as_millis();
        let left = step - since % step;
        self.redraw_at(self.frame.now + Duration::from_millis(u64::try_from(left).unwrap_or(100)));
        SPINNER[usize::try_from(since / step).unwrap_or(0) % SPINNER.len()]
    }

    /// Puts the terminal's cursor there, if the view has the focus.
    pub fn place_cursor(&self, position: Position) {
        if self.focused {
            self.frame.cursor.set(Some(position));
        }
    }

    /// Where syntax highlighting comes from; loads in the background on first use.
    pub fn highlighter(&self) -> &'a Highlighter {
        &self.frame.highlighter
    }
}

/// What a view may know while it handles input.
#[derive(Debug, Clone)]
pub struct EventContext {
    area: Rect,
    focused: bool,
}

impl EventContext {
    pub(crate) fn new(area: Rect, focused: bool) -> Self {
        EventContext { area, focused }
    }

    /// Where the view was drawn last.
    pub fn area(&self) -> Rect {
        self.area
    }

    /// Whether keys go to this view first.
    pub fn is_focused(&self) -> bool {
        self.focused
    }
}

/// A one-line view that shows what `line` returns, as wide as that; `None` hides it. For the status line.
pub fn segment(
    line: impl FnMut(&RenderContext<'_>) -> Option<StyledLine> + Send + 'static,
) -> impl View {
    Segment {
        line,
        current: None,
    }
}

struct Segment<F> {
    line: F,
    current: Option<StyledLine>,
}

impl<F> View for Segment<F>
where
    F: FnMut(&RenderContext<'_>) -> Option<StyledLine> + Send + 'static,
{
    fn height(&mut self, _width: u16, cx: &RenderContext<'_>) -> u16 {
        self.current = (self.line)(cx);
        u16::from(self.current.is_some())
    }

    fn width(&mut self, _available: u16, cx: &RenderContext<'_>) -> u16 {
        self.current = (self.line)(cx);
        let width = self.current.as_ref().map_or(0, StyledLine::width);
        u16::try_from(width).unwrap_or(u16::MAX)
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        if let Some(line) = &self.current {
            cx.paint().draw_line(buffer, area, line);
        }
    }
}
