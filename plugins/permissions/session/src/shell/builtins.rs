//! What bash does by itself: the forms that are known to run nothing and to change nothing that counts. Bash evaluates
//! text as commands in many places; what is not written here may be one of them.

use super::marks::is_plain_variable;
use super::words::Word;

/// Whether a builtin is called in a form that is known: `None` where the name is no builtin that has to be.
pub(super) fn known(name: &str, arguments: &[Word]) -> Option<bool> {
    let words: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
    let told = arguments.iter().all(|word| word.known && !word.glob);
    Some(match name {
        ":" => true,
        "exit" | "return" | "break" | "continue" | "shift" => words.len() <= 1,
        "wait" => words.is_empty(),
        "jobs" | "times" => words.is_empty(),
        "type" => {
            told && words
                .iter()
                .all(|word| !word.starts_with('-') || matches!(*word, "-a" | "-t" | "-p"))
        }
        // A format may be followed by anything; an option in its place names a variable, and so does what `%n` takes.
        "printf" => match arguments.split_first() {
            Some((format, rest)) => {
                if !format.known
                    || format.glob
                    || format.text.starts_with('-')
                    || stores(&format.text)
                {
                    return Some(false);
                }
                if !rest.iter().all(|word| word.single) {
                    return None;
                }
                true
            }
            None => false,
        },
        "echo" => {
            let told = |word: &Word| word.single || (word.glob && word.known);
            if !arguments.iter().all(told) {
                return None;
            }
            true
        }
        "read" => {
            told && words
                .iter()
                .all(|word| *word == "-r" || is_plain_variable(word))
        }
        "export" | "local" | "declare" | "typeset" | "readonly" => arguments
            .iter()
            .all(|word| word.single && sets_plainly(&word.text)),
        "unset" => told && words.iter().all(|word| is_plain_variable(word)),
        "set" => {
            const MODES: [&str; 8] = ["-e", "-u", "-x", "-eu", "-ex", "-eux", "-ue", "-euo"];
            const NAMED: [&str; 3] = ["pipefail", "errexit", "nounset"];
            told && !words.is_empty()
                && words.iter().enumerate().all(|(at, word)| {
                    let follows = at > 0 && matches!(words[at - 1], "-o" | "-euo" | "-eo");
                    MODES.contains(word)
                        || matches!(*word, "-o" | "-eo")
                        || (follows && NAMED.contains(word))
                })
        }
        "test" => tests(arguments),
        "[" => match arguments.split_last() {
            Some((last, rest)) => last.known && last.text == "]" && tests(rest),
            None => false,
        },
        // Judged by what they run, or by where they lead.
        "cd" | "eval" | "exec" | "command" | "builtin" | "trap" | "time" => return None,
        "let" | "alias" | "unalias" | "enable" | "hash" | "mapfile" | "readarray" | "getopts"
        | "shopt" | "source" | "." | "bind" | "complete" | "compgen" | "compopt" | "fc"
        | "history" | "pushd" | "popd" | "dirs" | "coproc" | "caller" | "suspend" | "logout"
        | "disown" | "bg" | "fg" | "ulimit" | "umask" => false,
        _ => return None,
    })
}

/// Whether a format of `printf` holds `%n`, in any of its spellings.
fn stores(format: &str) -> bool {
    let format = format.replace("%%", "");
    let mut conversions = format.split('%').skip(1);
    let ends_in_n = |rest: &str| {
        let stands_before = |one: char| one.is_ascii_digit() || " -+#'.*$hlLjzt".contains(one);
        rest.trim_start_matches(stands_before).starts_with('n')
    };
    conversions.any(ends_in_n)
}

/// Whether `name` or `name=…` sets a variable that decides nothing.
fn sets_plainly(text: &str) -> bool {
    let name = text.split('=').next().unwrap_or(text);
    is_plain_variable(name.strip_suffix('+').unwrap_or(name))
}

const OF_FILES: [&str; 20] = [
    "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-L", "-n", "-O", "-G", "-N", "-p", "-r", "-s",
    "-S", "-t", "-w", "-x",
];
const OF_TWO: [&str; 6] = ["=", "==", "!=", "-nt", "-ot", "-ef"];
const OF_NUMBERS: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

fn of_one(operator: &str) -> bool {
    OF_FILES.contains(&operator) || matches!(operator, "-z" | "-u")
}

/// Whether `test` is given one of its short forms, each operand one word: what else it is given may be an operator
/// that evaluates what it is given.
pub(super) fn tests(words: &[Word]) -> bool {
    let operand = |word: &Word| word.single && !word.glob;
    let operator =
        |word: &Word, known: &dyn Fn(&str) -> bool| word.known && !word.glob && known(&word.text);
    let words = match words.split_first() {
        Some((first, rest)) if first.known && first.text == "!" => rest,
        _ => words,
    };
    match words {
        [] => true,
        [only] => operand(only),
        [first, second] => operator(first, &of_one) && operand(second),
        [first, middle, last] => {
            let known = |text: &str| OF_TWO.contains(&text) || OF_NUMBERS.contains(&text);
            operand(first) && operator(middle, &known) && operand(last)
        }
        _ => false,
    }
}

/// Whether `[[` compares nothing as numbers but numbers, and looks at no variable by its name.
pub(super) fn compares(words: &[Word]) -> bool {
    let number = |word: Option<&Word>| {
        word.is_some_and(|word| word.known && word.text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    words.iter().enumerate().all(|(at, word)| {
        if !word.known {
            return true;
        }
        let text = word.text.as_str();
        if OF_NUMBERS.contains(&text) {
            return at > 0 && number(words.get(at - 1)) && number(words.get(at + 1));
        }
        !text.starts_with('-')
            || of_one(text)
            || OF_TWO.contains(&text)
            || text.len() > 3
            || text == "-"
    })
}

/// The files that a test looks at.
pub(super) fn tested(words: &[Word]) -> Vec<&str> {
    let looks = |word: &Word| {
        OF_FILES.contains(&word.text.as_str()) && !matches!(word.text.as_str(), "-n" | "-t")
    };
    let compares = |word: &Word| matches!(word.text.as_str(), "-nt" | "-ot" | "-ef");
    let of_one = words.windows(2).filter(|pair| looks(&pair[0]));
    let of_two = words.windows(3).filter(|three| compares(&three[1]));
    let named = of_one
        .map(|pair| &pair[1])
        .chain(of_two.flat_map(|three| [&three[0], &three[2]]));
    named
        .filter(|word| word.known)
        .map(|word| word.text.as_str())
        .collect()
}
