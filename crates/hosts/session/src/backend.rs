//! The harness behind the facets' handles.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bezel_api_session::backend::{
    AgentBackend, AnyHook, EntryPage, HookGuard, LaneBackend, RequestsBackend,
};
use bezel_api_session::{
    AgentEvent, Capabilities, Capability, EventBody, ForkError, ForkPlan, LaneError, LedgerTotals,
    OpenRequestsError, SessionIdentity, ToolDraft,
};
use bezel_context::Context;
use bezel_harness::{AppendError, ChannelId, ForkRequest, ForkScope, Harness};
use bezel_plugin::{Following, Registry};
use bezel_session_types::{BegunCall, Entry, EntryId, LaneName};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::events::Bus;
use crate::hooks;
use crate::lane::HostLane;
use crate::requests::HostRequests;

/// What the harness can do.
pub(crate) const CAPABILITIES: Capabilities = Capabilities::of(
    "bezel",
    &[
        Capability::Steer,
        Capability::Navigate,
        Capability::Fork,
        Capability::Compact,
        Capability::Hooks,
        Capability::DurableRequests,
        Capability::ShowRequest,
    ],
);

pub(crate) struct HostAgent {
    pub(crate) identity: SessionIdentity,
    pub(crate) environment: Arc<BTreeMap<String, String>>,
    pub(crate) harness: Harness,
    pub(crate) bus: Arc<Bus>,
    pub(crate) main: Arc<HostLane>,
    pub(crate) tools: Registry<ToolDraft>,
    /// Carries every change of the tools into the harness as it is made; taken out when the session closes.
    // A plain mutex: held to put it in or take it out.
    pub(crate) following_tools: Mutex<Option<Following<ToolDraft>>>,
    pub(crate) retired: watch::Sender<Option<String>>,
}

impl AgentBackend for HostAgent {
    fn identity(&self) -> &SessionIdentity {
        &self.identity
    }

    fn environment(&self) -> &Arc<BTreeMap<String, String>> {
        &self.environment
    }

    fn main(&self) -> Arc<dyn LaneBackend> {
        Arc::clone(&self.main) as Arc<dyn LaneBackend>
    }

    fn lane(&self, name: &LaneName) -> Option<Arc<dyn LaneBackend>> {
        (*name == LaneName::main()).then(|| self.main())
    }

    fn subscribe(&self) -> mpsc::UnboundedReceiver<Arc<AgentEvent>> {
        self.bus.subscribe()
    }

    fn tell(&self, body: EventBody) {
        self.bus.publish(body);
    }

    fn hook(&self, plugin: &str, hook: AnyHook) -> HookGuard {
        hooks::register(&self.harness, plugin, hook)
    }

    fn requests(
        &self,
        plugin: &str,
        id: &str,
        request: &Value,
        response: &Value,
    ) -> Result<Arc<dyn RequestsBackend>, OpenRequestsError> {
        let channel = ChannelId::new(plugin, id);
        match self.harness.requests(channel, request, response) {
            Ok(channel) => Ok(Arc::new(HostRequests(channel))),
            Err(error) => Err(OpenRequestsError {
                id: id.to_owned(),
                reason: error.to_string(),
            }),
        }
    }

    fn open_requests(&self) -> watch::Receiver<usize> {
        self.harness.open_requests()
    }

    fn begun_before(&self) -> Vec<BegunCall> {
        let main = LaneName::main();
        let opened = self.harness.opened().iter();
        let begun = opened
            .filter(|found| found.lane == main)
            .flat_map(|found| &found.begun);
        begun.cloned().collect()
    }

    fn recent(
        &self,
        before: Option<EntryId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<(Vec<Entry>, bool), LaneError>> {
        let tree = self.harness.tree();
        let page = match before {
            None => tree.recent(&LaneName::main(), limit),
            Some(before) => match tree
                .entry(&before)
                .map(|entry| entry.and_then(|entry| entry.parent))
            {
                Ok(Some(parent)) => tree.path(&parent, limit),
                Ok(None) => return async { Ok((Vec::new(), false)) }.boxed(),
                Err(error) => Err(error),
            },
        };
        let page = page.map(|page| (page.entries, page.more));
        async move { page.map_err(|error| LaneError::Storage(error.to_string())) }.boxed()
    }

    fn following(
        &self,
        after: EntryId,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<EntryPage>, LaneError>> {
        let tree = self.harness.tree();
        let page = match tree.leaf(&LaneName::main()) {
            Some(tip) => tree.path_after(&tip, &after, limit),
            None => Ok(None),
        };
        let page = page
            .map(|page| page.map(|page| (page.entries, page.more)))
            .map_err(|error| LaneError::Storage(error.to_string()));
        async move { page }.boxed()
    }

    fn entry(&self, id: EntryId) -> BoxFuture<'_, Result<Option<Entry>, LaneError>> {
        let entry = self.harness.tree().entry(&id);
        async move { entry.map_err(|error| LaneError::Storage(error.to_string())) }.boxed()
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn tip(&self) -> Option<EntryId> {
        self.harness.tree().leaf(&LaneName::main())
    }

    fn all(
        &self,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Entry>, LaneError>> {
        let tree = self.harness.tree();
        async move {
            // Of a long session it is much to read: not on the runtime's own thread.
            let read = tokio::task::spawn_blocking(move || tree.all(before, limit)).await;
            read.map_err(|error| LaneError::Storage(error.to_string()))?
                .map_err(|error| LaneError::Storage(error.to_string()))
        }
        .boxed()
    }

    fn labels(&self) -> BoxFuture<'_, Result<BTreeMap<EntryId, String>, LaneError>> {
        let labels = self.harness.tree().labels();
        async move { labels.map_err(|error| LaneError::Storage(error.to_string())) }.boxed()
    }

    fn set_label<'a>(
        &'a self,
        cx: &'a Context,
        entry: EntryId,
        label: Option<String>,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        async move {
            let tree = self.harness.tree();
            match tree.set_label(cx, &entry, label.as_deref()) {
                Ok(()) => Ok(true),
                Err(AppendError::Unknown { .. }) => Ok(false),
                Err(AppendError::Cancelled(_)) => Err(LaneError::Cancelled),
                Err(error) => Err(LaneError::Storage(error.to_string())),
            }
        }
        .boxed()
    }

    fn fork(&self, plan: ForkPlan) -> BoxFuture<'_, Result<u64, ForkError>> {
        async move {
            let ForkPlan {
                at,
                whole_tree,
                into,
            } = plan;
            let scope = match whole_tree {
                true => ForkScope::Tree,
                false => ForkScope::Path,
            };
            let forked = self.harness.fork(ForkRequest { at, scope, into }).await;
            forked.map_err(|error| match error {
                bezel_harness::ForkError::Nothing => ForkError::Refused(error.to_string()),
                error if error.is_unknown() => ForkError::Refused(error.to_string()),
                error => ForkError::Storage(error.to_string()),
            })
        }
        .boxed()
    }

    fn retire(&self, reason: &str) {
        self.retired.send_replace(Some(reason.to_owned()));
    }

    fn usage(&self) -> BoxFuture<'_, Result<LedgerTotals, LaneError>> {
        let totals = self.harness.usage().map(|totals| LedgerTotals {
            usage: totals.usage,
            cost: totals.cost,
            requests: totals.requests,
        });
        async move { totals.map_err(|error| LaneError::Storage(error.to_string())) }.boxed()
    }
}
