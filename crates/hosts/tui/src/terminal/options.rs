//! What a terminal can do and what a person wants of it.

use std::path::PathBuf;
use std::sync::Arc;

use bezel_api_tui::{Chord, ThemeChoice};
use bezel_presentation::theme::{ColorDepth, ThemeKind};

/// How the terminal is used. A host reads no environment: who starts it passes what it needs to know.
#[derive(Debug, Clone)]
pub struct TerminalOptions {
    /// Which theme.
    pub theme: ThemeChoice,
    /// How many colours the terminal shows.
    pub colors: ColorDepth,
    /// What its background is taken for until it answers.
    pub background: ThemeKind,
    /// Whether to ask it for its background.
    pub ask_background: bool,
    /// Whether the mouse is used; without it the terminal's own selection works.
    pub mouse: bool,
    /// Whether it runs inside tmux, which wants to be asked for extended keys in its own way.
    pub tmux: bool,
    /// The editor's command line, if one is set.
    pub editor: Option<String>,
    /// Where a text is put for the editor.
    pub temporary: PathBuf,
    /// A person's own keybindings: a chord and the command that it starts, or none to free it.
    pub keys: Vec<(Chord, Option<Arc<str>>)>,
}

impl Default for TerminalOptions {
    fn default() -> Self {
        TerminalOptions {
            theme: ThemeChoice::Auto,
            colors: ColorDepth::TrueColor,
            background: ThemeKind::Dark,
            ask_background: true,
            mouse: true,
            tmux: false,
            editor: None,
            temporary: PathBuf::from("/tmp"),
            keys: Vec::new(),
        }
    }
}

impl TerminalOptions {
    /// What environment variables say: `NO_COLOR`, `COLORTERM`, `TERM`, `TERM_PROGRAM`, `WT_SESSION`,
    /// `COLORFGBG`, `TMUX`, `VISUAL`, `EDITOR`, `TMPDIR`.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        TerminalOptions {
            colors: color_depth(&get),
            background: get("COLORFGBG")
                .and_then(|value| background(&value))
                .unwrap_or_default(),
            ask_background: !matches!(get("TERM").as_deref(), None | Some("dumb" | "linux")),
            tmux: get("TMUX").is_some(),
            editor: get("VISUAL").or_else(|| get("EDITOR")),
            temporary: get("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from),
            ..TerminalOptions::default()
        }
    }
}

fn color_depth(get: &impl Fn(&str) -> Option<String>) -> ColorDepth {
    if get("NO_COLOR").is_some() {
        return ColorDepth::None;
    }
    let term = get("TERM").unwrap_or_default();
    if matches!(term.as_str(), "" | "dumb") {
        return ColorDepth::None;
    }
    let all = [
        "kitty",
        "alacritty",
        "foot",
        "wezterm",
        "ghostty",
        "contour",
        "direct",
    ];
    let claimed = matches!(get("COLORTERM").as_deref(), Some("truecolor" | "24bit"));
    let known = matches!(
        get("TERM_PROGRAM").as_deref(),
        Some("iTerm.app" | "WezTerm" | "ghostty" | "vscode")
    );
    if claimed || known || get("WT_SESSION").is_some() || all.iter().any(|name| term.contains(name))
    {
        return ColorDepth::TrueColor;
    }
    if term.contains("256color") {
        ColorDepth::Indexed256
    } else {
        ColorDepth::Ansi16
    }
}

/// `COLORFGBG` is `foreground;background`, as indexes of the sixteen colours.
fn background(value: &str) -> Option<ThemeKind> {
    let index: u8 = value.rsplit(';').next()?.parse().ok()?;
    Some(if matches!(index, 7 | 9..=15) {
        ThemeKind::Light
    } else {
        ThemeKind::Dark
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(variables: &[(&str, &str)]) -> TerminalOptions {
        let get = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        TerminalOptions::from_variables(get)
    }

    #[test]
    fn colours_follow_what_the_environment_says() {
        let colors = |variables: &[(&str, &str)]| options(variables).colors;
        assert_eq!(
            colors(&[("TERM", "xterm-256color")]),
            ColorDepth::Indexed256
        );
        assert_eq!(
            colors(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]),
            ColorDepth::TrueColor
        );
        assert_eq!(
            colors(&[("TERM", "xterm-kitty"), ("NO_COLOR", "1")]),
            ColorDepth::None
        );
        assert_eq!(
            colors(&[("TERM", "xterm-kitty"), ("NO_COLOR", "")]),
            ColorDepth::TrueColor
        );
        assert_eq!(colors(&[("TERM", "linux")]), ColorDepth::Ansi16);
        assert_eq!(colors(&[]), ColorDepth::None);
    }

    #[test]
    fn the_background_and_the_editor_are_taken_from_there_too() {
        assert_eq!(
            options(&[("COLORFGBG", "0;15")]).background,
            ThemeKind::Light
        );
        assert_eq!(
            options(&[("COLORFGBG", "15;default;0")]).background,
            ThemeKind::Dark
        );
        let both = options(&[("EDITOR", "vi"), ("VISUAL", "code --wait")]);
        assert_eq!(both.editor.as_deref(), Some("code --wait"));
        assert!(!options(&[("TERM", "linux")]).ask_background);
    }
}
