//! Work on a session's files that needs no connection: what is asked, and what came of it.
//!
//! The server never writes a session's database and reads one only in short steps. What takes longer, writes a
//! new one or reads what somebody else brought is an errand: a process of its own does it and ends, so that a
//! file that breaks whoever reads it breaks no server.

use std::path::PathBuf;

use bezel_session_types::{CheckSummary, ExportFormat, ImportSummary, SessionId};
use serde::{Deserialize, Serialize};

/// What is to be done. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "errand", rename_all = "snake_case")]
pub enum Errand {
    /// Pack a session, whoever works in it.
    Export {
        /// Its database.
        database: PathBuf,
        /// Its saved output.
        output: PathBuf,
        /// The file to make.
        file: PathBuf,
        /// What to make of it.
        format: ExportFormat,
        /// Which session it is.
        session_id: SessionId,
        /// Its title.
        title: String,
        /// Where it works.
        directory: PathBuf,
        /// The product that packs it.
        version: String,
    },
    /// Write a new session from a file that somebody brought.
    Import {
        /// The file.
        file: PathBuf,
        /// The database to make; its folder is there.
        database: PathBuf,
        /// Where to put saved output.
        output: PathBuf,
        /// Where that will be once the session has its place.
        output_later: PathBuf,
    },
    /// Look whether a session is whole.
    Check {
        /// Its database.
        database: PathBuf,
        /// Its saved output.
        output: PathBuf,
    },
}

/// What came of an errand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "done", rename_all = "snake_case")]
pub enum ErrandOutcome {
    /// The file is made.
    Exported,
    /// The session is written.
    Imported {
        /// What it is.
        summary: ImportSummary,
    },
    /// The session was looked at.
    Checked {
        /// What was found.
        summary: CheckSummary,
    },
    /// It was not done.
    Failed {
        /// What was attempted, why it failed and what to do.
        message: String,
    },
}
