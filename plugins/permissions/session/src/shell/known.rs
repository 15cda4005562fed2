//! What is known of common commands: which only look, which change the files that they name, and which build and
//! test the project.

use std::path::Path;

use super::builds::built;
use super::found::{Depth, Touch};
use super::globs::expanded;
use super::looks::looked_at;
use super::options;
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
        if let Some(touches) = built(name, arguments, directory) {
            return (Class::Project, touches);
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
    let mut touches: Vec<Touch> = Vec::new();
    let mut add = |path: &Path| {
        let is_known = |touch: &Touch| touch.path == path;
        if from.join(path).symlink_metadata().is_ok() && !touches.iter().any(is_known) {
            touches.push(Touch {
                path: path.to_owned(),
                from: Some(from.to_owned()),
                changes: false,
                depth,
            });
        }
    };
    for word in arguments.iter().filter(|word| word.known) {
        for path in paths_in(&word.text) {
            match word.glob {
                true => expanded(path, from)
                    .unwrap_or_default()
                    .iter()
                    .for_each(|path| add(path)),
                false => add(Path::new(path)),
            }
            for packed in PACKED {
                add(Path::new(&format!("{path}{packed}")));
            }
        }
    }
    let searches = SEARCH.contains(&base)
        || (base == "git" && arguments.iter().any(|word| word.text == "grep"));
    if searches && touches.is_empty() {
        touches.push(Touch {
            depth,
            ..touch(".", directory, false)
        });
    }
    touches
}

/// Programs that search the directory in which they run where they are given none.
const SEARCH: [&str; 6] = ["grep", "egrep", "fgrep", "rg", "ag", "ack"];

/// Endings of files that programs unpack though they are named without them.
const PACKED: [&str; 5] = [".gz", ".Z", ".z", ".bz2", ".xz"];

/// The parts of an argument that may be paths.
fn paths_in(text: &str) -> Vec<&str> {
    let mut found = vec![text];
    if text.starts_with('-') {
        found.extend(text.find(['/', '.']).map(|at| &text[at..]));
        found.extend(text.get(2..));
    }
    let ends = text.match_indices(['=', '@', ':', ',']);
    found.extend(ends.map(|(at, _)| &text[at + 1..]));
    found.retain(|path| !path.is_empty() && !path.starts_with('-'));
    found
}

/// The part of an argument that may be a path.
pub(super) fn path_in(word: &Word) -> Option<&str> {
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

/// The files that a command changes which changes those that it names.
pub(super) fn changed_by(
    name: &str,
    arguments: &[Word],
    directory: Option<&Path>,
) -> Option<Vec<Touch>> {
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
        // What is moved can be read under its new name.
        touches.push(Touch {
            depth: match call.deep || name == "mv" {
                true => Depth::Whole,
                false => Depth::Names,
            },
            ..touch(source, directory, name == "ln")
        });
        if name == "mv" {
            touches.push(Touch {
                depth: Depth::Whole,
                ..touch(source, directory, true)
            });
        }
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
