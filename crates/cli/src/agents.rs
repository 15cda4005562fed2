//! Where definitions of agents are, and what there is of them here.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use bezel_agents_contract::{AgentProblem, AgentSource};
use bezel_dist_session::{AgentCatalogue, AgentDirectory, AgentOrigin, DEFAULT_AGENT};

use crate::config::{Config, Sources, TrustStore, project_of};
use crate::failure::{Failure, Outcome};

/// Why `--agent` was refused.
const OF_NEW_SESSIONS: &str = "--agent belongs to a new session; one that goes on keeps its agent until /agent chooses another";

/// Where definitions are.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// What is read, a later one before an earlier.
    pub directories: Vec<AgentDirectory>,
    /// The project's directory, where it is passed over because its project is not trusted.
    pub untrusted: Option<PathBuf>,
}

/// Where definitions are: beside the user's configuration, and in the project, where that is trusted.
pub fn places(sources: &Sources) -> Outcome<Places> {
    let user = sources.user.with_file_name("agents");
    let mut places = Places::default();
    let found = sources.directory.as_deref().and_then(project_directory);
    if let Some(path) = found.filter(|path| *path != user) {
        let trust = TrustStore::new(sources.trust.clone());
        match trust.trusts(project_of(&path)).map_err(Failure::usage)? {
            true => places.directories.push(AgentDirectory {
                path,
                origin: AgentOrigin::Project,
            }),
            false => places.untrusted = Some(path),
        }
    }
    let user = AgentDirectory {
        path: user,
        origin: AgentOrigin::User,
    };
    places.directories.insert(0, user);
    Ok(places)
}

/// The nearest `.bezel/agents` from `directory` up to the root of its repository.
fn project_directory(directory: &Path) -> Option<PathBuf> {
    for ancestor in directory.ancestors() {
        let agents = ancestor.join(".bezel").join("agents");
        if agents.is_dir() {
            return Some(agents);
        }
        if ancestor.join(".git").exists() {
            return None;
        }
    }
    None
}

/// Refuses an agent that is named for a session that is there already.
pub fn check_is_new(named: Option<&str>, is_new: bool) -> Outcome<()> {
    match named.is_some() && !is_new {
        true => Err(Failure::usage(anyhow!(OF_NEW_SESSIONS))),
        false => Ok(()),
    }
}

/// Refuses what a new session cannot begin with here. Returns what a person should know of the definitions that
/// there are.
pub fn check_start(
    sources: &Sources,
    config: &Config,
    named: Option<&str>,
    is_new: bool,
) -> Outcome<Vec<String>> {
    let places = places(sources)?;
    let catalogue = bezel_dist_session::agents(&places.directories);
    if is_new {
        check(&catalogue, beginning(config, named))?;
    }
    let untrusted = places.untrusted.as_deref().map(untrusted_notice);
    let problems = catalogue.problems().iter().map(warning);
    Ok(untrusted.into_iter().chain(problems).collect())
}

/// The agent that a new session here begins with: the named one, else the configured one.
pub fn beginning<'a>(config: &'a Config, named: Option<&'a str>) -> &'a str {
    named.or(config.agent.as_deref()).unwrap_or(DEFAULT_AGENT)
}

/// Whether a person's session can begin with this agent.
fn check(catalogue: &AgentCatalogue, name: &str) -> Outcome<()> {
    match refusal(catalogue, name) {
        Some(reason) => Err(Failure::usage(anyhow!(reason))),
        None => Ok(()),
    }
}

/// Why a person's session cannot begin with this agent, and what to do; `None` where it can.
pub fn refusal(catalogue: &AgentCatalogue, name: &str) -> Option<String> {
    let Some(agent) = catalogue.get(name) else {
        let near = catalogue.suggestion(name);
        let near = near.map(|near| format!(" (did you mean {near}?)"));
        return Some(format!(
            "there is no agent `{name}` here{}; `bezel agents` lists what there is{}",
            near.unwrap_or_default(),
            match catalogue
                .problems()
                .iter()
                .filter(|problem| problem.refused)
                .count()
            {
                0 => "",
                _ => ", and which files were left out",
            }
        ));
    };
    if agent.mode.is_primary() {
        return None;
    }
    let hint = match agent.source {
        AgentSource::BuiltIn => "it is built in, and `bezel agents` lists those that begin one",
        _ => "set `mode: all` in its file to begin one with it",
    };
    Some(format!(
        "the agent `{name}` is for parts of another agent's work and begins no session; {hint}"
    ))
}

/// What to say of a file that is wrong.
pub fn warning(problem: &AgentProblem) -> String {
    match problem.refused {
        true => format!("warning: an agent was left out: {problem}"),
        false => format!("note: {problem}"),
    }
}

/// What to say of a project whose agents were passed over.
pub fn untrusted_notice(directory: &Path) -> String {
    format!(
        "The agents in {} are not used, for this project is not trusted: read them, then run `bezel config trust {}`",
        directory.display(),
        project_of(directory).display()
    )
}
