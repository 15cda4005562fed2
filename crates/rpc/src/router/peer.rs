//! One connected peer, and the frames that pass through it to the other end of a route.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::connection::AttachmentState;
use crate::consumer::{IdHasher, Namespace, Remote};
use crate::control::send_goaway;
use crate::error::{Envelope, ErrorCode, RpcError};
use crate::sync::lock;
use crate::wire::{Frame, Header, Kind, Outbox, OutboxError};

/// A connected peer as the router sees it.
pub(crate) struct Peer {
    pub(super) outbox: Outbox,
    /// The other end of each route that leads through this peer.
    pub(super) routes: Mutex<HashMap<u64, Outbox, BuildHasherDefault<IdHasher>>>,
    /// What the peer provides, as it sent it.
    pub(super) services: Mutex<Box<RawValue>>,
    namespace: Arc<Namespace>,
}

impl Peer {
    pub(crate) fn new(
        outbox: Outbox,
        services: Box<RawValue>,
        namespace: Arc<Namespace>,
    ) -> Arc<Self> {
        Arc::new(Peer {
            outbox,
            routes: Mutex::default(),
            services: Mutex::new(services),
            namespace,
        })
    }

    /// The services that the peer provides to the router's own process.
    pub(super) fn remote(&self) -> Remote {
        Remote::new(Arc::clone(&self.namespace))
    }

    pub(crate) fn set_services(&self, services: Box<RawValue>) {
        *lock(&self.services) = services;
    }

    pub(super) fn send(&self, header: &Header<'_>, payload: Bytes) {
        if let Err(error) = self.outbox.send(Frame {
            header: header.encode(),
            payload,
        }) {
            tracing::trace!(%error, kind = header.kind.as_str(), "a frame was not sent");
        }
    }

    /// Says who came or went, whatever else waits.
    pub(super) fn send_beyond(&self, header: &Header<'_>, payload: Bytes) {
        let frame = Frame {
            header: header.encode(),
            payload,
        };
        if let Err(error) = self.outbox.send_beyond(frame) {
            tracing::trace!(%error, kind = header.kind.as_str(), "a frame was not sent");
        }
    }

    pub(super) fn send_attachment(
        &self,
        route: Option<u64>,
        state: &AttachmentState,
        services: Option<&RawValue>,
    ) {
        #[derive(serde::Serialize)]
        struct Payload<'p> {
            attachment: u32,
            #[serde(flatten)]
            state: &'p AttachmentState,
        }
        let mut payload = serde_json::to_vec(&Payload {
            attachment: 1,
            state,
        })
        .expect("an attachment is a plain structure");
        if let Some(services) = services {
            payload.pop();
            payload.extend_from_slice(b",\"services\":");
            payload.extend_from_slice(services.get().as_bytes());
            payload.push(b'}');
        }
        self.send(&Header::of(Kind::Attachment, 0, route), payload.into());
    }

    /// Passes a client's frame on to the worker that its route leads to.
    ///
    /// The header crosses as it is: its incarnation was given out by this router, for this client
    /// and this worker alone, and a client's frame under any other is dropped here.
    pub(crate) fn forward_to_worker(&self, route: u64, header: &Header<'_>, frame: Frame) {
        let routes = lock(&self.routes);
        let Some(worker) = routes.get(&route) else {
            return;
        };
        // A worker that does not keep up with one client must stay there for the others.
        let sent = worker.try_send(frame);
        drop(routes);
        if sent == Err(OutboxError::Full) {
            let kind = match header.kind {
                Kind::Call => Kind::Err,
                Kind::Subscribe => Kind::Closed,
                // What it gave back or widened would be lost: this client begins anew.
                _ => {
                    let error = RpcError::new(
                        ErrorCode::ResourceExhausted,
                        "this client sends more than what it is attached to takes",
                    );
                    send_goaway(&self.outbox, &error);
                    self.outbox.close();
                    return;
                }
            };
            let envelope = Envelope {
                code: ErrorCode::ResourceExhausted.as_str().to_owned(),
                message: "what is attached does not read what waits for it; try again later"
                    .to_owned(),
                data: None,
            };
            let payload = serde_json::to_vec(&envelope).expect("an envelope is a plain structure");
            self.send(&Header::of(kind, header.id, Some(route)), payload.into());
        }
    }

    /// Passes a worker's frame on to the client, or to each of the clients, that it names.
    pub(crate) fn forward_to_clients(&self, route: u64, header: &Header<'_>, frame: Frame) {
        let routes = lock(&self.routes);
        if header.targets.is_empty() {
            if let Some(client) = routes.get(&route)
                && client.send(frame).is_err()
            {
                tracing::trace!("a routed frame was not sent: its client has gone");
            }
            return;
        }
        let mut single = header.clone();
        let targets = std::mem::take(&mut single.targets);
        for (route, id) in std::iter::once((route, header.id)).chain(targets) {
            let Some(client) = routes.get(&route) else {
                continue;
            };
            single.route = Some(route);
            single.id = id;
            if client
                .send(Frame {
                    header: single.encode(),
                    payload: frame.payload.clone(),
                })
                .is_err()
            {
                tracing::trace!("a routed frame was not sent: its client has gone");
            }
        }
    }
}
