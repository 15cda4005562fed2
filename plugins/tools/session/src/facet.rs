//! The session facet: the built-in tools as one contribution.

use std::ffi::OsString;
use std::sync::Arc;

use bezel_api_session::{Facet, FacetError, SessionContext, SessionFacet};
use bezel_permissions_contract::ReadGuard;
use bezel_tools_contract::{BackgroundCommands, BackgroundDetails, CommandStatus};
use futures::FutureExt;
use serde::Deserialize;

use crate::command::remove_left_over_scratch;
use crate::search::SearchLimits;
use crate::todo::{TodoList, newest};
use crate::{Environment, ToolShared, tools};

/// Configuration of the plugin.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolsConfig {
    /// Variables that hold keys of configured providers: no command gets them.
    pub key_variables: Vec<String>,
}

/// The session facet of the built-in tools.
pub fn facet() -> SessionFacet {
    Facet::new("tools", setup)
        .configured::<ToolsConfig>()
        .provides_local::<BackgroundCommands>()
        .optional_local::<ReadGuard>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let config: ToolsConfig = cx.config()?;
    remove_left_over_scratch(&cx.agent.identity().session_id);
    let variables = cx.agent.environment().iter();
    let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let environment = Arc::new(Environment::new(variables, config.key_variables));
    let mut shared = ToolShared::new(environment, cx.spawner().clone());
    if let Some(guard) = cx.use_local_optional::<ReadGuard>() {
        shared.search = SearchLimits::new(move |directory| match guard.get() {
            Ok(guard) => guard.below(directory),
            // Nobody who could judge: nothing is looked into.
            Err(_) => Arc::new(|_| false),
        });
    }
    let tree = cx.agent.tree();
    let earlier = move || newest(tree.clone()).boxed();
    shared.todos = Arc::new(TodoList::after(Box::new(earlier)));
    let commands = Arc::clone(&shared.commands);
    let running = move || {
        let is_running =
            |command: &BackgroundDetails| command.command.status == CommandStatus::Running;
        commands
            .background()
            .iter()
            .filter(|command| is_running(command))
            .count()
    };
    cx.provide_local(Arc::new(BackgroundCommands::new(running)));
    let commands = Arc::clone(&shared.commands);
    cx.on_dispose(move || async move {
        commands.shutdown().await;
        Ok(())
    });
    let contributed = tools(shared);
    cx.tools.add(move |draft| {
        for (name, tool) in &contributed {
            draft.set(name, Arc::clone(tool));
        }
    });
    Ok(())
}
