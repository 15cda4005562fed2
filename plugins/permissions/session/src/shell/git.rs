//! The subcommands of git that only look, each with every option with which it does.

use std::path::{Component, Path, PathBuf};

use super::options;
use super::words::Word;
use crate::place::follow;

/// Options before the subcommand that take the next word.
const WITH_VALUE: [&str; 9] = [
    "--attr-source",
    "--super-prefix",
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--config-env",
];

/// Options that say which commits, and how they are shown.
macro_rules! history {
    () => {
        "-p -u -s -n:t -S:t -G:t -L:t -U:t -# -w -b -a -M -C -R -z -i -E -F -P -g -m -c -r -t --patch --no-patch \
         --stat? --shortstat --numstat --dirstat? --summary --name-only --name-status --oneline --graph --all \
         --decorate? --no-decorate --abbrev? --abbrev-commit --no-abbrev-commit --reverse --merges --no-merges \
         --first-parent --follow --format:t --pretty? --date:t --relative-date --since:t --after:t --until:t \
         --before:t --author:t --committer:t --grep:t --max-count:t --skip:t --branches? --tags? --remotes? --cached \
         --staged --unified:t --color? --no-color --word-diff? --word-diff-regex:t --color-words? --minimal \
         --patience --histogram --diff-algorithm:t --diff-filter:t --find-renames? --find-copies? --no-renames \
         --ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-space-at-eol --merge-base --raw \
         --relative? --exit-code --quiet --check --compact-summary --full-index --topo-order --date-order \
         --simplify-by-decoration --ancestry-path --left-right --cherry-pick --cherry-mark --no-ext-diff \
         --no-textconv --source --count --parents --children --boundary --walk-reflogs --pickaxe-all \
         --pickaxe-regex --function-context -W --inter-hunk-context:t --text --no-prefix --ignore-submodules? \
         --submodule? --objects"
    };
}

const HISTORY: &str = history!();

/// A subcommand, its options, and whether words may stand behind them.
const LOOKS: &[(&str, &str, bool)] = &[
    (
        "status",
        "-s -b -u -uno -uall -unormal -v --short --branch --porcelain? --long --untracked-files? --ignored? --show-stash --verbose \
        --no-renames --ahead-behind --no-ahead-behind",
        true,
    ),
    ("log", HISTORY, true),
    ("diff", HISTORY, true),
    ("show", HISTORY, true),
    ("diff-tree", HISTORY, true),
    ("rev-list", HISTORY, true),
    ("reflog", "-n:t -# --oneline --date:t --format:t", false),
    (
        "blame",
        "-L:t -l -t -s -e -w -M -C -p -f -n --line-porcelain --porcelain --date:t --since:t --show-email \
        --show-name --show-number --root --abbrev?",
        true,
    ),
    (
        "rev-parse",
        "-q --short? --abbrev-ref? --verify --show-toplevel --git-dir --absolute-git-dir --show-prefix \
        --show-cdup --is-inside-work-tree --is-bare-repository --symbolic --symbolic-full-name --git-common-dir \
        --show-superproject-working-tree --quiet",
        true,
    ),
    (
        "ls-files",
        "-c -d -m -o -i -s -u -t -v -z --cached --deleted --modified --others --ignored --stage --unmerged \
        --exclude-standard --full-name --error-unmatch --directory --eol",
        true,
    ),
    (
        "ls-tree",
        "-d -r -t -l -z --name-only --name-status --long --full-name --full-tree --object-only",
        true,
    ),
    (
        "describe",
        "--all --tags --always --long --exact-match --dirty? --abbrev? --match:t --exclude:t --contains \
        --first-parent",
        true,
    ),
    (
        "shortlog",
        "-n -s -e -c --numbered --summary --email --no-merges --since:t --until:t",
        true,
    ),
    (
        "grep",
        "-e:p -i -v -c -l -L -n -o -q -w -h -H -E -F -G -P -I -a -p -W -# -A:t -B:t -C:t -m:t --ignore-case \
        --invert-match --count --files-with-matches --name-only --files-without-match --line-number --column \
        --only-matching --quiet --word-regexp --extended-regexp --basic-regexp --fixed-strings --perl-regexp \
        --full-name --cached --heading --break --show-function --function-context --context:t --after-context:t \
        --before-context:t --max-count:t --max-depth:t --color? --no-color --and --or --not --all-match",
        true,
    ),
    ("cat-file", "-t -s -e -p", true),
    (
        "merge-base",
        "-a --all --is-ancestor --fork-point --octopus",
        true,
    ),
    ("name-rev", "--tags --all --name-only --always", true),
    (
        "for-each-ref",
        "--count:t --sort:t --format:t --merged? --no-merged? --contains? --points-at:t",
        true,
    ),
    ("count-objects", "-v -H --verbose --human-readable", false),
    (
        "check-ignore",
        "-q -v -n --quiet --verbose --non-matching --no-index",
        true,
    ),
    ("version", "--build-options", false),
    (
        "branch",
        "-a -r -v --all --remotes --verbose --list --show-current --merged --no-merged --sort:t --format:t \
        --no-color --color?",
        false,
    ),
    (
        "tag",
        "-l -n --list --sort:t --format:t --merged --no-merged",
        false,
    ),
    ("remote", "-v --verbose", false),
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

/// What git reads where it only looks.
pub(super) struct Looked<'a> {
    /// Words that may be the path of something, also where they name nothing that is there.
    pub(super) paths: Vec<&'a Word>,
    /// Whether it reads what the files hold, whichever there are.
    pub(super) searches: bool,
    /// Whether it compares, and outside of a repository any two files or directories.
    pub(super) compares: bool,
}

/// What git reads with these arguments where it only looks, and shows what it sees to nobody else.
pub(super) fn looks(arguments: &[Word]) -> Option<Looked<'_>> {
    let harmless = |word: &Word| {
        matches!(
            word.text.as_str(),
            "--no-pager" | "--no-optional-locks" | "--literal-pathspecs" | "-P"
        )
    };
    let options = arguments.iter().take_while(|word| harmless(word)).count();
    let none = Looked {
        paths: Vec::new(),
        searches: false,
        compares: false,
    };
    let Some((subcommand, rest)) = arguments[options..].split_first() else {
        return Some(none);
    };
    let words: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
    match (subcommand.text.as_str(), words.as_slice()) {
        ("--version", [])
        | ("stash" | "worktree", ["list"])
        | ("config", ["--list" | "-l" | "list"])
        | ("config", ["--list" | "-l", "--show-origin" | "--local" | "--global"]) => {
            return Some(none);
        }
        ("config", ["--get" | "--get-all" | "get", name])
        | ("remote", ["get-url", name])
        | ("branch", ["--list", name])
        | ("tag", ["-l" | "--list", name])
            if !name.starts_with('-') && !rest.iter().any(|word| word.glob) =>
        {
            return Some(none);
        }
        _ => {}
    }
    let (_, list, more) = LOOKS.iter().find(|(name, ..)| *name == subcommand.text)?;
    let call = options::call(list, rest)?;
    if !more && !call.operands.is_empty() {
        return None;
    }
    let first = usize::from(subcommand.text == "grep" && !call.pattern);
    if call.operands.iter().take(first).any(|word| word.glob) {
        // A file may be named like an option that runs something.
        return None;
    }
    Some(Looked {
        paths: call.operands.into_iter().skip(first).collect(),
        searches: subcommand.text == "grep",
        compares: subcommand.text == "diff",
    })
}

/// Whether these words are no two files or directories that are compared as they are, with all below them: one alone is
/// not, nor what lies in the repository that is found from here.
pub(super) fn compares_its_own(paths: &[&Word], directory: Option<&Path>) -> bool {
    let is_inside = |word: &&Word| {
        let path = Path::new(&word.text);
        !path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
    };
    let is_found = || directory.is_some_and(|from| root(from).is_some());
    paths.len() < 2 || (is_found() && paths.iter().all(is_inside))
}

/// What git takes for its repository.
#[derive(PartialEq)]
enum Repository {
    /// The `.git` of this directory.
    Of(PathBuf),
    /// A directory of files that are named like those of a repository without a worktree. They may have come along with
    /// other files, and what they configure is run.
    Bare,
    None,
}

fn repository(from: &Path) -> Repository {
    let is_there = |path: PathBuf| path.symlink_metadata().is_ok();
    for directory in follow(from).ancestors() {
        let own = directory.join(".git");
        if own.is_file() || is_there(own.join("HEAD")) {
            return Repository::Of(directory.to_owned());
        }
        // Not all of it need be there yet.
        let parts = ["objects", "refs", "commondir"];
        if is_there(directory.join("HEAD"))
            && parts.iter().any(|part| is_there(directory.join(part)))
        {
            return Repository::Bare;
        }
    }
    Repository::None
}

/// The directory whose `.git` is found from here.
pub(super) fn root(from: &Path) -> Option<PathBuf> {
    match repository(from) {
        Repository::Of(directory) => Some(directory),
        Repository::Bare | Repository::None => None,
    }
}

/// Whether git, started here, works in the repository that the session is in, in a submodule or worktree of it, or in
/// none. `changed` where files may come to lie on the way before it starts.
pub(super) fn is_own(directory: Option<&Path>, session: &Path, changed: bool) -> bool {
    let Some(directory) = directory else {
        return false;
    };
    if changed && !directory.join(".git").exists() {
        return false;
    }
    match (repository(directory), repository(session)) {
        (Repository::None, _) => true,
        (Repository::Of(here), Repository::Of(own)) if here == own => true,
        (Repository::Of(here), Repository::Of(own)) => {
            let link = std::fs::read_to_string(here.join(".git")).unwrap_or_default();
            let target = link.strip_prefix("gitdir:").map(str::trim);
            let target = target.map(|target| follow(&here.join(target)));
            let parts = ["modules", "worktrees"].map(|part| follow(&own.join(".git")).join(part));
            target.is_some_and(|target| parts.iter().any(|part| target.starts_with(part)))
        }
        _ => false,
    }
}
