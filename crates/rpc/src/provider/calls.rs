//! Calls from a peer: what lets one in, how it runs, what goes back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context as Poller, Poll, Waker};
use std::time::Duration;

use bezel_context::{Hex64, Hex128, TraceCarrier};
use bytes::Bytes;
use futures::FutureExt;
use tracing::Instrument;

use super::client::{Client, not_authorized};
use super::publish::{send_failure, too_large};
use super::references::{Room, granted};
use super::serve::Provider;
use crate::descriptor::MemberKind;
use crate::error::{ErrorCode, Failure, RpcError};
use crate::service::{Answered, PanicText};
use crate::sync::lock;
use crate::wire::{Header, Kind};

impl Provider {
    pub(super) fn call(
        self: &Arc<Self>,
        client: &Arc<Client>,
        header: &Header<'_>,
        payload: &Bytes,
    ) -> Result<(), Failure> {
        let (exposed, service, name) = match (header.service, header.reference, header.member) {
            (_, Some(reference), Some(name)) => {
                let (exposed, service) = lock(&client.inner).references.find(reference)?;
                (exposed, service, name)
            }
            (Some(service), None, Some(name)) => {
                let exposed = self.table.find(service)?;
                let service = exposed.descriptor().id;
                (exposed, service, name)
            }
            _ => {
                return Err(RpcError::new(
                    ErrorCode::Protocol,
                    "a call names its member, and its service or its reference",
                )
                .into());
            }
        };
        let descriptor = exposed.descriptor();
        let member = descriptor
            .member(name)
            .filter(|member| member.kind == MemberKind::Call)
            .ok_or_else(|| {
                RpcError::new(
                    ErrorCode::UnknownMember,
                    format!("{} has no call {name:.64}", descriptor.id),
                )
            })?;
        if !client.principal.scopes.allows(member.scope) {
            return Err(not_authorized(descriptor.id, member.name).into());
        }
        let carrier = header
            .trace
            .and_then(|parent| TraceCarrier::parse(parent, header.trace_state.as_deref()).ok());
        let trace = match &carrier {
            Some(carrier) => carrier.child(),
            None => TraceCarrier::root().child(),
        };
        let span = tracing::debug_span!(
            parent: None,
            "rpc.server",
            service = descriptor.id,
            member = member.name,
            trace_id = %Hex128(trace.trace_id()),
            span_id = %Hex64(trace.span_id()),
            parent_id = %Hex64(carrier.as_ref().map_or(0, TraceCarrier::span_id)),
            sampled = trace.is_sampled(),
            otel.kind = "server",
            "error.type" = tracing::field::Empty,
        );
        let (cx, cancel) = client.context.with_cancel();
        let mut cx = cx.with_trace(trace);
        if let Some(left) = header.deadline {
            cx = cx.with_timeout(Duration::from_millis(left));
        }
        {
            let running = lock(&client.inner);
            if running.gone {
                return Ok(());
            }
            if running.calls.len() >= self.limits.calls {
                let text = format!(
                    "{} calls of this client are in flight; wait for some to end",
                    running.calls.len()
                );
                return Err(RpcError::new(ErrorCode::ResourceExhausted, text).into());
            }
            if running.calls.contains_key(&header.id) {
                return Err(RpcError::new(ErrorCode::Protocol, "the call's id is in use").into());
            }
        }
        let room = match member.reference {
            Some(_) => Some(Room::reserve(client, self.limits.references)?),
            None => None,
        };
        let dispatch = exposed
            .dispatch()
            .expect("the table takes only services with an object");
        let begun = span.in_scope(|| {
            catch_unwind(AssertUnwindSafe(|| {
                dispatch.call(cx.clone(), member.name, payload)
            }))
        });
        let answer = match begun {
            Ok(answer) => answer?,
            Err(panic) => return Err(RpcError::internal(member.name, &PanicText(&*panic)).into()),
        };
        let (name, failed) = (member.name, span.clone());
        let mut body = Box::pin(
            AssertUnwindSafe(answer)
                .catch_unwind()
                .map(move |outcome| {
                    let outcome = outcome.unwrap_or_else(|panic| {
                        Err(RpcError::internal(name, &PanicText(&*panic)).into())
                    });
                    if let Err(failure) = &outcome {
                        failed.record("error.type", failure.code());
                    }
                    outcome
                })
                .instrument(span),
        );
        // Most calls end at once; those need no task of their own.
        if let Poll::Ready(outcome) = body.poll_unpin(&mut Poller::from_waker(Waker::noop())) {
            self.answer(client, header.id, (service, room), outcome);
            return Ok(());
        }
        {
            let mut running = lock(&client.inner);
            if running.gone {
                return Ok(());
            }
            running.calls.insert(header.id, cancel);
        }
        let (provider, client, id) = (Arc::clone(self), Arc::clone(client), header.id);
        drop(self.spawner.spawn("rpc call", async move {
            let outcome = tokio::select! {
                biased;
                reason = cx.cancelled() => Err(RpcError::from(reason).into()),
                outcome = body => outcome,
            };
            // A call that was cancelled is no longer listed, and nobody waits for its answer.
            if lock(&client.inner).calls.remove(&id).is_some() {
                provider.answer(&client, id, (service, room), outcome);
            }
        }));
        Ok(())
    }

    /// Sends what a call of `service` ended in; `room` is there where it may be a reference.
    fn answer(
        self: &Arc<Self>,
        client: &Arc<Client>,
        id: u64,
        (service, room): (&'static str, Option<Room>),
        outcome: Result<Answered, Failure>,
    ) {
        let outcome = match outcome {
            Ok(Answered::Value(payload)) if payload.len() + 1024 > self.limits.message => {
                Err(too_large(self.limits.message).into())
            }
            outcome => outcome,
        };
        // What the call changed is delivered before its answer.
        self.publisher.flush();
        match outcome {
            Ok(Answered::Value(payload)) => self
                .publisher
                .send(&Header::of(Kind::Ok, id, client.route), payload),
            Ok(Answered::Nothing) => self
                .publisher
                .send(&Header::of(Kind::Ok, id, client.route), Bytes::new()),
            Ok(Answered::Reference(exposed)) => {
                let room = room.expect("only members that return references answer with one");
                if let Some(reference) = self.grant(client, service, exposed, room) {
                    let header = granted(id, client.route, reference);
                    self.publisher.send(&header, Bytes::new());
                }
            }
            Err(failure) => send_failure(&self.publisher, Kind::Err, id, client.route, failure),
        }
    }
}
