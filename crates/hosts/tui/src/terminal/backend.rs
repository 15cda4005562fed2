//! Writes frames: one write for each, within a synchronised update, and none where nothing changed.

use std::fs::File;
use std::io::{self, Write};

use bezel_api_tui::ratatui::backend::{Backend, ClearType, WindowSize};
use bezel_api_tui::ratatui::buffer::Cell;
use bezel_api_tui::ratatui::layout::{Position, Size};
use bezel_api_tui::ratatui::style::{Color, Modifier};

use super::unsure::begins_whole_row;

const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";
const HIDE: &[u8] = b"\x1b[?25l";
const SHOW: &[u8] = b"\x1b[?25h";

/// A terminal that is written to.
pub(super) struct TtyBackend {
    file: File,
    size: Size,
    /// What changed on the screen since the last flush.
    changes: Vec<u8>,
    cursor: Option<Position>,
    shown_cursor: Shown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Unknown,
    Nowhere,
    At(Position),
}

impl TtyBackend {
    pub(super) fn new(file: File, size: Size) -> Self {
        TtyBackend {
            file,
            size,
            changes: Vec::with_capacity(8 * 1024),
            cursor: None,
            shown_cursor: Shown::Unknown,
        }
    }

    pub(super) fn set_size(&mut self, size: Size) {
        self.size = size;
    }

    /// Writes something beside the screen's content, at once.
    pub(super) fn write_now(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Somebody else has written to the terminal.
    pub(super) fn forget(&mut self) {
        self.shown_cursor = Shown::Unknown;
        self.changes.clear();
    }
}

impl Backend for TtyBackend {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let out = &mut self.changes;
        let mut next: Option<(u16, u16)> = None;
        let mut look = PLAIN;
        for (x, y, cell) in content {
            if begins_whole_row(x, cell) {
                if look != PLAIN {
                    out.extend_from_slice(b"\x1b[m");
                    look = PLAIN;
                }
                write!(out, "\x1b[{};1H\x1b[2K", y + 1)?;
            } else if next != Some((x, y)) {
                write!(out, "\x1b[{};{}H", y + 1, x + 1)?;
            }
            // After a wide character the next position is asked for again, whatever the terminal thinks of it.
            next = if cell.symbol().len() == 1 {
                x.checked_add(1).map(|x| (x, y))
            } else {
                None
            };
            let wanted = (cell.fg, cell.bg, cell.modifier);
            if wanted != look {
                style(out, look, wanted)?;
                look = wanted;
            }
            out.extend_from_slice(cell.symbol().as_bytes());
        }
        if look != PLAIN {
            out.extend_from_slice(b"\x1b[m");
        }
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.cursor = None;
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(self.cursor.unwrap_or_default())
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.cursor = Some(position.into());
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.changes.extend_from_slice(b"\x1b[m\x1b[2J");
        Ok(())
    }

    fn clear_region(&mut self, _region: ClearType) -> io::Result<()> {
        self.clear()
    }

    fn size(&self) -> io::Result<Size> {
        Ok(self.size)
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize {
            columns_rows: self.size,
            pixels: Size::default(),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let cursor = self.cursor.map_or(Shown::Nowhere, Shown::At);
        if self.changes.is_empty() && cursor == self.shown_cursor {
            return Ok(());
        }
        let mut frame = Vec::with_capacity(self.changes.len() + 64);
        frame.extend_from_slice(BEGIN);
        if !self.changes.is_empty() && self.shown_cursor != Shown::Nowhere
            || cursor == Shown::Nowhere
        {
            frame.extend_from_slice(HIDE);
        }
        frame.append(&mut self.changes);
        if let Shown::At(position) = cursor {
            write!(frame, "\x1b[{};{}H", position.y + 1, position.x + 1)?;
            frame.extend_from_slice(SHOW);
        }
        frame.extend_from_slice(END);
        self.shown_cursor = cursor;
        self.file.write_all(&frame)
    }
}

type Look = (Color, Color, Modifier);

const PLAIN: Look = (Color::Reset, Color::Reset, Modifier::empty());

fn style(out: &mut Vec<u8>, from: Look, to: Look) -> io::Result<()> {
    let taken = from.2 - to.2;
    let (mut fg, mut bg, mut modifier) = from;
    out.extend_from_slice(b"\x1b[");
    let mut first = true;
    let mut code = |out: &mut Vec<u8>, text: std::fmt::Arguments<'_>| {
        if !std::mem::take(&mut first) {
            out.push(b';');
        }
        out.write_fmt(text)
    };
    if !taken.is_empty() {
        // Some attributes share the code that ends them, so all of it begins anew.
        code(out, format_args!("0"))?;
        (fg, bg, modifier) = (Color::Reset, Color::Reset, Modifier::empty());
    }
    const CODES: [(Modifier, u8); 7] = [
        (Modifier::BOLD, 1),
        (Modifier::DIM, 2),
        (Modifier::ITALIC, 3),
        (Modifier::UNDERLINED, 4),
        (Modifier::SLOW_BLINK, 5),
        (Modifier::REVERSED, 7),
        (Modifier::CROSSED_OUT, 9),
    ];
    for (flag, number) in CODES {
        if (to.2 - modifier).contains(flag) {
            code(out, format_args!("{number}"))?;
        }
    }
    for (now, wanted, base) in [(fg, to.0, 30_u8), (bg, to.1, 40)] {
        if now == wanted {
            continue;
        }
        match wanted {
            Color::Reset => code(out, format_args!("{}", base + 9))?,
            Color::Rgb(red, green, blue) => {
                code(out, format_args!("{};2;{red};{green};{blue}", base + 8))?
            }
            Color::Indexed(index) => code(out, format_args!("{};5;{index}", base + 8))?,
            named => {
                let number = match ansi(named) {
                    index @ 0..8 => base + index,
                    index => base + 60 + index - 8,
                };
                code(out, format_args!("{number}"))?;
            }
        }
    }
    out.push(b'm');
    Ok(())
}

fn ansi(color: Color) -> u8 {
    match color {
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 8,
        Color::LightRed => 9,
        Color::LightGreen => 10,
        Color::LightYellow => 11,
        Color::LightBlue => 12,
        Color::LightMagenta => 13,
        Color::LightCyan => 14,
        _ => 15,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::OwnedFd;

    use bezel_api_tui::ratatui::Terminal;
    use bezel_api_tui::ratatui::style::Style;

    use super::super::unsure::UnsureRows;
    use super::*;

    fn pipe(size: Size) -> (File, Terminal<TtyBackend>) {
        let (reader, writer): (OwnedFd, OwnedFd) = rustix::pipe::pipe().unwrap();
        rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::NONBLOCK).unwrap();
        (
            File::from(reader),
            Terminal::new(TtyBackend::new(File::from(writer), size)).unwrap(),
        )
    }

    fn written(reader: &mut File) -> String {
        let mut bytes = [0; 4096];
        match reader.read(&mut bytes) {
            Ok(length) => String::from_utf8_lossy(&bytes[..length]).replace('\x1b', "^"),
            Err(_) => String::new(),
        }
    }

    #[test]
    fn a_frame_is_one_synchronised_write_of_what_changed() {
        let (mut reader, mut terminal) = pipe(Size::new(10, 2));
        terminal
            .draw(|frame| {
                frame
                    .buffer_mut()
                    .set_string(1, 1, "ab", Style::new().red().bold());
            })
            .unwrap();
        assert_eq!(
            written(&mut reader),
            "^[?2026h^[?25l^[2;2H^[1;31mab^[m^[?2026l"
        );
        terminal
            .draw(|frame| {
                frame
                    .buffer_mut()
                    .set_string(1, 1, "ac", Style::new().red().bold());
                frame.set_cursor_position((3, 1));
            })
            .unwrap();
        assert_eq!(
            written(&mut reader),
            "^[?2026h^[2;3H^[1;31mc^[m^[2;4H^[?25h^[?2026l"
        );
        terminal
            .draw(|frame| {
                frame
                    .buffer_mut()
                    .set_string(1, 1, "ac", Style::new().red().bold());
                frame.set_cursor_position((3, 1));
            })
            .unwrap();
        assert_eq!(written(&mut reader), "");
    }

    #[test]
    fn a_flag_leaves_nothing_behind_however_wide_the_terminal_takes_it_for() {
        let (mut reader, mut terminal) = pipe(Size::new(6, 1));
        let mut unsure = UnsureRows::default();
        let mut draw = |text: &str| {
            terminal
                .draw(|frame| {
                    frame.buffer_mut().set_string(0, 0, text, Style::new());
                    unsure.mark(frame.buffer_mut());
                })
                .unwrap();
            written(&mut reader)
        };
        assert_eq!(
            draw("a🇩🇪 b"),
            "^[?2026h^[?25l^[1;1H^[2Ka🇩🇪^[1;4H b ^[?2026l"
        );
        // Once more, because the last frame's cells bear the mark; then there is nothing to write.
        assert_eq!(draw("a🇩🇪 b"), "^[?2026h^[?25l^[1;1Ha🇩🇪^[1;4H b ^[?2026l");
        assert_eq!(draw("a🇩🇪 b"), "");
        // Blank cells that were blank before are written too: the terminal may have put something there.
        assert_eq!(draw("a"), "^[?2026h^[?25l^[1;1H^[2Ka     ^[?2026l");
    }

    #[test]
    fn styles_change_with_the_fewest_codes() {
        let shown = |from: Look, to: Look| {
            let mut out = Vec::new();
            style(&mut out, from, to).unwrap();
            String::from_utf8(out).unwrap().replace('\x1b', "^")
        };
        let plain = (Color::Reset, Color::Reset, Modifier::empty());
        assert_eq!(
            shown(
                plain,
                (Color::LightBlue, Color::Indexed(236), Modifier::empty())
            ),
            "^[94;48;5;236m"
        );
        assert_eq!(
            shown(
                (Color::Rgb(1, 2, 3), Color::Reset, Modifier::BOLD),
                (Color::Rgb(1, 2, 3), Color::Reset, Modifier::DIM)
            ),
            "^[0;2;38;2;1;2;3m"
        );
        assert_eq!(
            shown((Color::Red, Color::Blue, Modifier::empty()), plain),
            "^[39;49m"
        );
    }
}
