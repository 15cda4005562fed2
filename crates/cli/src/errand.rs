//! The process of one errand: told over its standard input what to do, says on standard output what came of it.

use std::io::{self, Read as _, Write as _};

use anyhow::Context as _;
use bezel_host_server::{Errand, ErrandOutcome};
use bezel_host_session::upkeep::{self, ImportPlace, PackageFacts};

use crate::failure::{Exit, Failure, Outcome};

/// Bytes that an errand may have at most.
const MOST: u64 = 1024 * 1024;

/// Does what standard input says.
pub fn run() -> Outcome {
    let mut text = Vec::new();
    io::stdin()
        .take(MOST)
        .read_to_end(&mut text)
        .context("cannot read what the server says on standard input")
        .map_err(Failure::failed)?;
    let errand: Errand = serde_json::from_slice(&text)
        .context("standard input does not hold an errand; only the server gives them")
        .map_err(Failure::usage)?;
    let outcome = perform(errand);
    let text = serde_json::to_vec(&outcome).map_err(Failure::failed)?;
    io::stdout().write_all(&text)?;
    Ok(Exit::Done)
}

/// Does an errand. Blocks for as long as the disk takes.
pub fn perform(errand: Errand) -> ErrandOutcome {
    let failed = |error: &dyn std::error::Error| ErrandOutcome::Failed {
        message: error.to_string(),
    };
    match errand {
        Errand::Export {
            database,
            output,
            file,
            format,
            session_id,
            title,
            directory,
            version,
        } => {
            let facts = PackageFacts {
                session_id,
                title,
                directory,
                output_directory: output,
                version,
            };
            match upkeep::export(&database, &facts, format, &file) {
                Ok(()) => ErrandOutcome::Exported,
                Err(error) => failed(&error),
            }
        }
        Errand::Import {
            file,
            database,
            output,
            output_later,
        } => {
            let place = ImportPlace {
                database,
                outputs: output,
                outputs_later: output_later,
            };
            match upkeep::import(&file, &place) {
                Ok(summary) => ErrandOutcome::Imported { summary },
                Err(error) => failed(&error),
            }
        }
        Errand::Check { database, output } => ErrandOutcome::Checked {
            summary: upkeep::check(&database, &output),
        },
    }
}
