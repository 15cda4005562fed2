//! The model picker, the thinking-level key, and both in the status line.

mod picker;
mod status;

use bezel_api_tui::{
    Binding, Command, CommandResult, Completion, Facet, FacetError, Namespace, Placement, Slot,
    Toast, TuiContext, TuiFacet, segment,
};
use bezel_context::Context;
use bezel_models_contract::{ModelsClient, RefreshStatus};
use bezel_presentation::fuzzy::{Fuzzy, Kind};
use bezel_session_types::{ModelRef, ModelSpec, ThinkingLevel};

/// The terminal facet of models.
pub fn facet() -> TuiFacet {
    Facet::new("models", setup).requires::<ModelsClient>(Namespace::Session)
}

async fn setup(cx: TuiContext) -> Result<(), FacetError> {
    let models: ModelsClient = cx.session.use_service();
    let (state, attachment) = (models.state(), cx.session.attachment());
    let shown = move |_: &bezel_api_tui::RenderContext<'_>| {
        (attachment.get().is_attached() && state.is_ready() && !state.is_stale())
            .then(|| status::line(&state.get()))
    };
    cx.slots.add(
        Slot::StatusLeft,
        Placement::order(10).importance(50),
        segment(shown),
    );
    let ui = cx.ui.clone();
    cx.own(models.state().subscribe(move |_, _| ui.redraw()));

    let (context, service) = (cx.clone(), models.clone());
    let select = Command::new("models.select", "Choose a model")
        .description("Searches the models of all configured providers")
        .slash("model")
        .argument_hint("[name]")
        .complete({
            let models = models.clone();
            move |_, typed| {
                let values = complete(&models.state().get().catalog.available_models, &typed);
                async move { values }
            }
        })
        .run(move |cx, arguments| {
            let (context, service) = (context.clone(), service.clone());
            async move { select(&context, &cx, &service, &arguments.text).await }
        });
    cx.commands.add(select);

    let (service, ui) = (models.clone(), cx.ui.clone());
    let cycle = Command::new("models.cycle_thinking", "Change how much the model thinks")
        .description("Goes through off, low, medium and high")
        .run(move |cx, _| {
            let (service, ui) = (service.clone(), ui.clone());
            async move {
                let before = service.state().get().configuration.thinking_level;
                let level = service.cycle_thinking(&cx).await?;
                if level == before {
                    ui.toast(Toast::info(
                        "this model does not think aloud; choose one that does with /model",
                    ));
                } else {
                    ui.toast(Toast::info(format!("thinking: {}", status::level(level))));
                }
                Ok(())
            }
        });
    cx.commands.add(cycle);

    let (service, ui) = (models, cx.ui.clone());
    let refresh = Command::new("models.refresh", "Refresh the list of models")
        .description("Asks every provider which models it has")
        .run(move |cx, _| {
            let (service, ui) = (service.clone(), ui.clone());
            async move {
                ui.toast("asking the providers for their models…");
                service.refresh(&cx).await?;
                let state = service.state().get();
                ui.toast(report(&state.refresh, state.catalog.available_models.len()));
                Ok(())
            }
        });
    cx.commands.add(refresh);
    cx.keybindings
        .add(Binding::new("ctrl+t", "models.cycle_thinking")?);
    cx.keybindings
        .add(Binding::new("ctrl+x m", "models.select")?);
    Ok(())
}

/// Selects what a person named, or lets them pick.
async fn select(
    context: &TuiContext,
    cx: &Context,
    models: &ModelsClient,
    named: &str,
) -> CommandResult {
    let state = models.state().get();
    let catalog = &state.catalog.available_models;
    let chosen = match find(catalog, named) {
        Some(model) => Some(model),
        None => picker::pick(context, cx, models, named).await,
    };
    let Some(model) = chosen else { return Ok(()) };
    if state.configuration.model.as_ref() != Some(&model) {
        models.select(cx, model.clone()).await?;
    }
    let reasons = catalog
        .iter()
        .any(|spec| spec.model == model && spec.reasoning);
    if state.configuration.thinking_level != ThinkingLevel::Off && !reasons {
        context.ui.toast(Toast::info(format!(
            "{} does not think aloud: thinking is off",
            model.model_id
        )));
    }
    Ok(())
}

/// The model that is named exactly, or that alone bears this name.
fn find(catalog: &[ModelSpec], named: &str) -> Option<ModelRef> {
    if named.is_empty() {
        return None;
    }
    if let Ok(model) = named.parse::<ModelRef>() {
        // Whether there is such a model the session knows; it answers with what is near.
        return Some(model);
    }
    let mut fits = catalog
        .iter()
        .filter(|spec| spec.model.model_id == named || spec.name.eq_ignore_ascii_case(named));
    match (fits.next(), fits.next()) {
        (Some(spec), None) => Some(spec.model.clone()),
        _ => None,
    }
}

fn complete(catalog: &[ModelSpec], typed: &str) -> Vec<Completion> {
    let names: Vec<String> = catalog
        .iter()
        .map(|spec| format!("{} {}", spec.model, spec.name))
        .collect();
    let ranked = Fuzzy::new(Kind::Text).rank(typed, names.iter().map(String::as_str));
    let value = |index: usize| Completion {
        text: catalog[index].model.to_string(),
        detail: picker::detail(&catalog[index]),
    };
    ranked
        .into_iter()
        .map(|ranked| value(ranked.index))
        .collect()
}

/// What a refresh came to.
fn report(status: &RefreshStatus, count: usize) -> Toast {
    match status {
        RefreshStatus::Warning { errors } => {
            let errors: Vec<String> = errors
                .iter()
                .map(|(provider, error)| format!("{provider}: {error}"))
                .collect();
            Toast::warning(format!("some models may be missing. {}", errors.join("; ")))
        }
        _ => Toast::success(format!(
            "{} available",
            bezel_presentation::format::count(count, "model", "models")
        )),
    }
}

#[cfg(test)]
mod tests;
