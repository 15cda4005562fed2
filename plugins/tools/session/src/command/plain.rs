//! Commands so plain that no shell is needed to run them, or only a small one.
//!
//! `make` has done this for decades: a command of plain words that is no builtin means the same with and
//! without a shell, and costs half as much without. Whatever is not certain goes to the shell.

/// How to run a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// The program and its arguments, as every shell would split them.
    Direct(Vec<String>),
    /// A builtin that every POSIX shell runs alike, so that the fastest shell will do.
    Posix,
    /// Anything else.
    Shell,
}

/// Words that a shell runs itself or that are no command at all.
const BUILTINS: &[&str] = &[
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "echo",
    "elif",
    "else",
    "enable",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "help",
    "history",
    "if",
    "in",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "then",
    "time",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
];

/// Decides by the text alone.
pub(crate) fn route(command: &str) -> Route {
    let Some(words) = words(command) else {
        return Route::Shell;
    };
    let Some(first) = words.first() else {
        return Route::Shell;
    };
    if !BUILTINS.contains(&first.as_str()) {
        return if first.contains('=') {
            Route::Shell
        } else {
            Route::Direct(words)
        };
    }
    let same_everywhere = match first.as_str() {
        // They look at no argument.
        "true" | "false" | ":" => true,
        // Shells differ in options and backslashes only; `words` lets no backslash through.
        "echo" => words.get(1).is_none_or(|word| !word.starts_with('-')),
        _ => false,
    };
    if same_everywhere {
        Route::Posix
    } else {
        Route::Shell
    }
}

/// The words of a command that holds nothing special to a shell, else `None`.
fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = command.trim().chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        end if end == character => break,
                        '$' | '`' | '\\' | '!' if character == '"' => return None,
                        '\\' | '\0' => return None,
                        inside => quoted.push(inside),
                    }
                }
            }
            'a'..='z'
            | 'A'..='Z'
            | '0'..='9'
            | '_'
            | '.'
            | '/'
            | ','
            | ':'
            | '@'
            | '%'
            | '+'
            | '='
            | '-' => {
                word.get_or_insert_default().push(character);
            }
            _ => return None,
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(words: &[&str]) -> Route {
        Route::Direct(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn plain_words_and_plain_quotes_need_no_shell() {
        assert_eq!(
            route("cargo test -p a --lib"),
            direct(&["cargo", "test", "-p", "a", "--lib"])
        );
        assert_eq!(
            route("  git commit -m 'it is done' "),
            direct(&["git", "commit", "-m", "it is done"])
        );
        assert_eq!(
            route("grep -n \"a (b)\" x/y.rs"),
            direct(&["grep", "-n", "a (b)", "x/y.rs"])
        );
        assert_eq!(route("printenv ''"), direct(&["printenv", ""]));
        assert_eq!(route("./run.sh --a=b"), direct(&["./run.sh", "--a=b"]));
    }

    #[test]
    fn builtins_that_are_alike_everywhere_take_the_small_shell() {
        for command in ["true", "true x", "echo hello world", "echo", "false"] {
            assert_eq!(route(command), Route::Posix, "{command}");
        }
    }

    #[test]
    fn everything_else_is_the_shells() {
        for command in [
            "",
            "# comment",
            "cd src",
            "A=1 env",
            "ls | wc -l",
            "ls *.rs",
            "ls ~",
            "echo $HOME",
            "echo -e x",
            "echo 'a\\nb'",
            "a && b",
            "a; b",
            "a\nb",
            "cat <<E\nE",
            "x > y",
            "f() { :; }",
            "ls {a,b}",
            "! true",
            "echo \"$x\"",
            "echo 'open",
            "time make",
            "test -e x",
            "[ -e x ]",
            "source x",
            ". x",
            "a &",
            "lsé",
            "exec ls",
            "kill %1",
            "echo \"a!b\"",
        ] {
            assert_eq!(route(command), Route::Shell, "{command}");
        }
    }
}
