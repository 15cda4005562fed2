//! AGENTS.md and CLAUDE.md up the tree, as part of the system prompt.
//!
//! Files nearer to the session's directory come later and so weigh more. They are read when the session
//! starts and again when a run starts after they changed on disk.

mod files;
mod preamble;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bezel_api_session::{EventBody, Facet, FacetError, SessionContext, SessionFacet};
use serde::Deserialize;

use crate::files::Found;

/// Configuration of the plugin.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InstructionsConfig {
    /// A file of the person's own that comes before all others.
    pub user_file: Option<PathBuf>,
}

/// The session facet of instructions.
pub fn facet() -> SessionFacet {
    Facet::new("instructions", setup).configured::<InstructionsConfig>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let config: InstructionsConfig = cx.config()?;
    let directory = cx.agent.identity().directory.clone();
    let preamble = preamble::text(&directory);
    cx.prompt
        .add(move |draft| draft.set("preamble", preamble.clone()));

    let read = move || files::read(&directory, config.user_file.as_deref());
    // Plain mutex: contributions and the event task read and replace it, never across an await.
    let found = Arc::new(Mutex::new(read()));
    let contributed = Arc::clone(&found);
    let contribution = cx.prompt.add(move |draft| {
        let found = contributed.lock().unwrap_or_else(PoisonError::into_inner);
        for file in found.iter() {
            draft.set(&file.path.display().to_string(), file.section());
        }
    });
    cx.agent.events().subscribe(move |events| {
        let started = events
            .iter()
            .any(|event| matches!(event.body, EventBody::RunStarted(_)));
        if !started {
            return;
        }
        let newly: Vec<Found> = read();
        let mut known = found.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != newly {
            *known = newly;
            drop(known);
            contribution.changed();
        }
    });
    Ok(())
}
