//! `bezel session permit`: what a session needs permission for, and the reply from elsewhere.

use std::io::{self, Write};

use anyhow::anyhow;
use bezel_context::Context;
use bezel_host_headless::plain_line;
use bezel_permissions_contract::{PendingAsk, PermissionsClient, Reply, ReplyError};
use bezel_rpc::{CallError, Link};
use bezel_session_types::SubmitOutcome;
use bezel_sessions_contract::LaunchEnvironment;
use serde_json::json;

use super::opened;
use super::session::found;
use crate::arguments::{PermitArguments, PermitReply};
use crate::failure::{Exit, Failure, Outcome};

/// Shows what waits, or replies to it.
pub(super) async fn run(
    cx: &Context,
    link: &Link,
    environment: LaunchEnvironment,
    arguments: PermitArguments,
) -> Outcome {
    let session = found(cx, link, &arguments.id).await?;
    let opened = opened::open(cx, link, environment, &session.session_id).await?;
    let permissions: PermissionsClient = opened.services.use_service();
    let asks = opened.shown(cx, permissions.asks().ready(cx)).await?;
    let mut out = io::stdout();
    let Some(reply) = arguments.reply else {
        match arguments.json {
            true => writeln!(
                out,
                "{}",
                json!({ "session_id": session.session_id, "asks": *asks })
            )?,
            false if asks.is_empty() => writeln!(out, "Nothing needs permission")?,
            false => asks.iter().try_for_each(|ask| show(ask, &mut out))?,
        }
        return Ok(Exit::Done);
    };
    let ask = chosen(&asks, arguments.call.as_deref())?;
    let reply = match reply {
        PermitReply::Once => Reply::Once,
        PermitReply::Session => Reply::Session,
        PermitReply::Always => Reply::Always,
        PermitReply::Reject => Reply::Reject {
            message: arguments.message.filter(|text| !text.trim().is_empty()),
        },
    };
    let outcome = permissions.reply(cx, ask.id.clone(), reply).await;
    let outcome = outcome.map_err(|error| match error {
        CallError::Service(error @ (ReplyError::OnlyOnce | ReplyError::Invalid { .. })) => {
            Failure::usage(error)
        }
        CallError::Service(error) => Failure::failed(error),
        CallError::Rpc(error) => Failure::failed(anyhow!(
            "it is not known whether the reply arrived: {}; `bezel session permit {}` shows whether it still waits",
            error.message,
            session.session_id
        )),
    })?;
    match outcome {
        SubmitOutcome::Accepted if arguments.json => {
            writeln!(out, "{}", json!({ "call": ask.id, "result": outcome }))?;
            Ok(Exit::Done)
        }
        SubmitOutcome::Accepted => {
            writeln!(out, "replied")?;
            Ok(Exit::Done)
        }
        SubmitOutcome::NotPending => Err(Failure::failed(anyhow!(
            "call {} does not wait any more: somebody else replied, or it was interrupted",
            ask.id
        ))),
    }
}

/// The replies that this ask takes, as the flag spells them.
pub(super) fn replies(ask: &PendingAsk) -> &'static str {
    match ask.request.covers.is_empty() {
        true => "once | reject",
        false => "once | session | always | reject",
    }
}

/// The ask that is meant.
fn chosen<'asks>(asks: &'asks [PendingAsk], part: Option<&str>) -> Outcome<&'asks PendingAsk> {
    let fits = |ask: &&PendingAsk| {
        let id = ask.id.as_str();
        part.is_none_or(|part| !part.is_empty() && (id.starts_with(part) || id.ends_with(part)))
    };
    let mut found = asks.iter().filter(fits);
    match (found.next(), found.next()) {
        (Some(ask), None) => Ok(ask),
        (None, _) => Err(Failure::failed(anyhow!(
            "no such call waits for permission: it was answered, or interrupted, or could not go on; \
             `bezel session show` tells which"
        ))),
        (Some(_), Some(_)) => Err(Failure::usage(anyhow!(
            "several calls wait: name one by the id that `bezel session permit` shows"
        ))),
    }
}

/// The call, what it asks for and why, and what an answer for more than it would cover.
pub(super) fn show(ask: &PendingAsk, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}  {}", ask.id, plain_line(&ask.request.tool))?;
    for asked in &ask.request.asked {
        let line = format!("{} {}: {}", asked.action, asked.resource, asked.reason);
        writeln!(out, "  {}", plain_line(&line))?;
    }
    for rule in &ask.request.covers {
        let line = format!(
            "session and always also cover: {} {}",
            rule.action, rule.resource
        );
        writeln!(out, "  {}", plain_line(&line))?;
    }
    Ok(())
}
