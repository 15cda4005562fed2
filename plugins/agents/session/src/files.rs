//! The definitions that there are: built in, of the user, of the project.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use bezel_agents_contract::{AgentDefinition, AgentProblem, AgentSource, AgentSummary};
use serde::{Deserialize, Serialize};

use crate::definition::Definition;
use crate::nearest::nearest;
use crate::parse::{Agent, Parsed, parse, stem};
use crate::yaml::Wrong;

/// The built-in agents, in the order in which they are offered.
const BUILT_IN: &[(&str, &str)] = &[
    ("build", include_str!("built_in/build.md")),
    ("plan", include_str!("built_in/plan.md")),
    ("explore", include_str!("built_in/explore.md")),
];

/// Bytes of one file at most.
const MOST_BYTES: u64 = 256 * 1024;

/// A directory of definitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentDirectory {
    /// Absolute; it need not exist.
    pub path: PathBuf,
    /// Whose it is.
    pub origin: Origin,
}

/// Whose definitions are in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The user's.
    User,
    /// The project's.
    Project,
}

/// All agents of a place, and what is wrong with definitions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    agents: Vec<Arc<Definition>>,
    problems: Vec<AgentProblem>,
}

/// Reads all definitions. A later directory goes before an earlier one where both have an agent of one name, and
/// every directory before what is built in. Blocks on the disk.
pub fn read(directories: &[AgentDirectory]) -> Catalogue {
    // They are looked at before each pass of each session, and are the same for ever.
    static OWN: LazyLock<Catalogue> = LazyLock::new(built_in);

    let mut catalogue = OWN.clone();
    for directory in directories {
        catalogue.directory(directory);
    }
    catalogue
}

fn built_in() -> Catalogue {
    let mut catalogue = Catalogue::default();
    for (name, text) in BUILT_IN {
        match parse(text, name, AgentSource::BuiltIn) {
            Ok(parsed) => catalogue.take(parsed, Path::new(name)),
            Err(wrong) => catalogue.refuse(Path::new(name), Some(wrong.line), wrong.message),
        }
    }
    catalogue
}

impl Catalogue {
    /// For people: the built-in ones, then those of files by name.
    pub fn summaries(&self) -> Vec<AgentSummary> {
        self.agents
            .iter()
            .map(|agent| agent.public.summary())
            .collect()
    }

    /// What is wrong with definitions.
    pub fn problems(&self) -> &[AgentProblem] {
        &self.problems
    }

    /// The agent of this name, its tools and rules apart.
    pub fn get(&self, name: &str) -> Option<&AgentDefinition> {
        self.find(name).map(|agent| &agent.public)
    }

    /// A name that is near to one that there is none of.
    pub fn suggestion(&self, name: &str) -> Option<String> {
        let names = self.agents.iter().map(|agent| agent.public.name.as_str());
        nearest(names, name).map(str::to_owned)
    }

    /// The agent of this name with all that binds it.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Definition>> {
        self.agents.iter().find(|agent| agent.public.name == name)
    }

    fn directory(&mut self, directory: &AgentDirectory) {
        let files = match files(&directory.path) {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                let message = format!("the directory of agents cannot be read: {error}");
                return self.refuse(&directory.path, None, message);
            }
        };
        let mut names: BTreeMap<String, PathBuf> = BTreeMap::new();
        for file in files {
            let shown = file.display().to_string();
            let source = match directory.origin {
                Origin::User => AgentSource::User { file: shown },
                Origin::Project => AgentSource::Project { file: shown },
            };
            let text = match text(&file) {
                Ok(text) => text,
                Err(error) => {
                    self.refuse(&file, None, error.to_string());
                    continue;
                }
            };
            let parsed = match parse(&text, stem(&file), source) {
                Ok(parsed) => parsed,
                Err(Wrong { line, message }) => {
                    self.refuse(&file, Some(line), message);
                    continue;
                }
            };
            let name = parsed.agent.name().to_owned();
            if let Some(other) = names.get(&name) {
                let message = format!("{} is an agent `{name}` already", other.display());
                self.refuse(&file, None, message);
                continue;
            }
            names.insert(name, file.clone());
            self.take(parsed, &file);
        }
    }

    fn take(&mut self, parsed: Parsed, file: &Path) {
        for note in parsed.notes {
            self.problems.push(AgentProblem {
                file: file.display().to_string(),
                line: Some(note.line),
                message: note.message,
                refused: false,
            });
        }
        let name = parsed.agent.name();
        let at = (self.agents.iter()).position(|agent| agent.public.name == name);
        match (parsed.agent, at) {
            (Agent::Defined(agent), Some(at)) => self.agents[at] = Arc::new(*agent),
            (Agent::Defined(agent), None) => self.agents.push(Arc::new(*agent)),
            (Agent::Disabled(_), Some(at)) => drop(self.agents.remove(at)),
            (Agent::Disabled(_), None) => {}
        }
    }

    fn refuse(&mut self, file: &Path, line: Option<u32>, message: String) {
        self.problems.push(AgentProblem {
            file: file.display().to_string(),
            line,
            message,
            refused: true,
        });
    }
}

impl Agent {
    /// The name that it has, or that there is to be none of.
    fn name(&self) -> &str {
        match self {
            Agent::Defined(agent) => &agent.public.name,
            Agent::Disabled(name) => name,
        }
    }
}

/// The Markdown files of a directory, by name.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "md") && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Why there is no text of a file.
#[derive(Debug, thiserror::Error)]
enum TextError {
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("it is not a file")]
    NotAFile,
    #[error("it has more than {} KiB", MOST_BYTES / 1024)]
    TooLong,
    #[error("it is not UTF-8")]
    NotText(#[from] std::string::FromUtf8Error),
}

/// The text of a file.
fn text(file: &Path) -> Result<String, TextError> {
    // A pipe would never end.
    if !std::fs::metadata(file)?.is_file() {
        return Err(TextError::NotAFile);
    }
    let mut text = Vec::new();
    let opened = std::fs::File::open(file)?;
    opened.take(MOST_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(TextError::TooLong);
    }
    Ok(String::from_utf8(text)?)
}

#[cfg(test)]
mod tests;
