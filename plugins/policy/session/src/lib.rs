//! Session policy: when a worker that nobody watches ends, and when one gives way to another that starts with
//! what holds now.

mod renewal;
mod unattended;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use bezel_api_session::{Facet, FacetError, SessionContext, SessionFacet};
use bezel_sessions_contract::SessionProcessClient;
use bezel_tools_contract::BackgroundCommands;
use serde::Deserialize;
use tokio::sync::watch;

/// Configuration of the plugin.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// Minutes after which an unattended, idle worker ends; 0 keeps it.
    pub idle_exit_minutes: u64,
    /// Variables for whose sake a worker gives way to another: keys of providers, Bezel's own.
    pub telling_variables: BTreeSet<String>,
    /// Files for whose sake it does: the configuration, whether they exist or not.
    pub telling_files: Vec<PathBuf>,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        PolicyConfig {
            idle_exit_minutes: 10,
            telling_variables: BTreeSet::new(),
            telling_files: Vec::new(),
        }
    }
}

/// The session facet of the policy.
pub fn facet() -> SessionFacet {
    Facet::new("policy", setup)
        .configured::<PolicyConfig>()
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
