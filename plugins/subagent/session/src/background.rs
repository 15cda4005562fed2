//! Children that nobody waits for: when one has ended, a message says so.

use std::sync::Arc;

use bezel_api_session::{Lane, PromptError, SessionContext, ToCome};
use bezel_context::{Context, Spawner};
use bezel_session_types::{
    CommandId, Delivery, Entry, EntryBody, InvocationId, Message, UserMessage,
};
use bezel_subagent_contract::{SubagentDetails, TOOL};
use serde::Deserialize;

use crate::tool::{Asked, Subagents};

/// Entries that are read at once when an earlier process's children are looked for.
const PAGE: usize = 200;

/// Tells the parent when the child has ended, on a task of the facet.
pub(crate) fn wait_for(subagents: Arc<Subagents>, parent: Lane, asked: Asked, spawner: &Spawner) {
    spawner.spawn("background subagent", async move {
        let cx = Context::background();
        let outcome = match subagents.ended(&cx, &asked).await {
            Ok(outcome) => outcome,
            Err(error) => {
                // The process ends, or the child is deleted: the next process looks again.
                tracing::debug!(session = %asked.child, %error, "a background subagent is not waited for any more");
                return;
            }
        };
        let (_, text) = subagents.report(&cx, &asked.child, outcome.as_ref()).await;
        let mut message = UserMessage::text(format!(
            "{}\n\n{text}",
            heading(&asked.invocation)
        ));
        message.synthetic = true;
        let command = CommandId::new(format!("subagent-ended:{}", asked.invocation));
        match parent.prompt(&cx, command, message, Delivery::Steer).await {
            // In other words by an earlier process: it was told.
            Ok(_) | Err(PromptError::Conflict(_)) => {}
            Err(error) => {
                tracing::warn!(session = %asked.child, %error, "the end of a background subagent was not told");
            }
        }
    });
}

/// Begins the message that tells of a child's end, and is found again by it.
fn heading(invocation: &InvocationId) -> String {
    format!("A subagent that you began in the background has ended (call {invocation}).")
}

/// Waits again for the children that an earlier process began in the background and whose end was not told.
///
/// `returning` is let go when those of the newest entries are there again: the session's opening does not wait until
/// all of a long conversation is read.
pub(crate) async fn take_up(
    cx: SessionContext,
    subagents: Arc<Subagents>,
    mut returning: Option<ToCome>,
) {
    let background = Context::background();
    // The end of the session is the end of this too.
    if cx.session.until_active(&background).await.is_err() {
        return;
    }
    let sessions = &subagents.sessions;
    let children = match sessions.children(&background, sessions.own()).await {
        Ok(children) if children.is_empty() => return,
        Ok(children) => children,
        Err(error) => {
            tracing::warn!(%error, "background subagents of an earlier process cannot be looked for");
            return;
        }
    };
    let tree = cx.agent.tree();
    let (mut begun, mut told) = (Vec::new(), Vec::new());
    let mut before = None;
    loop {
        let (entries, more) = match tree.recent(before.as_ref(), PAGE).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "background subagents of an earlier process cannot be looked for");
                return;
            }
        };
        // The newest first: an end is told after what it is the end of.
        entries
            .iter()
            .for_each(|entry| note(entry, &mut begun, &mut told));
        for asked in begun.drain(..) {
            let heading = heading(&asked.invocation);
            let is_told = told.iter().any(|text: &String| text.starts_with(&heading));
            // A copy of a conversation tells of children that are another session's.
            let is_own = children.iter().any(|child| child.session_id == asked.child);
            if is_told || !is_own {
                continue;
            }
            if returning.is_some()
                && let Err(error) = sessions.lane(&background, &asked.child).await
            {
                tracing::debug!(session = %asked.child, %error, "a background subagent is not there again");
            }
            wait_for(Arc::clone(&subagents), cx.agent.main(), asked, cx.spawner());
        }
        returning = None;
        match entries.first() {
            Some(oldest) if more => before = Some(oldest.id.clone()),
            _ => break,
        }
    }
}

fn note(entry: &Entry, begun: &mut Vec<Asked>, told: &mut Vec<String>) {
    let EntryBody::Message { message } = &entry.body else {
        return;
    };
    match &**message {
        Message::ToolResult(result) if result.tool == TOOL && !result.is_error => {
            let details = SubagentDetails::deserialize(&result.details).ok();
            if let Some(details) = details.filter(|details| details.background) {
                begun.push(Asked {
                    invocation: result.invocation_id.clone(),
                    child: details.session_id,
                    operation: details.operation_id,
                    prompt: None,
                });
            }
        }
        Message::User(message) if message.synthetic => told.push(message.to_text()),
        _ => {}
    }
}
