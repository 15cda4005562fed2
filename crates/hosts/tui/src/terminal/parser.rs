//! From a terminal's bytes to events: legacy keys, xterm and kitty sequences, SGR mouse, bracketed paste,
//! focus, and the answers to our questions.

use std::str;

use bezel_api_tui::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use bezel_presentation::theme::ThemeKind;

use super::event::{Reply, TerminalEvent};

const PASTE_END: &[u8] = b"\x1b[201~";

/// A sequence longer than this is none.
const LONGEST: usize = 4096;

/// Bytes that do not make an event yet.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    buffer: Vec<u8>,
    paste: Option<Vec<u8>>,
}

/// How a sequence at the start of the buffer reads.
enum Read {
    /// It is this long and means that, or nothing that we know.
    Done(usize, Option<TerminalEvent>),
    /// It has not ended.
    Partial,
}

impl Parser {
    /// Takes bytes and gives the events that they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8], events: &mut Vec<TerminalEvent>) {
        self.buffer.extend_from_slice(bytes);
        while !self.buffer.is_empty() {
            if self.paste.is_some() {
                if !self.read_paste(events) {
                    return;
                }
                continue;
            }
            match read(&self.buffer) {
                Read::Partial if self.buffer.len() < LONGEST => return,
                Read::Partial => self.buffer.clear(),
                Read::Done(length, event) => {
                    if self.buffer[..length] == *b"\x1b[200~" {
                        self.paste = Some(Vec::new());
                    }
                    self.buffer.drain(..length);
                    events.extend(event);
                }
            }
        }
    }

    /// Whether the last bytes may be the beginning of a sequence or a key of their own.
    pub(crate) fn is_waiting(&self) -> bool {
        self.paste.is_none() && !self.buffer.is_empty()
    }

    /// Nothing followed in time: what waits is keys.
    pub(crate) fn flush(&mut self, events: &mut Vec<TerminalEvent>) {
        if self.paste.is_some() {
            return;
        }
        let buffer = std::mem::take(&mut self.buffer);
        match buffer.as_slice() {
            [] => {}
            [0x1b] => events.push(key(KeyCode::Esc, KeyModifiers::NONE)),
            [
                0x1b,
                letter @ (b'[' | b']' | b'O' | b'P' | b'_' | b'^' | b'X'),
            ] => {
                events.push(key(KeyCode::Char(char::from(*letter)), KeyModifiers::ALT));
            }
            _ => {}
        }
    }

    fn read_paste(&mut self, events: &mut Vec<TerminalEvent>) -> bool {
        let Some(paste) = &mut self.paste else {
            return false;
        };
        match find(&self.buffer, PASTE_END) {
            Some(end) => {
                paste.extend_from_slice(&self.buffer[..end]);
                self.buffer.drain(..end + PASTE_END.len());
                let text = String::from_utf8_lossy(paste)
                    .replace("\r\n", "\n")
                    .replace('\r', "\n");
                self.paste = None;
                events.push(TerminalEvent::Paste(text));
                true
            }
            None => {
                // The end may be cut in two.
                let keep = (1..PASTE_END.len().min(self.buffer.len() + 1))
                    .rev()
                    .find(|length| self.buffer.ends_with(&PASTE_END[..*length]))
                    .unwrap_or(0);
                let taken = self.buffer.len() - keep;
                paste.extend(self.buffer.drain(..taken));
                false
            }
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn key(code: KeyCode, modifiers: KeyModifiers) -> TerminalEvent {
    TerminalEvent::Key(KeyEvent::new(code, modifiers))
}

fn read(bytes: &[u8]) -> Read {
    match bytes {
        [0x1b] => Read::Partial,
        [0x1b, b'[', ..] => read_csi(bytes),
        [0x1b, b'O'] => Read::Partial,
        [0x1b, b'O', letter, ..] => Read::Done(3, ss3(*letter)),
        [0x1b, b']', ..] => read_string(bytes, true),
        [0x1b, b'P' | b'_' | b'^' | b'X', ..] => read_string(bytes, false),
        [0x1b, 0x1b, ..] => Read::Done(1, Some(key(KeyCode::Esc, KeyModifiers::NONE))),
        [0x1b, ..] => match read_plain(&bytes[1..]) {
            Read::Done(length, Some(TerminalEvent::Key(mut event))) => {
                event.modifiers |= KeyModifiers::ALT;
                Read::Done(length + 1, Some(TerminalEvent::Key(event)))
            }
            Read::Done(length, event) => Read::Done(length + 1, event),
            Read::Partial => Read::Partial,
        },
        _ => read_plain(bytes),
    }
}

fn read_plain(bytes: &[u8]) -> Read {
    let control = |letter: u8| {
        Some(key(
            KeyCode::Char(char::from(letter)),
            KeyModifiers::CONTROL,
        ))
    };
    let event = match bytes[0] {
        0 => control(b' '),
        b'\t' => Some(key(KeyCode::Tab, KeyModifiers::NONE)),
        b'\r' => Some(key(KeyCode::Enter, KeyModifiers::NONE)),
        0x7f => Some(key(KeyCode::Backspace, KeyModifiers::NONE)),
        byte @ 1..=26 => control(byte - 1 + b'a'),
        byte @ 28..=30 => control(byte - 28 + b'\\'),
        31 => control(b'_'),
        0x1b => Some(key(KeyCode::Esc, KeyModifiers::NONE)),
        _ => return read_utf8(bytes),
    };
    Read::Done(1, event)
}

fn read_utf8(bytes: &[u8]) -> Read {
    let length = match bytes[0] {
        0..0x80 => 1,
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => return Read::Done(1, None),
    };
    if bytes.len() < length {
        let continues = bytes[1..].iter().all(|byte| (0x80..0xc0).contains(byte));
        return if continues {
            Read::Partial
        } else {
            Read::Done(1, None)
        };
    }
    match str::from_utf8(&bytes[..length])
        .ok()
        .and_then(|text| text.chars().next())
    {
        Some(letter) => {
            let shift = if letter.is_uppercase() {
                KeyModifiers::SHIFT
            } else {
                KeyModifiers::NONE
            };
            Read::Done(length, Some(key(KeyCode::Char(letter), shift)))
        }
        None => Read::Done(1, None),
    }
}

fn ss3(letter: u8) -> Option<TerminalEvent> {
    let code = match letter {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'F' => KeyCode::End,
        b'H' => KeyCode::Home,
        b'M' => KeyCode::Enter,
        letter @ b'P'..=b'S' => KeyCode::F(letter - b'P' + 1),
        _ => return None,
    };
    Some(key(code, KeyModifiers::NONE))
}

/// OSC and its like: up to BEL or ST.
fn read_string(bytes: &[u8], osc: bool) -> Read {
    let body = &bytes[2..];
    let end = body.iter().position(|byte| *byte == 7).map(|at| (at, 1));
    let end = match (end, find(body, b"\x1b\\")) {
        (Some((bell, _)), Some(st)) if st < bell => Some((st, 2)),
        (None, Some(st)) => Some((st, 2)),
        (end, _) => end,
    };
    match end {
        None => Read::Partial,
        Some((at, terminator)) => {
            let event = if osc { osc_reply(&body[..at]) } else { None };
            Read::Done(2 + at + terminator, event)
        }
    }
}

fn osc_reply(body: &[u8]) -> Option<TerminalEvent> {
    let color = str::from_utf8(body).ok()?.strip_prefix("11;")?;
    let channels = color
        .strip_prefix("rgb:")
        .or_else(|| color.strip_prefix("rgba:"))?;
    let mut channels = channels.split('/').map(|hex| {
        let value = u32::from_str_radix(hex, 16).ok()?;
        let most = 16_u32.checked_pow(u32::try_from(hex.len()).ok()?)? - 1;
        u8::try_from(value * 255 / most.max(1)).ok()
    });
    let mut next = || channels.next().flatten();
    Some(TerminalEvent::Reply(Reply::Background(
        next()?,
        next()?,
        next()?,
    )))
}

fn read_csi(bytes: &[u8]) -> Read {
    // Old mouse reports (`ESC [ M` and three bytes) are not asked for, but must not turn into keys.
    if bytes.get(2) == Some(&b'M') {
        return if bytes.len() < 6 {
            Read::Partial
        } else {
            Read::Done(6, None)
        };
    }
    for (at, byte) in bytes.iter().enumerate().skip(2) {
        match byte {
            0x40..=0x7e => {
                let event = str::from_utf8(&bytes[2..at])
                    .ok()
                    .and_then(|body| csi(body, *byte));
                return Read::Done(at + 1, event);
            }
            0x20..=0x3f => {}
            // Not part of a sequence: this one was cut off.
            _ => return Read::Done(at, None),
        }
    }
    Read::Partial
}

fn csi(body: &str, last: u8) -> Option<TerminalEvent> {
    if let Some(mouse) = body.strip_prefix('<') {
        return sgr_mouse(mouse, last);
    }
    if let Some(body) = body.strip_prefix('?') {
        return match (last, body) {
            (b'u', _) => Some(TerminalEvent::Reply(Reply::Keyboard)),
            (b'c', _) => Some(TerminalEvent::Reply(Reply::Attributes)),
            (b'n', "997;1") => Some(TerminalEvent::Reply(Reply::Scheme(ThemeKind::Dark))),
            (b'n', "997;2") => Some(TerminalEvent::Reply(Reply::Scheme(ThemeKind::Light))),
            _ => None,
        };
    }
    let mut parameters = body.split(';');
    let first = parameters.next().unwrap_or_default();
    let second = parameters.next().unwrap_or_default();
    let number: u32 = first
        .split(':')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0);
    let code = match last {
        b'I' if body.is_empty() => return Some(TerminalEvent::FocusGained),
        b'O' if body.is_empty() => return Some(TerminalEvent::FocusLost),
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'F' => KeyCode::End,
        b'H' => KeyCode::Home,
        b'Z' => return Some(key(KeyCode::Tab, modifiers(second) | KeyModifiers::SHIFT)),
        letter @ b'P'..=b'S' => KeyCode::F(letter - b'P' + 1),
        b'u' => return kitty_key(first, second),
        b'~' if number == 27 => {
            let third: u32 = parameters.next()?.parse().ok()?;
            return typed_key(third, modifiers(second));
        }
        b'~' => tilde_key(number)?,
        _ => return None,
    };
    if is_release(second) {
        return None;
    }
    Some(key(code, modifiers(second)))
}

fn tilde_key(number: u32) -> Option<KeyCode> {
    let code = match number {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        // The numbering of a VT220's keyboard, with its gaps.
        11..=15 => function(number - 10),
        17..=21 => function(number - 11),
        23..=26 => function(number - 12),
        28 | 29 => function(number - 13),
        31..=34 => function(number - 14),
        _ => return None,
    };
    Some(code)
}

fn function(number: u32) -> KeyCode {
    KeyCode::F(u8::try_from(number).unwrap_or(0))
}

fn modifiers(parameter: &str) -> KeyModifiers {
    let mask = parameter
        .split(':')
        .next()
        .and_then(|mask| mask.parse::<u32>().ok())
        .unwrap_or(1)
        .saturating_sub(1);
    let known = [
        (1, KeyModifiers::SHIFT),
        (2, KeyModifiers::ALT),
        (4, KeyModifiers::CONTROL),
        (8, KeyModifiers::SUPER),
        (16, KeyModifiers::HYPER),
        (32, KeyModifiers::META),
    ];
    known
        .iter()
        .filter(|(bit, _)| mask & bit != 0)
        .map(|(_, modifier)| *modifier)
        .collect()
}

fn is_release(parameter: &str) -> bool {
    parameter.split(':').nth(1) == Some("3")
}

fn kitty_key(first: &str, second: &str) -> Option<TerminalEvent> {
    if is_release(second) {
        return None;
    }
    let mut codes = first.split(':');
    let code: u32 = codes.next()?.parse().ok()?;
    let held = modifiers(second);
    let shifted: Option<u32> = codes.next().and_then(|code| code.parse().ok());
    match shifted {
        Some(shifted) if held.contains(KeyModifiers::SHIFT) => typed_key(shifted, held),
        _ => typed_key(code, held),
    }
}

fn typed_key(code: u32, modifiers: KeyModifiers) -> Option<TerminalEvent> {
    let code = match code {
        9 => KeyCode::Tab,
        13 | 57414 => KeyCode::Enter,
        27 => KeyCode::Esc,
        8 | 127 => KeyCode::Backspace,
        57399..=57408 => KeyCode::Char(char::from_digit(code - 57399, 10)?),
        57409 => KeyCode::Char('.'),
        57410 => KeyCode::Char('/'),
        57411 => KeyCode::Char('*'),
        57412 => KeyCode::Char('-'),
        57413 => KeyCode::Char('+'),
        57415 => KeyCode::Char('='),
        57417 => KeyCode::Left,
        57418 => KeyCode::Right,
        57419 => KeyCode::Up,
        57420 => KeyCode::Down,
        57421 => KeyCode::PageUp,
        57422 => KeyCode::PageDown,
        57423 => KeyCode::Home,
        57424 => KeyCode::End,
        57425 => KeyCode::Insert,
        57426 => KeyCode::Delete,
        57376..=57398 => function(code - 57376 + 13),
        // The rest of the private block is keys that do nothing alone.
        57344..=63743 => return None,
        code => KeyCode::Char(char::from_u32(code)?),
    };
    Some(key(code, modifiers))
}

fn sgr_mouse(body: &str, last: u8) -> Option<TerminalEvent> {
    let mut numbers = body.split(';').map(str::parse::<u16>);
    let mut next = || numbers.next()?.ok();
    let (button, column, row) = (next()?, next()?.checked_sub(1)?, next()?.checked_sub(1)?);
    let which = match button & 0b1100_0011 {
        0 => MouseButton::Left,
        1 => MouseButton::Middle,
        2 => MouseButton::Right,
        _ => MouseButton::Left,
    };
    let kind = match (button & 0b1100_0000, button & 3, button & 32 != 0, last) {
        (64, 0, ..) => MouseEventKind::ScrollUp,
        (64, 1, ..) => MouseEventKind::ScrollDown,
        (64, 2, ..) => MouseEventKind::ScrollLeft,
        (64, 3, ..) => MouseEventKind::ScrollRight,
        (0, 3, ..) | (128.., ..) => return None,
        (_, _, true, _) => MouseEventKind::Drag(which),
        (.., b'M') => MouseEventKind::Down(which),
        (.., b'm') => MouseEventKind::Up(which),
        _ => return None,
    };
    let held = [
        (4, KeyModifiers::SHIFT),
        (8, KeyModifiers::ALT),
        (16, KeyModifiers::CONTROL),
    ];
    let modifiers = held
        .iter()
        .filter(|(bit, _)| button & bit != 0)
        .map(|(_, modifier)| *modifier)
        .collect();
    Some(TerminalEvent::Mouse(MouseEvent {
        kind,
        column,
        row,
        modifiers,
    }))
}

#[cfg(test)]
mod tests {
    use bezel_api_tui::{Chord, KeyStroke};
    use proptest::prelude::*;

    use super::*;

    fn events(bytes: &[u8]) -> Vec<TerminalEvent> {
        let (mut parser, mut events) = (Parser::default(), Vec::new());
        parser.feed(bytes, &mut events);
        parser.flush(&mut events);
        events
    }

    fn keys(bytes: &[u8]) -> Vec<String> {
        let shown = |event: TerminalEvent| match event {
            TerminalEvent::Key(event) => Chord::from(KeyStroke::from(&event)).to_string(),
            other => format!("{other:?}"),
        };
        events(bytes).into_iter().map(shown).collect()
    }

    #[test]
    fn keys_are_the_same_in_whatever_way_a_terminal_reports_them() {
        let cases: &[(&str, &[&[u8]])] = &[
            ("a", &[b"a", b"\x1b[97u", b"\x1b[97;1u"]),
            ("shift+a", &[b"A", b"\x1b[97:65;2u", b"\x1b[27;2;65~"]),
            ("ctrl+t", &[b"\x14", b"\x1b[116;5u", b"\x1b[27;5;116~"]),
            ("alt+x", &[b"\x1bx", b"\x1b[120;3u"]),
            ("enter", &[b"\r", b"\x1b[13u", b"\x1bOM"]),
            ("shift+enter", &[b"\x1b[13;2u", b"\x1b[27;2;13~"]),
            ("alt+enter", &[b"\x1b\r", b"\x1b[13;3u"]),
            ("esc", &[b"\x1b", b"\x1b[27u"]),
            ("tab", &[b"\t", b"\x1b[9u"]),
            ("shift+tab", &[b"\x1b[Z", b"\x1b[9;2u"]),
            ("backspace", &[b"\x7f", b"\x1b[127u"]),
            ("alt+backspace", &[b"\x1b\x7f"]),
            ("ctrl+space", &[b"\0", b"\x1b[32;5u"]),
            ("ctrl+_", &[b"\x1f"]),
            ("up", &[b"\x1b[A", b"\x1bOA", b"\x1b[1;1A"]),
            ("ctrl+left", &[b"\x1b[1;5D"]),
            ("home", &[b"\x1b[H", b"\x1b[1~", b"\x1b[7~", b"\x1bOH"]),
            ("delete", &[b"\x1b[3~"]),
            ("ctrl+delete", &[b"\x1b[3;5~"]),
            ("pageup", &[b"\x1b[5~"]),
            ("f1", &[b"\x1bOP", b"\x1b[P", b"\x1b[11~"]),
            ("f5", &[b"\x1b[15~"]),
            ("f12", &[b"\x1b[24~"]),
            ("é", &["é".as_bytes()]),
            ("漢", &["漢".as_bytes()]),
            ("alt+[", &[b"\x1b["]),
        ];
        for (chord, spellings) in cases {
            for bytes in *spellings {
                assert_eq!(
                    keys(bytes),
                    [*chord],
                    "{:?}",
                    String::from_utf8_lossy(bytes)
                );
            }
        }
        assert_eq!(keys(b"\x1b\x1b[A"), ["esc", "up"]);
        assert_eq!(keys(b"\x1b[97;1:3u"), Vec::<String>::new());
    }

    #[test]
    fn the_mouse_paste_focus_and_answers_are_read() {
        let mouse = |kind, column, row| {
            TerminalEvent::Mouse(MouseEvent {
                kind,
                column,
                row,
                modifiers: KeyModifiers::NONE,
            })
        };
        assert_eq!(
            events(b"\x1b[<0;5;7M"),
            [mouse(MouseEventKind::Down(MouseButton::Left), 4, 6)]
        );
        assert_eq!(
            events(b"\x1b[<32;5;7M"),
            [mouse(MouseEventKind::Drag(MouseButton::Left), 4, 6)]
        );
        assert_eq!(
            events(b"\x1b[<2;5;7m"),
            [mouse(MouseEventKind::Up(MouseButton::Right), 4, 6)]
        );
        assert_eq!(
            events(b"\x1b[<65;1;1M"),
            [mouse(MouseEventKind::ScrollDown, 0, 0)]
        );
        assert_eq!(events(b"\x1b[<35;1;1M"), []);
        assert_eq!(events(b"\x1b[200~two\r\nlines\x1b[A\x1b[201~x").len(), 2);
        assert_eq!(
            events(b"\x1b[200~two\r\nlines\x1b[201~"),
            [TerminalEvent::Paste("two\nlines".into())]
        );
        assert_eq!(
            events(b"\x1b[I\x1b[O"),
            [TerminalEvent::FocusGained, TerminalEvent::FocusLost]
        );
        let background = [TerminalEvent::Reply(Reply::Background(255, 128, 0))];
        assert_eq!(events(b"\x1b]11;rgb:ffff/8080/0000\x1b\\"), background);
        assert_eq!(events(b"\x1b]11;rgb:ff/80/00\x07"), background);
        assert_eq!(
            events(b"\x1b[?0u\x1b[?62;22c"),
            [
                TerminalEvent::Reply(Reply::Keyboard),
                TerminalEvent::Reply(Reply::Attributes)
            ]
        );
        assert_eq!(
            events(b"\x1b[?997;2n"),
            [TerminalEvent::Reply(Reply::Scheme(ThemeKind::Light))]
        );
        assert_eq!(
            events(b"\x1bP>|xterm\x1b\\\x1b_Gok\x1b\\\x1b]52;c;\x07a"),
            events(b"a")
        );
    }

    proptest! {
        #[test]
        fn bytes_may_arrive_in_any_pieces(cuts in proptest::collection::vec(0_usize..80, 0..12)) {
            let bytes = "aé\x1b[1;5D\x1b[200~x\r\ny漢\x1b[201~\x1b[<0;5;7M\x1b]11;rgb:ff/80/00\x1b\\\x1bOP\x1b[97;5u漢z".as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([bytes.len()]).collect();
            cuts.sort_unstable();
            let (mut parser, mut seen, mut from) = (Parser::default(), Vec::new(), 0);
            for cut in cuts {
                parser.feed(&bytes[from..cut], &mut seen);
                from = cut;
            }
            prop_assert!(!parser.is_waiting());
            prop_assert_eq!(seen, events(bytes));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            events(&bytes);
        }
    }
}
