//! The agent picker, the key that goes through the agents, and the current one in the status line.

use std::sync::{Mutex, PoisonError};

use bezel_agents_contract::{AgentSource, AgentSummary, AgentsClient, AgentsState};
use bezel_api_tui::{
    Binding, Command, CommandResult, Completion, Facet, FacetError, Namespace, Placement, Select,
    SelectItem, Slot, Toast, TuiContext, TuiFacet, segment,
};
use bezel_context::Context;
use bezel_presentation::StyledLine;
use bezel_presentation::text::Role;

/// The agent whose name says nothing new.
const USUAL: &str = "build";

/// The terminal facet of agents.
pub fn facet() -> TuiFacet {
    Facet::new("agents", setup).requires::<AgentsClient>(Namespace::Session)
}

async fn setup(cx: TuiContext) -> Result<(), FacetError> {
    let agents: AgentsClient = cx.session.use_service();
    let (state, attachment) = (agents.state(), cx.session.attachment());
    let shown = move |_: &bezel_api_tui::RenderContext<'_>| {
        (attachment.get().is_attached() && state.is_ready() && !state.is_stale())
            .then(|| line(&state.get()))
    };
    cx.slots.add(
        Slot::StatusLeft,
        Placement::order(15).importance(55),
        segment(shown),
    );
    let ui = cx.ui.clone();
    // Plain mutex: what was said last, looked at where the state changes.
    let said = Mutex::new(Vec::new());
    cx.own(agents.state().subscribe(move |state, _| {
        ui.redraw();
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if *said != state.problems {
            said.clone_from(&state.problems);
            if let Some(toast) = problems(state) {
                ui.toast(toast);
            }
        }
    }));

    let (context, service) = (cx.clone(), agents.clone());
    cx.commands.add(
        Command::new("agents.select", "Choose an agent")
            .description("Each has a prompt, tools and permissions of its own")
            .slash("agent")
            .argument_hint("[name]")
            .complete({
                let agents = agents.clone();
                move |_, typed| {
                    let values = complete(&agents.state().get(), &typed);
                    async move { values }
                }
            })
            .run(move |cx, arguments| {
                let (context, service) = (context.clone(), service.clone());
                async move { choose(&context, &cx, &service, arguments.text.trim()).await }
            }),
    );

    let (context, service) = (cx.clone(), agents);
    cx.commands.add(
        Command::new("agents.cycle", "Go to the next agent")
            .description("Goes through the agents that a person may choose")
            .run(move |cx, _| {
                let (context, service) = (context.clone(), service.clone());
                async move {
                    let next = next(&service.state().get());
                    match next {
                        Some(name) => set(&context, &cx, &service, name).await,
                        None => Ok(()),
                    }
                }
            }),
    );
    cx.keybindings.add(Binding::new("tab", "agents.cycle")?);
    cx.keybindings
        .add(Binding::new("ctrl+x g", "agents.select")?);
    Ok(())
}

/// The current agent; one that is not there is wrong, for it lets nothing run.
fn line(state: &AgentsState) -> StyledLine {
    let is_there = state.agents.iter().any(|agent| agent.name == state.current);
    let role = match state.current.as_str() {
        _ if !is_there => Role::Error,
        USUAL => Role::Muted,
        _ => Role::Accent,
    };
    StyledLine::new(state.current.clone(), role)
}

/// The agents that a person may choose.
fn primary(state: &AgentsState) -> impl Iterator<Item = &AgentSummary> {
    state.agents.iter().filter(|agent| agent.mode.is_primary())
}

/// The agent after the current one, around; none where there is no other.
fn next(state: &AgentsState) -> Option<String> {
    let names: Vec<&str> = primary(state).map(|agent| agent.name.as_str()).collect();
    let at = names.iter().position(|name| *name == state.current);
    let next = names.get(at.map_or(0, |at| (at + 1) % names.len()))?;
    (*next != state.current).then(|| (*next).to_owned())
}

async fn choose(
    context: &TuiContext,
    cx: &Context,
    agents: &AgentsClient,
    named: &str,
) -> CommandResult {
    let state = agents.state().get();
    // Another agent's, or none: the session says so, and what is near.
    if !named.is_empty() {
        return set(context, cx, agents, named.to_owned()).await;
    }
    let items = primary(&state).map(|agent| {
        SelectItem::new(agent.name.as_str(), agent.name.clone())
            .detail(agent.description.as_str())
            .group(group(&agent.source))
            .current(agent.name == state.current)
    });
    let select = Select::new("Agents")
        .placeholder("search by name or purpose")
        .empty("no agent here has this name")
        .items(items.collect::<Vec<_>>());
    match context.ui.select(cx, select).await {
        Some(selected) => set(context, cx, agents, selected.value).await,
        None => Ok(()),
    }
}

async fn set(
    context: &TuiContext,
    cx: &Context,
    agents: &AgentsClient,
    name: String,
) -> CommandResult {
    agents.select(cx, name.clone()).await?;
    let state = agents.state().get();
    let chosen = state.agents.iter().find(|agent| agent.name == name);
    let description = chosen.map_or("", |agent| agent.description.as_str());
    context.ui.toast(Toast::info(match description {
        "" => name,
        description => format!("{name}: {description}"),
    }));
    Ok(())
}

fn group(source: &AgentSource) -> &'static str {
    match source {
        AgentSource::BuiltIn => "Built in",
        AgentSource::User { .. } => "Yours",
        AgentSource::Project { .. } => "This project's",
    }
}

fn complete(state: &AgentsState, typed: &str) -> Vec<Completion> {
    primary(state)
        .filter(|agent| agent.name.starts_with(typed.trim()))
        .map(|agent| Completion {
            text: agent.name.clone(),
            detail: agent.description.clone(),
        })
        .collect()
}

/// What is wrong with definitions, in one note; none where only keys have no effect.
fn problems(state: &AgentsState) -> Option<Toast> {
    let mut refused = state.problems.iter().filter(|problem| problem.refused);
    let first = refused.next()?;
    let more = refused.count();
    Some(Toast::warning(match more {
        0 => format!("an agent was left out: {first}"),
        _ => format!("an agent was left out: {first}; and {more} more, `bezel agents` lists them"),
    }))
}

#[cfg(test)]
mod tests;
