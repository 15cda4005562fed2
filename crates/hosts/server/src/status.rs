//! What the server is doing, and when nobody needs it any more.

use std::sync::Arc;
use std::time::Duration;

use bezel_api_server::ServerCounts;
use bezel_api_server::WorkerProcess;
use bezel_api_server::host::{
    ConnectionBackend, ControlBackend, CountsListener, ProcessBackend, StatusBackend, Subscription,
};
use bezel_context::{ClientId, Principal};
use bezel_rpc::{ErrorCode, Router, RpcError};
use bezel_session_types::SessionId;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::feed::Feed;
use crate::options::Clock;
use crate::records::Records;
use crate::workers::Workers;

/// Why a server wants to exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// No client and no running work for as long as the options say.
    Idle,
    /// Somebody asked for it.
    Requested,
}

/// Status, end and processes behind the facets' handles.
#[derive(Clone)]
pub(crate) struct HostControl {
    pub(crate) version: Arc<str>,
    pub(crate) started_at: Timestamp,
    pub(crate) clock: Clock,
    pub(crate) router: Router,
    /// Published whenever a presentation came or went.
    pub(crate) clients: Feed<()>,
    pub(crate) workers: Workers,
    pub(crate) exit: watch::Sender<Option<ExitReason>>,
}

impl HostControl {
    pub(crate) fn counts_now(&self) -> ServerCounts {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        ServerCounts {
            clients: count(self.router.client_count()),
            workers: count(self.workers.count()),
        }
    }
}

impl StatusBackend for HostControl {
    fn version(&self) -> String {
        self.version.as_ref().into()
    }

    fn started_at(&self) -> Timestamp {
        self.started_at
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn counts(&self) -> ServerCounts {
        self.counts_now()
    }

    fn on_changed(&self, listener: CountsListener) -> Subscription {
        let notify =
            |control: HostControl, listener: CountsListener| move || listener(control.counts_now());
        let clients = notify(self.clone(), Arc::clone(&listener));
        let clients = self.clients.subscribe(move |()| clients());
        let workers = self.workers.on_changed(notify(self.clone(), listener));
        Box::new((clients, workers))
    }
}

impl ControlBackend for HostControl {
    fn request_stop(&self) {
        self.exit.send_replace(Some(ExitReason::Requested));
    }
}

impl ConnectionBackend for HostControl {
    fn principals(&self) -> Vec<Principal> {
        self.router.principals()
    }

    fn end(&self, client: &ClientId, reason: &str) -> bool {
        let reason = RpcError::new(ErrorCode::NotAuthorized, reason);
        self.router.dismiss_client(client, &reason)
    }
}

impl ProcessBackend for HostControl {
    fn processes(&self) -> Vec<WorkerProcess> {
        self.workers.processes()
    }

    fn kill(&self, session_id: &SessionId) -> bool {
        self.workers.kill(session_id)
    }
}

/// Whether anybody or anything needs the server, kept current by what changes that.
pub(crate) struct Need {
    needed: watch::Receiver<bool>,
    _subscriptions: [Box<dyn Send>; 2],
}

impl Need {
    pub(crate) fn follow(control: &HostControl, records: &Records) -> Self {
        let (sender, needed) = watch::channel(false);
        let sender = Arc::new(sender);
        let look = {
            let (router, records) = (control.router.clone(), records.clone());
            move || {
                let needs = router.client_count() > 0 || records.any_busy();
                sender.send_if_modified(|needed| std::mem::replace(needed, needs) != needs);
            }
        };
        look();
        let by_client = look.clone();
        let subscriptions = [
            control.clients.subscribe(move |()| by_client()),
            records.on_changed(Arc::new(move |_, _| look())),
        ];
        Need {
            needed,
            _subscriptions: subscriptions,
        }
    }

    /// Says that the server wants to exit each time nothing has needed it for `after`. Waits without a
    /// timer while something does.
    pub(crate) async fn watch(
        mut self,
        after: Duration,
        idle: watch::Sender<bool>,
        exit: watch::Sender<Option<ExitReason>>,
    ) {
        loop {
            let needed = *self.needed.borrow_and_update();
            idle.send_if_modified(|idle| needed && std::mem::take(idle));
            let changed = if needed || *idle.borrow() {
                self.needed.changed().await
            } else {
                match tokio::time::timeout(after, self.needed.changed()).await {
                    Ok(changed) => changed,
                    Err(_) => {
                        idle.send_replace(true);
                        exit.send_if_modified(|reason| {
                            reason.is_none() && reason.replace(ExitReason::Idle).is_none()
                        });
                        Ok(())
                    }
                }
            };
            if changed.is_err() {
                return;
            }
        }
    }
}
