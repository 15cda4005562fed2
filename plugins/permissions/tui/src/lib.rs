//! Permissions in the terminal: the mode in the status line, the dialog of an ask, and what was approved.

mod asking;
mod body;
mod mode;

use bezel_api_tui::{
    Binding, Command, CommandResult, Completion, Facet, FacetError, Namespace, Placement, Select,
    SelectItem, Slot, Toast, TuiContext, TuiFacet, segment,
};
use bezel_context::Context;
use bezel_permissions_contract::{PermissionMode, PermissionsClient, Rule};
use bezel_sessions_contract::SessionDirectoryClient;

/// The terminal facet of permissions.
pub fn facet() -> TuiFacet {
    Facet::new("permissions", setup)
        .requires::<PermissionsClient>(Namespace::Session)
        .optional::<SessionDirectoryClient>(Namespace::Server)
}

async fn setup(cx: TuiContext) -> Result<(), FacetError> {
    let permissions: PermissionsClient = cx.session.use_service();
    let (state, attachment) = (permissions.state(), cx.session.attachment());
    let shown = move |_: &bezel_api_tui::RenderContext<'_>| {
        (attachment.get().is_attached() && state.is_ready() && !state.is_stale())
            .then(|| mode::line(&state.get()))
    };
    cx.slots.add(
        Slot::StatusLeft,
        Placement::order(20).importance(60),
        segment(shown),
    );
    let ui = cx.ui.clone();
    cx.own(permissions.state().subscribe(move |_, _| ui.redraw()));

    let (context, service) = (cx.clone(), permissions.clone());
    cx.commands.add(
        Command::new("permissions.mode", "Choose what the agent may do unasked")
            .description("plan, ask, accept-edits, auto or full")
            .slash("mode")
            .argument_hint("[mode]")
            .complete(|_, typed| async move { complete(&typed) })
            .run(move |cx, arguments| {
                let (context, service) = (context.clone(), service.clone());
                async move { choose(&context, &cx, &service, &arguments.text).await }
            }),
    );

    let (context, service) = (cx.clone(), permissions.clone());
    cx.commands.add(
        Command::new(
            "permissions.cycle_mode",
            "Change what the agent may do unasked",
        )
        .description("Goes through plan, ask, accept-edits and auto; `full` is chosen with /mode")
        .run(move |cx, _| {
            let (context, service) = (context.clone(), service.clone());
            async move {
                let next = mode::next(service.state().get().mode);
                set(&context, &cx, &service, next).await
            }
        }),
    );
    cx.keybindings
        .add(Binding::new("shift+tab", "permissions.cycle_mode")?);

    let context = cx.clone();
    cx.commands.add(
        Command::new("permissions.approvals", "Show what was approved")
            .description("What runs unasked in this session and in this project, to take it back")
            .slash("approvals")
            .run(move |cx, _| {
                let (context, service) = (context.clone(), permissions.clone());
                async move { approvals(&context, &cx, &service).await }
            }),
    );
    asking::follow(&cx);
    Ok(())
}

async fn choose(
    context: &TuiContext,
    cx: &Context,
    permissions: &PermissionsClient,
    named: &str,
) -> CommandResult {
    let named = named.trim();
    let found = PermissionMode::ALL
        .into_iter()
        .find(|mode| mode.as_str() == named);
    let chosen = match found {
        Some(mode) => mode,
        None => {
            let current = permissions.state().get().mode;
            let items = PermissionMode::ALL.into_iter().map(|mode| {
                SelectItem::new(mode.as_str(), mode)
                    .detail(mode::meaning(mode))
                    .current(mode == current)
            });
            let select = Select::new("What the agent may do unasked")
                .query(named)
                .items(items.collect::<Vec<_>>());
            match context.ui.select(cx, select).await {
                Some(selected) => selected.value,
                None => return Ok(()),
            }
        }
    };
    set(context, cx, permissions, chosen).await
}

async fn set(
    context: &TuiContext,
    cx: &Context,
    permissions: &PermissionsClient,
    mode: PermissionMode,
) -> CommandResult {
    permissions.set_mode(cx, mode).await?;
    let limit = permissions.state().get().limit;
    context.ui.toast(match limit.filter(|limit| *limit < mode) {
        Some(limit) => Toast::info(format!(
            "{mode}, once the agent is another one: this one has `{limit}` at most"
        )),
        None => Toast::info(format!("{mode}: {}", mode::meaning(mode))),
    });
    Ok(())
}

fn complete(typed: &str) -> Vec<Completion> {
    PermissionMode::ALL
        .into_iter()
        .filter(|mode| mode.as_str().starts_with(typed.trim()))
        .map(|mode| Completion {
            text: mode.as_str().to_owned(),
            detail: mode::meaning(mode).to_owned(),
        })
        .collect()
}

/// Lists the approvals, and takes back what is chosen.
async fn approvals(
    context: &TuiContext,
    cx: &Context,
    permissions: &PermissionsClient,
) -> CommandResult {
    loop {
        let state = permissions.state().get();
        let item = |group: &'static str| {
            move |rule: &Rule| {
                SelectItem::new(rule.resource.as_str(), rule.clone())
                    .detail(rule.action.as_str())
                    .group(group)
            }
        };
        let project = state.project.iter().map(item("This project, always"));
        let session = state.session.iter().map(item("This session"));
        let select = Select::new("Approved: choose one to take it back")
            .empty("nothing was approved beyond single calls")
            .items(project.chain(session).collect::<Vec<_>>());
        let Some(selected) = context.ui.select(cx, select).await else {
            return Ok(());
        };
        let rule = selected.value;
        if permissions.revoke(cx, rule.clone()).await? {
            context.ui.toast(Toast::info(format!(
                "`{} {}` is asked for again",
                rule.action, rule.resource
            )));
        }
    }
}

#[cfg(test)]
mod tests;
