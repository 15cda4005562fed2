//! One command: what it is called by, what it runs in its turn, and what it touches.

use std::path::{Component, Path, PathBuf};

use super::found::Judged;
use super::known::{self, Class};
use super::marks::is_harmless_variable;
use super::script::{RELINKED, RENAMED, Reading};
use super::words::Word;
use super::wrappers::{self, Inner};
use super::{builtins, git, prefix};
use crate::place::tidy;

/// Where programs of the system lie: a name with one of these before it is that name.
const PROGRAM_DIRECTORIES: [&str; 5] = [
    "/bin/",
    "/usr/bin/",
    "/usr/local/bin/",
    "/sbin/",
    "/usr/sbin/",
];
/// Characters of a command that a rule would name.
const MOST_SHOWN: usize = 2_000;

/// A command as it stands: its words, and the variables that are set for it.
#[derive(Debug, Clone)]
pub(super) struct Simple {
    words: Vec<Word>,
    assignments: Vec<String>,
}

impl Simple {
    pub(super) fn new(words: Vec<Word>, assignments: Vec<String>) -> Self {
        Simple { words, assignments }
    }

    /// The name without the directory of the system's programs, where it is known.
    fn name(&self) -> Option<&str> {
        let first = self.words.first().filter(|word| word.known && !word.glob)?;
        let bare = PROGRAM_DIRECTORIES
            .iter()
            .find_map(|directory| first.text.strip_prefix(directory))
            .filter(|name| !name.contains('/'));
        Some(bare.unwrap_or(&first.text))
    }
}

/// Adds a command and everything that it runs to the script.
pub(super) fn judge(reading: &mut Reading<'_>, command: Simple) {
    let Some(first) = command.words.first() else {
        return;
    };
    let Some(name) = command.name().map(str::to_owned) else {
        let why = format!("it cannot be told which program `{}` is", first.text);
        reading.hidden(&why);
        add(reading, &command, "", false);
        return;
    };
    let arguments = &command.words[1..];
    let inner = wrappers::inner(&name, arguments);
    let wraps = matches!(
        inner,
        Inner::Command(_, true) | Inner::Line(_) | Inner::Plain(_) | Inner::Here(_)
    ) && command
        .assignments
        .iter()
        .all(|name| is_harmless_variable(name));
    add(reading, &command, &name, wraps);
    if name == "cd" {
        reading.moves += 1;
        reading.directory = destination(reading, arguments);
    }
    if matches!(name.as_str(), "chdir" | "pushd" | "popd" | "source" | ".") {
        reading.moves += 1;
        reading.directory = None;
    }
    match inner {
        Inner::Nothing => {}
        Inner::Hidden(why) => reading.hidden(why),
        Inner::Line(line) => reading.within(&line),
        Inner::Plain(line) => reading.within_plain(&line),
        Inner::Here(line) => {
            let directory = reading.directory.clone().filter(|_| name == "eval");
            reading.here(&line, directory);
        }
        Inner::Foreign(line) => {
            reading.hidden("it runs a command line of another shell");
            reading.apart(|reading| {
                reading.directory = None;
                reading.within(&line);
            });
        }
        Inner::Commands(commands) => {
            let elsewhere = arguments
                .iter()
                .any(|word| matches!(word.text.as_str(), "-execdir" | "-okdir"));
            for words in commands {
                reading.apart(|reading| {
                    if elsewhere {
                        reading.directory = None;
                    }
                    judge(reading, Simple::new(words, command.assignments.clone()));
                });
            }
        }
        Inner::Command(words, _) => {
            let set = match name.as_str() {
                "env" => wrappers::set_by_env(arguments).map(|(_, set)| set),
                _ => None,
            };
            let outer = command.assignments.into_iter();
            let inner = Simple::new(words, outer.chain(set.unwrap_or_default()).collect());
            match name.as_str() {
                "command" | "builtin" => judge(reading, inner),
                // A word of the shell, or a program beside it.
                "time" => {
                    let before = reading.moves;
                    judge(reading, inner);
                    if reading.moves != before {
                        reading.directory = None;
                    }
                }
                other => reading.apart(|reading| {
                    if matches!(other, "sudo" | "doas" | "chroot") {
                        reading.directory = None;
                    }
                    judge(reading, inner);
                }),
            }
        }
    }
}

/// The directory that `cd` leads to, where that is certain: it is there, and no link is on the way, for a shell goes
/// back from a link to where it came from and a program to where it leads.
fn destination(reading: &Reading<'_>, arguments: &[Word]) -> Option<PathBuf> {
    let mut targets = arguments.iter().filter(|word| word.text != "--");
    let text = match (targets.next(), targets.next()) {
        (None, _) => reading.ground.home?.to_str()?,
        (Some(word), None) if word.known && !word.glob && !word.text.starts_with('-') => &word.text,
        _ => return None,
    };
    if reading.renamed || reading.relinked || text.is_empty() {
        return None;
    }
    let from = reading.directory.as_deref()?;
    let target = from.join(text);
    let plain = !target.components().any(|part| part == Component::ParentDir);
    let real = target.canonicalize().ok()?;
    let expected = match plain && Path::new(text).is_relative() {
        true => from.canonicalize().ok()?.join(text),
        false => tidy(&target),
    };
    let certain = real == tidy(&expected)
        && (plain || from.canonicalize().is_ok_and(|real| real == from))
        && real.is_dir()
        && rustix::fs::access(&real, rustix::fs::Access::EXEC_OK).is_ok();
    certain.then(|| match plain {
        true => tidy(&target),
        false => real,
    })
}

fn add(reading: &mut Reading<'_>, command: &Simple, name: &str, wraps: bool) {
    let arguments = &command.words[1..];
    let shown = |words: &[Word]| -> String {
        let words: Vec<String> = words.iter().map(Word::shown).collect();
        words.join(" ")
    };
    let plain = shown(&command.words);
    let risky: Vec<&String> = command
        .assignments
        .iter()
        .filter(|name| !is_harmless_variable(name))
        .collect();
    let text = match risky.as_slice() {
        [] => plain.clone(),
        risky => {
            let set: Vec<String> = risky.iter().map(|name| format!("{name}=…")).collect();
            format!("{} {plain}", set.join(" "))
        }
    };
    let base = name.rsplit('/').next().unwrap_or(name);
    let mut forms = vec![
        plain,
        format!("{base} {}", shown(arguments)).trim().to_owned(),
    ];
    if base == "git" {
        forms.push(format!("git {}", shown(git::without_options(arguments))));
        // An option that is not known may take the next word.
        let options = arguments
            .iter()
            .take_while(|word| word.text.starts_with('-'))
            .count();
        let suffixes = (1..(options * 2 + 1).min(arguments.len())).filter(|_| options > 0);
        forms.extend(suffixes.map(|at| format!("git {}", shown(&arguments[at..]))));
    }
    let bare: Vec<&str> = command
        .words
        .iter()
        .map(|word| word.text.as_str())
        .collect();
    forms.push(bare.join(" "));
    forms.retain(|form| *form != text);
    forms.dedup();
    let directory = reading.directory.clone();
    let directory = directory.as_deref();
    let builtin = builtins::known(name, arguments);
    if builtin == Some(false) {
        reading.hidden(&format!(
            "`{name}` may run something, or change what names mean"
        ));
        reading.renamed = true;
    }
    let (mut class, mut touches) = match builtin {
        _ if !risky.is_empty() || reading.renamed => (Class::Unknown, Vec::new()),
        Some(true) => known::of_builtin(name, arguments, directory),
        Some(false) => (Class::Unknown, Vec::new()),
        None => known::class(name, arguments, directory),
    };
    if class != Class::Unknown
        && name == "git"
        && !git::is_own(directory, reading.ground.session, reading.changed)
    {
        reading.hidden(
            "it may be a repository that came with other files, and git runs what that says",
        );
        class = Class::Unknown;
    }
    let globs = command.words.iter().any(|word| word.glob);
    reading.patterns |= globs;
    if globs && reading.changed {
        reading.hidden(RENAMED);
    }
    let mut within = Vec::new();
    if class == Class::Unknown {
        let given: Vec<Word> = arguments.iter().chain(&reading.fed).cloned().collect();
        touches = known::paths(name, &given, directory);
        within = may_run(arguments);
    } else if reading.relinked && !touches.is_empty() {
        reading.hidden(RELINKED);
    }
    reading.changed |= touches.iter().any(|touch| touch.changes);
    if class == Class::Files || touches.iter().any(|touch| touch.changes) {
        reading.altered |= matches!(name, "rm" | "rmdir" | "mv" | "git");
        reading.relinked |= name == "ln"
            || (matches!(name, "mv" | "cp" | "git") && known::may_move_links(&touches));
    }
    let prefix = if risky.is_empty() && !reading.renamed {
        prefix::prefix(&command.words)
    } else {
        Vec::new()
    };
    // Names of files come from elsewhere.
    let lists = |word: &Word| word.text.starts_with('-') && word.text.contains("from");
    let open = (command.words.iter())
        .any(|word| !known::is_told(word, directory) || (class == Class::Unknown && lists(word)));
    let told = risky.is_empty() && command.words.iter().all(|word| word.known && !word.glob);
    let cut: String = text.chars().take(MOST_SHOWN).collect();
    if cut.len() < text.len() {
        reading.hidden("it holds a command that is too long to be judged");
    }
    reading.script.commands.push(Judged {
        text: cut,
        forms,
        wraps,
        class,
        touches,
        told,
        open,
        prefix,
        directory: directory.map(Path::to_owned),
        anywhere: means_the_same_anywhere(&command.words),
        within,
    });
}

/// Programs that work where they stand, whatever they name.
const WORK_HERE: &[&str] = &[
    "7z", "aria2c", "bash", "bsdtar", "bun", "bunzip2", "bzip2", "cargo", "cmake", "cpio",
    "csplit", "dash", "deno", "gcc", "g++", "cc", "clang", "git", "go", "gunzip", "gzip", "java",
    "make", "ninja", "node", "npm", "npx", "perl", "pip", "pip3", "pnpm", "python", "python3",
    "ruby", "rustc", "sh", "split", "tar", "unar", "unzip", "wget", "xz", "yarn", "zip", "zsh",
];

/// Whether a command names files, or other machines, and each in full, and writes nothing where it stands.
fn means_the_same_anywhere(words: &[Word]) -> bool {
    let Some((name, arguments)) = words.split_first() else {
        return false;
    };
    let program = name.text.rsplit('/').next().unwrap_or_default();
    if WORK_HERE.contains(&program) {
        return false;
    }
    // `curl -O URL` names its file after the other machine's.
    let saves = |word: &Word| match word.text.strip_prefix("--") {
        Some(option) => option.starts_with("remote") || option.starts_with("output"),
        None => word.text.starts_with('-') && word.text.contains(['O', 'J', 'o']),
    };
    if program == "curl" && arguments.iter().any(saves) {
        return false;
    }
    let in_full = |word: &&Word| word.text.starts_with('/') || word.text.contains("://");
    let is_option =
        |word: &Word| word.text.starts_with('-') && !word.text.contains(['=', '/', '.', ':']);
    let named: Vec<&Word> = arguments.iter().filter(|word| !is_option(word)).collect();
    let by_name = !name.text.contains('/') || name.text.starts_with('/');
    by_name && !named.is_empty() && named.iter().all(in_full)
}

/// Every command that the words of one may be, of which nothing is known: each word with those behind it, and likewise
/// within a word.
fn may_run(arguments: &[Word]) -> Vec<String> {
    /// Words looked at.
    const MOST: usize = 40;
    let bare = |text: &str| text.rsplit('/').next().unwrap_or(text).to_owned();
    let suffixes = |words: Vec<String>| -> Vec<String> {
        let suffix = |at: usize| match &words[at..] {
            [first, rest @ ..] => [&[bare(first)], rest].concat().join(" "),
            [] => String::new(),
        };
        (0..words.len().min(MOST)).map(suffix).collect()
    };
    let mut found = suffixes(arguments.iter().map(Word::shown).collect());
    let separates = |one: char| one.is_whitespace() || ";&|(){}`'\"".contains(one);
    for word in arguments
        .iter()
        .take(MOST)
        .filter(|word| word.text.contains(separates))
    {
        let words = word.text.split(separates).filter(|word| !word.is_empty());
        found.extend(suffixes(words.map(str::to_owned).collect()));
    }
    found
}
