//! `cargo xtask tidy`: what the compiler does not check about how the project reads.
//!
//! Each rule is a function over the repository's files that returns findings; a finding fails the
//! command unless it is a warning.

mod documents;
mod layers;
mod rust;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::command::Usage;
use crate::source::Source;
use crate::workspace::Workspace;

/// A rule of the project about its own text.
struct Rule {
    name: &'static str,
    /// What a person should do, in one line.
    advice: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
}

const RULES: &[Rule] = &[
    Rule {
        name: "module-docs",
        advice: "start the file with a `//!` sentence that says what it is for",
        check: rust::module_docs,
    },
    Rule {
        name: "sizes",
        advice: "split the file by what changes together",
        check: rust::sizes,
    },
    Rule {
        name: "patterns",
        advice: "handle the case, return a typed error, or take it out",
        check: rust::patterns,
    },
    Rule {
        name: "names",
        advice: "name the type for what it does, in the field's own words",
        check: rust::names,
    },
    Rule {
        name: "layer-words",
        advice: "this layer does not know that word: move the code up, or name the general thing",
        check: layers::words,
    },
    Rule {
        name: "machine-paths",
        advice: "take the path of a person's machine out",
        check: documents::machine_paths,
    },
    Rule {
        name: "documents",
        advice: "the project keeps these files, and CI calls the README's test command alone",
        check: documents::required,
    },
    Rule {
        name: "dependencies",
        advice: "say in CHANGELOG.md why a dependency is here; take out one that nothing uses",
        check: documents::dependencies,
    },
    Rule {
        name: "links",
        advice: "point the link at a file and a heading that exist",
        check: documents::links,
    },
    Rule {
        name: "design-notes",
        advice: "give each note a row in the table of docs/design/README.md",
        check: documents::design_notes,
    },
    Rule {
        name: "invariants",
        advice: "end each invariant with `Held by` and the walls, rules or tests that hold it",
        check: documents::invariants,
    },
];

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    file: String,
    /// From 1; 0 when the whole file is meant.
    line: usize,
    text: String,
    /// Printed, and no failure.
    warning: bool,
}

impl Finding {
    fn new(file: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            text: text.into(),
            warning: false,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "warning: " } else { "" };
        match self.line {
            0 => write!(formatter, "{kind}{}: {}", self.file, self.text),
            line => write!(formatter, "{kind}{}:{line}: {}", self.file, self.text),
        }
    }
}

/// The repository's text files by path relative to the root, with `/`.
#[derive(Default)]
struct Tree {
    files: BTreeMap<String, String>,
    /// Rust sources, taken apart once for all rules.
    sources: BTreeMap<String, Source>,
    /// Modules that are declared under `#[cfg(test)]`: their paths without `.rs`.
    test_modules: Vec<String>,
    /// Where this checkout and this person's files are: folders with a closing `/`.
    surroundings: Vec<String>,
}

/// Folders that a text may name although this checkout lies in one of them.
const SHARED_FOLDERS: [&str; 6] = ["/", "/tmp", "/var/tmp", "/usr", "/opt", "/srv"];

impl Tree {
    fn read(workspace: &Workspace) -> Result<Self> {
        let mut tree = Self::default();
        let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
        let around = workspace.root().parent().map(Path::to_path_buf);
        tree.surroundings = [home, around]
            .into_iter()
            .flatten()
            .map(|folder| folder.to_string_lossy().into_owned())
            .filter(|folder| !SHARED_FOLDERS.contains(&folder.as_str()))
            .map(|folder| format!("{folder}/"))
            .collect();
        for path in workspace.files()? {
            let bytes = std::fs::read(workspace.root().join(&path))
                .with_context(|| format!("read {}", path.display()))?;
            // A file that is no text (a picture) has nothing to check.
            if let Ok(text) = String::from_utf8(bytes) {
                tree.add(&path.to_string_lossy(), text);
            }
        }
        Ok(tree)
    }

    fn add(&mut self, path: &str, text: String) {
        if let Some(stem) = path.strip_suffix(".rs") {
            let source = Source::new(&text);
            let folder = match Path::new(path).file_name().and_then(|name| name.to_str()) {
                Some("lib.rs" | "main.rs" | "mod.rs") => {
                    path.rsplit_once('/').map_or("", |(folder, _)| folder)
                }
                _ => stem,
            };
            for module in source.test_modules() {
                self.test_modules.push(format!("{folder}/{module}"));
            }
            self.sources.insert(path.to_owned(), source);
        }
        self.files.insert(path.to_owned(), text);
    }

    /// Rust sources that are part of what ships or of the project's commands.
    fn shipped(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.sources
            .iter()
            .map(|(path, source)| (path.as_str(), source))
            .filter(|(path, _)| !self.is_test(path))
    }

    fn is_test(&self, path: &str) -> bool {
        let stem = path.strip_suffix(".rs").unwrap_or(path);
        let inside = |module: &String| {
            stem.strip_prefix(module.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        is_test_file(path) || self.test_modules.iter().any(inside)
    }
}

/// Whether a path alone says that it holds tests.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.split('/')
        .any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "fixtures"))
}

/// Checks every rule and prints every finding, grouped by rule.
pub(crate) fn command(workspace: &Workspace, arguments: &[String]) -> Result<ExitCode> {
    if let Some(argument) = arguments.first() {
        return Err(Usage(format!("tidy does not take `{argument}`")).into());
    }
    let tree = Tree::read(workspace)?;
    let mut failures = 0_usize;
    for rule in RULES {
        let findings = (rule.check)(&tree);
        if findings.is_empty() {
            continue;
        }
        println!("{}: {}", rule.name, rule.advice);
        for finding in findings {
            println!("  {finding}");
            failures += usize::from(!finding.warning);
        }
    }
    if failures > 0 {
        println!("tidy: {failures} findings");
        return Ok(ExitCode::FAILURE);
    }
    println!(
        "tidy: {} files, {} rules hold",
        tree.files.len(),
        RULES.len()
    );
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
