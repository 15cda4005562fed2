//! What an answer for more than one call approves: the like of what was asked, no more than a person would expect.

use std::path::Path;

use bezel_permissions_contract::{Effect, Rule};
use bezel_session_types::Access;

use crate::pattern::escaped;
use crate::place::{Place, Resolved, follow};
use crate::shell::{Judged, quoted};

/// Characters of a command or a text that are shown.
const MOST_SHOWN: usize = 4_000;

/// A rule that allows.
pub(crate) fn allow(action: &str, resource: impl Into<String>) -> Rule {
    Rule {
        action: action.to_owned(),
        resource: resource.into(),
        effect: Effect::Allow,
    }
}

/// This path alone.
pub(crate) fn exact(action: &str, path: &Resolved) -> Vec<Rule> {
    vec![allow(action, self::path(path))]
}

/// The pattern of this path alone.
pub(crate) fn path(path: &Resolved) -> String {
    escaped(&path.real.display().to_string())
}

/// The directory that a path lies in; inside the project, the project.
pub(crate) fn directory(action: &str, path: &Resolved, inside: bool, place: &Place) -> Vec<Rule> {
    if inside {
        return vec![allow(action, "./**")];
    }
    let directory = match path.real.is_dir() {
        true => Some(path.real.as_path()),
        false => path.real.parent(),
    };
    // All that is there, or all that is the person's, is more than anybody would mean.
    let narrow = directory.filter(|directory| {
        directory.parent().is_some()
            && place.home.as_deref() != Some(*directory)
            && !place.real.starts_with(directory)
    });
    match narrow {
        Some(directory) => {
            let directory = escaped(&directory.display().to_string());
            vec![allow(action, format!("{directory}/**"))]
        }
        None => exact(action, path),
    }
}

/// A command in its directory, or its like; `None` where the next one of the same words may be another.
pub(crate) fn command(action: &str, command: &Judged, place: &Place) -> Option<Vec<Rule>> {
    if !command.prefix.is_empty() {
        let prefix = escaped(&command.prefix.join(" "));
        return Some(vec![allow(action, format!("{prefix} *"))]);
    }
    if !command.told {
        return None;
    }
    let text = match command.anywhere {
        true => command.text.clone(),
        false => in_directory(&command.text, command.directory.as_deref()?, &place.project),
    };
    Some(vec![allow(action, escaped(&text))])
}

/// A command with the directory in which it runs before it, where that is not `usual`.
pub(crate) fn in_directory(text: &str, directory: &Path, usual: &Path) -> String {
    let real = follow(directory);
    match real.strip_prefix(usual) {
        Ok(inside) if inside.as_os_str().is_empty() => text.to_owned(),
        Ok(inside) => format!("cd {} && {text}", quoted(&inside.display().to_string())),
        Err(_) => format!("cd {} && {text}", quoted(&real.display().to_string())),
    }
}

/// A URL's host, or a text alone.
pub(crate) fn text(action: &str, text: &str) -> Vec<Rule> {
    let host = text
        .split_once("://")
        .filter(|_| action == Access::WEB)
        .map(|(scheme, rest)| {
            let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
            format!("{}://{}/*", escaped(scheme), escaped(host))
        });
    vec![allow(action, host.unwrap_or_else(|| escaped(text)))]
}

/// A text as far as a person reads it.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
