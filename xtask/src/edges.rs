//! `cargo xtask edges`: who may depend on whom.
//!
//! Two checks. The *golden file* `docs/edges.txt` lists every arrow between workspace crates, so a
//! new one is a visible diff. The *walls* say which arrows may exist at all, whatever the golden
//! file holds.

#[cfg(test)]
mod cycles;
mod golden;
mod graph;
mod layer;
mod walls;

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::command::Usage;
use crate::workspace::Workspace;

use graph::Graph;
pub(crate) use walls::WALLS;

/// The golden file, relative to the root.
const GOLDEN: &str = "docs/edges.txt";

/// Checks the golden file and every wall; with `--bless` rewrites the golden file first.
pub(crate) fn command(workspace: &Workspace, arguments: &[String]) -> Result<ExitCode> {
    let bless = match arguments {
        [] => false,
        [flag] if flag == "--bless" => true,
        _ => return Err(Usage("edges takes `--bless` or nothing".into()).into()),
    };
    let graph = Graph::read(workspace)?;
    let path = workspace.root().join(GOLDEN);
    let actual = golden::render(&graph);
    if bless {
        std::fs::write(&path, &actual).with_context(|| format!("write {GOLDEN}"))?;
        println!("{GOLDEN}: written");
    }
    let expected =
        std::fs::read_to_string(&path).with_context(|| format!("read the golden file {GOLDEN}"))?;
    let difference = golden::difference(&expected, &actual);
    for line in &difference {
        println!("{line}");
    }
    if !difference.is_empty() {
        println!(
            "{GOLDEN} differs from the workspace. A new arrow needs a reason in the change; \
             then `cargo xtask edges --bless` records it.\n"
        );
    }
    let breaches = breaches(&graph);
    for breach in &breaches {
        println!("{breach}");
    }
    if !difference.is_empty() || !breaches.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    println!(
        "edges: {} crates, {} arrows, {} walls hold",
        graph.crates().count(),
        graph.crates().map(|node| node.normal.len()).sum::<usize>(),
        WALLS.len()
    );
    Ok(ExitCode::SUCCESS)
}

/// Every breach of every wall, each with the wall's name and the rule that it holds.
fn breaches(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    for wall in WALLS {
        let breaches = (wall.check)(graph);
        if !breaches.is_empty() {
            found.push(format!("wall `{}`: {}", wall.name, wall.rule));
            found.extend(breaches.iter().map(|breach| format!("  {breach}")));
        }
    }
    found
}

#[cfg(test)]
mod tests;
