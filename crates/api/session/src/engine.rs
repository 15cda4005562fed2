//! What drives a session: one narrow interface, and what an engine behind it can do, stated, so that nobody
//! finds out by trying.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bezel_context::{Context, Spawner};
use bezel_plugin::Registry;
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::agent::SessionIdentity;
use crate::backend::AgentBackend;
use crate::catalogue::ProviderDraft;
use crate::lifecycle::FoundSession;
use crate::prompt::PromptDraft;
use crate::tools::ToolDraft;

/// Takes sessions up. The harness is one; an agent of another make is another.
pub trait Engine: Send + Sync {
    /// Takes a session up and starts nothing in it. Facets are set up after this.
    fn open(
        &self,
        start: EngineStart,
    ) -> BoxFuture<'_, Result<Arc<dyn EngineSession>, EngineError>>;
}

/// What an engine gets.
pub struct EngineStart {
    /// Which session.
    pub identity: SessionIdentity,
    /// Variables of the shell that started it.
    pub environment: Arc<BTreeMap<String, String>>,
    /// The session's database, absolute. The engine is its only writer.
    pub database: PathBuf,
    /// Starts its tasks; they end with the session.
    pub spawner: Spawner,
    /// What the facets' contributions add up to, now and from now on. Open from [`EngineSession::go_on`] on.
    pub tools: Registry<ToolDraft>,
    /// The same of providers.
    pub providers: Registry<ProviderDraft>,
    /// The same of the system prompt.
    pub prompt: Registry<PromptDraft>,
    /// Set with the reason when a facet ends the worker.
    pub retired: watch::Sender<Option<String>>,
}

/// A session that an engine drives: what the facets see of it, and what the host does with it.
pub trait EngineSession: AgentBackend {
    /// All facets are active: takes their tools, and goes on with what a crash left open.
    fn go_on<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, ()>;
    /// What there was of the session when it was taken up.
    fn found(&self) -> FoundSession {
        match self.tip() {
            None => FoundSession::New,
            Some(_) => FoundSession::Reopened,
        }
    }
    /// Whether nothing runs.
    fn is_idle(&self) -> bool;
    /// Ends everything that runs and writes nothing: for the session it is like a crash.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A session that an engine did not take up.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct EngineError(Box<dyn std::error::Error + Send + Sync>);

impl EngineError {
    /// Wraps what went wrong.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        EngineError(error.into())
    }
}

/// What an engine can do beyond taking a prompt and running it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Messages that enter a run while it goes on.
    Steer,
    /// Moving to another place in the tree.
    Navigate,
    /// Copying the tree, or a path of it, into a new session.
    Fork,
    /// Summarising older entries.
    Compact,
    /// Interception of its operations by facets.
    Hooks,
    /// Questions of a running tool that outlive the process.
    DurableRequests,
    /// Files put back to what they were before a turn.
    Revert,
    /// Saying what the model would be sent.
    ShowRequest,
}

impl Capability {
    /// All there are.
    pub const ALL: [Capability; 8] = [
        Capability::Steer,
        Capability::Navigate,
        Capability::Fork,
        Capability::Compact,
        Capability::Hooks,
        Capability::DurableRequests,
        Capability::Revert,
        Capability::ShowRequest,
    ];

    /// As contracts and configuration spell it.
    pub fn name(self) -> &'static str {
        match self {
            Capability::Steer => "steer",
            Capability::Navigate => "navigate",
            Capability::Fork => "fork",
            Capability::Compact => "compact",
            Capability::Hooks => "hooks",
            Capability::DurableRequests => "durable-requests",
            Capability::Revert => "revert",
            Capability::ShowRequest => "show-request",
        }
    }
}

/// The engine of a session and what it can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Its name.
    pub engine: &'static str,
    can: u8,
}

/// The session's engine cannot do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the engine `{engine}` of this session cannot do it: it lacks `{}`", capability.name())]
pub struct Unsupported {
    /// Which engine.
    pub engine: &'static str,
    /// What it lacks.
    pub capability: Capability,
}

impl Capabilities {
    /// An engine that can do `can` and nothing more.
    pub const fn of(engine: &'static str, can: &[Capability]) -> Self {
        let (mut bits, mut index) = (0, 0);
        while index < can.len() {
            bits |= 1 << can[index] as u8;
            index += 1;
        }
        Capabilities { engine, can: bits }
    }

    /// Whether it can do this.
    pub fn has(&self, capability: Capability) -> bool {
        self.can & (1 << capability as u8) != 0
    }

    /// What it can do, in the order of [`Capability::ALL`].
    pub fn list(&self) -> impl Iterator<Item = Capability> {
        let can = *self;
        Capability::ALL.into_iter().filter(move |one| can.has(*one))
    }

    /// The error that names this capability.
    pub fn lacking(&self, capability: Capability) -> Unsupported {
        Unsupported {
            engine: self.engine,
            capability,
        }
    }

    /// An error that names what is lacking.
    pub fn require(&self, capability: Capability) -> Result<(), Unsupported> {
        match self.has(capability) {
            true => Ok(()),
            false => Err(self.lacking(capability)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_has_what_it_states_and_an_error_names_what_it_lacks() {
        let engine = Capabilities::of("script", &[Capability::Steer, Capability::Revert]);
        let list: Vec<Capability> = engine.list().collect();
        assert_eq!(list, [Capability::Steer, Capability::Revert]);
        assert_eq!(engine.require(Capability::Steer), Ok(()));
        let lacking = engine.require(Capability::Fork).unwrap_err().to_string();
        assert_eq!(
            lacking,
            "the engine `script` of this session cannot do it: it lacks `fork`"
        );
    }
}
