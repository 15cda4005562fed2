//! Rules about Rust files: module docs, sizes, patterns that hide a fault, and names.

use super::{Finding, Tree};

/// Lines in a file: past the first number a warning, past the second a failure.
const LINES: (usize, usize) = (500, 800);

/// The first line of every Rust file is its `//!` sentence. Files that a test hands to the
/// compiler as input are not part of any crate.
pub(super) fn module_docs(tree: &Tree) -> Vec<Finding> {
    tree.sources
        .iter()
        .filter(|(path, _)| !path.contains("/tests/ui/"))
        .filter(|(_, source)| {
            let sentence = source.text.lines().next().unwrap_or_default();
            let sentence = sentence.strip_prefix("//!").unwrap_or_default();
            sentence.trim().is_empty()
        })
        .map(|(path, _)| Finding::new(path, 1, "no `//!` sentence on the first line"))
        .collect()
}

pub(super) fn sizes(tree: &Tree) -> Vec<Finding> {
    let (think, split) = LINES;
    tree.sources
        .iter()
        .filter_map(|(path, source)| {
            let lines = source.text.lines().count();
            (lines > think).then(|| Finding {
                warning: lines <= split,
                ..Finding::new(path, 0, format!("{lines} lines"))
            })
        })
        .collect()
}

/// What code outside tests does not contain.
const PATTERNS: [&str; 8] = [
    "todo!(",
    "unimplemented!(",
    ".unwrap()",
    "let _ =",
    "tokio::spawn(",
    "thread::sleep",
    "allow(dead_code",
    "allow(clippy",
];

/// What no code contains, tests included: a test that never runs proves nothing.
const PATTERNS_EVERYWHERE: [&str; 2] = ["#[ignore", "#![allow("];

/// Here an `allow(` is part of the code that a macro emits into other crates.
const MACROS: &str = "crates/rpc-macros/";

pub(super) fn patterns(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in tree.shipped() {
        for (line, code) in source.code_lines() {
            let emitted = |pattern: &str| path.starts_with(MACROS) && pattern.starts_with("allow(");
            for pattern in PATTERNS.iter().filter(|pattern| code.contains(**pattern)) {
                if emitted(pattern) {
                    continue;
                }
                found.push(Finding::new(path, line, format!("`{pattern}`")));
            }
            if has_string_error(code) {
                found.push(Finding::new(path, line, "`Result<_, String>`"));
            }
        }
    }
    for (path, source) in &tree.sources {
        for (index, code) in source.code.lines().enumerate() {
            for pattern in PATTERNS_EVERYWHERE {
                if code.trim_start().starts_with(pattern) {
                    found.push(Finding::new(path, index + 1, format!("`{pattern}`")));
                }
            }
        }
    }
    found
}

/// Whether a line has a `Result` whose error type is a plain string.
fn has_string_error(code: &str) -> bool {
    code.match_indices("Result<").any(|(at, name)| {
        let arguments = &code[at + name.len()..];
        let mut depth = 0_i32;
        for (index, sign) in arguments.char_indices() {
            match sign {
                '<' | '(' | '[' => depth += 1,
                // The arrow of a function type closes nothing.
                '>' if arguments[..index].ends_with('-') => {}
                '>' if depth == 0 => return false,
                '>' | ')' | ']' => depth -= 1,
                ',' if depth == 0 => {
                    let error = arguments[index + 1..].trim_start();
                    return error
                        .strip_prefix("String")
                        .is_some_and(|rest| rest.trim_start().starts_with(['>', ',']));
                }
                _ => {}
            }
        }
        false
    })
}

/// Last words of a type's name that say nothing about it.
const EMPTY_WORDS: [&str; 8] = [
    "Manager", "Helper", "Helpers", "Util", "Utils", "Data", "Info", "Misc",
];

/// Module names that say nothing about what is inside.
const EMPTY_MODULES: [&str; 6] = ["util", "utils", "helper", "helpers", "misc", "common"];

pub(super) fn names(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in &tree.sources {
        for (index, code) in source.code.lines().enumerate() {
            if let Some((kind, name)) = defined(code) {
                let empty = match kind {
                    "mod" => EMPTY_MODULES.contains(&name),
                    _ => EMPTY_WORDS.iter().any(|word| name.ends_with(word)),
                };
                if empty {
                    found.push(Finding::new(path, index + 1, format!("`{kind} {name}`")));
                }
            }
        }
    }
    found
}

/// The type, trait or module that a line defines: its keyword and its name.
fn defined(code: &str) -> Option<(&str, &str)> {
    let mut words = code
        .split(|sign: char| !(sign.is_alphanumeric() || sign == '_'))
        .filter(|word| !word.is_empty());
    let mut word = words.next()?;
    // An attribute's line, an import or a comment's rest defines nothing.
    if code.trim_start().starts_with(['#', '/']) {
        return None;
    }
    while matches!(word, "pub" | "crate" | "super" | "in" | "unsafe" | "self") {
        word = words.next()?;
    }
    match word {
        "struct" | "enum" | "trait" | "type" | "union" | "mod" => Some((word, words.next()?)),
        _ => None,
    }
}
