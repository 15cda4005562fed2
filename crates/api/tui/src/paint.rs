//! From roles to the terminal: a theme resolved for what the terminal can show.

use bezel_presentation::text::Role;
use bezel_presentation::theme::{Color as ThemeColor, ColorDepth, Look, Theme};
use bezel_presentation::{StyledLine, TextStyle};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// A theme's looks as terminal styles.
#[derive(Debug, Clone)]
pub struct Paint {
    theme: Theme,
    styles: Vec<Style>,
}

impl Paint {
    /// Resolves a theme for a terminal that shows `depth` colours.
    pub fn new(theme: &Theme, depth: ColorDepth) -> Self {
        let theme = theme.at_depth(depth);
        let styles = Role::ALL
            .iter()
            .map(|role| to_style(theme.look(*role)))
            .collect();
        Paint { theme, styles }
    }

    /// The theme, as far as the terminal shows it.
    pub fn theme(&self) -> &Theme {
        &self.theme
    }

    /// The terminal style of a role or style.
    pub fn style(&self, style: impl Into<TextStyle>) -> Style {
        let style = style.into();
        if style == TextStyle::role(style.role) {
            return self.styles[style.role as usize];
        }
        to_style(self.theme.style(style))
    }

    /// A styled line for ratatui's widgets. Borrows the text.
    pub fn line<'a>(&self, line: &'a StyledLine) -> Line<'a> {
        let spans = line
            .spans
            .iter()
            .map(|span| Span::styled(span.text.as_ref(), self.style(span.style)));
        let ground = line
            .background
            .map_or_else(Style::default, |role| self.ground(role));
        Line::from_iter(spans).style(ground)
    }

    /// A styled line that owns its text.
    pub fn owned_line(&self, line: &StyledLine) -> Line<'static> {
        let spans = line
            .spans
            .iter()
            .map(|span| Span::styled(span.text.clone(), self.style(span.style)));
        let ground = line
            .background
            .map_or_else(Style::default, |role| self.ground(role));
        Line::from_iter(spans).style(ground)
    }

    /// Draws a line into the first row of `area`, cut at its right edge; a background fills the row.
    pub fn draw_line(&self, buffer: &mut Buffer, area: Rect, line: &StyledLine) {
        let area = area.intersection(*buffer.area());
        if area.is_empty() {
            return;
        }
        let row = Rect { height: 1, ..area };
        let ground = line
            .background
            .map(|role| self.ground(role))
            .unwrap_or_default();
        buffer.set_style(row, ground);
        let mut x = row.x;
        for span in &line.spans {
            let left = usize::from(row.right().saturating_sub(x));
            if left == 0 {
                break;
            }
            let style = self.style(span.style);
            let start = x;
            (x, _) = buffer.set_stringn(x, row.y, &span.text, left, style);
            if !span.text.is_ascii() {
                // The cell behind a wide character was reset.
                let drawn = Rect {
                    x: start,
                    width: x - start,
                    ..row
                };
                buffer.set_style(drawn, ground.patch(style));
            }
        }
    }

    /// Draws lines from the top of `area` down, as many as fit.
    pub fn draw_lines(&self, buffer: &mut Buffer, area: Rect, lines: &[StyledLine]) {
        for (row, line) in area.rows().zip(lines) {
            self.draw_line(buffer, row, line);
        }
    }

    /// A role's background (or reversal) alone, to lay under text of other roles.
    pub fn ground(&self, role: Role) -> Style {
        let look = self.theme.look(role);
        to_style(Look {
            background: look.background,
            reverse: look.reverse,
            ..Look::default()
        })
    }
}

fn to_style(look: Look) -> Style {
    let mut style = Style::new();
    style.fg = look.foreground.map(to_color);
    style.bg = look.background.map(to_color);
    let flags = [
        (look.bold, Modifier::BOLD),
        (look.dim, Modifier::DIM),
        (look.italic, Modifier::ITALIC),
        (look.underline, Modifier::UNDERLINED),
        (look.strike, Modifier::CROSSED_OUT),
        (look.reverse, Modifier::REVERSED),
    ];
    for (on, modifier) in flags {
        if on {
            style = style.add_modifier(modifier);
        }
    }
    style
}

fn to_color(color: ThemeColor) -> Color {
    const ANSI: [Color; 16] = [
        Color::Black,
        Color::Red,
        Color::Green,
        Color::Yellow,
        Color::Blue,
        Color::Magenta,
        Color::Cyan,
        Color::Gray,
        Color::DarkGray,
        Color::LightRed,
        Color::LightGreen,
        Color::LightYellow,
        Color::LightBlue,
        Color::LightMagenta,
        Color::LightCyan,
        Color::White,
    ];
    match color {
        ThemeColor::Ansi(index) => ANSI[usize::from(index & 15)],
        ThemeColor::Indexed(index) => Color::Indexed(index),
        ThemeColor::Rgb(red, green, blue) => Color::Rgb(red, green, blue),
    }
}

#[cfg(test)]
mod tests {
    use bezel_presentation::StyledSpan;
    use bezel_presentation::theme::dark;

    use super::*;

    #[test]
    fn a_line_is_cut_at_its_area_and_its_background_fills_the_row() {
        let paint = Paint::new(&dark(), ColorDepth::TrueColor);
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 2));
        let mut line = StyledLine::new("ab", TextStyle::role(Role::Keyword).on(Role::DiffAdded));
        line.push(StyledSpan::new("漢字cd", Role::Text));
        line.background = Some(Role::DiffAdded);
        paint.draw_line(&mut buffer, Rect::new(1, 0, 5, 2), &line);
        let cells: String = (0..8).map(|x| buffer[(x, 0)].symbol()).collect();
        assert_eq!(cells, " ab漢    ".to_owned());
        let ground = paint.style(Role::DiffAdded).bg.unwrap();
        let filled: Vec<bool> = (0..8).map(|x| buffer[(x, 0)].bg == ground).collect();
        assert_eq!(filled, [false, true, true, true, true, true, false, false]);
        assert_eq!(buffer[(1, 0)].fg, paint.style(Role::Keyword).fg.unwrap());
        assert!(buffer.content[8..].iter().all(|cell| cell.bg != ground));
    }
}
