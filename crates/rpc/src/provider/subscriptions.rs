//! Subscriptions from a peer: what lets one in, when it begins, when its service goes.

use std::sync::Arc;

use super::client::{Client, Held, not_authorized};
use super::publish::send_failure;
use super::serve::Provider;
use super::served::Served;
use crate::descriptor::MemberKind;
use crate::error::{ErrorCode, RpcError};
use crate::service::Exposed;
use crate::sync::lock;
use crate::wire::{Header, Kind};

impl Provider {
    pub(super) fn subscribe(
        &self,
        client: &Arc<Client>,
        header: &Header<'_>,
    ) -> Result<(), RpcError> {
        let window = header.credit.unwrap_or(self.limits.window);
        let of_reference = header
            .reference
            .map(|id| {
                let found = lock(&client.inner).references.find(id);
                found.map(|found| (id, found))
            })
            .transpose()?;
        let service = match (&of_reference, header.service) {
            (Some((_, (_, service))), _) => service,
            (None, Some(service)) => service,
            (None, None) => {
                return Err(RpcError::new(
                    ErrorCode::Protocol,
                    "a subscription names its service or its reference",
                ));
            }
        };
        {
            let mut running = lock(&client.inner);
            if running.gone {
                return Ok(());
            }
            let count = running.subscriptions.len() + running.held.len();
            if count >= self.limits.subscriptions {
                let text = format!("this client holds {count} subscriptions; end some first");
                return Err(RpcError::new(ErrorCode::ResourceExhausted, text));
            }
            let used = running.subscriptions.contains_key(&header.id)
                || running.held.iter().any(|held| held.id == header.id);
            if used {
                return Err(RpcError::new(
                    ErrorCode::Protocol,
                    "the subscription's id is in use",
                ));
            }
            if of_reference.is_none() && !self.table.is_active() {
                running.held.push(Held {
                    id: header.id,
                    service: service.to_owned(),
                    window,
                });
                drop(running);
                // Activation may have come between the check and the entry.
                if self.table.is_active() {
                    self.start_held();
                }
                return Ok(());
            }
        }
        match of_reference {
            Some((reference, (exposed, service))) => {
                let origin = (service, Some(reference));
                self.serve(client, header.id, &exposed, origin, window)
            }
            None => {
                let exposed = self.table.find(service)?;
                let origin = (exposed.descriptor().id, None);
                self.serve(client, header.id, &exposed, origin, window)
            }
        }
    }

    fn serve(
        &self,
        client: &Arc<Client>,
        id: u64,
        exposed: &Exposed,
        origin: (&'static str, Option<u64>),
        window: u64,
    ) -> Result<(), RpcError> {
        let descriptor = exposed.descriptor();
        let dispatch = exposed
            .dispatch()
            .expect("the table takes only services with an object");
        let may_see = |kind: MemberKind| {
            descriptor.members.iter().filter(move |member| {
                member.kind == kind && client.principal.scopes.allows(member.scope)
            })
        };
        if !descriptor.is_subscribable() {
            let text = format!("{} has neither state nor events", descriptor.id);
            return Err(RpcError::new(ErrorCode::UnknownMember, text));
        }
        if may_see(MemberKind::State)
            .chain(may_see(MemberKind::Events))
            .next()
            .is_none()
        {
            return Err(not_authorized(descriptor.id, "state"));
        }
        let cells = may_see(MemberKind::State)
            .filter_map(|member| {
                Some((
                    member.name,
                    dispatch.state(member.name)?.source(&client.principal),
                ))
            })
            .collect();
        let served = Served::new(&self.publisher, (client.route, id), origin, window, cells);
        for member in may_see(MemberKind::Events) {
            if let Some(events) = dispatch.events(member.name) {
                let origin = events.origin(&client.principal);
                served.follow(&origin, member.name);
            }
        }
        let mut running = lock(&client.inner);
        if running.gone {
            return Ok(());
        }
        if let (_, Some(reference)) = origin {
            // It may have been given back since it was found.
            running.references.find(reference)?;
        }
        running.subscriptions.insert(id, Arc::clone(&served));
        drop(running);
        self.publisher.start(served);
        Ok(())
    }

    /// Begins the subscriptions that came before activation.
    pub(super) fn start_held(&self) {
        let clients: Vec<_> = lock(&self.clients).values().map(Arc::clone).collect();
        for client in clients {
            let held = std::mem::take(&mut lock(&client.inner).held);
            for held in held {
                let begun = self.table.find(&held.service).and_then(|exposed| {
                    let origin = (exposed.descriptor().id, None);
                    self.serve(&client, held.id, &exposed, origin, held.window)
                });
                if let Err(error) = begun {
                    send_failure(
                        &self.publisher,
                        Kind::Closed,
                        held.id,
                        client.route,
                        error.into(),
                    );
                }
            }
        }
    }

    /// Closes the subscriptions of a service that was withdrawn.
    pub(super) fn close_service(&self, id: &str) {
        let clients: Vec<_> = lock(&self.clients).values().map(Arc::clone).collect();
        for client in clients {
            self.release_of_service(&client, id);
            let ended: Vec<_> = lock(&client.inner)
                .subscriptions
                .extract_if(|_, served| served.service == id)
                .collect();
            for (_, served) in ended {
                served.close(RpcError::new(
                    ErrorCode::UnknownService,
                    format!("{id} was withdrawn"),
                ));
            }
        }
    }
}
