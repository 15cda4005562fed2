//! Children of sessions: they live in the worker of their root and have a slot of their own, like any worker.
//!
//! A launch of a child is an offer: the root's worker claims it, connects the child, and says when it lets it go.
//! The root's end is the end of all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_api_server::{ChildLaunch, ChildWish, FleetError, LaunchEnvironment, ManagedSession};
use bezel_context::Context;
use bezel_session_types::SessionId;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

use super::slot::Phase;
use super::{Shared, Workers};
use crate::feed::Feed;
use crate::{LaunchError, LaunchedWorker, WorkerExit, WorkerStart};

/// Before the root's id in what a later server finds a child by.
const WITHIN: &str = "within:";

/// The children that are offered, hosted or let go.
#[derive(Default)]
pub(super) struct Children {
    // A plain mutex: held to look up or change, never across an await.
    offers: Mutex<HashMap<SessionId, Offer>>,
    /// Counts the offers, so that who claims one can wait for it.
    offered: watch::Sender<u64>,
    changed: Feed<()>,
}

/// A child and how far it has come.
struct Offer {
    root: SessionId,
    /// What its host is to be told, until it is connected.
    start: Option<Value>,
    claimed: bool,
    /// It is to be let go.
    release: bool,
    ended: watch::Sender<Option<WorkerExit>>,
}

impl Children {
    fn offers(&self) -> MutexGuard<'_, HashMap<SessionId, Offer>> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.offers().len()
    }

    pub(super) fn on_changed(&self, listener: impl Fn() + Send + Sync + 'static) -> Box<dyn Send> {
        self.changed.subscribe(move |()| listener())
    }

    pub(super) fn wishes(&self) -> Vec<ChildWish> {
        let offers = self.offers();
        let mut wishes: Vec<ChildWish> = offers
            .iter()
            .filter(|(_, offer)| offer.release || !offer.claimed)
            .map(|(session_id, offer)| ChildWish {
                session_id: session_id.clone(),
                root: offer.root.clone(),
                release: offer.release,
            })
            .collect();
        wishes.sort_by(|a, b| a.session_id.cmp(&b.session_id));
        wishes
    }

    /// The child is connected: what its host was told is not kept.
    pub(super) fn connected(&self, session_id: &SessionId) {
        if let Some(offer) = self.offers().get_mut(session_id) {
            offer.start = None;
        }
    }

    /// The child's slot is gone.
    pub(super) fn forget(&self, session_id: &SessionId) {
        if self.offers().remove(session_id).is_some() {
            self.changed.publish(());
        }
    }

    /// It is let go, or was never taken up.
    pub(super) fn released(&self, session_id: &SessionId, exit: WorkerExit) {
        if let Some(offer) = self.offers().get(session_id) {
            offer.ended.send_replace(Some(exit));
        }
    }

    /// Of the claimed children of this tree, those that are not among `hosted` are gone.
    pub(super) fn hosted(&self, root: &SessionId, hosted: &[SessionId]) {
        for (session_id, offer) in self.offers().iter() {
            if offer.root == *root && offer.claimed && !hosted.contains(session_id) {
                offer.ended.send_replace(Some(WorkerExit {
                    orderly: true,
                    description: "is not hosted any more".into(),
                }));
            }
        }
    }

    fn release(&self, session_id: &SessionId) {
        if let Some(offer) = self.offers().get_mut(session_id) {
            offer.release = true;
        }
        self.changed.publish(());
    }

    /// Takes what the child's host is to be told, where it is offered.
    fn claim(&self, session_id: &SessionId) -> Option<Value> {
        let mut offers = self.offers();
        let offer = offers.get_mut(session_id).filter(|offer| !offer.release)?;
        let start = offer.start.clone()?;
        offer.claimed = true;
        Some(start)
    }

    fn offer(
        self: &Arc<Self>,
        session_id: SessionId,
        root: SessionId,
        start: Option<Value>,
        root_phase: watch::Receiver<Phase>,
    ) -> HostedChild {
        let (ended, exit) = watch::channel(None);
        let offer = Offer {
            root: root.clone(),
            claimed: start.is_none(),
            start,
            release: false,
            ended,
        };
        self.offers().insert(session_id.clone(), offer);
        self.offered.send_modify(|count| *count += 1);
        self.changed.publish(());
        HostedChild {
            children: Arc::clone(self),
            session_id,
            root,
            root_phase,
            exit,
        }
    }
}

/// The root that a child lives in, from what [`LaunchedWorker::identity`] said of it.
pub(super) fn root_in(identity: &str) -> Option<SessionId> {
    identity.strip_prefix(WITHIN).map(SessionId::new)
}

impl Workers {
    /// What is wanted of the workers of all trees.
    pub(crate) fn child_wishes(&self) -> Vec<ChildWish> {
        self.0.children.wishes()
    }

    pub(crate) fn on_child_wishes(
        &self,
        listener: impl Fn() + Send + Sync + 'static,
    ) -> Box<dyn Send> {
        self.0.children.on_changed(listener)
    }

    /// Offers a child where nobody does, and resolves with what its host is to be told.
    pub(crate) async fn claim_child(
        &self,
        cx: &Context,
        session: &ManagedSession,
    ) -> Result<ChildLaunch, FleetError> {
        let mut offered = self.0.children.offered.subscribe();
        loop {
            let (mut phase, ending) = self.join(session, None)?;
            if ending {
                let ended = phase.wait_for(|phase| matches!(phase, Phase::Ended(_)));
                cx.run(ended).await?.ok();
                continue;
            }
            offered.borrow_and_update();
            if let Some(start) = self.0.children.claim(&session.session_id) {
                self.0.children.changed.publish(());
                return Ok(ChildLaunch(start));
            }
            let reached = phase.borrow().clone();
            match reached {
                Phase::Connected | Phase::Disconnected => {
                    return Err(FleetError::Invalid(format!(
                        "session {} is hosted already",
                        session.session_id
                    )));
                }
                Phase::Ended(Some(reason)) => return Err(reason),
                Phase::Ended(None) => continue,
                Phase::Launching | Phase::Launched => {}
            }
            let next = async {
                tokio::select! {
                    offered = offered.changed() => offered.is_ok(),
                    changed = phase.changed() => changed.is_ok(),
                }
            };
            if !cx.run(next).await? {
                return Err(FleetError::Stopping);
            }
        }
    }

    pub(crate) fn release_child(&self, session_id: &SessionId, exit: WorkerExit) {
        self.0.children.released(session_id, exit);
    }

    pub(crate) fn hosted_children(&self, root: &SessionId, hosted: &[SessionId]) {
        self.0.children.hosted(root, hosted);
    }

    /// Resolves once children can be offered to the root's worker, which is launched where there is none. One that
    /// starts takes up what it had begun before it is connected.
    async fn start_for_child(
        &self,
        root: &ManagedSession,
        environment: Option<LaunchEnvironment>,
    ) -> Result<(), FleetError> {
        let (mut phase, ending) = self.join(root, environment.clone())?;
        if !ending {
            let launched = phase.wait_for(|phase| !matches!(phase, Phase::Launching));
            if launched
                .await
                .is_ok_and(|phase| matches!(*phase, Phase::Launched))
            {
                return Ok(());
            }
        }
        self.start(&Context::background(), root, environment).await
    }

    /// Finds a child again that lives in the worker of `root`, where that one was found.
    pub(super) fn adopt_child(
        &self,
        session_id: &SessionId,
        root: SessionId,
    ) -> Option<Box<dyn LaunchedWorker>> {
        let phase = self.0.lock().by_session.get(&root)?.phase.subscribe();
        let child = self.0.children.offer(session_id.clone(), root, None, phase);
        Some(Box::new(child))
    }
}

/// Offers a child to its root's worker, which is started where it does not run.
pub(super) fn launch(
    shared: Arc<Shared>,
    root: SessionId,
    mut start: WorkerStart,
) -> BoxFuture<'static, Result<Box<dyn LaunchedWorker>, LaunchError>> {
    async move {
        let session_id = start.session_id.clone();
        let failed = |error: &dyn std::fmt::Display| LaunchError(error.to_string());
        let session = shared.records.get(&root);
        let session = session.ok_or_else(|| failed(&"the session that it is a part of is gone"))?;
        // The root's own: a child never has another.
        let environment = start.environment.take();
        let workers = Workers(Arc::clone(&shared));
        workers
            .start_for_child(&session, environment)
            .await
            .map_err(|error| failed(&error))?;
        let phase = shared
            .lock()
            .by_session
            .get(&root)
            .map(|slot| slot.phase.subscribe());
        let phase = phase.ok_or_else(|| failed(&"the worker that it lives in is gone"))?;
        let start = serde_json::to_value(&start).map_err(|error| failed(&error))?;
        let child = shared.children.offer(session_id, root, Some(start), phase);
        Ok(Box::new(child) as Box<dyn LaunchedWorker>)
    }
    .boxed()
}

/// A child in its root's worker.
struct HostedChild {
    children: Arc<Children>,
    session_id: SessionId,
    root: SessionId,
    root_phase: watch::Receiver<Phase>,
    exit: watch::Receiver<Option<WorkerExit>>,
}

impl LaunchedWorker for HostedChild {
    fn process_id(&self) -> Option<u32> {
        None
    }

    fn identity(&self) -> Option<String> {
        Some(format!("{WITHIN}{}", self.root))
    }

    fn exited(&self) -> BoxFuture<'static, WorkerExit> {
        let (mut exit, mut root) = (self.exit.clone(), self.root_phase.clone());
        async move {
            let released = async {
                let released = exit.wait_for(Option::is_some).await;
                released.ok().and_then(|exit| exit.clone())
            };
            let root_ended = async {
                let ended = root
                    .wait_for(|phase| matches!(phase, Phase::Ended(_)))
                    .await;
                ended.is_ok_and(|phase| matches!(*phase, Phase::Ended(None)))
            };
            let (orderly, description) = tokio::select! {
                biased;
                Some(exit) = released => return exit,
                orderly = root_ended => (orderly, "ended with the worker that it lives in"),
            };
            WorkerExit {
                orderly,
                description: description.into(),
            }
        }
        .boxed()
    }

    fn request_stop(&self) {
        self.children.release(&self.session_id);
    }

    fn kill(&self) {
        // The worker that hosts it goes on: it is cut off from the server, and cannot come back.
        let exit = WorkerExit {
            orderly: false,
            description: "did not end when it was asked to, and was cut off".into(),
        };
        self.children.released(&self.session_id, exit);
    }
}
