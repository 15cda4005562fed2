//! Keys as people write them: `ctrl+t`, `shift+tab`, `ctrl+x s`.

use std::fmt;
use std::str::FromStr;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// One key with its modifiers, in one canonical form whatever way a terminal reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
pub struct KeyStroke {
    /// The key. Letters are lower case unless shift is part of the stroke.
    pub code: KeyCode,
    /// What is held. A shifted character carries no shift: it is the character itself.
    pub modifiers: KeyModifiers,
}

/// One or more key strokes after each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Chord(Vec<KeyStroke>);

/// A text that names no chord.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{chord:?} is not a key: {reason}; write for example \"ctrl+t\", \"shift+tab\", \"f2\" or \"ctrl+x s\""
)]
pub struct ChordError {
    /// What was given.
    pub chord: String,
    /// What is wrong with it.
    pub reason: String,
}

const NAMED: [(&str, KeyCode); 21] = [
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("space", KeyCode::Char(' ')),
    ("plus", KeyCode::Char('+')),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("insert", KeyCode::Insert),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
    // Other spellings; the first one of a key is the one that is shown.
    ("return", KeyCode::Enter),
    ("escape", KeyCode::Esc),
    ("del", KeyCode::Delete),
    ("pgup", KeyCode::PageUp),
    ("pgdn", KeyCode::PageDown),
];

impl KeyStroke {
    /// A stroke in canonical form.
    pub fn new(code: KeyCode, modifiers: KeyModifiers) -> Self {
        let held =
            KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT | KeyModifiers::SUPER;
        let mut modifiers = modifiers & held;
        let code = match code {
            KeyCode::BackTab => {
                modifiers |= KeyModifiers::SHIFT;
                KeyCode::Tab
            }
            KeyCode::Char(letter) if letter.is_uppercase() => {
                modifiers -= KeyModifiers::SHIFT;
                KeyCode::Char(letter)
            }
            KeyCode::Char(letter)
                if modifiers.contains(KeyModifiers::SHIFT) && letter.is_alphabetic() =>
            {
                modifiers -= KeyModifiers::SHIFT;
                KeyCode::Char(letter.to_uppercase().next().unwrap_or(letter))
            }
            KeyCode::Char(letter) if letter != ' ' && !letter.is_alphanumeric() => {
                // Which shift makes a sign is the keyboard layout's business.
                modifiers -= KeyModifiers::SHIFT;
                KeyCode::Char(letter)
            }
            code => code,
        };
        KeyStroke { code, modifiers }
    }

    /// The character that the stroke types, if it types one.
    pub fn typed(&self) -> Option<char> {
        match self.code {
            KeyCode::Char(letter) if (self.modifiers - KeyModifiers::SHIFT).is_empty() => {
                Some(letter)
            }
            _ => None,
        }
    }

    fn parse(text: &str) -> Result<Self, WrongKey> {
        let mut modifiers = KeyModifiers::NONE;
        let mut parts: Vec<&str> = text.split('+').collect();
        let key = parts.pop().unwrap_or_default();
        for part in parts {
            modifiers |= match part.to_ascii_lowercase().as_str() {
                "ctrl" | "control" => KeyModifiers::CONTROL,
                "alt" | "option" | "meta" => KeyModifiers::ALT,
                "shift" => KeyModifiers::SHIFT,
                "super" | "cmd" => KeyModifiers::SUPER,
                other => {
                    return Err(WrongKey(format!(
                        "{other:?} is no modifier (ctrl, alt, shift, super)"
                    )));
                }
            };
        }
        let lower = key.to_ascii_lowercase();
        let named = NAMED
            .iter()
            .find(|(name, _)| *name == lower)
            .map(|(_, code)| *code);
        let function = lower
            .strip_prefix('f')
            .and_then(|number| number.parse().ok())
            .filter(|number| (1..=24).contains(number));
        let mut letters = key.chars();
        let code = match (named, function, letters.next(), letters.next()) {
            (Some(code), ..) => code,
            (_, Some(number), ..) => KeyCode::F(number),
            (_, _, Some(letter), None) => KeyCode::Char(letter),
            (_, _, None, _) => return Err(WrongKey("a key is missing".into())),
            _ => return Err(WrongKey(format!("there is no key {key:?}"))),
        };
        Ok(KeyStroke::new(code, modifiers))
    }
}

/// What is wrong with one key's name.
struct WrongKey(String);

impl From<&KeyEvent> for KeyStroke {
    fn from(event: &KeyEvent) -> Self {
        KeyStroke::new(event.code, event.modifiers)
    }
}

impl fmt::Display for KeyStroke {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut modifiers = self.modifiers;
        let code = match self.code {
            KeyCode::Char(letter) if letter.is_uppercase() => {
                modifiers |= KeyModifiers::SHIFT;
                KeyCode::Char(letter.to_lowercase().next().unwrap_or(letter))
            }
            code => code,
        };
        let names = [
            (KeyModifiers::CONTROL, "ctrl+"),
            (KeyModifiers::ALT, "alt+"),
            (KeyModifiers::SUPER, "super+"),
            (KeyModifiers::SHIFT, "shift+"),
        ];
        for (modifier, name) in names {
            if modifiers.contains(modifier) {
                formatter.write_str(name)?;
            }
        }
        match (code, NAMED.iter().find(|(_, named)| *named == code)) {
            (_, Some((name, _))) => formatter.write_str(name),
            (KeyCode::Char(letter), None) => write!(formatter, "{letter}"),
            (KeyCode::F(number), None) => write!(formatter, "f{number}"),
            (code, None) => write!(formatter, "{code}"),
        }
    }
}

impl Chord {
    /// The strokes, at least one.
    pub fn strokes(&self) -> &[KeyStroke] {
        &self.0
    }

    /// Whether `typed` is the beginning of it, or all of it.
    pub fn starts_with(&self, typed: &[KeyStroke]) -> bool {
        self.0.starts_with(typed)
    }
}

impl From<KeyStroke> for Chord {
    fn from(stroke: KeyStroke) -> Self {
        Chord(vec![stroke])
    }
}

impl FromStr for Chord {
    type Err = ChordError;

    fn from_str(text: &str) -> Result<Self, ChordError> {
        let fail = |reason| ChordError {
            chord: text.to_owned(),
            reason,
        };
        let strokes: Vec<_> = text
            .split_whitespace()
            .map(KeyStroke::parse)
            .collect::<Result<_, _>>()
            .map_err(|WrongKey(reason)| fail(reason))?;
        if strokes.is_empty() {
            return Err(fail("it is empty".into()));
        }
        Ok(Chord(strokes))
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, stroke) in self.0.iter().enumerate() {
            if position > 0 {
                formatter.write_str(" ")?;
            }
            stroke.fmt(formatter)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chords_are_read_and_shown_in_one_form() {
        for text in [
            "ctrl+t",
            "ctrl+x s",
            "shift+tab",
            "f12",
            "alt+enter",
            "ctrl+shift+p",
            "?",
            "/",
            "space",
            "ctrl+plus",
            "esc",
        ] {
            assert_eq!(text.parse::<Chord>().unwrap().to_string(), text);
        }
        assert_eq!(
            "Control+Return".parse::<Chord>().unwrap().to_string(),
            "ctrl+enter"
        );
        assert_eq!("A".parse::<Chord>().unwrap(), "shift+a".parse().unwrap());
    }

    #[test]
    fn what_is_no_chord_says_why() {
        for (text, reason) in [
            ("", "empty"),
            ("ctrl+", "missing"),
            ("hyper+x", "hyper"),
            ("ctrl+foo", "foo"),
            ("f99", "f99"),
        ] {
            let error = text.parse::<Chord>().unwrap_err().to_string();
            assert!(
                error.contains(reason) && error.contains("ctrl+x s"),
                "{error}"
            );
        }
    }

    #[test]
    fn terminals_may_report_shift_in_either_way() {
        let upper = KeyStroke::new(
            KeyCode::Char('P'),
            KeyModifiers::CONTROL | KeyModifiers::SHIFT,
        );
        let lower = KeyStroke::new(
            KeyCode::Char('p'),
            KeyModifiers::CONTROL | KeyModifiers::SHIFT,
        );
        assert_eq!(upper, lower);
        let back = KeyStroke::new(KeyCode::BackTab, KeyModifiers::SHIFT);
        assert_eq!(Chord::from(back), "shift+tab".parse().unwrap());
        let question = KeyStroke::new(KeyCode::Char('?'), KeyModifiers::SHIFT);
        assert_eq!(Chord::from(question), "?".parse().unwrap());
        assert_eq!(question.typed(), Some('?'));
    }
}
