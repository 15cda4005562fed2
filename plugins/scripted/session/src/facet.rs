//! The session facet: the tour as the last provider, so that it is what a session without any key begins with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bezel_api_session::{
    Availability, Facet, FacetError, ProviderEntry, SessionContext, SessionFacet,
};
use serde::Deserialize;

use crate::{Tour, model};

/// Configuration of the plugin.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedConfig {
    /// Where the tour makes its files; by default a folder among the session's own files.
    pub scratch: Option<PathBuf>,
    /// Milliseconds before each word; by default a pace at which a person can read along.
    pub pace_ms: Option<u64>,
    /// Says that `bezel` cannot be started by its name.
    pub not_installed: bool,
}

/// The session facet of the scripted model.
pub fn facet() -> SessionFacet {
    Facet::new("scripted", setup).configured::<ScriptedConfig>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let config: ScriptedConfig = cx.config()?;
    let scratch = config
        .scratch
        .unwrap_or_else(|| cx.agent.identity().output_directory.join("tour"));
    let tour = match config.pace_ms {
        Some(pace) => Tour::paced(scratch, Duration::from_millis(pace)),
        None => Tour::new(scratch, true),
    };
    let tour = match config.not_installed {
        true => tour.not_installed(),
        false => tour,
    };
    let entry = ProviderEntry {
        provider: Arc::new(tour),
        models: vec![model()],
        availability: Availability::Available,
        key_origin: None,
        listing: None,
    };
    cx.providers
        .add(move |draft| draft.set("scripted", entry.clone()));
    Ok(())
}
