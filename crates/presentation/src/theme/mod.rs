//! Themes: what each role looks like, on surfaces of any colour depth.

mod builtin;
mod color;
mod file;

pub use builtin::{dark, light};
pub use color::{Color, ColorDepth};
pub use file::{LookFile, ThemeError, ThemeFile};

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::text::{Role, TextStyle};

/// Whether a theme is made for dark or light backgrounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThemeKind {
    /// Light text on dark ground.
    #[default]
    Dark,
    /// Dark text on light ground.
    Light,
}

/// What one role, or one span, looks like. `None` leaves what lies beneath.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// The letters.
    pub foreground: Option<Color>,
    /// Behind them.
    pub background: Option<Color>,
    /// Heavier.
    pub bold: bool,
    /// Weaker.
    pub dim: bool,
    /// Slanted.
    pub italic: bool,
    /// Underlined.
    pub underline: bool,
    /// Struck out.
    pub strike: bool,
    /// Foreground and background swapped.
    pub reverse: bool,
}

/// A complete set of looks, one for each role. Cheap to clone.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "ThemeFile")]
pub struct Theme(Arc<Inner>);

#[derive(Debug, Clone, PartialEq)]
struct Inner {
    name: Arc<str>,
    kind: ThemeKind,
    looks: Vec<Look>,
}

impl PartialEq for Theme {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Theme {
    fn new(name: &str, kind: ThemeKind, looks: Vec<Look>) -> Self {
        debug_assert_eq!(looks.len(), Role::ALL.len());
        Theme(Arc::new(Inner {
            name: name.into(),
            kind,
            looks,
        }))
    }

    /// What people choose it by.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The ground that it is made for.
    pub fn kind(&self) -> ThemeKind {
        self.0.kind
    }

    /// What a role looks like.
    pub fn look(&self, role: Role) -> Look {
        self.0.looks[role as usize]
    }

    /// What a span looks like: its role, its own weight, and its background role.
    pub fn style(&self, style: TextStyle) -> Look {
        let mut look = self.look(style.role);
        look.bold |= style.bold;
        look.italic |= style.italic;
        look.underline |= style.underline;
        look.strike |= style.strike;
        if let Some(background) = style.background {
            let behind = self.look(background);
            look.background = behind.background.or(look.background);
            look.reverse |= behind.reverse;
        }
        look
    }

    /// The same theme with only the colours that a surface of `depth` can show.
    ///
    /// With 16 colours or none, backgrounds are not kept (the 16 are too loud for surfaces); what lives
    /// from its background, a selection for instance, is reversed instead.
    pub fn at_depth(&self, depth: ColorDepth) -> Theme {
        if depth == ColorDepth::TrueColor {
            return self.clone();
        }
        let mut inner = Inner::clone(&self.0);
        for (role, look) in Role::ALL.iter().zip(&mut inner.looks) {
            look.foreground = look.foreground.and_then(|color| color.at_depth(depth));
            look.background = look.background.and_then(|color| color.at_depth(depth));
            if depth <= ColorDepth::Ansi16 {
                look.background = None;
                look.reverse |= matches!(
                    role,
                    Role::Selection
                        | Role::Marked
                        | Role::DiffAddedEmphasis
                        | Role::DiffRemovedEmphasis
                );
            }
            if depth == ColorDepth::None {
                look.dim |= matches!(
                    role,
                    Role::Muted | Role::Faint | Role::Placeholder | Role::LineNumber
                );
                look.underline |= matches!(role, Role::Match | Role::Link);
                look.bold |= matches!(role, Role::Error | Role::Warning | Role::Key | Role::Accent);
            }
        }
        Theme(Arc::new(inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_takes_its_role_its_weight_and_its_ground() {
        let theme = dark();
        let look = theme.style(TextStyle::role(Role::Keyword).bold().on(Role::DiffAdded));
        assert_eq!(look.foreground, theme.look(Role::Keyword).foreground);
        assert_eq!(look.background, theme.look(Role::DiffAdded).background);
        assert!(look.bold && look.background.is_some());
    }

    #[test]
    fn without_colours_a_selection_can_still_be_seen() {
        for theme in [dark(), light()] {
            let plain = theme.at_depth(ColorDepth::None);
            assert!(
                plain
                    .0
                    .looks
                    .iter()
                    .all(|look| look.foreground.is_none() && look.background.is_none())
            );
            assert!(plain.look(Role::Selection).reverse);
            assert!(plain.look(Role::Match).underline);
            let sixteen = theme.at_depth(ColorDepth::Ansi16);
            assert!(sixteen.look(Role::Selection).reverse);
            assert!(matches!(
                sixteen.look(Role::Error).foreground,
                Some(Color::Ansi(_))
            ));
            let many = theme.at_depth(ColorDepth::Indexed256);
            assert!(matches!(
                many.look(Role::Accent).foreground,
                Some(Color::Indexed(_))
            ));
        }
    }
}
