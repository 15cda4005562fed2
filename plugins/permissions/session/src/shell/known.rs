//! What is known of common commands: which only look, which change the files that they name, and which build and
//! test the project.

use std::path::{Path, PathBuf};

use super::git;
use super::globs::expanded;
use super::looks::looked_at;
use super::options;
use super::script::{Depth, Touch};
use super::table;
use super::words::Word;

/// What is known of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// It looks and changes nothing.
    Looks,
    /// It changes the files that it names, and nothing else.
    Files,
    /// It builds, tests or formats the project, and so runs the project's own code.
    Project,
    /// Nothing is known of it.
    Unknown,
}

/// What is known of a command, and the paths that it touches.
pub(super) fn class(
    name: &str,
    arguments: &[Word],
    directory: Option<&Path>,
) -> (Class, Vec<Touch>) {
    if arguments.iter().all(|word| word.known) {
        if let Some(touches) = looked_at(name, arguments, directory) {
            return (Class::Looks, touches);
        }
        if let Some(touches) = changed_by(name, arguments, directory) {
            return (Class::Files, touches);
        }
        if builds(name, arguments) {
            return (Class::Project, named(arguments, directory));
        }
    }
    (Class::Unknown, Vec::new())
}

/// The same of what bash does itself, in a form that is known: only patterns and tests look at files.
pub(super) fn of_builtin(
    name: &str,
    arguments: &[Word],
    directory: Option<&Path>,
) -> (Class, Vec<Touch>) {
    let tested = match name {
        "test" | "[" => super::builtins::tested(arguments),
        _ => Vec::new(),
    };
    let mut touches: Vec<Touch> = tested
        .into_iter()
        .map(|path| touch(path, directory, false))
        .collect();
    for word in arguments.iter().filter(|word| word.glob) {
        match read_operand(word, directory, Depth::Names) {
            Some(found) => touches.extend(found),
            None => return (Class::Unknown, Vec::new()),
        }
    }
    (Class::Looks, touches)
}

pub(super) fn touch(path: &str, directory: Option<&Path>, changes: bool) -> Touch {
    Touch {
        path: path.into(),
        from: directory.map(Path::to_owned),
        changes,
        depth: Depth::Names,
    }
}

pub(super) fn read_operands<'w>(
    words: impl Iterator<Item = &'w Word>,
    directory: Option<&Path>,
    depth: Depth,
) -> Option<Vec<Touch>> {
    let mut touches = Vec::new();
    for word in words {
        touches.extend(read_operand(word, directory, depth)?);
    }
    Some(touches)
}

/// What an operand reads: a path, there or not, or everything that a pattern stands for. `None` where that cannot be
/// told.
pub(super) fn read_operand(
    word: &Word,
    directory: Option<&Path>,
    depth: Depth,
) -> Option<Vec<Touch>> {
    let of = |path: &str| Touch {
        depth,
        ..touch(path, directory, false)
    };
    if !word.glob {
        return Some(match word.text.as_str() {
            "" | "-" => Vec::new(),
            path => vec![of(path)],
        });
    }
    let mut touches = Vec::new();
    for path in expanded(&word.text, directory?)? {
        let path = path.to_str()?;
        // It would be an option.
        if path.starts_with('-') {
            return None;
        }
        touches.push(of(path));
    }
    Some(touches)
}

/// Whether all is known that a word comes to.
pub(super) fn is_told(word: &Word, directory: Option<&Path>) -> bool {
    let expands = || directory.is_some_and(|from| expanded(&word.text, from).is_some());
    word.known && (!word.glob || expands())
}

/// Programs that read everything below the directories that they are given.
const READ_ALL: [&str; 14] = [
    "grep", "egrep", "fgrep", "rg", "ag", "ack", "tar", "zip", "7z", "rsync", "scp", "cp", "diff",
    "git",
];

/// Every path among the arguments of a command of which nothing is known, for rules against it. What does not exist
/// is none.
pub(super) fn paths(name: &str, arguments: &[Word], directory: Option<&Path>) -> Vec<Touch> {
    let Some(from) = directory else {
        return Vec::new();
    };
    let base = name.rsplit('/').next().unwrap_or(name);
    let depth = match READ_ALL.contains(&base) {
        true => Depth::Whole,
        false => Depth::Names,
    };
    let mut touches = Vec::new();
    for word in arguments.iter().filter(|word| word.known) {
        let Some(path) = path_in(word) else { continue };
        let found = match word.glob {
            true => expanded(path, from).unwrap_or_default(),
            false => vec![PathBuf::from(path)],
        };
        for path in found {
            if from.join(&path).symlink_metadata().is_ok() {
                touches.push(Touch {
                    path,
                    from: Some(from.to_owned()),
                    changes: false,
                    depth,
                });
            }
        }
    }
    touches
}

/// The part of an argument that may be a path.
fn path_in(word: &Word) -> Option<&str> {
    let text = word.text.as_str();
    if text.is_empty() || text == "-" || text == "--" {
        return None;
    }
    if !text.starts_with('-') {
        return Some(text);
    }
    match text.split_once('=') {
        Some((_, value)) if !value.is_empty() => Some(value),
        _ => text.find(['/', '.']).map(|at| &text[at..]),
    }
}

/// What the arguments of a build name, there or not: what has a slash in it, and what is there.
fn named(arguments: &[Word], directory: Option<&Path>) -> Vec<Touch> {
    let mut touches = Vec::new();
    for path in arguments.iter().filter_map(path_in) {
        let is_there = |from: &Path| from.join(path).symlink_metadata().is_ok();
        if path.contains('/') || path == ".." || directory.is_some_and(is_there) {
            touches.push(touch(path, directory, false));
        }
    }
    touches
}

/// The files that a command changes which changes those that it names.
fn changed_by(name: &str, arguments: &[Word], directory: Option<&Path>) -> Option<Vec<Touch>> {
    let list = table::changes(name)?;
    let from = directory?;
    let call = options::call(list, arguments)?;
    if call.operands.iter().any(|word| word.glob)
        || (name == "ln" && !call.has("-s") && !call.has("--symbolic"))
    {
        return None;
    }
    let mut named: Vec<&str> = call
        .operands
        .iter()
        .map(|word| word.text.as_str())
        .collect();
    let writes: Vec<&str> = match (name, call.writes.as_slice()) {
        ("cp" | "mv" | "ln", []) => named.pop().into_iter().collect(),
        ("cp" | "mv", into) => into.to_vec(),
        _ => std::mem::take(&mut named),
    };
    let mut touches: Vec<Touch> = call
        .reads
        .iter()
        .map(|path| touch(path, directory, false))
        .collect();
    for source in &named {
        // All that lies there, hidden or not, would come to lie in the other.
        if call.deep
            && Path::new(source)
                .file_name()
                .is_none_or(|_| source.ends_with("/."))
        {
            return None;
        }
        touches.push(Touch {
            depth: match call.deep {
                true => Depth::Whole,
                false => Depth::Names,
            },
            ..touch(source, directory, name != "cp")
        });
    }
    for target in writes {
        touches.push(touch(target, directory, true));
        // Into a directory: a file of the same name there may be a link.
        if from.join(target).is_dir() {
            for source in &named {
                let within = Path::new(target).join(Path::new(source).file_name()?);
                if call.deep && from.join(&within).symlink_metadata().is_ok() {
                    return None;
                }
                touches.push(touch(within.to_str()?, directory, true));
            }
        } else if call.deep && from.join(target).symlink_metadata().is_ok() {
            return None;
        }
    }
    (!touches.is_empty()).then_some(touches)
}

/// Whether among what is copied or moved there may be links, which then lead elsewhere.
pub(super) fn may_move_links(touches: &[Touch]) -> bool {
    touches.iter().any(|touch| {
        let path = touch.from.as_ref().map(|from| from.join(&touch.path));
        let metadata = path.and_then(|path| path.symlink_metadata().ok());
        metadata.is_some_and(|metadata| !metadata.is_file())
    })
}

/// Whether a command builds, tests, checks or formats the project.
fn builds(name: &str, arguments: &[Word]) -> bool {
    let words: Vec<&str> = arguments
        .iter()
        .map(|word| word.text.as_str())
        .filter(|text| !text.starts_with(['-', '+']))
        .collect();
    let first = words.first().copied().unwrap_or_default();
    // What is configured on the command line may be any program.
    if arguments
        .iter()
        .any(|word| word.text.starts_with("--config") || word.text.starts_with("-exec"))
    {
        return false;
    }
    match name {
        // A toolchain of the project may stand for the program.
        "cargo" | "rustc" | "go" | "rustup"
            if arguments.len() == 1
                && matches!(first, "version" | "")
                && matches!(arguments[0].text.as_str(), "--version" | "-V" | "version") =>
        {
            name != "rustup" || arguments[0].text != "version"
        }
        "cargo" => matches!(
            first,
            "build"
                | "b"
                | "check"
                | "c"
                | "clippy"
                | "test"
                | "t"
                | "nextest"
                | "fmt"
                | "doc"
                | "bench"
                | "tree"
                | "metadata"
        ),
        "go" => matches!(first, "build" | "test" | "vet" | "fmt" | "list"),
        "npm" | "pnpm" | "yarn" | "bun" => {
            first == "test"
                || (first == "run"
                    && words.get(1).is_some_and(|script| {
                        ["test", "build", "lint", "check", "typecheck", "format"]
                            .iter()
                            .any(|known| script.starts_with(known))
                    }))
        }
        "pytest" | "mypy" | "ruff" | "tsc" | "eslint" | "prettier" | "rustfmt" | "gofmt"
        | "black" | "vitest" | "jest" => true,
        "make" => {
            matches!(
                first,
                "" | "all" | "build" | "test" | "check" | "lint" | "fmt"
            ) && words.len() <= 1
                && arguments.iter().all(|word| {
                    !word.text.starts_with('-') || matches!(word.text.as_str(), "-j" | "-k" | "-s")
                })
        }
        "git" => {
            let words = git::without_options(arguments);
            let same = words.len() == arguments.len();
            let subcommand = words.first().map(|word| word.text.as_str());
            same && matches!(subcommand, Some("add" | "commit" | "mv"))
        }
        _ => false,
    }
}
