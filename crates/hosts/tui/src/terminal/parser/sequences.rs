//! What complete sequences mean.

use std::str;

use bezel_api_tui::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use bezel_presentation::theme::ThemeKind;

use super::super::event::{Reply, TerminalEvent};

pub(super) fn key(code: KeyCode, modifiers: KeyModifiers) -> TerminalEvent {
    TerminalEvent::Key(KeyEvent::new(code, modifiers))
}

pub(super) fn ss3(letter: u8) -> Option<TerminalEvent> {
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

pub(super) fn osc_reply(body: &[u8]) -> Option<TerminalEvent> {
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

pub(super) fn csi(body: &str, last: u8) -> Option<TerminalEvent> {
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
