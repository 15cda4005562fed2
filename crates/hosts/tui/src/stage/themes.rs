//! Which theme is used, and why.

use std::sync::Arc;

use bezel_api_tui::{Paint, ThemeChoice};
use bezel_presentation::theme::{Color, ColorDepth, Theme, ThemeKind, dark, light};

/// What decides about the theme.
pub(super) struct ThemeState {
    choice: ThemeChoice,
    depth: ColorDepth,
    /// What the terminal's background is, as far as it is known.
    ground: ThemeKind,
    /// The contributed themes that the current look was made from.
    known: Arc<Vec<Theme>>,
}

impl ThemeState {
    pub(super) fn new(choice: ThemeChoice, depth: ColorDepth, ground: ThemeKind) -> Self {
        ThemeState {
            choice,
            depth,
            ground,
            known: Arc::default(),
        }
    }

    pub(super) fn paint(&self) -> Paint {
        let built_in = |kind| {
            if kind == ThemeKind::Light {
                light()
            } else {
                dark()
            }
        };
        let theme = match &self.choice {
            ThemeChoice::Auto => built_in(self.ground),
            ThemeChoice::Dark => dark(),
            ThemeChoice::Light => light(),
            ThemeChoice::Named(name) => {
                let named = self
                    .known
                    .iter()
                    .find(|theme| *theme.name() == **name)
                    .cloned();
                named.unwrap_or_else(|| built_in(self.ground))
            }
        };
        Paint::new(&theme, self.depth)
    }

    pub(super) fn choose(&mut self, choice: ThemeChoice) {
        self.choice = choice;
    }

    pub(super) fn ground_is(&mut self, ground: ThemeKind) {
        self.ground = ground;
    }

    pub(super) fn ground_color(&mut self, red: u8, green: u8, blue: u8) {
        let bright = Color::Rgb(red, green, blue).lightness() > 0.5;
        self.ground = if bright {
            ThemeKind::Light
        } else {
            ThemeKind::Dark
        };
    }

    /// Takes note of the contributed themes. True where they have changed.
    pub(super) fn follow(&mut self, themes: Arc<Vec<Theme>>) -> bool {
        let changed = !Arc::ptr_eq(&themes, &self.known);
        self.known = themes;
        changed
    }
}
