//! One command: what it is called by, what it runs in its turn, and what it touches.

use std::path::PathBuf;

use super::git;
use super::known::{self, Class};
use super::marks::is_harmless_variable;
use super::script::{Judged, Reading};
use super::words::Word;

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

/// What a command runs in its turn.
enum Inner {
    /// Nothing.
    Nothing,
    /// Another command, of these words; whether running it is all that this one does.
    Command(Vec<Word>, bool),
    /// A command line.
    Line(String),
    /// Something that cannot be told.
    Hidden(&'static str),
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
    let inner = inner(&name, arguments);
    let wraps = matches!(inner, Inner::Command(_, true) | Inner::Line(_))
        && command
            .assignments
            .iter()
            .all(|name| is_harmless_variable(name));
    add(reading, &command, &name, wraps);
    if matches!(name.as_str(), "cd" | "chdir" | "pushd" | "popd") {
        reading.directory = (name == "cd")
            .then(|| destination(reading, arguments))
            .flatten();
    }
    match inner {
        Inner::Nothing => {}
        Inner::Hidden(why) => reading.hidden(why),
        Inner::Line(line) => reading.within(&line),
        Inner::Command(words, _) => {
            let assignments = match name.as_str() {
                "env" => set_by_env(arguments),
                _ => Vec::new(),
            };
            let outer = command.assignments.into_iter();
            judge(
                reading,
                Simple::new(words, outer.chain(assignments).collect()),
            );
        }
    }
}

/// The directory that `cd` leads to, where it is there.
fn destination(reading: &Reading<'_>, arguments: &[Word]) -> Option<PathBuf> {
    let mut targets = arguments
        .iter()
        .filter(|word| !matches!(word.text.as_str(), "--" | "-P" | "-L"));
    let target = match (targets.next(), targets.next()) {
        (None, _) => reading.home?.to_owned(),
        (Some(word), None) if word.known && !word.glob && !word.text.starts_with('-') => {
            reading.directory.as_ref()?.join(&word.text)
        }
        _ => return None,
    };
    target.is_dir().then_some(target)
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
    }
    forms.retain(|form| *form != text);
    forms.dedup();
    let (class, mut touches) = if risky.is_empty() && !reading.renamed {
        known::class(name, arguments, reading.directory.as_deref())
    } else {
        (Class::Unknown, Vec::new())
    };
    if class == Class::Unknown {
        touches = known::paths(arguments, reading.directory.as_deref());
    }
    let prefix = if risky.is_empty() {
        known::prefix(&command.words)
    } else {
        Vec::new()
    };
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
        prefix,
    });
}

/// What a command runs in its turn.
fn inner(name: &str, arguments: &[Word]) -> Inner {
    let rest = |from: usize, only: bool| match arguments.get(from..) {
        Some(words) if !words.is_empty() => Inner::Command(words.to_vec(), only),
        _ => Inner::Nothing,
    };
    match name {
        "bash" | "sh" | "zsh" | "dash" | "ksh" | "ash" => line_of_shell(arguments),
        "eval" => match arguments.iter().all(|word| word.known && !word.glob) {
            true if arguments.is_empty() => Inner::Nothing,
            true => Inner::Line(
                arguments
                    .iter()
                    .map(|word| word.text.as_str())
                    .collect::<Vec<_>>()
                    .join(" "),
            ),
            false => Inner::Hidden("it cannot be told what `eval` runs"),
        },
        "trap" => match arguments.first() {
            Some(word) if word.text.starts_with('-') || arguments.len() < 2 => Inner::Nothing,
            Some(word) if word.known => Inner::Line(word.text.clone()),
            Some(_) => Inner::Hidden("it cannot be told what `trap` runs"),
            None => Inner::Nothing,
        },
        "command" | "builtin" | "exec" | "nohup" | "time" | "setsid" | "coproc" => {
            let at = skip_options(arguments, &["-a"]);
            let asks = name == "command"
                && arguments[..at]
                    .iter()
                    .any(|word| word.text.contains(['v', 'V']));
            match asks {
                true => Inner::Nothing,
                false => rest(at, true),
            }
        }
        "nice" => rest(skip_options(arguments, &["-n", "--adjustment"]), true),
        "ionice" => rest(
            skip_options(arguments, &["-c", "-n", "-p", "--class", "--classdata"]),
            true,
        ),
        "stdbuf" => rest(
            skip_options(
                arguments,
                &["-i", "-o", "-e", "--input", "--output", "--error"],
            ),
            true,
        ),
        "timeout" => rest(
            skip_options(arguments, &["-k", "-s", "--kill-after", "--signal"]) + 1,
            true,
        ),
        "env" => {
            if arguments
                .iter()
                .any(|word| word.text.starts_with("-S") || word.text.starts_with("--split-string"))
            {
                return Inner::Hidden("it cannot be told what `env -S` runs");
            }
            let mut at = skip_options(arguments, &["-u", "-C", "--unset", "--chdir"]);
            let moves = arguments[..at]
                .iter()
                .any(|word| word.text.starts_with("-C") || word.text.starts_with("--chdir"));
            while arguments
                .get(at)
                .is_some_and(|word| word.text.contains('='))
            {
                at += 1;
            }
            rest(at, !moves)
        }
        "sudo" | "doas" => {
            let with_value = [
                "-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U", "-r", "-t", "--user",
                "--group", "--chdir",
            ];
            let mut at = skip_options(arguments, &with_value);
            while arguments
                .get(at)
                .is_some_and(|word| word.text.contains('='))
            {
                at += 1;
            }
            rest(at, false)
        }
        "xargs" => {
            let with_value = [
                "-a",
                "-d",
                "-E",
                "-I",
                "-L",
                "-n",
                "-P",
                "-s",
                "--arg-file",
                "--delimiter",
                "--max-args",
                "--max-procs",
                "--max-lines",
                "--replace",
            ];
            let at = skip_options(arguments, &with_value);
            let replaces = arguments[..at].iter().any(|word| {
                ["-I", "-i", "--replace"]
                    .iter()
                    .any(|option| word.text.starts_with(option))
            });
            match rest(at, false) {
                Inner::Command(mut words, _) => {
                    // Any of them may hold what stands for the input.
                    for word in words.iter_mut().skip(1).filter(|_| replaces) {
                        *word = Word::unknown(word.text.clone());
                    }
                    words.push(Word::unknown("…"));
                    Inner::Command(words, true)
                }
                other => other,
            }
        }
        "find" | "fd" => run_by_find(name, arguments),
        _ => Inner::Nothing,
    }
}

/// Past the options, of which `with_value` take the next word where they stand alone.
fn skip_options(arguments: &[Word], with_value: &[&str]) -> usize {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        match word.text.as_str() {
            "--" => return at + 1,
            text if with_value.contains(&text) => at += 2,
            text if text.starts_with('-') && text.len() > 1 => at += 1,
            _ => break,
        }
    }
    at.min(arguments.len())
}

fn set_by_env(arguments: &[Word]) -> Vec<String> {
    let at = skip_options(arguments, &["-u", "-C", "--unset", "--chdir"]);
    let set = arguments[at..]
        .iter()
        .map_while(|word| word.text.split_once('='));
    set.map(|(name, _)| name.to_owned()).collect()
}

fn line_of_shell(arguments: &[Word]) -> Inner {
    let takes_line = |word: &&Word| {
        let text = word.text.as_str();
        text.starts_with('-') && !text.starts_with("--") && text.contains('c')
    };
    let options = arguments
        .iter()
        .take_while(|word| word.text.starts_with(['-', '+']))
        .count();
    if arguments[..options].iter().any(|word| !word.known) {
        return Inner::Hidden("it cannot be told what the shell runs");
    }
    if !arguments[..options].iter().any(|word| takes_line(&word)) {
        return Inner::Nothing;
    }
    match arguments.get(options) {
        Some(line) if line.known && !line.glob => Inner::Line(line.text.clone()),
        _ => Inner::Hidden("it cannot be told what the shell runs"),
    }
}

fn run_by_find(name: &str, arguments: &[Word]) -> Inner {
    let runs: &[&str] = match name {
        "find" => &["-exec", "-execdir", "-ok", "-okdir"],
        _ => &["-x", "-X", "--exec", "--exec-batch"],
    };
    let mut at = arguments
        .iter()
        .enumerate()
        .filter(|(_, word)| runs.contains(&word.text.as_str()))
        .map(|(at, _)| at);
    match (at.next(), at.next()) {
        (None, _) => Inner::Nothing,
        (Some(_), Some(_)) => Inner::Hidden("it runs several commands for what it finds"),
        (Some(at), None) => {
            let words = arguments[at + 1..].iter();
            let words = words.take_while(|word| !matches!(word.text.as_str(), ";" | "+"));
            let words: Vec<Word> = words
                .map(|word| match word.text.contains("{}") {
                    true => Word::unknown(word.text.clone()),
                    false => word.clone(),
                })
                .collect();
            match words.is_empty() {
                true => Inner::Hidden("it cannot be told what `find` runs"),
                false => Inner::Command(words, false),
            }
        }
    }
}
