//! Looking after the files of sessions.

use bezel_rpc::{Context, service};
use bezel_session_types::{CheckSummary, ExportFormat, ImportSummary, SessionId, SessionSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{SessionError, SessionSummary};

/// Takes sessions in, packs, checks and measures them. None of it starts a worker. Files are named by absolute
/// paths of the server's machine, by clients of that machine alone.
#[service("session-upkeep", version = "1.1")]
pub trait SessionUpkeep {
    /// Takes the session in a file in as a new one: an export of Bezel, or a session file of pi, Claude Code or
    /// Codex. The file is left as it is.
    #[scope(operate)]
    async fn import(&self, cx: &Context, options: ImportSession) -> Result<Imported, SessionError>;

    /// Writes a session into a new file, whether something runs in it or not: all of it with its saved output, which
    /// is what is written where no format is named, or what can be read of it.
    #[scope(operate)]
    async fn export(
        &self,
        cx: &Context,
        session_id: SessionId,
        file: String,
        format: Option<ExportFormat>,
    ) -> Result<(), SessionError>;

    /// Looks whether a session is whole. Reads all of it and writes nothing.
    #[scope(read)]
    async fn check(
        &self,
        cx: &Context,
        session_id: SessionId,
    ) -> Result<CheckSummary, SessionError>;

    /// Session folders without a record: those that could not be adopted. None for a client of another machine.
    #[scope(read)]
    async fn strays(&self, cx: &Context) -> Result<Vec<SessionId>, SessionError>;

    /// What the caller's sessions take of the disk, the largest first.
    #[scope(read)]
    async fn sizes(&self, cx: &Context) -> Result<Vec<SessionSize>, SessionError>;
}

/// A session to take in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportSession {
    /// The file; an absolute path.
    pub file: String,
    /// Where the session will work; an absolute path. Without one it works where it did, if that is there.
    pub directory: Option<String>,
    /// Where it will work if not; an absolute path.
    pub fallback: String,
}

/// A session that was taken in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Imported {
    /// The new session.
    pub session: SessionSummary,
    /// What came of the file.
    pub summary: ImportSummary,
}
