//! An answer from the model's first event to its last.

use std::pin::pin;
use std::time::Duration;

use bezel_context::Context;
use bezel_session_types::{
    EntryId, ModelEvent, ModelRequest, ProviderError, ProviderErrorKind, RunPhase, StopReason,
    Usage,
};
use bezel_store::Transaction;
use futures::StreamExt;
use tokio::time::Instant;

use crate::answer::{LiveMessage, Took};
use crate::events::EventKind;
use crate::harness::ResolvedModel;
use crate::operation::partial_key;
use crate::run::Run;

/// How often the text of an answer that comes in is kept.
const PARTIAL_EVERY: Duration = Duration::from_secs(1);

impl Run {
    /// Streams the answer into the lane's live message.
    pub(crate) async fn stream(
        &self,
        cx: &Context,
        model: &ResolvedModel,
        request: ModelRequest,
        entry: &EntryId,
    ) -> Result<(StopReason, Usage), ProviderError> {
        let idle_limit = self.lane.session.config.stream_idle;
        let started = tokio::time::timeout(idle_limit, model.provider.stream(cx, request));
        let mut stream = match cx.run(started).await {
            Ok(Ok(stream)) => stream?,
            Ok(Err(_)) => return Err(silent(idle_limit)),
            Err(_) => return Err(cancelled()),
        };
        // Both are made once: a delta costs neither a timer nor a registration.
        let mut cancellation = pin!(cx.cancelled());
        let mut idle = pin!(tokio::time::sleep(idle_limit));
        let mut last = Instant::now();
        let mut kept = Instant::now();
        loop {
            let event = tokio::select! {
                biased;
                _ = &mut cancellation => return Err(cancelled()),
                event = stream.next() => event,
                () = &mut idle => {
                    if last.elapsed() >= idle_limit {
                        return Err(silent(idle_limit));
                    }
                    idle.as_mut().reset(last + idle_limit);
                    continue;
                }
            };
            last = Instant::now();
            let Some(event) = event else {
                return Err(provider_error(
                    ProviderErrorKind::Interrupted,
                    "the model's answer broke off before its end".into(),
                ));
            };
            if let Some(end) = self.take(model, entry, event?) {
                return Ok(end);
            }
            if last - kept >= PARTIAL_EVERY {
                kept = last;
                self.keep_partial(entry);
            }
        }
    }

    /// Takes one event into the live message and tells observers.
    fn take(
        &self,
        model: &ResolvedModel,
        entry: &EntryId,
        event: ModelEvent,
    ) -> Option<(StopReason, Usage)> {
        let mut state = self.lane.core.lock();
        if state.message.is_none() {
            let model = model.spec.model.clone();
            state.message = Some(LiveMessage::new(entry.clone(), model.clone()));
            self.lane.publish(EventKind::MessageStart {
                entry: entry.clone(),
                model,
            });
            self.lane
                .core
                .set_phase(&mut state, Some(RunPhase::Streaming));
        }
        let message = state.message.as_mut()?;
        match message.take(event) {
            Took::Delta(delta) => {
                self.lane.publish(EventKind::MessageUpdate {
                    entry: entry.clone(),
                    delta,
                });
                None
            }
            Took::Silent => None,
            Took::End { stop_reason, usage } => Some((stop_reason, usage)),
        }
    }

    /// Keeps the text so far, for the case that the process ends before the answer does.
    fn keep_partial(&self, entry: &EntryId) {
        let partial = self
            .lane
            .core
            .lock()
            .message
            .as_ref()
            .map(|message| message.clone().cut_off(StopReason::Error, None));
        let Some(partial) = partial.filter(|partial| !partial.content.is_empty()) else {
            return;
        };
        let mut transaction = Transaction::new();
        transaction.set_value(partial_key(entry), &partial);
        // A convenience for people; the answer itself is committed whole, and fails loudly then.
        if let Err(error) = self.lane.session.store.commit(transaction) {
            tracing::warn!(%error, "the text of a running answer was not kept");
        }
    }
}

pub(crate) fn provider_error(kind: ProviderErrorKind, message: String) -> ProviderError {
    ProviderError {
        kind,
        message,
        status: None,
        retry_after: None,
    }
}

fn cancelled() -> ProviderError {
    provider_error(ProviderErrorKind::Cancelled, "the request was ended".into())
}

fn silent(limit: Duration) -> ProviderError {
    provider_error(
        ProviderErrorKind::Interrupted,
        format!("the model sent nothing for {} seconds", limit.as_secs()),
    )
}
