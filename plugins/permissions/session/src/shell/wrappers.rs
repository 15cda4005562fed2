//! Commands that run others: which, as far as their words say.

use super::options;
use super::strict::is_name;
use super::words::Word;

/// What a command runs in its turn.
pub(super) enum Inner {
    /// Nothing.
    Nothing,
    /// Another command, of these words; whether running it is all that this one does.
    Command(Vec<Word>, bool),
    /// Several, beside what it does itself.
    Commands(Vec<Vec<Word>>),
    /// A command line, in a shell of its own.
    Line(String),
    /// The same for a shell that is not bash and near to it.
    Plain(String),
    /// A command line that this shell reads.
    Here(String),
    /// A command line, and yet it cannot be told what it comes to.
    Foreign(String),
    /// Something that cannot be told.
    Hidden(&'static str),
}

const HIDDEN: &str = "it runs something that cannot be told";

/// What runs the words behind its options: its options, how many words stand before the command, and whether running
/// it is all that it does.
const WRAPPERS: &[(&str, &str, usize, bool)] = &[
    ("nohup", "", 0, true),
    // What it runs is in no group of the session's processes any more.
    ("setsid", "-c -f -w --ctty --fork --wait", 0, false),
    ("time", "-p", 0, true),
    ("exec", "", 0, true),
    ("builtin", "", 0, true),
    ("nice", "-n:t --adjustment:t -#", 0, true),
    ("ionice", "-c:t -n:t -t --class:t --classdata:t", 0, true),
    (
        "chrt",
        "-b -f -i -o -r --batch --fifo --idle --other --rr",
        1,
        false,
    ),
    ("taskset", "-c", 1, false),
    (
        "stdbuf",
        "-i:t -o:t -e:t --input:t --output:t --error:t",
        0,
        true,
    ),
    (
        "timeout",
        "-k:t -s:t -v --kill-after:t --signal:t --foreground --preserve-status --verbose",
        1,
        true,
    ),
    (
        "flock",
        "-s -x -e -n -w:t -E:t -o -F --shared --exclusive --nonblock --timeout:t",
        1,
        false,
    ),
    (
        "strace",
        "-f -ff -c -q -qq -tt -t -T -v -y -i -r -e:t -s:t -o:t -P:t -E:t -u:t",
        0,
        false,
    ),
    ("ltrace", "-f -c -S -e:t -o:t -s:t", 0, false),
    ("unshare", "", 0, false),
    (
        "sudo",
        "-n -E -H -A -b -k -K -S -P -B -N -u:t -g:t -h:t -p:t -C:t -D:t -R:t -T:t -U:t -r:t -t:t --user:t --group:t \
        --chdir:t --preserve-env? --non-interactive --set-home",
        0,
        false,
    ),
    ("doas", "-n -u:t -C:t", 0, false),
    ("chroot", "--userspec:t", 1, false),
    ("catchsegv", "", 0, false),
    ("linux64", "", 0, false),
    ("setarch", "-R", 1, false),
    ("x86_64", "-R", 0, false),
    ("i386", "-R", 0, false),
    ("linux32", "-R", 0, false),
    ("choom", "-n:t -p:t --adjust:t", 0, false),
    ("runuser", "", 0, false),
    ("busybox", "", 0, false),
    ("toybox", "", 0, false),
    ("fakeroot", "", 0, false),
    ("dbus-run-session", "", 0, false),
    (
        "systemd-run",
        "--user --scope -q --quiet -t --wait --pipe -P",
        0,
        false,
    ),
    ("xvfb-run", "-a", 0, false),
];

/// What a command runs in its turn.
pub(super) fn inner(name: &str, arguments: &[Word]) -> Inner {
    if let Some((_, list, before, only)) = WRAPPERS.iter().find(|(other, ..)| *other == name) {
        return match options::leading(list, arguments) {
            // What stands before the command is said as it is, or it may be several words, and run others.
            Some(at)
                if arguments[at..]
                    .iter()
                    .take(*before)
                    .any(|word| !word.known || word.glob || !word.single) =>
            {
                Inner::Hidden(HIDDEN)
            }
            Some(at) => match arguments.get(at + before + settings(name, &arguments[at..])..) {
                Some([option, line, ..]) if matches!(option.text.as_str(), "-c" | "--command") => {
                    match line.known && !line.glob {
                        true => Inner::Foreign(line.text.clone()),
                        false => Inner::Hidden(HIDDEN),
                    }
                }
                Some(words) if !words.is_empty() => Inner::Command(words.to_vec(), *only),
                _ => Inner::Nothing,
            },
            None => Inner::Hidden(HIDDEN),
        };
    }
    match name {
        "bash" => line_of_shell(arguments),
        "sh" | "dash" | "ash" => match line_of_shell(arguments) {
            Inner::Line(line) => Inner::Plain(line),
            other => other,
        },
        "zsh" | "ksh" | "fish" | "mksh" | "csh" | "tcsh" => match line_of_shell(arguments) {
            Inner::Line(line) => Inner::Foreign(line),
            Inner::Nothing => Inner::Nothing,
            _ => Inner::Hidden(HIDDEN),
        },
        "eval" => match arguments.iter().all(|word| word.known && !word.glob) {
            true if arguments.is_empty() => Inner::Nothing,
            true => Inner::Here(
                arguments
                    .iter()
                    .map(|word| word.text.as_str())
                    .collect::<Vec<_>>()
                    .join(" "),
            ),
            false => Inner::Hidden("it cannot be told what `eval` runs"),
        },
        "trap" => match arguments {
            [action, _, ..] if action.known && !action.glob && !action.text.starts_with('-') => {
                Inner::Here(action.text.clone())
            }
            [] => Inner::Nothing,
            _ => Inner::Hidden("it cannot be told what `trap` runs"),
        },
        "command" => match arguments {
            [option, names @ ..] if matches!(option.text.as_str(), "-v" | "-V") => {
                match names.iter().all(|word| word.known && !word.glob) {
                    true => Inner::Nothing,
                    false => Inner::Hidden(HIDDEN),
                }
            }
            _ => match options::leading("-p", arguments) {
                Some(at) if at < arguments.len() => Inner::Command(arguments[at..].to_vec(), true),
                Some(_) => Inner::Nothing,
                None => Inner::Hidden(HIDDEN),
            },
        },
        "env" => run_by_env(arguments),
        "xargs" => run_by_xargs(arguments),
        "find" | "fd" | "fdfind" => run_by_find(name, arguments),
        "su" | "script" => {
            let at = arguments
                .iter()
                .position(|word| matches!(word.text.as_str(), "-c" | "--command"));
            match at.and_then(|at| arguments.get(at + 1)) {
                Some(line) if line.known && !line.glob => Inner::Foreign(line.text.clone()),
                _ => Inner::Hidden(HIDDEN),
            }
        }
        "git" => {
            // An alias that begins with `!`, and other settings that are programs.
            let sets = arguments
                .iter()
                .take_while(|word| {
                    word.known && (word.text.starts_with('-') || word.text.contains('='))
                })
                .any(|word| {
                    ["-c", "--config-env", "--exec-path"]
                        .iter()
                        .any(|option| word.text.starts_with(option))
                });
            match sets {
                true => Inner::Hidden("it sets what git runs"),
                false => Inner::Nothing,
            }
        }
        "parallel" | "entr" | "watch" | "coproc" | "firejail" | "bwrap" | "nsenter" | "sg"
        | "expect" => Inner::Hidden(HIDDEN),
        _ => Inner::Nothing,
    }
}

/// How many words set variables before the command, where a program takes that.
fn settings(name: &str, words: &[Word]) -> usize {
    match name {
        "sudo" | "doas" => words
            .iter()
            .take_while(|word| word.text.contains('='))
            .count(),
        _ => 0,
    }
}

/// `env` with the options that only take away, and what it sets.
pub(super) fn set_by_env(arguments: &[Word]) -> Option<(usize, Vec<String>)> {
    let mut at = 0;
    let mut set = Vec::new();
    while let Some(word) = arguments.get(at).filter(|word| word.known) {
        match word.text.as_str() {
            "-i" | "-" | "--ignore-environment" => at += 1,
            "-u" | "--unset" => {
                set.push(arguments.get(at + 1)?.text.clone());
                at += 2;
            }
            text if text.starts_with('-') => return None,
            _ => break,
        }
    }
    while let Some(word) = arguments.get(at) {
        let Some((name, _)) = word.text.split_once('=') else {
            break;
        };
        // Of several words the ones behind the first would be what it runs.
        if !word.single || word.glob || !is_name(name) {
            return None;
        }
        set.push(name.to_owned());
        at += 1;
    }
    Some((at, set))
}

fn run_by_env(arguments: &[Word]) -> Inner {
    match set_by_env(arguments) {
        None => Inner::Hidden("it cannot be told what `env` runs"),
        Some((at, _)) if at < arguments.len() => Inner::Command(arguments[at..].to_vec(), true),
        Some(_) => Inner::Nothing,
    }
}

fn run_by_xargs(arguments: &[Word]) -> Inner {
    const LIST: &str = "-0 -r -t -p -x -o -a:t -d:t -E:t -I:t -L:t -n:t -P:t -s:t --null --no-run-if-empty --verbose \
        --arg-file:t --delimiter:t --max-args:t --max-procs:t --max-lines? --replace? --max-chars:t --exit";
    let Some(at) = options::leading(LIST, arguments) else {
        return Inner::Hidden("it cannot be told what `xargs` runs");
    };
    let replaces = arguments[..at].iter().any(|word| {
        ["-I", "--replace"]
            .iter()
            .any(|option| word.text.starts_with(option))
    });
    let mut words = arguments[at..].to_vec();
    if words.is_empty() {
        return Inner::Nothing;
    }
    // Any of them may hold what stands for the input.
    for word in words.iter_mut().skip(1).filter(|_| replaces) {
        *word = Word::unknown(word.text.clone());
    }
    words.push(Word::unknown("…"));
    Inner::Command(words, true)
}

fn line_of_shell(arguments: &[Word]) -> Inner {
    const UNTOLD: &str = "it cannot be told what the shell runs";
    let mut at = 0;
    let mut takes_line = false;
    while let Some(word) = arguments.get(at) {
        if !word.known || word.glob {
            return Inner::Hidden(UNTOLD);
        }
        let text = word.text.as_str();
        at += 1;
        match text {
            "--" | "-" => break,
            "--norc" | "--noprofile" | "--login" | "--posix" => continue,
            "--version" | "--help" => return Inner::Nothing,
            _ if !text.starts_with(['-', '+']) => {
                at -= 1;
                break;
            }
            _ => {}
        }
        if !text[1..].chars().all(|letter| "ceuxvlio".contains(letter)) {
            return Inner::Hidden(UNTOLD);
        }
        takes_line |= text.starts_with('-') && text.contains('c');
        for _ in text.chars().filter(|letter| *letter == 'o') {
            match arguments.get(at) {
                Some(mode)
                    if mode.known
                        && matches!(mode.text.as_str(), "pipefail" | "errexit" | "nounset") =>
                {
                    at += 1;
                }
                _ => return Inner::Hidden(UNTOLD),
            }
        }
    }
    match arguments.get(at) {
        Some(line) if takes_line && line.known && !line.glob => Inner::Line(line.text.clone()),
        // A file of commands; what it holds is not looked at.
        Some(script) if !takes_line && script.known => Inner::Nothing,
        _ => Inner::Hidden(UNTOLD),
    }
}

fn run_by_find(name: &str, arguments: &[Word]) -> Inner {
    let runs: &[&str] = match name {
        "find" => &["-exec", "-execdir", "-ok", "-okdir"],
        _ => &["-x", "-X", "--exec", "--exec-batch"],
    };
    let fd_hides = |word: &Word| name != "find" && word.text.starts_with("--exec");
    let mut found = Vec::new();
    for (at, word) in arguments.iter().enumerate() {
        if !runs.contains(&word.text.as_str()) {
            if fd_hides(word) {
                return Inner::Hidden("it cannot be told what `fd` runs");
            }
            continue;
        }
        let mut words: Vec<Word> = Vec::new();
        for word in &arguments[at + 1..] {
            let ends = word.text == ";"
                || (word.text == "+" && words.last().is_some_and(|last| last.text == "{}"));
            if ends {
                break;
            }
            words.push(match word.text.contains("{}") {
                true => Word::unknown(word.text.clone()),
                false => word.clone(),
            });
        }
        if words.is_empty() {
            return Inner::Hidden("it cannot be told what `find` runs");
        }
        found.push(words);
    }
    match found.is_empty() {
        true => Inner::Nothing,
        false => Inner::Commands(found),
    }
}

/// Whether `find` is given tests and actions alone that look, beside those that run something.
pub(super) fn find_looks(arguments: &[Word]) -> bool {
    const ALONE: [&str; 27] = [
        "-print",
        "-print0",
        "-ls",
        "-prune",
        "-quit",
        "-o",
        "-a",
        "-or",
        "-and",
        "-not",
        "!",
        "(",
        ")",
        ",",
        "-empty",
        "-depth",
        "-true",
        "-false",
        "-mount",
        "-xdev",
        "-executable",
        "-readable",
        "-writable",
        "-nouser",
        "-nogroup",
        "-daystart",
        "-noleaf",
    ];
    const VALUED: [&str; 29] = [
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-wholename",
        "-regex",
        "-iregex",
        "-regextype",
        "-type",
        "-xtype",
        "-size",
        "-mtime",
        "-atime",
        "-ctime",
        "-mmin",
        "-amin",
        "-cmin",
        "-maxdepth",
        "-mindepth",
        "-perm",
        "-user",
        "-group",
        "-uid",
        "-gid",
        "-links",
        "-inum",
        "-lname",
        "-printf",
        "-fstype",
    ];
    let mut words = arguments.iter();
    let mut begun = false;
    while let Some(word) = words.next() {
        begun |= word.text.starts_with(['-', '!', '(', ')', ',']);
        match word.text.as_str() {
            // It may become any test or action that a file is named like.
            _ if begun && word.glob => return false,
            text if ALONE.contains(&text) => {}
            text if VALUED.contains(&text) && words.next().is_none_or(|value| value.glob) => {
                return false;
            }
            text if VALUED.contains(&text) => {}
            "-exec" | "-execdir" => {
                let mut last = "";
                loop {
                    match words.next().map(|word| word.text.as_str()) {
                        None => return false,
                        Some(";") => break,
                        Some("+") if last == "{}" => break,
                        Some(text) => last = text,
                    }
                }
            }
            text if text.starts_with(['-', '!', '(', ')', ',']) => return false,
            _ => {}
        }
    }
    true
}
