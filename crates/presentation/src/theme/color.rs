//! Colours and what less able surfaces make of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Color {
    /// One of the terminal's own sixteen: 0 to 7 normal, 8 to 15 bright.
    Ansi(u8),
    /// One of the 256 of the xterm palette.
    Indexed(u8),
    /// Red, green, blue.
    Rgb(u8, u8, u8),
}

/// How many colours a surface shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColorDepth {
    /// None at all.
    None,
    /// The terminal's sixteen.
    Ansi16,
    /// The xterm palette.
    Indexed256,
    /// All of them.
    #[default]
    TrueColor,
}

/// A text that names no colour.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a colour: write #rrggbb, a number from 0 to 255, or one of {names}", names = NAMES.join(", "))]
pub struct ColorError(pub String);

const NAMES: [&str; 16] = [
    "black",
    "red",
    "green",
    "yellow",
    "blue",
    "magenta",
    "cyan",
    "white",
    "bright_black",
    "bright_red",
    "bright_green",
    "bright_yellow",
    "bright_blue",
    "bright_magenta",
    "bright_cyan",
    "bright_white",
];

/// What xterm shows for its first sixteen; terminals differ, this is the common ground.
const ANSI_RGB: [(u8, u8, u8); 16] = [
    (0, 0, 0),
    (205, 0, 0),
    (0, 205, 0),
    (205, 205, 0),
    (0, 0, 238),
    (205, 0, 205),
    (0, 205, 205),
    (229, 229, 229),
    (127, 127, 127),
    (255, 0, 0),
    (0, 255, 0),
    (255, 255, 0),
    (92, 92, 255),
    (255, 0, 255),
    (0, 255, 255),
    (255, 255, 255),
];

const CUBE: [u8; 6] = [0, 95, 135, 175, 215, 255];

impl Color {
    /// The nearest colour that a surface of `depth` shows; `None` where it shows none.
    pub fn at_depth(self, depth: ColorDepth) -> Option<Color> {
        match (depth, self) {
            (ColorDepth::None, _) => None,
            (ColorDepth::TrueColor, color) | (_, color @ Color::Ansi(_)) => Some(color),
            (ColorDepth::Indexed256, color @ Color::Indexed(_)) => Some(color),
            (ColorDepth::Indexed256, Color::Rgb(red, green, blue)) => {
                Some(Color::Indexed(nearest_indexed((red, green, blue))))
            }
            (ColorDepth::Ansi16, color) => Some(Color::Ansi(nearest_ansi(color.to_rgb()))),
        }
    }

    /// Perceived lightness from 0 (black) to 1 (white), by the usual luma weights.
    pub fn lightness(self) -> f32 {
        let (red, green, blue) = self.to_rgb();
        (0.299 * f32::from(red) + 0.587 * f32::from(green) + 0.114 * f32::from(blue)) / 255.0
    }

    /// Red, green and blue, by the xterm palette where the colour is an index.
    pub fn to_rgb(self) -> (u8, u8, u8) {
        match self {
            Color::Rgb(red, green, blue) => (red, green, blue),
            Color::Ansi(index) => ANSI_RGB[usize::from(index & 15)],
            Color::Indexed(index @ 0..16) => ANSI_RGB[usize::from(index)],
            Color::Indexed(index @ 16..232) => {
                let index = index - 16;
                (
                    CUBE[usize::from(index / 36)],
                    CUBE[usize::from(index / 6 % 6)],
                    CUBE[usize::from(index % 6)],
                )
            }
            Color::Indexed(index) => {
                let gray = 8 + (index - 232) * 10;
                (gray, gray, gray)
            }
        }
    }
}

fn distance(left: (u8, u8, u8), right: (u8, u8, u8)) -> u32 {
    // "Redmean", a cheap approximation of how different two colours look.
    let mean = (i32::from(left.0) + i32::from(right.0)) / 2;
    let red = i32::from(left.0) - i32::from(right.0);
    let green = i32::from(left.1) - i32::from(right.1);
    let blue = i32::from(left.2) - i32::from(right.2);
    let sum =
        (((512 + mean) * red * red) >> 8) + 4 * green * green + (((767 - mean) * blue * blue) >> 8);
    sum.unsigned_abs()
}

fn nearest_indexed(rgb: (u8, u8, u8)) -> u8 {
    // The first sixteen are the person's own and may be anything, so they are no candidates.
    (16..=255)
        .min_by_key(|index| distance(rgb, Color::Indexed(*index).to_rgb()))
        .unwrap_or(16)
}

fn nearest_ansi((red, green, blue): (u8, u8, u8)) -> u8 {
    let (high, low) = (red.max(green).max(blue), red.min(green).min(blue));
    let bright = if high >= 0xa0 { 8 } else { 0 };
    if high - low < 40 {
        // Grey: terminals disagree least about these four.
        return match high {
            0..0x30 => 0,
            0x30..0xa0 => 8,
            0xa0..0xe0 => 7,
            _ => 15,
        };
    }
    // By hue: a channel counts when it stands clearly above the lowest.
    let middle = low + (high - low) / 2;
    u8::from(red > middle) + 2 * u8::from(green > middle) + 4 * u8::from(blue > middle) + bright
}

impl FromStr for Color {
    type Err = ColorError;

    fn from_str(text: &str) -> Result<Self, ColorError> {
        let fail = || ColorError(text.to_owned());
        if let Some(hex) = text.strip_prefix('#') {
            let value = u32::from_str_radix(hex, 16).map_err(|_| fail())?;
            let [_, red, green, blue] = value.to_be_bytes();
            return match hex.len() {
                6 => Ok(Color::Rgb(red, green, blue)),
                3 => {
                    let nibble = |shift: u32| u8::try_from((value >> shift) & 15).unwrap_or(0) * 17;
                    Ok(Color::Rgb(nibble(8), nibble(4), nibble(0)))
                }
                _ => Err(fail()),
            };
        }
        if let Ok(index) = text.parse::<u8>() {
            return Ok(Color::Indexed(index));
        }
        let position = NAMES
            .iter()
            .position(|name| *name == text)
            .ok_or_else(fail)?;
        Ok(Color::Ansi(u8::try_from(position).unwrap_or(0)))
    }
}

impl TryFrom<String> for Color {
    type Error = ColorError;

    fn try_from(text: String) -> Result<Self, ColorError> {
        text.parse()
    }
}

impl From<Color> for String {
    fn from(color: Color) -> String {
        color.to_string()
    }
}

impl fmt::Display for Color {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Color::Ansi(index) => formatter.write_str(NAMES[usize::from(index & 15)]),
            Color::Indexed(index) => write!(formatter, "{index}"),
            Color::Rgb(red, green, blue) => write!(formatter, "#{red:02x}{green:02x}{blue:02x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_and_written() {
        for text in ["#b79bff", "bright_red", "208"] {
            assert_eq!(text.parse::<Color>().unwrap().to_string(), text);
        }
        assert_eq!("#fa0".parse(), Ok(Color::Rgb(0xff, 0xaa, 0)));
        for text in ["#12", "#12345z", "256", "violett", ""] {
            let error = text.parse::<Color>().unwrap_err();
            assert!(error.to_string().contains("#rrggbb"), "{error}");
        }
    }

    #[test]
    fn fewer_colours_keep_the_hue() {
        let at = |hex: &str, depth| hex.parse::<Color>().unwrap().at_depth(depth).unwrap();
        assert_eq!(at("#ff8700", ColorDepth::Indexed256), Color::Indexed(208));
        assert_eq!(at("#e06c75", ColorDepth::Ansi16), Color::Ansi(9));
        assert_eq!(at("#2e7d32", ColorDepth::Ansi16), Color::Ansi(2));
        assert_eq!(at("#8b93a7", ColorDepth::Ansi16), Color::Ansi(7));
        assert_eq!(at("#4b93ff", ColorDepth::Ansi16), Color::Ansi(12));
        for index in 16..=255 {
            let (red, green, blue) = Color::Indexed(index).to_rgb();
            let back = Color::Rgb(red, green, blue)
                .at_depth(ColorDepth::Indexed256)
                .unwrap();
            assert_eq!(back.to_rgb(), (red, green, blue));
        }
    }
}
