//! Rules about documents: that they exist, that their links and names resolve, and that nothing
//! names a person's machine.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use super::{Finding, RULES, Tree};
use crate::edges::WALLS;

const README: &str = "README.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const CI: &str = ".ci/run";

/// Documents that every checkout has.
const REQUIRED: [&str; 8] = [
    README,
    ARCHITECTURE,
    CI,
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "docs/edges.txt",
];

const TEST_COMMAND: &str = "cargo xtask test";

pub(super) fn required(tree: &Tree) -> Vec<Finding> {
    let mut found: Vec<Finding> = REQUIRED
        .iter()
        .filter(|name| !tree.files.contains_key(**name))
        .map(|name| Finding::new(name, 0, "missing"))
        .collect();
    let shown = |readme: &String| readme.contains(TEST_COMMAND);
    if tree.files.get(README).is_some_and(|readme| !shown(readme)) {
        let text = format!("does not show `{TEST_COMMAND}`");
        found.push(Finding::new(README, 0, text));
    }
    if let Some(script) = tree.files.get(CI) {
        let commands: Vec<&str> = script
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .filter(|line| !line.starts_with("set ") && !line.starts_with("cd "))
            .map(|line| line.strip_prefix("exec ").unwrap_or(line))
            .collect();
        if commands != [TEST_COMMAND] {
            let text = format!("must call `{TEST_COMMAND}` and that alone");
            found.push(Finding::new(CI, 0, text));
        }
    }
    found
}

/// Each third-party dependency that the root manifest offers has its reason in the changelog and a
/// crate that uses it.
pub(super) fn dependencies(tree: &Tree) -> Vec<Finding> {
    const ROOT: &str = "Cargo.toml";
    let changelog = tree.files.get("CHANGELOG.md").map_or("", String::as_str);
    let reasons: BTreeSet<&str> = changelog
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next())
        .flat_map(|names| names.split(", "))
        .collect();
    let manifests = || {
        tree.files
            .iter()
            .filter(|(path, _)| path.ends_with("/Cargo.toml"))
            .flat_map(|(_, text)| text.lines())
    };
    let mut found = Vec::new();
    let mut inside = false;
    let root = tree.files.get(ROOT).map_or("", String::as_str);
    for (number, line) in (1..).zip(root.lines()) {
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
        }
        let name = line.split(['=', ' ', '.']).next().unwrap_or_default();
        if !inside || name.is_empty() || name.starts_with(['[', '#']) {
            continue;
        }
        if name.starts_with("bezel") {
            continue;
        }
        if !reasons.contains(name) {
            let text = format!("`{name}` has no reason in CHANGELOG.md");
            found.push(Finding::new(ROOT, number, text));
        }
        let uses = |line: &str| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with([' ', '.', '=']))
        };
        if !manifests().any(uses) {
            found.push(Finding::new(
                ROOT,
                number,
                format!("no crate uses `{name}`"),
            ));
        }
    }
    found
}

/// Where people's own files are, on any machine.
const HOMES: [&str; 3] = ["/root/", "/home/", "/Users/"];

pub(super) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let starts: Vec<&str> = HOMES
        .into_iter()
        .chain(tree.surroundings.iter().map(String::as_str))
        .collect();
    let mut found = Vec::new();
    for (path, text) in &tree.files {
        if tree.is_test(path) || path == "xtask/src/tidy/documents.rs" {
            continue;
        }
        let lines: Vec<(usize, &str)> = match tree.sources.get(path) {
            Some(source) => source.text_lines().collect(),
            None => (1..).zip(text.lines()).collect(),
        };
        for (line, text) in lines {
            if let Some(start) = starts.iter().find(|start| starts_path(text, start)) {
                found.push(Finding::new(path, line, format!("`{start}`")));
            }
        }
    }
    found
}

/// Whether `start` stands in the text where a path begins, not inside a longer one.
fn starts_path(text: &str, start: &str) -> bool {
    text.match_indices(start).any(|(at, _)| {
        !text[..at].ends_with(|before: char| {
            before.is_alphanumeric() || matches!(before, '.' | '_' | '-' | '~' | '}' | '*')
        })
    })
}

pub(super) fn links(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.files.iter().filter(|(path, _)| is_markdown(path)) {
        for (line, target) in link_targets(text) {
            let outside = target.contains("://") || target.starts_with("mailto:");
            if outside {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let Some(file) = resolve(path, file) else {
                found.push(Finding::new(
                    path,
                    line,
                    format!("`{target}` leaves the repository"),
                ));
                continue;
            };
            let folder = format!("{}/", file.trim_end_matches('/'));
            let exists = tree.files.contains_key(&file)
                || tree.files.keys().any(|known| known.starts_with(&folder));
            if !exists {
                found.push(Finding::new(
                    path,
                    line,
                    format!("`{target}`: no such file"),
                ));
            } else if !heading.is_empty() && is_markdown(&file) {
                let headings = tree.files.get(&file).map(|text| anchors(text));
                if !headings.is_some_and(|anchors| anchors.contains(heading)) {
                    found.push(Finding::new(
                        path,
                        line,
                        format!("`{target}`: no such heading"),
                    ));
                }
            }
        }
    }
    found
}

fn is_markdown(path: &str) -> bool {
    path.ends_with(".md")
}

/// Lines of a Markdown text outside its fenced blocks, from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Targets of inline links, less titles, with their lines.
fn link_targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Every second part stands between backticks and is code.
        for part in line.split('`').step_by(2) {
            for piece in part.split("](").skip(1) {
                let target = piece.split([')', ' ']).next().unwrap_or_default();
                found.push((number, target));
            }
        }
        // A link whose text is code was cut at its backticks: look at the whole line too.
        for piece in line.split("`](").skip(1) {
            let target = piece.split([')', ' ']).next().unwrap_or_default();
            found.push((number, target));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The repository path that a link in `document` means; `None` when it leads out.
fn resolve(document: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(document.to_owned());
    }
    let folder = Path::new(document).parent().unwrap_or(Path::new(""));
    let joined = match target.strip_prefix('/') {
        Some(rooted) => Path::new(rooted).to_path_buf(),
        None => folder.join(target),
    };
    let mut parts: Vec<String> = Vec::new();
    for component in joined.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::ParentDir => {
                parts.pop()?;
            }
            _ => {}
        }
    }
    Some(parts.join("/"))
}

/// The anchors that a Markdown viewer gives to a document's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    prose(text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            line.trim_start_matches('#')
                .trim()
                .chars()
                .filter(|sign| sign.is_alphanumeric() || matches!(sign, ' ' | '-' | '_'))
                .map(|sign| if sign == ' ' { '-' } else { sign })
                .flat_map(char::to_lowercase)
                .collect()
        })
        .collect()
}

/// Each design note has its row in the table of notes.
pub(super) fn design_notes(tree: &Tree) -> Vec<Finding> {
    const NOTES: &str = "docs/design/";
    const TABLE: &str = "docs/design/README.md";
    let table = tree.files.get(TABLE).map_or("", String::as_str);
    let rows: BTreeSet<&str> = prose(table)
        .filter(|(_, line)| line.starts_with("| ["))
        .filter_map(|(_, line)| line.split("](").nth(1)?.split(')').next())
        .collect();
    let notes = tree
        .files
        .keys()
        .filter_map(|path| path.strip_prefix(NOTES));
    notes
        .filter(|note| is_markdown(note) && *note != "README.md" && !rows.contains(note))
        .map(|note| Finding::new(TABLE, 0, format!("no row for `{note}`")))
        .collect()
}

/// Each bullet under the heading "Invariants" says what holds it, and that exists: a wall of
/// `edges`, a rule of `tidy`, or a test function. Every wall is named by some bullet.
pub(super) fn invariants(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.files.get(ARCHITECTURE) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut named = BTreeSet::new();
    for (line, bullet) in invariant_bullets(text) {
        let Some((_, holders)) = bullet.split_once("Held by ") else {
            found.push(Finding::new(ARCHITECTURE, line, "no `Held by`"));
            continue;
        };
        // Names stand between backticks.
        for holder in holders.split('`').skip(1).step_by(2) {
            named.insert(holder.to_owned());
            if !holds(tree, holder) {
                let text = format!("`{holder}` is no wall, rule or test");
                found.push(Finding::new(ARCHITECTURE, line, text));
            }
        }
    }
    for wall in WALLS.iter().filter(|wall| !named.contains(wall.name)) {
        let text = format!("no invariant names the wall `{}`", wall.name);
        found.push(Finding::new(ARCHITECTURE, 0, text));
    }
    found
}

fn holds(tree: &Tree, name: &str) -> bool {
    let function = format!("fn {name}(");
    WALLS.iter().any(|wall| wall.name == name)
        || RULES.iter().any(|rule| rule.name == name)
        || tree
            .sources
            .values()
            .any(|source| source.code.contains(&function))
}

/// The bullets under the heading that starts with "Invariants", each joined into one line.
fn invariant_bullets(text: &str) -> Vec<(usize, String)> {
    let mut bullets: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (number, line) in prose(text) {
        if let Some(heading) = line.strip_prefix("## ") {
            inside = heading.starts_with("Invariants");
        } else if inside && line.starts_with("- ") {
            bullets.push((number, line.to_owned()));
        } else if let (true, true, Some((_, bullet))) =
            (inside, line.starts_with("  "), bullets.last_mut())
        {
            bullet.push(' ');
            bullet.push_str(line.trim());
        }
    }
    bullets
}
