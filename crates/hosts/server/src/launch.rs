//! How a worker comes to be: what it is told, and who starts it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bezel_api_server::LaunchEnvironment;
use bezel_context::{Context, WorkspaceId};
use bezel_rpc::Connect;
use bezel_session_types::{ModelRef, PermissionMode, SessionId, ThinkingLevel};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::errand::{Errand, ErrandOutcome};

/// Everything a new worker is told, over a pipe or as a value. Its debug form hides the credential and
/// the environment.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerStart {
    /// Its session.
    pub session_id: SessionId,
    /// For people; empty while it has none.
    pub title: String,
    /// Whose it is.
    pub owner: String,
    /// The project root that the directory lies in.
    pub workspace_id: WorkspaceId,
    /// The root's own name.
    pub workspace_name: String,
    /// Absolute path of the project root.
    pub workspace_root: PathBuf,
    /// Where it works; absolute.
    pub directory: PathBuf,
    /// The session's database. Its directory exists, the file may not.
    pub database: PathBuf,
    /// Where long tool output is saved. May not exist.
    pub output: PathBuf,
    /// What it says in `hello`. Valid until the worker ends.
    pub credential: WorkerCredential,
    /// Variables of the shell that asked; none where nobody sent any.
    pub environment: Option<LaunchEnvironment>,
    /// The chosen model; none while the configured one serves.
    pub model: Option<ModelRef>,
    /// How much it reasons; none while the configured level serves.
    pub thinking_level: Option<ThinkingLevel>,
    /// What the agent may do unasked.
    pub permission_mode: PermissionMode,
    /// The session that it is a part of: it then lives in the worker of its root.
    #[serde(default)]
    pub parent_id: Option<SessionId>,
    /// The agent that it runs; none while the configured one serves.
    #[serde(default)]
    pub agent: Option<String>,
    /// Where the sessions above it work, the root's first: what holds there binds it too. None for a root.
    #[serde(default)]
    pub above: Vec<PathBuf>,
}

impl fmt::Debug for WorkerStart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WorkerStart")
            .field("session_id", &self.session_id)
            .field("directory", &self.directory)
            .field("database", &self.database)
            .field("environment", &self.environment)
            .finish_non_exhaustive()
    }
}

/// A worker's secret. Its debug form hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerCredential(String);

impl WorkerCredential {
    /// A new one, 256 random bits.
    pub(crate) fn generate() -> Self {
        let bytes: [u8; 32] = rand::random();
        WorkerCredential(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The text, for `hello` alone.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for WorkerCredential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WorkerCredential(hidden)")
    }
}

/// Starts workers: as processes, or as threads of this one.
pub trait WorkerLauncher: Send + Sync + 'static {
    /// Starts a worker. Resolves once it runs, not once it is connected. `server` is for a worker in
    /// this process; another one is told an address by the launcher.
    fn launch(
        &self,
        cx: &Context,
        start: WorkerStart,
        server: Arc<dyn Connect>,
    ) -> BoxFuture<'_, Result<Box<dyn LaunchedWorker>, LaunchError>>;

    /// Takes over a worker that an earlier life of the server launched, by what
    /// [`LaunchedWorker::identity`] said of it then. `None` where that process is gone.
    fn adopt(&self, identity: &str) -> Option<Box<dyn LaunchedWorker>> {
        tracing::debug!(identity, "this launcher takes over no worker");
        None
    }

    /// Does an errand, to its end even where nobody waits for it any more.
    fn errand(&self, errand: Errand) -> BoxFuture<'_, Result<ErrandOutcome, LaunchError>> {
        let message = format!("this launcher does no errands: {errand:?}");
        async move { Err(LaunchError(message)) }.boxed()
    }

    /// Removes what a deleted session has left outside of its folder: scratch directories, its log. No worker
    /// of the session runs any more. Blocks for some milliseconds; what could not be removed is the error.
    fn forget(&self, session_id: &SessionId) -> std::io::Result<()> {
        tracing::trace!(session = %session_id, "workers of this launcher leave no file");
        Ok(())
    }

    /// Ends the processes that a session's worker had started and that are still there, after the worker has
    /// gone without doing so itself, and says how many there were. No worker of the session runs meanwhile.
    /// Blocks for some milliseconds.
    fn clear(&self, session_id: &SessionId) -> usize {
        tracing::trace!(session = %session_id, "workers of this launcher leave no process");
        0
    }
}

/// A worker that was launched. Dropping it does not end it.
pub trait LaunchedWorker: Send + Sync + 'static {
    /// Its process; none where it is a thread of this one.
    fn process_id(&self) -> Option<u32>;

    /// What [`WorkerLauncher::adopt`] finds this very process by, and never another one that got its
    /// number later. None where it cannot outlive this process.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Resolves once it has ended.
    fn exited(&self) -> BoxFuture<'static, WorkerExit>;

    /// Asks it to end: it stops taking work, settles what it must and exits.
    fn request_stop(&self);

    /// Ends it at once.
    fn kill(&self);
}

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerExit {
    /// Whether it ended by itself and in order.
    pub orderly: bool,
    /// For people, as the rest of a sentence: `exited with status 1`, `was killed by signal 9`.
    pub description: String,
}

/// A worker that could not be launched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LaunchError(
    /// What was attempted, why it failed and what to do.
    pub String,
);

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn start() -> WorkerStart {
        let environment = [("API_KEY".to_owned(), "s3cret-value".to_owned())].into();
        WorkerStart {
            session_id: SessionId::new("s"),
            title: String::new(),
            owner: "me".into(),
            workspace_id: WorkspaceId::new("w"),
            workspace_name: "project".into(),
            workspace_root: "/project".into(),
            directory: "/project/sub".into(),
            database: "/data/s/session.db".into(),
            output: "/data/s/output".into(),
            credential: WorkerCredential::generate(),
            environment: Some(LaunchEnvironment(environment)),
            model: None,
            thinking_level: Some(ThinkingLevel::Low),
            permission_mode: PermissionMode::Plan,
            parent_id: Some(SessionId::new("root")),
            agent: Some("explore".into()),
            above: vec!["/project".into()],
        }
    }

    #[test]
    fn a_worker_start_crosses_a_pipe_whole_and_its_debug_form_hides_secrets() {
        let start = start();
        let text = serde_json::to_string(&start).unwrap();
        assert_eq!(serde_json::from_str::<WorkerStart>(&text).unwrap(), start);
        let debug = format!("{start:?}");
        assert!(
            !debug.contains("s3cret-value") && !debug.contains("API_KEY"),
            "{debug}"
        );
        assert!(!debug.contains(start.credential.reveal()), "{debug}");
    }

    #[test]
    fn no_two_credentials_are_the_same() {
        assert_ne!(WorkerCredential::generate(), WorkerCredential::generate());
    }
}
