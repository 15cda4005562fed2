//! Paths as a model writes them: absolute, relative to the session's directory, or under `~`.

use std::path::{Component, Path, PathBuf};

use bezel_context::Context;
use bezel_session_types::ToolError;

use crate::Environment;

/// Names compared at most when a path does not exist.
const MOST_NAMES: usize = 5_000;
/// Entries looked at below the session's directory for a file of the same name.
const MOST_WALKED: usize = 20_000;
/// Suggestions given.
const MOST_SUGGESTIONS: usize = 5;
/// Names less alike than this are no suggestion.
const ALIKE: f64 = 0.75;

/// A path that cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathError {
    #[error("The path is empty. Give a file or directory, absolute or relative to {directory}.", directory = directory.display())]
    Empty { directory: PathBuf },
    #[error("Could not expand \"~\" in {text:?}: HOME is not set. Give an absolute path.")]
    NoHome { text: String },
    #[error(
        "The path {text:?} holds a NUL character, which no file name can hold. Correct the path."
    )]
    Nul { text: String },
}

impl From<PathError> for ToolError {
    fn from(error: PathError) -> Self {
        ToolError::failed(error.to_string())
    }
}

/// The absolute path that `text` means.
pub(crate) fn resolve(
    text: &str,
    directory: &Path,
    environment: &Environment,
) -> Result<PathBuf, PathError> {
    if text.trim().is_empty() {
        return Err(PathError::Empty {
            directory: directory.into(),
        });
    }
    if text.contains('\0') {
        return Err(PathError::Nul { text: text.into() });
    }
    let home = || {
        environment
            .home()
            .ok_or_else(|| PathError::NoHome { text: text.into() })
    };
    let path = match text.strip_prefix('~') {
        Some("") => home()?.to_owned(),
        Some(rest) if rest.starts_with('/') => home()?.join(rest.trim_start_matches('/')),
        _ => directory.join(text),
    };
    Ok(tidy(&path))
}

/// Without `.` and repeated slashes. `..` stays where a link could be before it.
fn tidy(path: &Path) -> PathBuf {
    let mut tidied = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if !tidied.is_symlink() && tidied.parent().is_some() => {
                tidied.pop();
            }
            Component::CurDir => {}
            component => tidied.push(component),
        }
    }
    tidied
}

/// The path for people and models: relative inside the session's directory, absolute elsewhere.
pub(crate) fn shown(path: &Path, directory: &Path) -> String {
    match path.strip_prefix(directory) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".into(),
        Ok(inside) => inside.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}

/// One path for all names of a file, also of one that does not exist yet.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => canonical(parent).join(name),
        _ => path.to_owned(),
    }
}

/// What to say after "it does not exist": near names, or how far the path does exist.
pub(crate) fn suggestion(cx: &Context, path: &Path, directory: &Path) -> String {
    let mut found = near_names(path);
    for same in same_name_elsewhere(cx, path, directory) {
        if !found.contains(&same) {
            found.push(same);
        }
    }
    found.truncate(MOST_SUGGESTIONS);
    if !found.is_empty() {
        let names: Vec<String> = found.iter().map(|path| shown(path, directory)).collect();
        return format!(" Did you mean {}?", names.join(" or "));
    }
    let existing = path.ancestors().skip(1).find(|ancestor| ancestor.is_dir());
    match existing {
        Some(parent) if path.parent() == Some(parent) => {
            format!(
                " Its directory does exist: list {} with ls.",
                shown(parent, directory)
            )
        }
        Some(ancestor) => format!(
            " The path exists only as far as {}.",
            shown(ancestor, directory)
        ),
        None => String::new(),
    }
}

fn near_names(path: &Path) -> Vec<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Vec::new();
    };
    let wanted = name.to_string_lossy().to_lowercase();
    let Ok(entries) = std::fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut scored: Vec<(f64, PathBuf)> = entries
        .take(MOST_NAMES)
        .flatten()
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().to_lowercase();
            (likeness(&wanted, &name), entry.path())
        })
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    scored.sort_by(|left, right| {
        right
            .0
            .total_cmp(&left.0)
            .then_with(|| left.1.cmp(&right.1))
    });
    scored
        .into_iter()
        .map(|(_, path)| path)
        .take(MOST_SUGGESTIONS)
        .collect()
}

fn likeness(wanted: &str, name: &str) -> f64 {
    let stem = |text: &str| {
        text.rsplit_once('.')
            .map_or(text.to_owned(), |(stem, _)| stem.to_owned())
    };
    if !stem(wanted).is_empty() && stem(wanted) == stem(name) {
        return 0.99;
    }
    // One slip in a short name is much, and still the likeliest.
    if wanted.len() >= 3 && strsim::damerau_levenshtein(wanted, name) == 1 {
        return 0.95;
    }
    strsim::normalized_damerau_levenshtein(wanted, name)
}

fn same_name_elsewhere(cx: &Context, path: &Path, directory: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name() else {
        return Vec::new();
    };
    let walk = ignore::WalkBuilder::new(directory)
        .require_git(false)
        .build();
    walk.take(MOST_WALKED)
        .take_while(|_| !cx.is_cancelled())
        .flatten()
        .filter(|entry| entry.file_name() == name && entry.depth() > 0)
        .map(ignore::DirEntry::into_path)
        .take(MOST_SUGGESTIONS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_home() -> Environment {
        Environment::new([("HOME".into(), "/home/ann".into())], [])
    }

    #[test]
    fn paths_are_absolute_relative_or_under_home() {
        let cases = [
            ("/etc/hosts", "/etc/hosts"),
            ("src/./lib.rs", "/project/src/lib.rs"),
            ("src/../lib.rs", "/project/lib.rs"),
            ("../other/", "/other"),
            ("/../..", "/"),
            ("~", "/home/ann"),
            ("~/notes//a.md", "/home/ann/notes/a.md"),
            ("~ann/x", "/project/~ann/x"),
        ];
        for (text, path) in cases {
            let resolved = resolve(text, Path::new("/project"), &at_home()).expect("a path");
            assert_eq!(resolved, Path::new(path), "{text}");
        }
    }

    #[test]
    fn impossible_paths_are_refused_with_a_reason() {
        let project = Path::new("/project");
        assert!(matches!(
            resolve(" ", project, &at_home()),
            Err(PathError::Empty { .. })
        ));
        assert!(matches!(
            resolve("a\0b", project, &at_home()),
            Err(PathError::Nul { .. })
        ));
        assert!(matches!(
            resolve("~/x", project, &Environment::default()),
            Err(PathError::NoHome { .. })
        ));
    }

    #[test]
    fn a_missing_path_suggests_near_names_and_the_same_name_elsewhere() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let root = directory.path();
        std::fs::create_dir_all(root.join("src/deep")).expect("directories");
        std::fs::write(root.join("src/deep/parser.rs"), "").expect("file");
        std::fs::write(root.join("src/README.md"), "").expect("file");
        let cx = Context::background();
        let says = |path: &str| suggestion(&cx, &root.join(path), root);
        assert_eq!(says("parser.rs"), " Did you mean src/deep/parser.rs?");
        assert_eq!(says("src/readme.md"), " Did you mean src/README.md?");
        assert_eq!(
            says("src/deep/prser.rs"),
            " Did you mean src/deep/parser.rs?"
        );
        assert_eq!(
            says("src/quite-else"),
            " Its directory does exist: list src with ls."
        );
        assert_eq!(says("src/a/b/c"), " The path exists only as far as src.");
    }

    #[test]
    fn a_file_has_one_canonical_path_before_and_after_it_exists() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let root = directory.path().canonicalize().expect("real path");
        std::fs::create_dir(root.join("real")).expect("directory");
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).expect("link");
        assert_eq!(
            canonical(&root.join("link/new/file")),
            root.join("real/new/file")
        );
    }
}
