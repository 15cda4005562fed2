//! The list of themes; whichever is selected is shown at once.

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::{
    EventContext, Handled, InputEvent, KeyCode, KeyStroke, MouseButton, MouseEventKind,
    RenderContext, ThemeChoice, Themes, View,
};
use bezel_presentation::text::{Role, TextStyle};
use bezel_presentation::{StyledLine, StyledSpan};
use tokio::sync::oneshot;

/// Rows of the sample below the list, the free one above it included.
pub(crate) const SAMPLE_ROWS: u16 = 5;

/// A theme to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) choice: ThemeChoice,
    pub(crate) detail: String,
}

/// The list in its overlay.
pub(crate) struct Picker {
    rows: Vec<Row>,
    current: ThemeChoice,
    selected: usize,
    themes: Themes,
    chosen: Option<oneshot::Sender<ThemeChoice>>,
}

impl Picker {
    /// A list with `current` selected, and what the person chooses.
    pub(crate) fn new(
        rows: Vec<Row>,
        current: ThemeChoice,
        themes: Themes,
    ) -> (Self, oneshot::Receiver<ThemeChoice>) {
        let selected = rows
            .iter()
            .position(|row| row.choice == current)
            .unwrap_or(0);
        let (sender, chosen) = oneshot::channel();
        (
            Picker {
                rows,
                current,
                selected,
                themes,
                chosen: Some(sender),
            },
            chosen,
        )
    }

    fn select(&mut self, index: usize) {
        if let Some(row) = self.rows.get(index) {
            self.selected = index;
            self.themes.select(row.choice.clone());
        }
    }

    fn choose(&mut self) {
        if let (Some(row), Some(chosen)) = (self.rows.get(self.selected), self.chosen.take()) {
            // Whoever opened the list may have gone; then there is nobody to tell.
            chosen.send(row.choice.clone()).ok();
        }
    }
}

impl View for Picker {
    fn height(&mut self, _width: u16, _cx: &RenderContext<'_>) -> u16 {
        u16::try_from(self.rows.len())
            .unwrap_or(u16::MAX)
            .saturating_add(SAMPLE_ROWS)
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let list = usize::from(area.height.saturating_sub(SAMPLE_ROWS)).max(1);
        let first = (self.selected + 1).saturating_sub(list);
        for (line, (index, row)) in area
            .rows()
            .take(list)
            .zip(self.rows.iter().enumerate().skip(first))
        {
            let selected = index == self.selected;
            let ground = if selected {
                Role::Selection
            } else {
                Role::Surface
            };
            let on = |role: Role| TextStyle::role(role).on(ground);
            let mark = if row.choice == self.current {
                "● "
            } else {
                "  "
            };
            let spans = vec![
                StyledSpan::new(if selected { "▌ " } else { "  " }, on(Role::Accent)),
                StyledSpan::new(mark, on(Role::Success)),
                StyledSpan::new(
                    format!("{:<16}", String::from(row.choice.clone())),
                    on(Role::Text),
                ),
                StyledSpan::new(row.detail.clone(), on(Role::Muted)),
            ];
            cx.paint().draw_line(
                buffer,
                line,
                &StyledLine {
                    spans,
                    background: Some(ground),
                },
            );
        }
        let y = area.y + u16::try_from(list.min(self.rows.len())).unwrap_or(0);
        let below = Rect {
            y,
            height: area.bottom().saturating_sub(y),
            ..area
        };
        cx.paint().draw_lines(buffer, below, &sample());
    }

    fn handle(&mut self, event: &InputEvent, cx: &mut EventContext) -> Handled {
        let last = self.rows.len().saturating_sub(1);
        match event {
            InputEvent::Key(key) => match KeyStroke::from(key).code {
                KeyCode::Up | KeyCode::Char('k') => {
                    self.select(self.selected.checked_sub(1).unwrap_or(last))
                }
                KeyCode::Down | KeyCode::Char('j') => self.select(if self.selected == last {
                    0
                } else {
                    self.selected + 1
                }),
                KeyCode::Home => self.select(0),
                KeyCode::End => self.select(last),
                KeyCode::Enter => self.choose(),
                _ => return Handled::No,
            },
            InputEvent::Mouse(mouse) => {
                let list = usize::from(cx.area().height.saturating_sub(SAMPLE_ROWS)).max(1);
                let first = (self.selected + 1).saturating_sub(list);
                match mouse.kind {
                    MouseEventKind::ScrollUp => self.select(self.selected.saturating_sub(1)),
                    MouseEventKind::ScrollDown => self.select((self.selected + 1).min(last)),
                    MouseEventKind::Down(MouseButton::Left) => {
                        let row = usize::from(mouse.row.saturating_sub(cx.area().y));
                        if row < list && first + row <= last {
                            self.select(first + row);
                        }
                    }
                    _ => return Handled::No,
                }
            }
            _ => return Handled::No,
        }
        Handled::Yes
    }
}

/// A little of everything.
fn sample() -> Vec<StyledLine> {
    let line = |spans: &[(&'static str, Role)]| {
        StyledLine::from(
            spans
                .iter()
                .map(|(text, role)| StyledSpan::new(*text, *role))
                .collect::<Vec<_>>(),
        )
    };
    let changed = |sign: &'static str, text: &'static str, role: Role, emphasis: Role| {
        let on = |own: Role, ground: Role| TextStyle::role(own).on(ground);
        let spans = vec![
            StyledSpan::new(sign, on(role, role)),
            StyledSpan::new("    return ", on(Role::Keyword, role)),
            StyledSpan::new(text, on(Role::Number, emphasis)),
            StyledSpan::new(";", on(Role::Punctuation, role)),
        ];
        StyledLine {
            spans,
            background: Some(role),
        }
    };
    vec![
        StyledLine::default(),
        line(&[
            ("fn ", Role::Keyword),
            ("answer", Role::Function),
            ("() -> ", Role::Punctuation),
            ("u32 ", Role::Type),
            ("{ ", Role::Punctuation),
            ("// the one", Role::Comment),
        ]),
        changed("- ", "41", Role::DiffRemoved, Role::DiffRemovedEmphasis),
        changed("+ ", "42", Role::DiffAdded, Role::DiffAddedEmphasis),
        line(&[
            ("done ", Role::Success),
            ("careful ", Role::Warning),
            ("failed ", Role::Error),
            ("a note ", Role::Muted),
            ("less", Role::Faint),
        ]),
    ]
}
