//! Asks the person whether a call may run.

use std::collections::HashMap;
use std::sync::Arc;

use bezel_api_tui::{Answer, Ask as Dialog, AskOption, Toast, TuiContext, Ui};
use bezel_context::{CancelHandle, Context};
use bezel_permissions_contract::{PendingAsk, PermissionsClient, Reply};
use bezel_rpc::{AttachmentState, State};
use bezel_session_types::{InvocationId, SubmitOutcome};
use bezel_sessions_contract::{DirectoryState, SessionDirectoryClient, title_when_listed};
use tokio::sync::Notify;

use crate::body;

/// An ask that is shown; it is taken back when this is dropped.
struct Open(CancelHandle);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Keeps a dialog for each ask that waits, for as long as the facet lives.
pub(crate) fn follow(cx: &TuiContext) {
    let permissions: PermissionsClient = cx.session.use_service();
    let (asks, attachment) = (permissions.asks(), cx.session.attachment());
    let directory: SessionDirectoryClient = cx.server.use_service();
    let sessions = directory.state();
    let changed = Arc::new(Notify::new());
    let heard = Arc::clone(&changed);
    cx.own(asks.subscribe(move |_, _| heard.notify_one()));
    let heard = Arc::clone(&changed);
    cx.own(attachment.subscribe(move |_, _| heard.notify_one()));
    let (ui, spawner) = (cx.ui.clone(), cx.spawner().clone());
    cx.spawner().spawn("permission asks", async move {
        let mut open: HashMap<InvocationId, Open> = HashMap::new();
        loop {
            let waiting = waiting(&asks, &attachment);
            open.retain(|id, _| waiting.iter().any(|ask| ask.id == *id));
            for ask in waiting {
                if open.contains_key(&ask.id) {
                    continue;
                }
                let (cx, cancel) = Context::background().with_cancel();
                open.insert(ask.id.clone(), Open(cancel));
                let (ui, permissions, sessions) =
                    (ui.clone(), permissions.clone(), sessions.clone());
                spawner.spawn("permission ask", async move {
                    let asker = name(&cx, &sessions, &ask).await;
                    self::ask(&cx, &ui, &permissions, ask, asker.as_deref()).await;
                });
            }
            changed.notified().await;
        }
    });
}

/// What the attached session asks. Nothing while that is not known.
fn waiting(asks: &State<Vec<PendingAsk>>, attachment: &State<AttachmentState>) -> Vec<PendingAsk> {
    match attachment.get().is_attached() && asks.is_ready() && !asks.is_stale() {
        true => asks.get().to_vec(),
        false => Vec::new(),
    }
}

/// Asks until the reply is taken, or is no longer wanted.
async fn ask(
    cx: &Context,
    ui: &Ui,
    permissions: &PermissionsClient,
    pending: PendingAsk,
    asker: Option<&str>,
) {
    let (dialog, replies) = dialog(&pending, asker);
    loop {
        let Some(answer) = ui.ask(cx, dialog.clone()).await else {
            return;
        };
        let reply = match answer {
            Answer::Option(index) => match replies.get(index) {
                Some(reply) => reply.clone(),
                None => continue,
            },
            Answer::Text(message) => Reply::Reject {
                message: Some(message),
            },
            Answer::Cancel => Reply::Reject { message: None },
        };
        // Not with `cx`: that the ask is gone is what the reply is for.
        let own = Context::background();
        match permissions.reply(&own, pending.id.clone(), reply).await {
            Ok(SubmitOutcome::Accepted) => return,
            Ok(SubmitOutcome::NotPending) => {
                ui.toast(Toast::info("It was answered elsewhere"));
                return;
            }
            Err(error) => ui.toast(Toast::error(format!("The reply did not arrive: {error}"))),
        }
        if cx.is_cancelled() {
            return;
        }
    }
}

/// The dialog, and what its options mean.
fn dialog(pending: &PendingAsk, asker: Option<&str>) -> (Dialog, Vec<Reply>) {
    let ask = &pending.request;
    let title = match asker {
        Some(asker) => format!("May `{}` of {asker} run?", ask.tool),
        None => format!("May `{}` run?", ask.tool),
    };
    let mut dialog = Dialog::new(title, body::markdown(ask));
    let mut replies = vec![Reply::Once];
    dialog = dialog.option(AskOption::new("Once").key('y'));
    if !ask.covers.is_empty() {
        let covers = body::covered(&ask.covers);
        dialog = dialog
            .option(
                AskOption::new("In this session")
                    .detail(format!("also: {covers}"))
                    .key('s')
                    .after_reading(),
            )
            .option(
                AskOption::new("Always in this project")
                    .detail(format!("also: {covers}"))
                    .key('a')
                    .after_reading(),
            );
        replies.extend([Reply::Session, Reply::Always]);
    }
    let dialog = dialog
        .text("No, and say what to do instead")
        .cancel("No, and stop");
    (dialog, replies)
}

/// The subagent that asks, by the title of its session.
async fn name(
    cx: &Context,
    sessions: &State<DirectoryState>,
    pending: &PendingAsk,
) -> Option<String> {
    let asker = pending.asker.as_ref()?;
    let title = title_when_listed(cx, sessions, asker).await;
    Some(title.map_or_else(
        || "a subagent".to_owned(),
        |title| format!("the subagent “{title}”"),
    ))
}
