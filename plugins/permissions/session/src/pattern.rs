//! Patterns of commands and of paths.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use bezel_permissions_contract::Wildcard;

/// Whether `pattern` is all of `text`. In a command line ` *` at the end also stands for no argument.
pub(crate) fn matches_text(pattern: &str, text: &str) -> bool {
    Wildcard::new(pattern).matches_line(text)
}

/// The pattern that `text` alone matches.
pub(crate) fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// A pattern of paths: absolute, under `~`, or relative to the session's directory. `*` and `?` stay within a
/// name, `**` is any number of directories. Without a slash it matches a name at any depth. What ends in a plain
/// name or in a slash also covers what lies below.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PathPattern {
    /// Every path.
    Everything,
    /// Components from the root on.
    Rooted(Vec<Part>),
    /// A name at any depth.
    Name(Vec<Part>),
}

/// A component of a pattern.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    /// Any number of directories.
    Deep,
    /// One name with wildcards.
    Wild(String),
    /// One name.
    Plain(String),
}

impl PathPattern {
    /// Reads a pattern. `home` is what `~` is; without one such a pattern matches nothing.
    pub(crate) fn new(pattern: &str, directory: &Path, home: Option<&Path>) -> Self {
        if pattern == "*" {
            return PathPattern::Everything;
        }
        let below = pattern.ends_with('/');
        let trimmed = pattern.trim_end_matches('/');
        let (base, rest) = match (trimmed, pattern) {
            ("", "") => (None, ""),
            ("", _) => (Some(PathBuf::new()), ""),
            ("~", _) => (Some(home.map_or_else(nowhere, Path::to_owned)), ""),
            (text, _) if text.starts_with("~/") => {
                (Some(home.map_or_else(nowhere, Path::to_owned)), &text[2..])
            }
            (text, _) if text.starts_with('/') => (Some(PathBuf::new()), text),
            (text, _) if text.contains('/') || matches!(text, "." | "..") => {
                (Some(directory.to_owned()), text)
            }
            (text, _) => (None, text),
        };
        let mut parts: Vec<Part> = Vec::new();
        for component in base.iter().flat_map(|base| base.components()) {
            if let Component::Normal(name) = component {
                parts.push(Part::Plain(name.to_string_lossy().into_owned()));
            }
        }
        for name in rest.split('/') {
            match name {
                "" | "." => {}
                ".." => drop(parts.pop()),
                "**" => parts.push(Part::Deep),
                name if name.contains(['*', '?', '\\']) => parts.push(Part::Wild(name.to_owned())),
                name => parts.push(Part::Plain(name.to_owned())),
            }
        }
        if below || matches!(parts.last(), Some(Part::Plain(_)) | None) {
            parts.push(Part::Deep);
        }
        match base {
            Some(_) => PathPattern::Rooted(parts),
            None => PathPattern::Name(parts),
        }
    }

    /// Whether it covers an absolute path without `.` and `..`.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        let names: Vec<&OsStr> = path
            .components()
            .filter_map(|component| match component {
                Component::Normal(name) => Some(name),
                _ => None,
            })
            .collect();
        match self {
            PathPattern::Everything => true,
            PathPattern::Rooted(parts) => along(parts, &names),
            PathPattern::Name(parts) => (0..names.len()).any(|start| along(parts, &names[start..])),
        }
    }
}

/// A directory that no path lies in.
fn nowhere() -> PathBuf {
    PathBuf::from("/\0")
}

/// Component by component; `**` goes back to the last one alone, as a wildcard does.
fn along(parts: &[Part], names: &[&OsStr]) -> bool {
    let (mut part, mut at) = (0, 0);
    let mut deep: Option<(usize, usize)> = None;
    loop {
        let fits = match parts.get(part) {
            Some(Part::Deep) => {
                deep = Some((part + 1, at));
                part += 1;
                continue;
            }
            Some(Part::Plain(plain)) => names.get(at).is_some_and(|name| *name == plain.as_str()),
            Some(Part::Wild(wild)) => names
                .get(at)
                .is_some_and(|name| Wildcard::new(wild).matches(&name.to_string_lossy())),
            None if at == names.len() => return true,
            None => false,
        };
        if fits {
            (part, at) = (part + 1, at + 1);
            continue;
        }
        match &mut deep {
            Some((after, from)) if *from < names.len() => {
                *from += 1;
                (part, at) = (*after, *from);
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(pattern: &str, path: &str) -> bool {
        PathPattern::new(pattern, Path::new("/srv/app"), Some(Path::new("/home/me")))
            .matches(Path::new(path))
    }

    #[test]
    fn wildcards_of_text_cross_everything_and_a_last_argument_may_be_absent() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("git push *", "git push origin main", true),
            ("git push *", "git push", true),
            ("git push *", "git pushx", false),
            ("git * main", "git checkout main", true),
            ("git * main", "git checkout main --force", false),
            ("rm ?", "rm x", true),
            ("rm ?", "rm xy", false),
            (r"rm \*", "rm *", true),
            (r"rm \*", "rm x", false),
            ("a*b*c", "axxbxxbxxc", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(
                matches_text(pattern, text),
                expected,
                "{pattern:?} {text:?}"
            );
        }
    }

    #[test]
    fn a_wildcard_in_a_path_stays_within_a_name() {
        for (pattern, of, expected) in [
            ("*", "/etc/passwd", true),
            ("src/*", "/srv/app/src/main.rs", true),
            ("src/*", "/srv/app/src/deep/main.rs", false),
            ("src/**", "/srv/app/src/deep/main.rs", true),
            ("src/", "/srv/app/src/deep/main.rs", true),
            ("./src", "/srv/app/src/deep/main.rs", true),
            ("src/**/*.rs", "/srv/app/src/a/b/main.rs", true),
            ("src/**/*.rs", "/srv/app/src/main.rs", true),
            ("./**", "/srv/app/x", true),
            ("./**", "/srv/other/x", false),
            ("../other/**", "/srv/other/x", true),
            (".env*", "/srv/app/deep/.env.local", true),
            (".env*", "/srv/app/environment", false),
            ("node_modules", "/srv/app/a/node_modules/b/c.js", true),
            ("/etc", "/etc/ssh/sshd_config", true),
            ("/etc", "/etcetera", false),
            ("~/.ssh", "/home/me/.ssh/id_rsa", true),
            ("~/.ssh", "/home/you/.ssh/id_rsa", false),
            ("/", "/anything", true),
            ("", "/srv/app/x", true),
        ] {
            if !pattern.is_empty() {
                assert_eq!(path(pattern, of), expected, "{pattern:?} {of:?}");
            }
        }
        assert!(!PathPattern::new("~/x", Path::new("/"), None).matches(Path::new("/x")));
    }

    /// The plainest way to say what a pattern of text means.
    fn slowly(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|at| slowly(rest, &text[at..])),
            ['?', rest @ ..] => !text.is_empty() && slowly(rest, &text[1..]),
            [one, rest @ ..] => text.first() == Some(one) && slowly(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn a_pattern_means_what_the_plain_recursion_says(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            let characters = |text: &str| text.chars().collect::<Vec<char>>();
            let slowly = slowly(&characters(&pattern), &characters(&text));
            prop_assert_eq!(Wildcard::new(&pattern).matches(&text), slowly);
        }

        #[test]
        fn an_escaped_text_matches_itself_alone(text in "[ab*?\\\\ ]{0,8}", other in "[ab*?\\\\ ]{0,8}") {
            let pattern = Wildcard::new(&escaped(&text));
            prop_assert!(pattern.matches(&text));
            prop_assert_eq!(pattern.matches(&other), text == other);
        }

        #[test]
        fn a_rooted_pattern_covers_nothing_outside_of_its_plain_beginning(
            beginning in "[a-c]{1,3}(/[a-c]{1,3}){0,2}", of in "(/[a-c]{1,3}){1,5}",
        ) {
            let pattern = format!("/{beginning}/**");
            prop_assert_eq!(path(&pattern, &of), Path::new(&of).starts_with(format!("/{beginning}")));
        }
    }
}
