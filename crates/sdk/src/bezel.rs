//! A running instance: its sessions, its tools, its end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bezel_cli::embed::{Joined, Scratch, Standalone, join_once};
use bezel_context::{Context, Spawner, TaskScope};
use bezel_rpc::{Connect, Credential, ServiceClient};
use bezel_session_types::{ModelRef, PermissionMode, SessionId};
use bezel_sessions_contract::{
    CreateSession, LaunchEnvironment, SessionDirectoryClient, SessionManagementClient,
    SessionSummary,
};

use crate::builder::Builder;
use crate::error::{Error, ToolRefused};
use crate::registry::Registry;
use crate::session::{Session, refused};
use crate::tool::Tool;

/// How long tools that were told to end may take to do so.
const TOOLS: Duration = Duration::from_secs(2);

/// How long the list of sessions may take.
const LISTING: Duration = Duration::from_secs(30);

/// Bezel in this process: one plugin instance, which contributes the program's tools to every session that it
/// boots.
///
/// [`Bezel::stop`] ends it in order. Dropping it ends it as well, and blocks the thread until the sessions are
/// closed.
pub struct Bezel {
    // In the order in which they end.
    joined: Joined,
    standalone: Standalone,
    tasks: TaskScope,
    shared: Arc<Shared>,
    scratch: Option<Scratch>,
}

/// What sessions need of their instance.
pub(crate) struct Shared {
    connect: Arc<dyn Connect>,
    credential: Credential,
    pub(crate) registry: Registry,
    pub(crate) spawner: Spawner,
    pub(crate) environment: LaunchEnvironment,
    permission_mode: PermissionMode,
    model: Option<ModelRef>,
}

/// What a builder hands over.
pub(crate) struct Parts {
    pub(crate) standalone: Standalone,
    pub(crate) registry: Registry,
    pub(crate) tasks: TaskScope,
    pub(crate) scratch: Option<Scratch>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) permission_mode: PermissionMode,
    pub(crate) model: Option<ModelRef>,
}

impl Shared {
    /// A connection of its own. Hosts that cannot be reached have ended for good.
    pub(crate) async fn join(&self) -> Result<Joined, Error> {
        let (connect, credential) = (Arc::clone(&self.connect), self.credential.clone());
        Ok(join_once(&Context::background(), connect, credential).await?)
    }
}

impl Bezel {
    /// An instance that is not started yet.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) async fn connect(parts: Parts) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            connect: Arc::clone(&parts.standalone.connect),
            credential: parts.standalone.credential.clone(),
            registry: parts.registry,
            spawner: parts.tasks.spawner(),
            environment: LaunchEnvironment(parts.environment),
            permission_mode: parts.permission_mode,
            model: parts.model,
        });
        Ok(Bezel {
            joined: shared.join().await?,
            standalone: parts.standalone,
            tasks: parts.tasks,
            shared,
            scratch: parts.scratch,
        })
    }

    /// Adds a tool. Sessions that boot from now on have it; those that run stay as they are.
    pub fn add_tool(&self, tool: Tool) -> Result<(), ToolRefused> {
        self.shared.registry.add(tool)
    }

    /// Takes a tool of the program away from sessions that boot from now on. False where there is none of that
    /// name.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.shared.registry.remove(name)
    }

    /// Begins a session that works in a directory.
    pub async fn session(&self, directory: impl AsRef<Path>) -> Result<Session, Error> {
        let given = directory.as_ref();
        let directory = given.canonicalize().map_err(|error| Error::Directory {
            path: given.to_owned(),
            error,
        })?;
        let attempt = format!("no session was begun in {}", directory.display());
        let management: SessionManagementClient = self.service();
        let options = CreateSession {
            directory: directory.display().to_string(),
            environment: Some(self.shared.environment.clone()),
            model: self.shared.model.clone(),
            permission_mode: self.shared.permission_mode,
            ..CreateSession::default()
        };
        let created = management.create(&Context::background(), options).await;
        let id = created
            .map_err(|error| refused(&attempt, &error))?
            .session_id;
        let refusal = match self.open(id.clone()).await {
            Ok(session) => return Ok(session),
            Err(error) => error,
        };
        // Nothing was said in it.
        if let Err(error) = management.remove(&Context::background(), id).await {
            tracing::warn!(%error, "a session that was not begun is left");
        }
        Err(refusal)
    }

    /// Opens a session that is there already.
    pub async fn open(&self, session: SessionId) -> Result<Session, Error> {
        let opened = Session::open(&self.shared, session.clone()).await?;
        match self.shared.registry.taken(&session) {
            None => Ok(opened),
            Some(taken) => {
                opened.leave().await;
                Err(taken.into())
            }
        }
    }

    /// The sessions of this home, newest first.
    pub async fn sessions(&self) -> Result<Vec<SessionSummary>, Error> {
        let directory: SessionDirectoryClient = self.service();
        let cx = Context::background().with_timeout(LISTING);
        match directory.state().ready(&cx).await {
            Ok(state) => Ok(state.sessions.clone()),
            Err(_) => Err(Error::Connection(format!(
                "the sessions were not listed within {} seconds",
                LISTING.as_secs()
            ))),
        }
    }

    /// A service of the server, by its contract: whatever has no method here.
    pub fn service<C: ServiceClient>(&self) -> C {
        self.joined.link.server().use_service()
    }

    /// Ends what runs, closes the sessions and the server. A throwaway home is gone then.
    pub async fn stop(self) -> Result<(), Error> {
        let Bezel {
            joined,
            standalone,
            tasks,
            shared,
            scratch,
        } = self;
        joined.leave().await;
        let stopped = tokio::task::spawn_blocking(move || standalone.stop()).await;
        for task in tasks.shutdown(TOOLS).await {
            tracing::warn!(task, "what a program began had to be ended");
        }
        drop((shared, scratch));
        stopped
            .map_err(|error| Error::Connection(format!("the hosts did not end in order: {error}")))
    }
}
