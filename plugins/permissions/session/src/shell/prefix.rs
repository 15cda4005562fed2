//! What an approval for more than one call may cover of a command: its like, where that is narrow.

use super::builds::may_hand;
use super::options;
use super::words::Word;

/// Commands and subcommands whose like is no more than what was asked for, each with the option that makes it so, where
/// one does, and the others that leave it so: nothing that throws away what nobody has another copy of. Others are
/// approved word by word.
const LIKE: &[(&str, &[&str], &str, &str)] = &[
    (
        "cargo",
        &[
            "build", "b", "check", "c", "clippy", "test", "t", "doc", "bench", "fmt",
        ],
        "",
        CARGO,
    ),
    (
        "git",
        &["add"],
        "",
        "-A -u -v -n -p --all --update --verbose --dry-run",
    ),
    ("git", &["mv"], "", "-v -n -k --verbose --dry-run"),
    (
        "git",
        &["commit"],
        "",
        "-m:t -a -s -v -q --message:t --all --signoff --verbose --quiet",
    ),
    (
        "git",
        &["status"],
        "",
        "-s -b -u -uno -uall --short --branch --porcelain? --ignored? --untracked-files?",
    ),
    ("git", &["switch"], "", "-c -q --create --quiet --track?"),
    ("git", &["checkout"], "-b", "-b -q --quiet --track?"),
    ("git", &["restore"], "--staged", "-S -q --staged --quiet"),
    (
        "go",
        &["build", "test", "vet", "fmt"],
        "",
        "-v -race -short -run:t",
    ),
    ("npm", &["test"], "", ""),
    ("pnpm", &["test"], "", ""),
    ("yarn", &["test"], "", ""),
    ("bun", &["test"], "", ""),
];

const CARGO: &str = "-p:t -v -q -r -j:t -E:t --package:t --lib --bins --bin:t --tests --test:t --examples --example:t \
    --benches --bench:t --all-targets --workspace --all --release --profile:t --features:t --all-features \
    --no-default-features --no-run --no-fail-fast --doc --quiet --verbose --locked --offline --frozen --jobs:t \
    --message-format:t --keep-going --check --no-deps --open --exclude:t";

/// The words that name what a command does, so that a rule can cover its like: `cargo test`, `npm run build`. Empty
/// where nothing but this very command may be covered.
pub(super) fn prefix(words: &[Word]) -> Vec<String> {
    let plain = |word: &Word| {
        word.known
            && !word.glob
            && !word.text.is_empty()
            && !word.text.starts_with('-')
            && word
                .text
                .chars()
                .all(|character| character.is_ascii_alphanumeric() || "-_.:".contains(character))
    };
    let named = |length: usize| {
        words[..length]
            .iter()
            .map(|word| word.text.clone())
            .collect()
    };
    let Some([name, subcommand, rest @ ..]) = words.get(..).filter(|words| words.len() > 1) else {
        return Vec::new();
    };
    if !plain(name) || !plain(subcommand) {
        return Vec::new();
    }
    if matches!(name.text.as_str(), "npm" | "pnpm" | "yarn" | "bun") && subcommand.text == "run" {
        // Options before `--` are those of the runner, and may say what runs the script.
        let own = rest.iter().take_while(|word| word.text != "--");
        let harmless = rest.first().is_some_and(plain)
            && own
                .clone()
                .all(|word| word.known && !word.glob && !word.text.starts_with('-'));
        return if harmless { named(3) } else { Vec::new() };
    }
    let like = LIKE.iter().find(|(program, subcommands, ..)| {
        name.text == *program && subcommands.contains(&subcommand.text.as_str())
    });
    let own: &[Word] = match rest.iter().position(|word| word.text == "--") {
        Some(end) if name.text == "cargo" => match may_hand(&subcommand.text, &rest[end + 1..]) {
            true => &rest[..end],
            false => return Vec::new(),
        },
        _ => rest,
    };
    if (name.text.as_str(), subcommand.text.as_str()) == ("cargo", "nextest") {
        // What it does is its next word: it also updates itself.
        let runs = own.first().is_some_and(|does| does.text == "run");
        let call = own.get(1..).and_then(|own| options::call(CARGO, own));
        return match runs && call.is_some() && rest.iter().all(|word| word.known) {
            true => named(3),
            false => Vec::new(),
        };
    }
    let Some((.., marked, list)) = like else {
        return Vec::new();
    };
    let call = options::call(list, own).filter(|_| rest.iter().all(|word| word.known));
    match (call, *marked) {
        (None, _) => Vec::new(),
        (Some(_), "") => named(2),
        // In either spelling.
        (Some(call), marked) if call.has(marked) || (marked == "--staged" && call.has("-S")) => {
            [named(2), vec![(*marked).to_owned()]].concat()
        }
        _ => Vec::new(),
    }
}
