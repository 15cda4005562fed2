//! The golden file: every normal dependency between workspace crates, grouped by crate.

use std::collections::BTreeSet;

use super::graph::Graph;

const HEAD: &str = "\
# Who depends on whom inside the workspace (normal dependencies).
# Checked by `cargo xtask edges`; rewritten by `cargo xtask edges --bless`.
";

/// The file's text for this graph.
pub(crate) fn render(graph: &Graph) -> String {
    let mut text = HEAD.to_owned();
    for node in graph.crates() {
        text.push_str(&format!("\n{}\n", node.name));
        for target in &node.normal {
            text.push_str(&format!("  -> {target}\n"));
        }
    }
    text
}

/// The arrows and crates that only one side has, as lines of a diff; empty when both agree.
pub(crate) fn difference(expected: &str, actual: &str) -> Vec<String> {
    let (expected, actual) = (arrows(expected), arrows(actual));
    let removed = expected.difference(&actual).map(|arrow| (arrow, '-'));
    let added = actual.difference(&expected).map(|arrow| (arrow, '+'));
    let mut lines: Vec<_> = removed.chain(added).collect();
    lines.sort();
    lines
        .into_iter()
        .map(|(arrow, sign)| format!("{sign} {arrow}"))
        .collect()
}

/// Each crate, and each arrow as `crate -> crate`.
pub(super) fn arrows(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut from = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("  -> ") {
            Some(to) => found.insert(format!("{from} -> {to}")),
            None if line.trim().is_empty() => continue,
            None => {
                from = line;
                found.insert(from.to_owned())
            }
        };
    }
    found
}
