//! `cargo xtask test`: everything that must hold before a change lands.
//!
//! Groups run in order, one build directory and one profile for all. Nothing is skipped in
//! silence: a group that cannot run here is named at the end with the reason, and with `CI=true`
//! that fails the command.

mod fresh;
mod groups;
mod http;
mod summary;
mod tools;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::command::{self, Usage};
use crate::workspace::Workspace;
use groups::{GROUPS, Group};
use summary::Summary;
use tools::Unavailable;

/// How a group ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed(String),
    /// It needs something that this machine has not and that could not be installed.
    Unavailable(String),
    /// It needs the named group, which failed.
    NotRun(&'static str),
}

/// One line of the summary.
#[derive(Debug)]
struct Entry {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

/// Runs the chosen groups, all without a choice.
pub(crate) fn command(workspace: &Workspace, arguments: &[String]) -> Result<ExitCode> {
    let chosen = match parse(arguments)? {
        Choice::List => {
            for group in GROUPS {
                println!("{:<10} {}", group.name, group.what);
            }
            return Ok(ExitCode::SUCCESS);
        }
        Choice::Groups(names) => GROUPS
            .iter()
            .filter(|group| names.is_empty() || names.contains(&group.name))
            .collect::<Vec<&Group>>(),
    };
    let summary = run_all(workspace, &chosen, command::in_ci());
    print!("\n{summary}");
    Ok(if summary.succeeded() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs the groups in order; one whose need among them did not pass is not run.
fn run_all(workspace: &Workspace, groups: &[&Group], strict: bool) -> Summary {
    let mut entries: Vec<Entry> = Vec::new();
    for group in groups {
        let blocked = group.needs.iter().find(|need| {
            entries
                .iter()
                .any(|entry| entry.name == **need && entry.outcome != Outcome::Passed)
        });
        let started = Instant::now();
        let outcome = match blocked {
            Some(need) => Outcome::NotRun(need),
            None => {
                eprintln!("\n==> {}: {}", group.name, group.what);
                outcome((group.run)(workspace))
            }
        };
        entries.push(Entry {
            name: group.name,
            outcome,
            took: started.elapsed(),
        });
    }
    Summary { entries, strict }
}

fn outcome(result: Result<()>) -> Outcome {
    match result {
        Ok(()) => Outcome::Passed,
        Err(error) => {
            let text = format!("{error:#}");
            eprintln!("{text}");
            match error.downcast_ref::<Unavailable>() {
                Some(_) => Outcome::Unavailable(text),
                None => Outcome::Failed(text),
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Choice {
    List,
    /// Empty for all.
    Groups(Vec<&'static str>),
}

fn parse(arguments: &[String]) -> Result<Choice> {
    let mut names = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--list" => return Ok(Choice::List),
            "--group" => {
                let Some(name) = rest.next() else {
                    return Err(Usage("`--group` needs a name".into()).into());
                };
                let Some(group) = GROUPS.iter().find(|group| group.name == name) else {
                    let known: Vec<_> = GROUPS.iter().map(|group| group.name).collect();
                    let text = format!(
                        "no group is called `{name}`; there are {}",
                        known.join(", ")
                    );
                    return Err(Usage(text).into());
                };
                names.push(group.name);
            }
            other => return Err(Usage(format!("test does not take `{other}`")).into()),
        }
    }
    Ok(Choice::Groups(names))
}

#[cfg(test)]
mod tests;
