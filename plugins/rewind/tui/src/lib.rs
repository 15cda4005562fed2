//! Going back to before a message: the list of messages, the differences, and what is staged.

mod banner;
mod choosing;

use std::future::Future;

use bezel_api_tui::{
    Binding, Command, CommandResult, Confirm, Facet, FacetError, Namespace, Placement, Slot, Toast,
    TuiContext, TuiFacet,
};
use bezel_context::Context;
use bezel_presentation::format;
use bezel_rewind_contract::{Availability, Restored, RewindClient, RewindError, SetAside};
use bezel_rpc::CallError;

use crate::banner::Banner;

/// The terminal facet of rewind.
pub fn facet() -> TuiFacet {
    Facet::new("rewind", setup).requires::<RewindClient>(Namespace::Session)
}

async fn setup(cx: TuiContext) -> Result<(), FacetError> {
    let rewind: RewindClient = cx.session.use_service();
    let state = rewind.state();
    let banner = Banner {
        state: state.clone(),
        attachment: cx.session.attachment(),
    };
    cx.slots
        .add(Slot::AboveComposer, Placement::order(20), banner);
    let ui = cx.ui.clone();
    let told = std::sync::Mutex::new(None);
    cx.own(state.subscribe(move |state, _| {
        ui.redraw();
        let mut told = told
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if *told != state.problem {
            told.clone_from(&state.problem);
            // Without git there is none to expect: `/rewind` says why.
            if let (Some(problem), Availability::Available) = (&state.problem, &state.availability)
            {
                ui.toast(Toast::warning(problem.clone()));
            }
        }
    }));

    let open = Command::new("rewind.open", "Rewind")
        .description("Puts back the files that the agent has changed since, and the conversation; can be undone")
        .slash("rewind");
    add(&cx, &rewind, open, choosing::choose);
    let last = Command::new("rewind.last", "Rewind a turn")
        .description("Goes back to before the newest message whose turn changed files")
        .slash("undo");
    add(&cx, &rewind, last, choosing::take_back_last);
    let clear = Command::new("rewind.clear", "Undo the rewind")
        .description("Brings the files back as they were before they were rewound")
        .slash("redo");
    add(&cx, &rewind, clear, clear_staged);
    let keep = Command::new("rewind.keep", "Keep the rewind")
        .description("The rewind can no longer be undone");
    add(&cx, &rewind, keep, keep_staged);
    cx.keybindings.add(Binding::new("ctrl+x r", "rewind.open")?);
    cx.keybindings
        .add(Binding::new("ctrl+x u", "rewind.clear")?);
    cx.keybindings.add(Binding::new("ctrl+x k", "rewind.keep")?);
    Ok(())
}

fn add<Fut>(
    context: &TuiContext,
    rewind: &RewindClient,
    command: Command,
    run: fn(TuiContext, Context, RewindClient) -> Fut,
) where
    Fut: Future<Output = CommandResult> + Send + 'static,
{
    let (held, rewind) = (context.clone(), rewind.clone());
    context
        .commands
        .add(command.run(move |cx, _| run(held.clone(), cx, rewind.clone())));
}

async fn clear_staged(context: TuiContext, cx: Context, rewind: RewindClient) -> CommandResult {
    let restored = match rewind.clear(&cx, false).await {
        Err(CallError::Service(RewindError::Edited { paths })) => {
            let body = format!(
                "You have edited since:\n\n{}\n\nUndoing the rewind overwrites these edits; copies are kept.",
                list(&paths)
            );
            let confirm = Confirm::new("Undo the rewind?", body)
                .labels("Overwrite", "Leave")
                .danger();
            if !context.ui.confirm(&cx, confirm).await {
                return Ok(());
            }
            rewind.clear(&cx, true).await?
        }
        cleared => cleared?,
    };
    report(&context, &restored, "as before the rewind");
    Ok(())
}

async fn keep_staged(context: TuiContext, cx: Context, rewind: RewindClient) -> CommandResult {
    let restored = rewind.commit(&cx).await?;
    let how = match restored.conversation {
        true => "kept as rewound, and the conversation goes on from before the message",
        false => "kept as rewound",
    };
    report(&context, &restored, how);
    Ok(())
}

/// Says where what was overwritten is now.
fn tell_copies(context: &TuiContext, set_aside: &[SetAside]) {
    if let [first, more @ ..] = set_aside {
        let more = match more.len() {
            0 => String::new(),
            more => format!(" (and {more} more beside it)"),
        };
        let text = format!("what was overwritten is kept: {}{more}", first.copy);
        context.ui.toast(Toast::warning(text));
    }
}

fn report(context: &TuiContext, restored: &Restored, how: &str) {
    let files = files(restored.files);
    context.ui.toast(match restored.left_alone.as_slice() {
        [] => Toast::success(format!("{files} {how}")),
        left => {
            let left: Vec<String> = left
                .iter()
                .map(|left| format!("{}: {}", left.path, left.reason))
                .collect();
            Toast::warning(format!("{files} {how}, but for {}", left.join("; ")))
        }
    });
    tell_copies(context, &restored.set_aside);
}

fn files(count: u32) -> String {
    format::count(usize::try_from(count).unwrap_or_default(), "file", "files")
}

fn list(paths: &[String]) -> String {
    let named: Vec<String> = paths
        .iter()
        .take(20)
        .map(|path| format!("- `{path}`"))
        .collect();
    match paths.len().saturating_sub(20) {
        0 => named.join("\n"),
        more => format!("{}\n- and {more} more", named.join("\n")),
    }
}

#[cfg(test)]
mod tests;
