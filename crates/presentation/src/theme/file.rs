//! Themes as people write them: a palette, and what each role takes from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Color, Look, Theme, ThemeKind, dark, light};
use crate::text::Role;

/// A theme as it stands in a file. Roles that it leaves out are those of the built-in theme of its kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThemeFile {
    /// What people choose it by.
    pub name: String,
    /// The ground that it is made for.
    #[serde(default)]
    pub kind: ThemeKind,
    /// Names for colours, usable in `roles`.
    #[serde(default)]
    pub palette: BTreeMap<String, Color>,
    /// Looks by role name.
    #[serde(default)]
    pub roles: BTreeMap<String, LookFile>,
}

/// A look as it stands in a file: a colour for the letters alone, or all parts by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LookFile {
    /// The letters' colour.
    Foreground(String),
    /// All parts; what is left out is off.
    Parts {
        /// The letters' colour.
        #[serde(default)]
        fg: Option<String>,
        /// The colour behind them.
        #[serde(default)]
        bg: Option<String>,
        /// Heavier.
        #[serde(default)]
        bold: bool,
        /// Weaker.
        #[serde(default)]
        dim: bool,
        /// Slanted.
        #[serde(default)]
        italic: bool,
        /// Underlined.
        #[serde(default)]
        underline: bool,
        /// Struck out.
        #[serde(default)]
        strike: bool,
        /// Foreground and background swapped.
        #[serde(default)]
        reverse: bool,
    },
}

/// A theme that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThemeError {
    /// A role that does not exist.
    #[error(
        "theme {theme:?} styles {role:?}, which is no role{}",
        did_you_mean(closest)
    )]
    UnknownRole {
        /// The theme's name.
        theme: String,
        /// What it says.
        role: String,
        /// The role with the most similar name.
        closest: Option<&'static str>,
    },
    /// A colour that is neither one nor in the palette.
    #[error(
        "theme {theme:?}, role {role:?}: {color:?} is neither in its palette nor a colour (#rrggbb, 0 to 255, or an ANSI name)"
    )]
    UnknownColor {
        /// The theme's name.
        theme: String,
        /// The role that uses it.
        role: String,
        /// What it says.
        color: String,
    },
}

fn did_you_mean(closest: &Option<&'static str>) -> String {
    closest.map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
}

impl TryFrom<ThemeFile> for Theme {
    type Error = ThemeError;

    fn try_from(file: ThemeFile) -> Result<Self, ThemeError> {
        let base = match file.kind {
            ThemeKind::Dark => dark(),
            ThemeKind::Light => light(),
        };
        let mut looks: Vec<Look> = Role::ALL.iter().map(|role| base.look(*role)).collect();
        for (key, look) in &file.roles {
            let Some(role) = Role::ALL.iter().find(|role| role.key() == key) else {
                return Err(ThemeError::UnknownRole {
                    theme: file.name.clone(),
                    role: key.clone(),
                    closest: closest_role(key),
                });
            };
            let color = |name: &Option<String>| match name {
                None => Ok(None),
                Some(name) => match file.palette.get(name) {
                    Some(color) => Ok(Some(*color)),
                    None => name
                        .parse()
                        .map(Some)
                        .map_err(|_| ThemeError::UnknownColor {
                            theme: file.name.clone(),
                            role: key.clone(),
                            color: name.clone(),
                        }),
                },
            };
            looks[*role as usize] = match look {
                LookFile::Foreground(name) => Look {
                    foreground: color(&Some(name.clone()))?,
                    ..Look::default()
                },
                LookFile::Parts {
                    fg,
                    bg,
                    bold,
                    dim,
                    italic,
                    underline,
                    strike,
                    reverse,
                } => Look {
                    foreground: color(fg)?,
                    background: color(bg)?,
                    bold: *bold,
                    dim: *dim,
                    italic: *italic,
                    underline: *underline,
                    strike: *strike,
                    reverse: *reverse,
                },
            };
        }
        Ok(Theme::new(&file.name, file.kind, looks))
    }
}

fn closest_role(name: &str) -> Option<&'static str> {
    let ratio = |key: &str| similar::TextDiff::from_chars(name, key).ratio();
    let scored = Role::ALL.iter().map(|role| (ratio(role.key()), role.key()));
    scored
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .filter(|best| best.0 > 0.6)
        .map(|best| best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_theme_file_names_its_colours_and_inherits_the_rest() {
        let theme: Theme = toml::from_str(
            r##"
            name = "mine"
            kind = "light"
            palette = { berry = "#8a2be2" }
            [roles]
            heading = { fg = "berry", bold = true }
            error = "196"
            "##,
        )
        .unwrap();
        assert_eq!((theme.name(), theme.kind()), ("mine", ThemeKind::Light));
        assert_eq!(
            theme.look(Role::Heading).foreground,
            Some(Color::Rgb(0x8a, 0x2b, 0xe2))
        );
        assert!(theme.look(Role::Heading).bold);
        assert_eq!(
            theme.look(Role::Error).foreground,
            Some(Color::Indexed(196))
        );
        assert_eq!(theme.look(Role::Keyword), light().look(Role::Keyword));
    }

    #[test]
    fn mistakes_in_a_theme_file_are_named() {
        let error = toml::from_str::<Theme>("name='x'\nroles = { heding = 'red' }")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("heding") && error.contains("did you mean \"heading\""),
            "{error}"
        );
        let error = toml::from_str::<Theme>("name='x'\nroles = { heading = 'berry' }")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("berry") && error.contains("palette"),
            "{error}"
        );
    }
}
