//! The harness behind the facets' handles.

use std::collections::BTreeMap;
use std::sync::Arc;

use bezel_api_session::backend::{AgentBackend, AnyHook, HookGuard, LaneBackend, RequestsBackend};
use bezel_api_session::{AgentEvent, LaneError, LedgerTotals, OpenRequestsError, SessionIdentity};
use bezel_harness::{ChannelId, Harness};
use bezel_session_types::{Entry, EntryId, LaneName};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::events::Bus;
use crate::hooks;
use crate::lane::HostLane;
use crate::requests::HostRequests;

pub(crate) struct HostAgent {
    pub(crate) identity: SessionIdentity,
    pub(crate) environment: Arc<BTreeMap<String, String>>,
    pub(crate) harness: Harness,
    pub(crate) bus: Arc<Bus>,
    pub(crate) main: Arc<HostLane>,
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

    fn entry(&self, id: EntryId) -> BoxFuture<'_, Result<Option<Entry>, LaneError>> {
        let entry = self.harness.tree().entry(&id);
        async move { entry.map_err(|error| LaneError::Storage(error.to_string())) }.boxed()
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
