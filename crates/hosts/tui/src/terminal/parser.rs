//! From a terminal's bytes to events: legacy keys, xterm and kitty sequences, SGR mouse, bracketed paste,
//! focus, and the answers to our questions.

mod sequences;
#[cfg(test)]
mod tests;

use std::str;

use bezel_api_tui::{KeyCode, KeyModifiers};

use super::event::TerminalEvent;
use sequences::{csi, key, osc_reply, ss3};

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
