//! Choosing a model from a list.

use bezel_api_tui::{Select, SelectFeed, SelectItem, TuiContext};
use bezel_context::Context;
use bezel_models_contract::{ModelsClient, ModelsState, RefreshStatus};
use bezel_presentation::format;
use bezel_session_types::{ModelRef, ModelSpec};

/// The key in the list that asks all providers again.
const REFRESH: &str = "ctrl+r";

/// Lets the person pick; `None` when they did not.
pub(crate) async fn pick(
    context: &TuiContext,
    cx: &Context,
    models: &ModelsClient,
    query: &str,
) -> Option<ModelRef> {
    loop {
        let state = models.state().get();
        let select = Select::new("Models")
            .placeholder("search by name, provider or price")
            .query(query)
            .empty("no models: configure a provider, or refresh the list with ctrl+r")
            .items(items(&state))
            .action(REFRESH, "refresh")
            .ok()?;
        let feed = select.feed();
        feed.loading(state.refresh == RefreshStatus::Refreshing);
        let _followed = models
            .state()
            .subscribe(move |state, _| follow(&feed, state));
        let selected = context.ui.select(cx, select).await?;
        if selected.action.is_none() {
            return Some(selected.value);
        }
        // The list opens again at once and fills while the providers answer.
        context.commands.run("models.refresh", Default::default());
    }
}

fn follow(feed: &SelectFeed<ModelRef>, state: &ModelsState) {
    feed.replace(items(state));
    feed.loading(state.refresh == RefreshStatus::Refreshing);
}

fn items(state: &ModelsState) -> Vec<SelectItem<ModelRef>> {
    let chosen = state.configuration.model.as_ref();
    let item = |spec: &ModelSpec| {
        SelectItem::new(spec.name.clone(), spec.model.clone())
            .detail(detail(spec))
            .search(spec.model.to_string())
            .group(spec.model.provider.as_str())
            .current(chosen == Some(&spec.model))
    };
    state.catalog.available_models.iter().map(item).collect()
}

/// Context, price, and what the model can do.
pub(crate) fn detail(spec: &ModelSpec) -> String {
    let mut parts = Vec::new();
    if spec.context > 0 {
        parts.push(format::tokens(spec.context));
    }
    if let Some(prices) = &spec.prices {
        parts.push(format!("{}/{}", price(prices.input), price(prices.output)));
    }
    if spec.reasoning {
        parts.push("thinks".to_owned());
    }
    if spec.images {
        parts.push("sees".to_owned());
    }
    parts.join(" · ")
}

/// Dollars per million tokens, without cents where there are none.
fn price(dollars: f64) -> String {
    if dollars.fract() == 0.0 {
        format!("${dollars:.0}")
    } else {
        format::dollars(dollars)
    }
}
