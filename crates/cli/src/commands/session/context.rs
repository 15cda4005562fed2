//! `bezel session context`: what the model is given of a conversation, and all that it would be sent.

use std::io::Write;

use anyhow::anyhow;
use bezel_chat_contract::{ChatClient, ChatError};
use bezel_context::Context;
use bezel_rpc::{CallError, Link};
use bezel_sessions_contract::{LaunchEnvironment, SessionDirectoryClient, SessionSummary};
use serde_json::json;

use super::{failed, show_message};
use crate::commands::opened;
use crate::failure::{Failure, Outcome};

/// The conversation as the model sees it, read from the session's file.
pub(super) async fn show(
    cx: &Context,
    link: &Link,
    session: &SessionSummary,
    json: bool,
    out: &mut dyn Write,
) -> Outcome<()> {
    let directory: SessionDirectoryClient = link.server().use_service();
    let view = directory.context(cx, session.session_id.clone());
    let view = view.await.map_err(failed)?;
    if json {
        writeln!(out, "{}", json!(view))?;
        return Ok(());
    }
    if view.messages.is_empty() {
        writeln!(out, "Nothing was said yet")?;
    }
    for message in &view.messages {
        show_message(message, out)?;
    }
    Ok(())
}

/// All that would be sent, as the session's process makes it.
pub(super) async fn request(
    cx: &Context,
    link: &Link,
    environment: LaunchEnvironment,
    session: &SessionSummary,
    out: &mut dyn Write,
) -> Outcome<()> {
    let opened = opened::open(cx, link, environment, &session.session_id).await?;
    let chat: ChatClient = opened.services.use_service();
    let request = chat.next_request(cx).await.map_err(|error| match error {
        CallError::Service(error @ ChatError::Refused { .. }) => Failure::usage(error),
        CallError::Service(error) => Failure::failed(error),
        CallError::Rpc(error) => Failure::failed(anyhow!(
            "session {} did not say what it would send: {}",
            session.session_id,
            error.message
        )),
    })?;
    writeln!(out, "{}", json!(request))?;
    Ok(())
}
