//! The server's own status, and its end.

use bezel_api_server::{NotGranted, ServerContext, ServerCounts, Shutdown};
use bezel_policy_contract::{ServerControl, ServerControlClient, ServerStatus};
use bezel_rpc::{Context, State, StateCell};

struct Control {
    status: StateCell<ServerStatus>,
    shutdown: Shutdown,
}

impl ServerControl for Control {
    fn status(&self) -> State<ServerStatus> {
        self.status.state()
    }

    async fn stop(&self, _cx: &Context) {
        self.shutdown.request();
    }
}

pub(crate) fn provide(cx: &ServerContext) -> Result<(), NotGranted> {
    let shutdown = cx.shutdown()?;
    let status = cx.state_cell(ServerStatus {
        version: cx.status.version(),
        pid: std::process::id(),
        started_at: cx.status.started_at().to_string(),
        clients: 0,
        workers: 0,
    });
    let count = {
        let status = status.clone();
        move |counts: ServerCounts| {
            status.update(&Context::background(), |status| {
                (status.clients, status.workers) = (counts.clients, counts.workers);
            });
        }
    };
    count(cx.status.counts());
    cx.status.on_changed(count);
    cx.provide(ServerControlClient::new(Control { status, shutdown }));
    Ok(())
}
