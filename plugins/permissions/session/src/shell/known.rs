//! What is known of common commands: which only look, which change the files that they name, and which build and
//! test the project.

use std::path::{Path, PathBuf};

use super::git;
use super::options;
use super::script::{Depth, Touch};
use super::table::{self, Operands};
use super::words::Word;
use super::wrappers::find_looks;
use crate::pattern::matches_text;

/// Names that file name patterns may stand for; more are not judged one by one.
const MOST_NAMES: usize = 2_000;

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

fn touch(path: &str, directory: Option<&Path>, changes: bool) -> Touch {
    Touch {
        path: path.into(),
        from: directory.map(Path::to_owned),
        changes,
        depth: Depth::Names,
    }
}

/// What a command reads that only looks. `None` where it is not known to do just that.
fn looked_at(name: &str, arguments: &[Word], directory: Option<&Path>) -> Option<Vec<Touch>> {
    let here = |depth| Touch {
        depth,
        ..touch(".", directory, false)
    };
    match name {
        "cd" => {
            return match arguments {
                [] => Some(Vec::new()),
                [target] if !target.glob && !target.text.starts_with('-') => {
                    Some(vec![touch(&target.text, directory, false)])
                }
                _ => None,
            };
        }
        "command"
            if arguments
                .first()
                .is_some_and(|word| matches!(word.text.as_str(), "-v" | "-V")) =>
        {
            return arguments.iter().all(|word| !word.glob).then(Vec::new);
        }
        "find" => return looked_at_by_find(arguments, directory),
        "sed" if prints_lines(arguments) => {
            let files = arguments.iter().filter(|word| word.text != "-n").skip(1);
            return read_operands(files, directory, Depth::Names);
        }
        "git" => {
            let looked = git::looks(arguments)?;
            let depth = match looked.searches {
                true => Depth::Visible,
                false => Depth::Names,
            };
            let mut touches = vec![here(depth)];
            for word in looked.paths {
                touches.extend(read_operand(word, directory, depth)?);
                // What a commit holds is named behind a colon.
                if let Some((_, path)) = word
                    .text
                    .split_once(':')
                    .filter(|(_, path)| !path.is_empty())
                {
                    touches.push(touch(path, directory, false));
                }
            }
            return Some(touches);
        }
        "node" | "npm" | "python" | "python3" | "ruby" | "gcc" | "clang" | "make" | "cmake"
        | "bash"
            if arguments.len() == 1 && arguments[0].text == "--version" =>
        {
            return Some(Vec::new());
        }
        _ => {}
    }
    let (_, operands, list) = table::row(name)?;
    let call = options::call(list, arguments)?;
    let depth = match (name, call.deep) {
        ("rg", _) => {
            let all = ["-u", "-.", "--hidden", "--no-ignore", "--unrestricted"];
            match all.iter().any(|option| call.has(option)) {
                true => Depth::Whole,
                false => Depth::Visible,
            }
        }
        (_, true) => Depth::Whole,
        (_, false) => Depth::Names,
    };
    let mut touches: Vec<Touch> = call
        .reads
        .iter()
        .map(|path| touch(path, directory, false))
        .collect();
    let words = call.operands.iter().copied();
    let of = |words: Vec<&Word>, or_here: bool| -> Option<Vec<Touch>> {
        match words.is_empty() && or_here {
            true => Some(vec![here(depth)]),
            false => read_operands(words.into_iter(), directory, depth),
        }
    };
    touches.extend(match operands {
        Operands::Nothing => call.operands.is_empty().then(Vec::new)?,
        // `ps e` shows the variables of programs.
        Operands::Text
            if name == "ps"
                && !(words.clone())
                    .all(|word| matches!(word.text.as_str(), "aux" | "ax" | "auxww" | "auxf")) =>
        {
            return None;
        }
        Operands::Text => {
            let globs: Vec<&Word> = words.filter(|word| word.glob).collect();
            of(globs, false)?
        }
        Operands::Files => of(words.collect(), false)?,
        Operands::Places => of(words.collect(), true)?,
        Operands::Pattern => {
            let pattern = usize::from(!call.pattern);
            if call.operands.len() < pattern
                || call.operands.iter().take(pattern).any(|word| word.glob)
            {
                return None;
            }
            of(words.skip(pattern).collect(), name == "rg" || call.deep)?
        }
        Operands::One => match call.operands.len() {
            0 => Vec::new(),
            // Not every program takes options behind it.
            1 if arguments.last() == call.operands.first().copied() && !call.operands[0].glob => {
                of(words.collect(), false)?
            }
            _ => return None,
        },
        Operands::Format => call
            .operands
            .iter()
            .all(|word| word.text.starts_with('+') && !word.glob)
            .then(Vec::new)?,
        Operands::Filter => {
            let filter = call.operands.first()?;
            let loads = ["import", "include", "modulemeta", "search_list"];
            if filter.glob || loads.iter().any(|load| filter.text.contains(load)) {
                return None;
            }
            of(words.skip(1).collect(), false)?
        }
    });
    Some(touches)
}

fn looked_at_by_find(arguments: &[Word], directory: Option<&Path>) -> Option<Vec<Touch>> {
    if !find_looks(arguments) {
        return None;
    }
    let starts = arguments
        .iter()
        .take_while(|word| !word.text.starts_with(['-', '(', '!']));
    let mut touches = read_operands(starts, directory, Depth::Names)?;
    if touches.is_empty() {
        touches.push(touch(".", directory, false));
    }
    Some(touches)
}

fn read_operands<'w>(
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
fn read_operand(word: &Word, directory: Option<&Path>, depth: Depth) -> Option<Vec<Touch>> {
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

/// The paths that a pattern of file names stands for; itself where it finds nothing.
fn expanded(pattern: &str, from: &Path) -> Option<Vec<PathBuf>> {
    if pattern.contains(['[', '\\']) {
        return None;
    }
    let (mut found, parts) = match pattern.strip_prefix('/') {
        Some(rest) => (vec![PathBuf::from("/")], rest),
        None => (vec![PathBuf::new()], pattern),
    };
    for part in parts.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for base in &found {
            if !part.contains(['*', '?']) {
                next.push(base.join(part));
                continue;
            }
            let Ok(names) = std::fs::read_dir(from.join(base)) else {
                continue;
            };
            // Some shells find the directory above too.
            if part.starts_with('.') && matches_text(part, "..") {
                next.push(base.join(".."));
            }
            for entry in names {
                let name = entry.ok()?.file_name();
                let name = name.to_str()?;
                if name.starts_with('.') && !part.starts_with('.') {
                    continue;
                }
                if matches_text(part, name) {
                    next.push(base.join(name));
                }
                if next.len() > MOST_NAMES {
                    return None;
                }
            }
        }
        found = next;
    }
    found.retain(|path| from.join(path).symlink_metadata().is_ok());
    if found.is_empty() {
        found.push(pattern.into());
    }
    Some(found)
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

/// Whether `sed` prints lines and does nothing else: `sed -n '10,20p' FILE`.
fn prints_lines(arguments: &[Word]) -> bool {
    let mut others = arguments.iter().filter(|word| word.text != "-n");
    let script = others.next();
    let plain = script.is_some_and(|script| {
        let body = script.text.strip_suffix('p').unwrap_or("x");
        body.chars()
            .all(|character| character.is_ascii_digit() || matches!(character, ',' | '$'))
    });
    plain
        && arguments.iter().any(|word| word.text == "-n")
        && others.all(|word| !word.text.starts_with('-'))
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
