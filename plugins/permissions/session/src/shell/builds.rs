//! Commands that build, test, check or format the project, each with every option with which it does no more. They run
//! the project's own code; what they are told to write is written here.

use std::path::{Path, PathBuf};

use super::found::{Depth, Touch};
use super::git;
use super::known::{changed_by, path_in, touch};
use super::options;
use super::words::Word;

/// What a command does with what stands behind its options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// It reads it, and changes it where an option marked with `!` stands before it.
    Read,
    /// It changes it, but for one of these options.
    Change(&'static [&'static str]),
}

use Behind::{Change, Read};

const CARGO: &str = "-p:t -v -q -r -j:t -E:t -F:t --package:t --lib --bins --bin:t --tests --test:t --examples --example:t \
    --benches --bench:t --all-targets --workspace --all --release --profile:t --features:t --all-features \
    --no-default-features --no-run --no-fail-fast --doc --quiet --verbose --locked --offline --frozen --jobs:t \
    --message-format:t --keep-going --check --no-deps --open --exclude:t --target:t --target-dir:w --manifest-path:r \
    --color:t --fix --allow-dirty --allow-staged --no-capture --run-ignored:t --retries:t --test-threads:t \
    --status-level:t --filterset:t --depth:t --edges:t --invert? --prefix:t --format-version:t -i:t -e:t -d";
const SCRIPTS: &str = "-s -w:t --silent --workspace:t --workspaces --if-present";

/// A program, its subcommands, its options, and what stands behind them.
type Row = (&'static str, &'static [&'static str], &'static str, Behind);

/// Programs, the subcommands that are known where there are any, their options, and what stands behind.
const BUILDS: &[Row] = &[
    (
        "cargo",
        &[
            "build", "b", "check", "c", "clippy", "test", "t", "nextest", "fmt", "doc", "bench",
            "tree", "metadata",
        ],
        CARGO,
        Read,
    ),
    (
        "go",
        &["build", "test", "vet", "fmt", "list"],
        "-v -x -n -a -race -short -cover -failfast -json -trimpath -benchmem -m -mod:t -tags:t -count:t -run:t -bench:t \
        -timeout:t -parallel:t -cpu:t -f:t -o:w -coverprofile:w",
        Read,
    ),
    ("npm", &["test", "run"], SCRIPTS, Read),
    ("pnpm", &["test", "run"], SCRIPTS, Read),
    ("yarn", &["test", "run"], SCRIPTS, Read),
    ("bun", &["test", "run"], SCRIPTS, Read),
    (
        "pytest",
        &[],
        "-v -q -x -s -l -k:t -m:t -n:t -r:t -W:t --tb:t --maxfail:t --lf --ff --last-failed --failed-first --no-header \
        --co --collect-only --durations:t --cov? --no-cov --strict-markers --strict-config --stepwise --sw --color:t \
        --verbose --quiet --exitfirst --disable-warnings --timeout:t --capture:t --showlocals",
        Read,
    ),
    (
        "mypy",
        &[],
        "-p:t -m:t --strict --ignore-missing-imports --no-error-summary --show-error-codes --pretty --python-version:t \
        --no-incremental --follow-imports:t --namespace-packages --explicit-package-bases --config-file:r",
        Read,
    ),
    (
        "ruff",
        &["check"],
        "-q --fix! --unsafe-fixes --show-fixes --diff --statistics --select:t --ignore:t --extend-select:t \
        --output-format:t --no-cache --quiet",
        Read,
    ),
    (
        "ruff",
        &["format"],
        "-q --check --diff --quiet --line-length:t",
        Change(&["--check", "--diff"]),
    ),
    (
        "tsc",
        &[],
        "-p:r -b --project:r --build --noEmit --watch --pretty --strict --skipLibCheck --incremental --listFiles \
        --outDir:w --outFile:w --declarationDir:w --tsBuildInfoFile:w",
        Read,
    ),
    (
        "eslint",
        &[],
        "-f:t -o:w --fix! --ext:t --max-warnings:t --quiet --cache --format:t --color --no-color \
        --no-error-on-unmatched-pattern --report-unused-disable-directives --output-file:w --cache-location:w \
        --ignore-pattern:t",
        Read,
    ),
    (
        "prettier",
        &[],
        "-c -w! -l -u --check --write! --list-different --ignore-unknown --log-level:t --loglevel:t --no-config \
        --single-quote --tab-width:t --print-width:t",
        Read,
    ),
    (
        "rustfmt",
        &[],
        "-l --check --edition:t --color:t",
        Change(&["--check"]),
    ),
    ("gofmt", &[], "-l -d -s -e -w!", Read),
    (
        "black",
        &[],
        "-q -v -l:t -t:t --check --diff --quiet --verbose --line-length:t --target-version:t --fast --safe",
        Change(&["--check", "--diff"]),
    ),
    (
        "vitest",
        &[],
        "-t:t -u --run --testNamePattern:t --coverage --no-coverage --bail? --update --silent",
        Read,
    ),
    (
        "jest",
        &[],
        "-t:t -i -u -w:t -o --testNamePattern:t --testPathPattern:t --coverage --no-coverage --ci --runInBand --silent \
        --verbose --passWithNoTests --bail? --updateSnapshot --maxWorkers:t --onlyChanged --findRelatedTests",
        Read,
    ),
    ("make", &[], "-j -k -s -#", Read),
    (
        "git",
        &["add"],
        "-A -u -v -n -p -N --all --update --verbose --dry-run --intent-to-add --patch",
        Read,
    ),
    (
        "git",
        &["commit"],
        "-m:t -a -s -v -q -n -F:r --message:t --all --amend --no-edit --signoff --allow-empty --verbose --quiet \
        --file:r --no-verify --fixup:t --author:t --date:t",
        Read,
    ),
];

/// What a command touches that builds, tests, checks or formats the project. `None` where it is not known to do that and
/// no more.
pub(super) fn built(
    name: &str,
    arguments: &[Word],
    directory: Option<&Path>,
) -> Option<Vec<Touch>> {
    // Some take more arguments from a file that is named so.
    if arguments.iter().any(|word| word.text.starts_with('@')) {
        return None;
    }
    let mut touches = named(arguments, directory);
    // A toolchain of the project may stand for the program.
    if let ("cargo" | "rustc" | "go" | "rustup", [only]) = (name, arguments)
        && matches!(
            (name, only.text.as_str()),
            (_, "--version" | "-V") | ("cargo" | "rustc" | "go", "version")
        )
    {
        return Some(touches);
    }
    if let ("git", [subcommand, rest @ ..]) = (name, arguments)
        && subcommand.text == "mv"
    {
        touches.extend(changed_by("mv", rest, directory)?);
        return Some(touches);
    }
    let arguments = match arguments {
        [toolchain, rest @ ..] if name == "cargo" && toolchain.text.starts_with('+') => rest,
        all => all,
    };
    let rows = BUILDS.iter().filter(|(program, ..)| *program == name);
    let of = |row: &'static Row| match (row.1, arguments) {
        ([], all) => Some((row, "", all)),
        (known, [subcommand, rest @ ..]) => {
            let known = known.iter().find(|known| **known == subcommand.text)?;
            Some((row, *known, rest))
        }
        _ => None,
    };
    let ((.., list, behind), subcommand, arguments) = rows.filter_map(of).next()?;
    // What is behind `--` goes to a program of the project, which may do what it does anyway.
    let hands_on = matches!(name, "cargo" | "npm" | "pnpm" | "yarn" | "bun");
    let end = arguments.iter().position(|word| word.text == "--");
    let (own, handed) = match end {
        Some(at) if hands_on => (&arguments[..at], &arguments[at + 1..]),
        _ => (arguments, &[][..]),
    };
    let jobs = |word: &Word| {
        let number = word.text.strip_prefix("-j");
        name == "make"
            && number.is_some_and(|number| number.bytes().all(|one| one.is_ascii_digit()))
    };
    let own: Vec<Word> = own.iter().filter(|word| !jobs(word)).cloned().collect();
    let call = options::call(list, &own)?;
    let is_known = match (name, subcommand) {
        ("cargo", "nextest") => call
            .operands
            .first()
            .is_some_and(|does| matches!(does.text.as_str(), "run" | "r" | "list")),
        ("cargo", _) => may_hand(subcommand, handed),
        (_, "run") => call
            .operands
            .first()
            .is_some_and(|script| is_check(&script.text)),
        ("make", _) => {
            call.operands.iter().all(|target| is_target(&target.text)) && call.operands.len() <= 1
        }
        _ => true,
    };
    if !is_known {
        return None;
    }
    // Some take `-o=FILE` too.
    let written = call.writes.iter().map(|path| path.trim_start_matches('='));
    touches.extend(written.map(|path| touch(path, directory, true)));
    touches.extend(call.reads.iter().map(|path| touch(path, directory, false)));
    let changes = match behind {
        Read => call.deep,
        Change(but) => !but.iter().any(|option| call.has(option)),
    };
    if changes {
        let operands = call.operands.iter();
        touches.extend(operands.map(|word| touch(&word.text, directory, true)));
    }
    if (name, subcommand) == ("git", "add") {
        let from = match call.operands.is_empty() {
            true if call.has("-A") || call.has("--all") => vec![git::root(directory?)?],
            _ => call
                .operands
                .iter()
                .map(|word| PathBuf::from(&word.text))
                .collect(),
        };
        touches.extend(from.into_iter().map(|path| Touch {
            path,
            depth: Depth::Added,
            ..touch("", directory, false)
        }));
    }
    Some(touches)
}

fn are_options(list: &'static str, words: &[Word]) -> bool {
    options::call(list, words).is_some_and(|call| call.operands.is_empty())
}

/// Whether a subcommand of cargo may hand these words on: to tests, which may do what they do anyway, or to a tool that
/// does no more for them.
pub(super) fn may_hand(subcommand: &str, handed: &[Word]) -> bool {
    match subcommand {
        "test" | "t" | "nextest" | "bench" => true,
        "clippy" => are_options("-D:t -W:t -A:t -F:t --deny:t --warn:t --allow:t", handed),
        "fmt" => are_options("-l --check", handed),
        _ => handed.is_empty(),
    }
}

/// Whether a script of this name builds or checks, by custom, and does no more.
fn is_check(script: &str) -> bool {
    let more = ["deploy", "publish", "release", "push", "upload", "prod"];
    let known = ["test", "build", "lint", "check", "typecheck", "format"];
    let is_known = |known: &str| {
        script
            .strip_prefix(known)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '-', '_', '.']))
    };
    known.iter().any(|one| is_known(one)) && !more.iter().any(|more| script.contains(more))
}

fn is_target(target: &str) -> bool {
    matches!(target, "all" | "build" | "test" | "check" | "lint" | "fmt")
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
