//! Chat over the session's main lane.
//!
//! The lane does the work and keeps the promises; this facet translates between it and the contract.

mod parts;
mod service;
mod view;

use bezel_api_session::{EventBody, Facet, FacetError, SessionContext, SessionFacet};
use bezel_blobs_contract::BlobShelf;
use bezel_chat_contract::{ChatClient, ChatState, Engine};
use bezel_context::Context;
use tokio::sync::watch;

use crate::service::ChatService;

/// The session facet of chat.
pub fn facet() -> SessionFacet {
    Facet::new("chat", setup)
        .provides::<ChatClient>()
        .optional_local::<BlobShelf>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let lane = cx.agent.main();
    let capabilities = cx.agent.capabilities();
    let names = capabilities.list().map(|one| one.name().to_owned());
    let cell = cx.state_cell(ChatState {
        engine: Engine {
            name: capabilities.engine.to_owned(),
            capabilities: names.collect(),
        },
        ..ChatState::default()
    });
    cx.provide(ChatClient::new(ChatService {
        lane: lane.clone(),
        blobs: cx.use_local_optional(),
        state: cell.state(),
    }));

    let outcomes = cell.clone();
    let thinking = watch::Sender::new(false);
    let mut reasoning = thinking.subscribe();
    cx.agent.events().subscribe(move |events| {
        for event in events {
            match &event.body {
                EventBody::Thinking { .. } => set(&thinking, true),
                EventBody::Text { .. } | EventBody::AnswerStarted { .. } => set(&thinking, false),
                EventBody::RunEnded(outcome) => {
                    let last = view::outcome(outcome);
                    outcomes.update(&Context::background(), |state| state.last = Some(last));
                }
                _ => {}
            }
        }
    });

    let spawner = cx.spawner().clone();
    cx.on_activate(move || async move {
        let (mut activity, mut queue) = (lane.activity(), lane.queue());
        spawner.spawn("chat state", async move {
            loop {
                let running = view::activity(
                    &activity.borrow_and_update(),
                    *reasoning.borrow_and_update(),
                );
                let queued = view::queue(&queue.borrow_and_update());
                cell.update(&Context::background(), |state| {
                    state.activity = running;
                    state.queue = queued;
                });
                let changed = tokio::select! {
                    changed = activity.changed() => changed,
                    changed = queue.changed() => changed,
                    changed = reasoning.changed() => changed,
                };
                if changed.is_err() {
                    return;
                }
            }
        });
        Ok(())
    });
    Ok(())
}

fn set(flag: &watch::Sender<bool>, value: bool) {
    flag.send_if_modified(|held| std::mem::replace(held, value) != value);
}
