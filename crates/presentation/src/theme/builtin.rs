//! The two themes that come with the product. Both leave the terminal's own ground and text colour alone.

use super::{Color, Look, Theme, ThemeKind};
use crate::text::Role;

struct Palette {
    muted: u32,
    faint: u32,
    line: u32,
    accent: u32,
    alternate: u32,
    red: u32,
    orange: u32,
    yellow: u32,
    green: u32,
    cyan: u32,
    blue: u32,
    violet: u32,
    pink: u32,
    surface: u32,
    raised: u32,
    selection: u32,
    marked: u32,
    added: u32,
    added_emphasis: u32,
    removed: u32,
    removed_emphasis: u32,
    code: u32,
}

const DARK: Palette = Palette {
    muted: 0x9aa3b5,
    faint: 0x7f889c,
    line: 0x454c5c,
    accent: 0xb9a1ff,
    alternate: 0x63d2c0,
    red: 0xf58490,
    orange: 0xf0a36b,
    yellow: 0xe5c876,
    green: 0x8ccf8a,
    cyan: 0x6cc7d9,
    blue: 0x7fb2f5,
    violet: 0xc5a5f5,
    pink: 0xeb95c8,
    surface: 0x1b1e27,
    raised: 0x21252f,
    selection: 0x2d3247,
    marked: 0x3d4a6b,
    added: 0x12291b,
    added_emphasis: 0x184429,
    removed: 0x32171c,
    removed_emphasis: 0x5a2630,
    code: 0xd3dae8,
};

const LIGHT: Palette = Palette {
    muted: 0x555c6b,
    faint: 0x686f7f,
    line: 0xc3c7d2,
    accent: 0x6a3fd0,
    alternate: 0x08695b,
    red: 0xb32436,
    orange: 0x964b04,
    yellow: 0x755600,
    green: 0x1d6629,
    cyan: 0x08657a,
    blue: 0x1a56b5,
    violet: 0x7431b8,
    pink: 0xa02571,
    surface: 0xf6f5fa,
    raised: 0xf1eff7,
    selection: 0xe6e0f8,
    marked: 0xc9dcf8,
    added: 0xe4f6e7,
    added_emphasis: 0xb9e8c3,
    removed: 0xfdeaec,
    removed_emphasis: 0xf8c6cb,
    code: 0x2b303b,
};

/// The theme for dark grounds.
pub fn dark() -> Theme {
    build("bezel-dark", ThemeKind::Dark, &DARK)
}

/// The theme for light grounds.
pub fn light() -> Theme {
    build("bezel-light", ThemeKind::Light, &LIGHT)
}

fn rgb(value: u32) -> Color {
    let [_, red, green, blue] = value.to_be_bytes();
    Color::Rgb(red, green, blue)
}

fn build(name: &str, kind: ThemeKind, palette: &Palette) -> Theme {
    let looks = Role::ALL.iter().map(|role| look(*role, palette)).collect();
    Theme::new(name, kind, looks)
}

fn look(role: Role, palette: &Palette) -> Look {
    let plain = Look::default();
    let color = |value: u32| Look {
        foreground: Some(rgb(value)),
        ..Look::default()
    };
    let ground = |value: u32| Look {
        background: Some(rgb(value)),
        ..Look::default()
    };
    let bold = |look: Look| Look { bold: true, ..look };
    let italic = |look: Look| Look {
        italic: true,
        ..look
    };
    match role {
        Role::Text => plain,
        Role::Muted | Role::Status => color(palette.muted),
        Role::Faint | Role::Placeholder | Role::LineNumber | Role::CodeFrame => {
            color(palette.faint)
        }
        Role::Border => color(palette.line),
        Role::Accent | Role::BorderFocused => color(palette.accent),
        Role::AccentAlternate | Role::ListMarker | Role::TaskOpen => color(palette.alternate),
        Role::Heading | Role::Title => bold(color(palette.accent)),
        Role::Emphasis => italic(plain),
        Role::Strong => bold(plain),
        Role::Struck => Look {
            strike: true,
            ..color(palette.muted)
        },
        Role::Link => Look {
            underline: true,
            ..color(palette.blue)
        },
        Role::InlineCode => color(palette.orange),
        Role::CodeBlock | Role::Variable => color(palette.code),
        Role::Quote => italic(color(palette.muted)),
        Role::TaskDone | Role::Success => color(palette.green),
        Role::Warning => color(palette.yellow),
        Role::Error => color(palette.red),
        Role::Notice => color(palette.blue),
        Role::UserMessage => Look {
            background: Some(rgb(palette.raised)),
            ..plain
        },
        Role::Thinking => italic(color(palette.muted)),
        Role::ToolName => bold(plain),
        Role::Key => bold(color(palette.alternate)),
        Role::Selection => ground(palette.selection),
        Role::Match => bold(color(palette.orange)),
        Role::Marked => ground(palette.marked),
        Role::Surface => ground(palette.surface),
        Role::DiffAdded => Look {
            background: Some(rgb(palette.added)),
            ..color(palette.green)
        },
        Role::DiffAddedEmphasis => Look {
            background: Some(rgb(palette.added_emphasis)),
            ..color(palette.green)
        },
        Role::DiffRemoved => Look {
            background: Some(rgb(palette.removed)),
            ..color(palette.red)
        },
        Role::DiffRemovedEmphasis => Look {
            background: Some(rgb(palette.removed_emphasis)),
            ..color(palette.red)
        },
        Role::DiffHunk => color(palette.faint),
        Role::Comment => italic(color(palette.faint)),
        Role::Keyword => color(palette.violet),
        Role::Operator | Role::Escape => color(palette.cyan),
        Role::Punctuation => color(palette.muted),
        Role::String => color(palette.green),
        Role::Number | Role::Constant => color(palette.orange),
        Role::Function => color(palette.blue),
        Role::Type | Role::Namespace => color(palette.yellow),
        Role::Property | Role::Tag => color(palette.cyan),
        Role::Attribute => color(palette.pink),
        Role::Invalid => color(palette.red),
    }
}
