//! Session policy: what the agent may do unasked, when a worker that nobody watches ends, and when one
//! gives way to another that starts with what holds now.
//!
//! In `plan` mode the agent looks and changes nothing: calls of tools that are not known to be read-only
//! are blocked before anything is recorded of them.

mod renewal;
mod unattended;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use bezel_api_session::{BeforeTool, Facet, FacetError, SessionContext, SessionFacet};
use bezel_sessions_contract::{PermissionMode, SessionProcessClient};
use bezel_tools_contract::BackgroundCommands;
use serde::Deserialize;
use tokio::sync::watch;

/// Configuration of the plugin.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// What the agent may do unasked.
    pub permission_mode: PermissionMode,
    /// Minutes after which an unattended, idle worker ends; 0 keeps it.
    pub idle_exit_minutes: u64,
    /// Tools that change nothing.
    pub read_only_tools: BTreeSet<String>,
    /// Variables for whose sake a worker gives way to another: keys of providers, Bezel's own.
    pub telling_variables: BTreeSet<String>,
    /// Files for whose sake it does: the configuration, whether they exist or not.
    pub telling_files: Vec<PathBuf>,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        let tools = ["read", "grep", "glob", "ls", "todo", "bash_output"];
        PolicyConfig {
            permission_mode: PermissionMode::default(),
            idle_exit_minutes: 10,
            read_only_tools: tools.into_iter().map(str::to_owned).collect(),
            telling_variables: BTreeSet::new(),
            telling_files: Vec::new(),
        }
    }
}

/// The session facet of the policy.
pub fn facet() -> SessionFacet {
    Facet::new("policy", setup)
        .provides::<SessionProcessClient>()
        .optional_local::<BackgroundCommands>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let config: PolicyConfig = cx.config()?;
    let attached = attached(&cx);
    if config.idle_exit_minutes > 0 {
        let after = Duration::from_secs(60 * config.idle_exit_minutes);
        unattended::retire_when_unattended(&cx, after, attached.clone());
    }
    renewal::offer(&cx, &config, attached);
    if config.permission_mode == PermissionMode::Full {
        return Ok(());
    }
    // A mode that nobody enforces is none.
    cx.agent.hooks().require()?;
    cx.prompt.add(|draft| {
        draft.set(
            "plan mode",
            "You are in plan mode: look, but change nothing. Tools that could change something are blocked. \
             End with a plan that the person can accept.",
        );
    });
    cx.agent.hooks().before_tool(move |_cx, call| {
        let allowed = config.read_only_tools.contains(&*call.tool);
        async move {
            Ok(match allowed {
                true => BeforeTool::Continue,
                false => BeforeTool::Block(format!(
                    "`{}` is blocked: the session is in plan mode, in which nothing may be changed",
                    call.tool
                )),
            })
        }
    });
    Ok(())
}

/// How many clients have the session open.
fn attached(cx: &SessionContext) -> watch::Receiver<usize> {
    let (attached, count) = watch::channel(0_usize);
    let leaving = attached.clone();
    cx.on_client_attach(move |_, _| attached.send_modify(|count| *count += 1));
    cx.on_client_detach(move |_, _| leaving.send_modify(|count| *count = count.saturating_sub(1)));
    count
}
