//! `bezel agents`: what there is here, where it is from, and what is wrong with definitions.

use std::io::{self, Write};

use bezel_agents_contract::{AgentSource, AgentSummary};
use bezel_host_headless::plain_line;
use serde_json::json;

use crate::agents::{self, beginning};
use crate::arguments::AgentsArguments;
use crate::commands::run::tell;
use crate::failure::{Exit, Outcome};
use crate::setup::Setup;

/// Runs the command.
pub fn run(arguments: AgentsArguments) -> Outcome {
    let setup = Setup::new(arguments.cwd.as_deref())?;
    let loaded = setup.load(Vec::new())?;
    let places = agents::places(&setup.sources(Vec::new()))?;
    let catalogue = bezel_dist_session::agents(&places.directories);
    let current = beginning(&loaded.config, None);
    let (all, problems) = (catalogue.summaries(), catalogue.problems());
    let mut out = io::stdout();
    if arguments.json {
        let listed = json!({
            "current": current,
            "agents": all,
            "problems": problems,
            "untrusted": places.untrusted,
        });
        writeln!(out, "{listed}")?;
        return Ok(Exit::Done);
    }
    if let Some(directory) = &places.untrusted {
        tell(&agents::untrusted_notice(directory));
    }
    list(&all, current, &mut out)?;
    for problem in problems {
        tell(&agents::warning(problem));
    }
    if catalogue.get(current).is_none() {
        tell(&format!(
            "warning: the configured agent `{current}` is not there, so new sessions run nothing"
        ));
    }
    Ok(Exit::Done)
}

fn list(all: &[AgentSummary], current: &str, out: &mut dyn Write) -> io::Result<()> {
    let width = |text: fn(&AgentSummary) -> &str| {
        let widths = all.iter().map(|agent| text(agent).chars().count());
        widths.max().unwrap_or_default()
    };
    let names = width(|agent| &agent.name);
    let modes = width(|agent| agent.mode.as_str());
    for agent in all {
        let mark = if agent.name == current { '*' } else { ' ' };
        let source = match &agent.source {
            AgentSource::BuiltIn => "built in",
            AgentSource::User { file } | AgentSource::Project { file } => file,
        };
        let (name, mode) = (&agent.name, agent.mode.as_str());
        let line = format!("{mark} {name:<names$}  {mode:<modes$}  {source}");
        writeln!(out, "{}", plain_line(&line))?;
        let mut facts = Vec::new();
        if !agent.description.is_empty() {
            facts.push(agent.description.clone());
        }
        if let Some(model) = &agent.model {
            facts.push(format!("with {model}"));
        }
        if !facts.is_empty() {
            writeln!(out, "    {}", plain_line(&facts.join(", ")))?;
        }
    }
    Ok(())
}
