//! The subcommands of git that only look.

use super::words::Word;

/// Options before the subcommand that take the next word.
const WITH_VALUE: [&str; 7] = [
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--config-env",
];

/// The arguments from the subcommand on.
pub(super) fn without_options(arguments: &[Word]) -> &[Word] {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        match word.text.as_str() {
            text if WITH_VALUE.contains(&text) => at += 2,
            text if text.starts_with('-') => at += 1,
            _ => break,
        }
    }
    arguments.get(at..).unwrap_or_default()
}

/// Whether git only looks with these arguments, and shows what it sees to nobody else.
pub(super) fn only_looks(arguments: &[Word]) -> bool {
    let harmless = |word: &Word| {
        matches!(
            word.text.as_str(),
            "--no-pager" | "--no-optional-locks" | "--literal-pathspecs" | "-P"
        )
    };
    let options = arguments.iter().take_while(|word| harmless(word)).count();
    let Some((subcommand, rest)) = arguments[options..].split_first() else {
        return true;
    };
    if !subcommand.known || rest.iter().any(|word| !word.known) {
        return false;
    }
    let runs_or_writes = |word: &Word| {
        [
            "--output",
            "-o",
            "-O",
            "--open-files-in-pager",
            "--ext-diff",
            "--textconv",
            "--exec",
            "--upload-pack",
        ]
        .iter()
        .any(|option| word.text.starts_with(option))
    };
    if rest.iter().any(runs_or_writes) {
        return false;
    }
    let lists = |listing: &[&str]| {
        rest.iter()
            .all(|word| listing.contains(&word.text.as_str()) || word.text.starts_with("--format="))
    };
    match subcommand.text.as_str() {
        "status" | "log" | "diff" | "show" | "blame" | "rev-parse" | "ls-files" | "ls-tree"
        | "describe" | "shortlog" | "grep" | "cat-file" | "merge-base" | "rev-list"
        | "name-rev" | "for-each-ref" | "count-objects" | "check-ignore" | "diff-tree"
        | "whatchanged" | "version" | "help" => true,
        "branch" => lists(&["-a", "-r", "-v", "-vv", "--all", "--list", "--show-current"]),
        "tag" => lists(&["-l", "--list", "-n"]),
        "remote" => lists(&["-v", "--verbose"]),
        "stash" | "worktree" => rest.first().is_some_and(|word| word.text == "list"),
        "config" => rest.first().is_some_and(|word| {
            matches!(
                word.text.as_str(),
                "--get" | "--list" | "-l" | "get" | "list"
            )
        }),
        _ => false,
    }
}
