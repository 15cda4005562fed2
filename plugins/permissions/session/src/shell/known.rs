//! What is known of common commands: which only look, which change the files that they name, and which build and
//! test the project.

use std::path::{Path, PathBuf};

use super::git;
use super::script::Touch;
use super::words::Word;
use crate::pattern::matches_text;

/// Names that a file name pattern may stand for; more are not judged one by one.
const MOST_NAMES: usize = 2_000;
/// Words of a command that "its like" may share with it.
const MOST_PREFIX: usize = 3;

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
    let unknown = (Class::Unknown, Vec::new());
    if arguments.iter().any(|word| !word.known) {
        return unknown;
    }
    let has = |options: &[&str]| {
        arguments.iter().any(|word| {
            options
                .iter()
                .any(|option| word.text == *option || word.text.starts_with(&format!("{option}=")))
        })
    };
    // A short option may stand among others in one word.
    let has_letter = |letter: char| {
        arguments.iter().any(|word| {
            word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains(letter)
        })
    };
    let looks = match name {
        "echo" | "printf" | "true" | "false" | ":" | "test" | "[" | "sleep" | "seq" | "exit"
        | "return" | "break" | "continue" | "shift" | "wait" | "pwd" | "whoami" | "id"
        | "uname" | "hostname" | "nproc" | "arch" | "which" | "type" | "whereis" | "basename"
        | "dirname" | "expr" | "read" | "local" | "declare" | "typeset" | "export" | "readonly"
        | "unset" | "let" | "set" | "trap" | "command" | "eval" | "jobs" | "uptime" | "free"
        | "groups" | "getconf" | "locale" | "tput" | "cal" => {
            name != "hostname" || arguments.is_empty()
        }
        "env" | "printenv" => name == "printenv" || arguments.is_empty(),
        "date" => !has(&["-s", "--set"]) && !has_letter('s'),
        "cd" | "ls" | "dir" | "cat" | "head" | "tail" | "wc" | "nl" | "tac" | "rev" | "cut"
        | "tr" | "fold" | "paste" | "join" | "comm" | "cmp" | "diff" | "stat" | "file" | "du"
        | "df" | "realpath" | "readlink" | "md5sum" | "sha1sum" | "sha256sum" | "cksum"
        | "strings" | "hexdump" | "od" | "column" | "expand" | "grep" | "egrep" | "fgrep"
        | "jq" | "lsof" | "ps" | "pgrep" | "zcat" | "zgrep" | "pushd" | "popd" | "dirs"
        | "size" | "nm" | "cloc" | "tokei" => {
            !(has(&["--dereference-recursive"]) || (name.ends_with("grep") && has_letter('R')))
        }
        "sort" => !has(&["-o", "--output", "--compress-program"]) && !has_letter('o'),
        "uniq" => {
            arguments
                .iter()
                .filter(|word| !word.text.starts_with('-'))
                .count()
                < 2
        }
        "xxd" => {
            !has_letter('r')
                && arguments
                    .iter()
                    .filter(|word| !word.text.starts_with('-'))
                    .count()
                    < 2
        }
        "tree" => !has(&["-o", "-R"]),
        "rg" => {
            !has(&[
                "--pre",
                "--hostname-bin",
                "-z",
                "--search-zip",
                "-L",
                "--follow",
            ]) && !has_letter('z')
                && !has_letter('L')
        }
        "find" => {
            let writes = [
                "-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-follow", "-L", "-H",
            ];
            !has(&writes)
        }
        "sed" => prints_lines(arguments),
        "git" => git::only_looks(arguments),
        "cargo" | "rustc" | "node" | "npm" | "go" | "python" | "python3" | "ruby" | "java"
        | "gcc" | "clang" | "make" | "cmake" | "rustup" | "deno" | "bun" | "yarn" | "pnpm"
        | "docker" | "bash"
            if arguments.len() == 1
                && matches!(arguments[0].text.as_str(), "--version" | "-V" | "version") =>
        {
            true
        }
        _ => false,
    };
    if looks {
        let by_text = matches!(
            name,
            "echo" | "printf" | "export" | "declare" | "local" | "tr"
        );
        let Some(mut touches) = read_by(arguments, directory, by_text) else {
            return unknown;
        };
        if matches!(
            name,
            "ls" | "dir" | "find" | "grep" | "rg" | "tree" | "du" | "git"
        ) {
            touches.push(touch(".", directory, false));
        }
        return (Class::Looks, touches);
    }
    if let Some(touches) = changed_by(name, arguments, directory, &has_letter) {
        return (Class::Files, touches);
    }
    if builds(name, arguments) {
        return (Class::Project, paths(arguments, directory));
    }
    unknown
}

fn touch(path: &str, directory: Option<&Path>, changes: bool) -> Touch {
    Touch {
        path: path.into(),
        from: directory.map(Path::to_owned),
        changes,
    }
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

/// Every path among the arguments, for rules against it. What does not exist is none.
pub(super) fn paths(arguments: &[Word], directory: Option<&Path>) -> Vec<Touch> {
    let Some(from) = directory else {
        return Vec::new();
    };
    let known = arguments.iter().filter(|word| word.known && !word.glob);
    let paths = known.filter_map(path_in);
    paths
        .filter(|path| from.join(path).symlink_metadata().is_ok())
        .map(|path| touch(path, directory, false))
        .collect()
}

/// What a command that looks reads: each argument that is the path of something. `None` where that cannot be
/// told. An argument that names nothing is a pattern or a number and reads nothing.
fn read_by(arguments: &[Word], directory: Option<&Path>, by_text: bool) -> Option<Vec<Touch>> {
    if by_text && !arguments.iter().any(|word| word.glob) {
        return Some(Vec::new());
    }
    let from = match directory {
        Some(from) => from,
        None if arguments.iter().all(|word| path_in(word).is_none()) => return Some(Vec::new()),
        None => return None,
    };
    let mut touches = Vec::new();
    for word in arguments {
        let Some(path) = path_in(word) else { continue };
        if word.glob {
            for name in expanded(path, from)? {
                touches.push(touch(name.to_str()?, directory, false));
            }
        } else if from.join(path).symlink_metadata().is_ok() {
            touches.push(touch(path, directory, false));
        }
    }
    Some(touches)
}

/// The paths that a pattern of file names stands for, where only its last name is one.
fn expanded(path: &str, from: &Path) -> Option<Vec<PathBuf>> {
    let (base, pattern) = path.rsplit_once('/').unwrap_or((".", path));
    if base.contains(['*', '?', '[']) || pattern.contains('[') {
        return None;
    }
    let base = if base.is_empty() { "/" } else { base };
    let mut found = Vec::new();
    let Ok(names) = std::fs::read_dir(from.join(base)) else {
        return Some(found);
    };
    for entry in names {
        let name = entry.ok()?.file_name();
        let name = name.to_str()?;
        if name.starts_with('.') && !pattern.starts_with('.') {
            continue;
        }
        if matches_text(pattern, name) {
            found.push(Path::new(base).join(name));
        }
        if found.len() > MOST_NAMES {
            return None;
        }
    }
    Some(found)
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
fn changed_by(
    name: &str,
    arguments: &[Word],
    directory: Option<&Path>,
    has_letter: &impl Fn(char) -> bool,
) -> Option<Vec<Touch>> {
    // Whatever one of these options brings about is not just the files that are named.
    let plain = arguments.iter().all(|word| {
        !word.text.starts_with("--")
            || matches!(
                word.text.as_str(),
                "--" | "--parents" | "--verbose" | "--force" | "--no-clobber" | "--append"
            )
    });
    let takes = match name {
        "mkdir" | "touch" | "cp" | "mv" | "tee" | "rmdir" => true,
        "rm" | "unlink" => !has_letter('r') && !has_letter('R'),
        // The other end of a link is what one writes through it.
        "ln" => has_letter('s'),
        _ => false,
    };
    if !takes || !plain || directory.is_none() {
        return None;
    }
    let named = arguments
        .iter()
        .filter(|word| !word.text.starts_with('-') || word.text == "-")
        .map(|word| (!word.glob).then(|| touch(&word.text, directory, true)));
    let mut touches: Vec<Touch> = named.collect::<Option<_>>()?;
    // `-t DIR` and the like: the value of an option is a path too.
    touches.extend(
        arguments
            .iter()
            .filter(|word| word.text.starts_with('-') && !word.text.starts_with("--"))
            .filter_map(path_in)
            .map(|path| touch(path, directory, true)),
    );
    if name == "cp" {
        // Copying reads all but the last; reading is judged like reading.
        let last = touches.len().saturating_sub(1);
        for source in touches.iter_mut().take(last) {
            source.changes = false;
        }
        let target = touches.last()?.clone();
        touches.push(target);
    }
    (!touches.is_empty()).then_some(touches)
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

/// The words that name what a command does, so that a rule can cover its like: `cargo test`, `git push`, `npm run
/// build`. Empty where nothing but this very command may be covered.
pub(super) fn prefix(words: &[Word]) -> Vec<String> {
    let plain = |word: &&Word| {
        word.known
            && !word.glob
            && !word.text.starts_with('-')
            && !word.text.is_empty()
            && word
                .text
                .chars()
                .all(|character| character.is_ascii_alphanumeric() || "-_.:+".contains(character))
    };
    let Some(name) = words.first().filter(plain) else {
        return Vec::new();
    };
    // These run or change whatever their arguments say: their like is anything.
    const BROAD: [&str; 50] = [
        "rm", "sudo", "doas", "bash", "sh", "zsh", "dash", "ksh", "fish", "eval", "exec", "env",
        "xargs", "find", "python", "python3", "node", "ruby", "perl", "php", "lua", "deno", "awk",
        "gawk", "sed", "ssh", "scp", "rsync", "curl", "wget", "nc", "dd", "chmod", "chown", "kill",
        "killall", "pkill", "mkfs", "mount", "umount", "source", ".", "command", "nohup", "time",
        "timeout", "watch", "parallel", "su", "crontab",
    ];
    if BROAD.contains(&name.text.as_str()) {
        return Vec::new();
    }
    let length = match name.text.as_str() {
        "npm" | "pnpm" | "yarn" | "bun"
            if words
                .get(1)
                .is_some_and(|word| matches!(word.text.as_str(), "run" | "exec")) =>
        {
            MOST_PREFIX
        }
        "docker" | "kubectl" | "gh" | "aws" | "gcloud" => MOST_PREFIX,
        "git" | "cargo" | "go" | "npm" | "pnpm" | "yarn" | "bun" | "make" | "pip" | "pip3"
        | "uv" | "poetry" | "brew" | "apt" | "apt-get" | "dnf" | "systemctl" | "rustup"
        | "terraform" | "helm" | "just" | "dotnet" | "mvn" | "gradle" | "bundle" | "rake"
        | "mix" => 2,
        _ => 1,
    };
    let prefix: Vec<String> = words
        .iter()
        .take(length)
        .take_while(plain)
        .map(|word| word.text.clone())
        .collect();
    match prefix.len() == length {
        true => prefix,
        false => Vec::new(),
    }
}
