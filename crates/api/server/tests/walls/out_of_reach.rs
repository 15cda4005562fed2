//! Each line reaches for something that stays with the server application.

use bezel_api_server::ServerContext;
use bezel_session_types::SessionId;

fn facet(cx: ServerContext, session: SessionId) {
    // Records and what stores them.
    let _ = cx.fleet.managed.backend;
    let _ = cx.fleet.managed.records();
    let _ = cx.fleet.managed.database();
    // Routing and its table.
    let _ = cx.fleet.attachments.backend;
    let _ = cx.fleet.attachments.router();
    let _ = cx.fleet.attachments.of(&session);
    // Worker processes.
    let _ = cx.processes;
    let _ = cx.fleet.managed.kill(&session);
    // The end of the server.
    let _ = cx.control;
    // Whole registries.
    cx.authentication.open();
    cx.authorization.current();
    cx.workers.clear();
    // What credentials are measured against.
    let _ = cx.local_token();
}

fn main() {}
