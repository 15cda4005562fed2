//! The workspace as a graph of crates, read from cargo or written by hand in a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, Metadata, Package, PackageId};

use super::layer::Layer;
use crate::workspace::Workspace;

/// One crate of the workspace.
#[derive(Debug, Default, Clone)]
pub(crate) struct Crate {
    pub(crate) name: String,
    /// Folder, relative to the root, with `/`.
    pub(crate) folder: String,
    /// Workspace crates listed under `[dependencies]`, for any target.
    pub(crate) normal: BTreeSet<String>,
    /// Other crates listed under `[dependencies]`, for any target.
    pub(crate) external: BTreeSet<String>,
    /// Names of the crate's own `[features]`.
    pub(crate) features: BTreeSet<String>,
    /// Rust sources under `src/` that are part of the crate's normal build: path and text.
    pub(crate) sources: Vec<(String, String)>,
}

impl Crate {
    pub(crate) fn layer(&self) -> Layer {
        Layer::of(&self.folder)
    }
}

/// The workspace's crates, and what each crate of the whole graph lists.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    crates: BTreeMap<String, Crate>,
    /// Normal dependencies of every resolved crate by name, workspace and external alike.
    resolved: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Reads the workspace through `cargo metadata`.
    pub(crate) fn read(workspace: &Workspace) -> Result<Self> {
        let metadata = workspace.metadata()?;
        let members: BTreeSet<&str> = metadata
            .workspace_packages()
            .iter()
            .map(|package| package.name.as_str())
            .collect();
        let mut graph = Self::default();
        for package in metadata.workspace_packages() {
            graph.add(read_crate(workspace.root(), package, &members)?);
        }
        graph.resolved = resolved(&metadata)?;
        Ok(graph)
    }

    /// Adds a crate; its arrows also become part of the resolved graph.
    pub(crate) fn add(&mut self, node: Crate) {
        let listed = node.normal.iter().chain(&node.external).cloned().collect();
        self.resolved.insert(node.name.clone(), listed);
        self.crates.insert(node.name.clone(), node);
    }

    /// All workspace crates, by name.
    pub(crate) fn crates(&self) -> impl Iterator<Item = &Crate> {
        self.crates.values()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Crate> {
        self.crates.get(name)
    }

    /// Everything that a normal build of `root` links, with the path that leads there.
    pub(crate) fn tree(&self, root: &str) -> BTreeMap<String, Vec<String>> {
        let mut found = BTreeMap::new();
        let mut open = vec![vec![root.to_owned()]];
        while let Some(path) = open.pop() {
            let Some(last) = path.last() else { continue };
            if found.contains_key(last) {
                continue;
            }
            for target in self.resolved.get(last).into_iter().flatten() {
                let mut further = path.clone();
                further.push(target.clone());
                open.push(further);
            }
            found.insert(last.clone(), path);
        }
        found.remove(root);
        found
    }
}

fn read_crate(root: &Path, package: &Package, members: &BTreeSet<&str>) -> Result<Crate> {
    let manifest = package.manifest_path.as_std_path();
    let folder = manifest.parent().unwrap_or(manifest);
    let mut node = Crate {
        name: package.name.to_string(),
        folder: relative(root, folder),
        features: package.features.keys().cloned().collect(),
        ..Crate::default()
    };
    for dependency in &package.dependencies {
        if dependency.kind == DependencyKind::Normal {
            match members.contains(dependency.name.as_str()) {
                true => node.normal.insert(dependency.name.clone()),
                false => node.external.insert(dependency.name.clone()),
            };
        }
    }
    let mut files = Vec::new();
    rust_files(&folder.join("src"), &mut files)?;
    files.sort();
    for file in files {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        node.sources.push((relative(root, &file), text));
    }
    Ok(node)
}

fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    path.to_string_lossy().into_owned()
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(error).with_context(|| format!("list {}", folder.display()));
        }
    };
    for entry in entries {
        let path = entry
            .with_context(|| format!("list {}", folder.display()))?
            .path();
        if path.is_dir() {
            rust_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Normal dependencies by crate name over the whole resolved graph. Two versions of one crate
/// count as one: a wall is about who may be reached, not in which version.
fn resolved(metadata: &Metadata) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let resolve = metadata
        .resolve
        .as_ref()
        .context("cargo resolved no dependency graph")?;
    let names: BTreeMap<&PackageId, &str> = metadata
        .packages
        .iter()
        .map(|package| (&package.id, package.name.as_str()))
        .collect();
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in &resolve.nodes {
        let Some(name) = names.get(&node.id) else {
            continue;
        };
        let targets = graph.entry((*name).to_owned()).or_default();
        for dependency in &node.deps {
            let normal = dependency
                .dep_kinds
                .iter()
                .any(|kind| kind.kind == DependencyKind::Normal);
            if let (true, Some(target)) = (normal, names.get(&dependency.pkg)) {
                targets.insert((*target).to_owned());
            }
        }
    }
    Ok(graph)
}
