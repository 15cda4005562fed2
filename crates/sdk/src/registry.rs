//! The program's tools, and the one session facet that contributes them to each session host as it boots.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_api_session::{SessionContext, SessionFacet, ToolDraft};
use bezel_context::{Context, Spawner};
use bezel_plugin::{Draft as _, PluginId};
use bezel_session_types::{
    Access, SessionId, Tool as SessionTool, ToolError, ToolInvocation, ToolOutput, ToolSpec,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::error::ToolRefused;
use crate::hosts::{Ends, Hosts};
use crate::tool::{Tool, ToolCall};

/// The plugin that all tools of a program belong to.
pub(crate) const PLUGIN: &str = "sdk";

/// The tools of one instance. Clones are the same registry.
#[derive(Clone)]
pub(crate) struct Registry(Arc<Shared>);

struct Shared {
    runtime: ProgramRuntime,
    hosts: Hosts,
    // Held only to read or change, never across an await.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// In order of registration.
    tools: Vec<Arc<Registered>>,
    /// Of sessions: the names that somebody else had there.
    taken: HashMap<SessionId, Vec<ToolRefused>>,
}

/// Where the program's functions run.
#[derive(Clone)]
pub(crate) struct ProgramRuntime {
    pub(crate) handle: Handle,
    pub(crate) spawner: Spawner,
}

/// A tool as session hosts have it: one value for all of them and for as long as it is registered, so that a
/// rebuild makes no call of it stale.
struct Registered {
    tool: Tool,
    runtime: ProgramRuntime,
    hosts: Hosts,
}

impl Registry {
    pub(crate) fn new(runtime: ProgramRuntime) -> Self {
        Registry(Arc::new(Shared {
            runtime,
            hosts: Hosts::default(),
            state: Mutex::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a tool up, for sessions that boot from now on.
    pub(crate) fn add(&self, tool: Tool) -> Result<(), ToolRefused> {
        let registered = Arc::new(Registered {
            tool,
            runtime: self.0.runtime.clone(),
            hosts: self.0.hosts.clone(),
        });
        check(&registered)?;
        let mut state = self.lock();
        let (name, replaces) = (&registered.tool.name, registered.tool.replaces);
        match state
            .tools
            .iter_mut()
            .find(|known| known.tool.name == *name)
        {
            None => state.tools.push(registered),
            Some(known) if replaces => *known = registered,
            Some(_) => {
                return Err(ToolRefused::Taken {
                    name: name.clone(),
                    by: "this program".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Gives a tool up, for sessions that boot from now on. False where there is none of that name.
    pub(crate) fn remove(&self, name: &str) -> bool {
        let mut state = self.lock();
        let before = state.tools.len();
        state.tools.retain(|known| known.tool.name != name);
        state.tools.len() < before
    }

    /// The first name that somebody else had in a session that has booted.
    pub(crate) fn taken(&self, session: &SessionId) -> Option<ToolRefused> {
        self.lock().taken.remove(session)?.into_iter().next()
    }

    /// The facet that contributes what is registered when a session's host boots.
    pub(crate) fn facet(&self) -> SessionFacet {
        let registry = self.clone();
        SessionFacet::new(PLUGIN, move |cx: SessionContext| {
            let registry = registry.clone();
            async move {
                registry.0.hosts.enter(&cx);
                registry.contribute(&cx);
                Ok(())
            }
        })
    }

    fn contribute(&self, cx: &SessionContext) {
        let tools = self.lock().tools.clone();
        let session = cx.agent.identity().session_id.clone();
        let registry = self.clone();
        cx.tools.add(move |draft| {
            let there = draft.list();
            let mut taken = Vec::new();
            for registered in &tools {
                let Tool { name, replaces, .. } = &registered.tool;
                let tool = Arc::clone(registered) as Arc<dyn SessionTool>;
                if *replaces {
                    draft.replace(name, tool);
                    continue;
                }
                if there.contains(name) {
                    taken.push(ToolRefused::Taken {
                        name: name.clone(),
                        by: "one of the session's plugins".to_owned(),
                    });
                }
                // Where it is taken, the host says so as well, and whose it is.
                draft.set(name, tool);
            }
            if !taken.is_empty() {
                registry.lock().taken.insert(session.clone(), taken);
            }
        });
    }
}

/// Whether a session host would take the tool: what it would say is said when the tool is registered.
fn check(registered: &Arc<Registered>) -> Result<(), ToolRefused> {
    let Tool { name, spec, .. } = &registered.tool;
    // First: what is wrong with a schema is an error of its own.
    if let Err(error) = jsonschema::validator_for(&spec.parameters) {
        return Err(ToolRefused::Schema {
            name: name.clone(),
            reason: error.to_string(),
        });
    }
    let mut draft = ToolDraft::new();
    draft.begin(&PluginId::new(PLUGIN), 0);
    draft.set(name, Arc::clone(registered) as Arc<dyn SessionTool>);
    let invalid = |reason: String| ToolRefused::Invalid {
        name: name.clone(),
        reason,
    };
    let mut problems = Vec::new();
    draft
        .finish(&mut problems)
        .map_err(|error| invalid(error.message))?;
    match problems.first() {
        Some(problem) => Err(invalid(problem.to_string())),
        None => Ok(()),
    }
}

impl SessionTool for Registered {
    fn spec(&self) -> &ToolSpec {
        &self.tool.spec
    }

    fn execute(
        &self,
        cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        let input = Value::clone(&invocation.arguments);
        let call = ToolCall {
            cx: cx.clone(),
            host: self.hosts.of(&invocation.session_id),
            invocation,
        };
        let run = Arc::clone(&self.tool.run);
        let ProgramRuntime { handle, spawner } = &self.runtime;
        async move {
            let task = {
                let _entered = handle.enter();
                // The function itself, too: it may want the runtime before its first wait.
                spawner.spawn(
                    "a tool of the program",
                    async move { run(input, call).await },
                )
            };
            let mut task = Ends(task);
            match cx.run(&mut task.0).await {
                Err(_) => Err(ToolError::Interrupted),
                Ok(None) => Err(ToolError::failed(
                    "the program that has this tool is ending; do without it",
                )),
                Ok(Some(Ok(ran))) => ran,
                Ok(Some(Err(failed))) if failed.is_panic() => resume_unwind(failed.into_panic()),
                Ok(Some(Err(_))) => Err(ToolError::Interrupted),
            }
        }
        .boxed()
    }

    fn accesses(&self, arguments: &Value, directory: &Path) -> Option<Vec<Access>> {
        let says = self.tool.says.as_ref()?;
        Some(says(arguments, directory))
    }
}
