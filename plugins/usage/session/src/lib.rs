//! Counts tokens, context and cost from the session's ledger and the requests that follow.

use bezel_api_session::{EventBody, Facet, FacetError, SessionContext, SessionFacet};
use bezel_context::Context;
use bezel_rpc::State;
use bezel_usage_contract::{Usage, UsageClient, UsageState};

/// The session facet of usage.
pub fn facet() -> SessionFacet {
    Facet::new("usage", setup).provides::<UsageClient>()
}

struct UsageService(State<UsageState>);

impl Usage for UsageService {
    fn state(&self) -> State<UsageState> {
        self.0.clone()
    }
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let ledger = cx.agent.tree().usage().await?;
    let cell = cx.state_cell(UsageState {
        total: ledger.usage,
        cost: (ledger.cost.0 > 0.0).then_some(ledger.cost.0),
        requests: ledger.requests,
        ..UsageState::default()
    });
    cx.provide(UsageClient::new(UsageService(cell.state())));
    let catalogue = cx.catalogue.clone();
    cx.agent.events().subscribe(move |events| {
        for event in events {
            let EventBody::UsageRecorded { model, usage, cost } = &event.body else {
                continue;
            };
            let window = catalogue
                .current()
                .model(model)
                .map_or(0, |spec| spec.context);
            cell.update(&Context::background(), |state| {
                state.total += *usage;
                state.requests += 1;
                state.cost = match (state.cost, cost) {
                    (so_far, None) => so_far,
                    (so_far, Some(cost)) => Some(so_far.unwrap_or_default() + cost.0),
                };
                state.context_tokens = usage.total_input() + usage.output;
                state.context_window = window;
            });
        }
    });
    Ok(())
}
