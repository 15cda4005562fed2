//! The session facet: who is told when.

use std::sync::Arc;

use bezel_api_session::{ApproveTool, EventBody, Facet, FacetError, SessionContext, SessionFacet};
use bezel_context::Context;
use bezel_rewind_contract::{RewindClient, RewindState};
use bezel_session_types::{InvocationId, SessionId};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::desk::{Desk, search_path};
use crate::history::History;
use crate::rewinder::Setting;
use crate::service::RewindService;

/// Configuration of the plugin.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RewindConfig {
    /// Directories of more files get no checkpoints; what git ignores does not count.
    most_files: usize,
    /// Nor do those with more new content at once, in MiB.
    most_mebibytes: u64,
}

impl Default for RewindConfig {
    fn default() -> Self {
        RewindConfig {
            most_files: 100_000,
            most_mebibytes: 1024,
        }
    }
}

/// What is done something about.
enum Happened {
    Moved,
    RunEnded,
    /// A call has its result, whether it ran or not.
    Settled(InvocationId),
}

/// The session facet of rewind.
pub fn facet() -> SessionFacet {
    Facet::new("rewind", setup)
        .configured::<RewindConfig>()
        .provides::<RewindClient>()
}

/// When a session was made, as its id says: a version 7 UUID. Milliseconds since 1970, 0 where it does not say.
fn born(session: &SessionId) -> i64 {
    let id = uuid::Uuid::parse_str(session.as_str()).ok();
    let at = id.and_then(|id| id.get_timestamp()).map(|at| at.to_unix());
    at.map_or(0, |(seconds, nanoseconds)| {
        let milliseconds = i64::from(nanoseconds / 1_000_000);
        i64::try_from(seconds).map_or(0, |seconds| seconds.saturating_mul(1_000) + milliseconds)
    })
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let config: RewindConfig = cx.config()?;
    let identity = cx.agent.identity();
    let records = identity.output_directory.join("rewind");
    // The session's own database is beside its outputs: where the directory holds both, neither is recorded.
    let own = identity.output_directory.parent().map(ToOwned::to_owned);
    let setting = Setting {
        root: identity.directory.clone(),
        without: own
            .into_iter()
            .chain([identity.output_directory.clone()])
            .collect(),
        records,
        born: born(&identity.session_id),
        path: search_path(cx.agent.environment().get("PATH")),
        most_entries: config.most_files,
        most_bytes: config.most_mebibytes * 1024 * 1024,
    };
    let cell = cx.state_cell(RewindState::default());
    let history = History::new(cx.agent.tree());
    let desk = Arc::new(Desk::new(cx.agent.main(), history, cell, setting));
    desk.look_for_git();
    cx.provide(RewindClient::new(RewindService {
        desk: Arc::clone(&desk),
    }));

    let before = Arc::clone(&desk);
    // Where a call is approved, and behind whoever approves it: what it touches is known and final there, and
    // what a person changes while they are asked is theirs.
    cx.agent.hooks().approve_tool(move |cx, call| {
        let desk = Arc::clone(&before);
        async move {
            desk.before_call(&cx, &call).await;
            Ok(ApproveTool::Allow)
        }
    });
    let after = Arc::clone(&desk);
    cx.agent.hooks().tool_ended(move |_cx, call| {
        let desk = Arc::clone(&after);
        async move {
            desk.after_call(call.invocation).await;
            Ok(())
        }
    });

    let (happened, mut happening) = mpsc::unbounded_channel();
    cx.agent.events().subscribe(move |events| {
        for event in events {
            let happens = match &event.body {
                EventBody::Navigated { .. } => Happened::Moved,
                EventBody::RunEnded(_) => Happened::RunEnded,
                EventBody::ToolEnded { invocation, .. } => Happened::Settled(invocation.clone()),
                _ => continue,
            };
            // It ends with the session.
            happened.send(happens).ok();
        }
    });
    let spawner = cx.spawner().clone();
    cx.on_activate(move || async move {
        let cx = Context::background();
        // Before anything runs: the first message may be waiting already.
        desk.take_up(&cx).await;
        let alive = Arc::clone(&desk);
        spawner.spawn("rewind pulse", async move { alive.keep_pulse().await });
        spawner.spawn("rewind", async move {
            // What a crash has left in the middle is finished before anybody asks.
            desk.settle_if_needed(&cx).await;
            desk.after_run().await;
            while let Some(happened) = happening.recv().await {
                match happened {
                    Happened::Settled(call) => {
                        desk.settled(call).await;
                        continue;
                    }
                    Happened::Moved => {}
                    Happened::RunEnded => desk.after_run().await,
                }
                desk.settle_if_needed(&cx).await;
            }
        });
        Ok(())
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_says_when_the_session_was_made() {
        let now = || crate::snapshot::now() / 1_000_000;
        let before = now();
        let made = born(&SessionId::generate());
        assert!((before..=now()).contains(&made), "{made}");
        assert_eq!(born(&SessionId::new("session-under-test")), 0);
    }
}
