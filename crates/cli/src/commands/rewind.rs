//! `bezel session rewind`: the files as before a message, and back.

use std::io::{self, Write};

use anyhow::anyhow;
use bezel_context::Context;
use bezel_rewind_contract::{
    Availability, LeftAlone, Restored, RewindClient, RewindError, RewindState,
};
use bezel_rpc::{AttachmentState, CallError, Link};
use bezel_session_types::{EntryId, SessionId};
use bezel_sessions_contract::{LaunchEnvironment, SessionManagementClient};
use serde_json::json;

use crate::arguments::RewindArguments;
use crate::failure::{Failure, Outcome};
use crate::setup::environment;

/// Runs the command for a session that was found.
pub async fn run(
    cx: &Context,
    link: &Link,
    session: SessionId,
    arguments: &RewindArguments,
) -> Outcome<()> {
    let rewind = attach(cx, link, session).await?;
    let mut out = io::stdout();
    let force = arguments.force;
    if arguments.clear || arguments.commit {
        let done = match arguments.clear {
            true => rewind.clear(cx, force).await,
            false => rewind.commit(cx).await,
        };
        let restored = done.map_err(refused)?;
        return match arguments.json {
            true => Ok(writeln!(out, "{}", json!(restored))?),
            false => Ok(report(&restored, arguments.clear, &mut out)?),
        };
    }
    if let Some(message) = &arguments.to {
        let staged = rewind
            .stage(cx, EntryId::new(message.as_str()), force)
            .await;
        let staged = staged.map_err(refused)?;
        if arguments.json {
            return Ok(writeln!(out, "{}", json!(staged))?);
        }
        for file in &staged.files {
            write!(out, "{}", file.patch)?;
        }
        name(&staged.left_alone, &mut out)?;
        return Ok(writeln!(
            out,
            "{} of the files are as before “{}”; --clear undoes that, --commit keeps it",
            staged.total, staged.text
        )?);
    }
    let state = rewind.state().ready(cx).await.map_err(Failure::failed)?;
    match arguments.json {
        true => writeln!(out, "{}", json!(*state))?,
        false => list(&state, &mut out)?,
    }
    Ok(())
}

async fn attach(cx: &Context, link: &Link, session: SessionId) -> Outcome<RewindClient> {
    let management: SessionManagementClient = link.server().use_service();
    let environment = Some(LaunchEnvironment(environment()));
    let attached = management.attach(cx, session, environment).await;
    attached.map_err(|error| Failure::failed(anyhow!("cannot open the session: {error}")))?;
    let attachment = link.attached().attachment();
    let settled = |state: &AttachmentState| !matches!(state, AttachmentState::Attaching { .. });
    attachment
        .wait_for(cx, settled)
        .await
        .map_err(Failure::failed)?;
    let rewind: RewindClient = link.attached().use_service();
    let (state, gone) = (rewind.state(), |state: &AttachmentState| {
        !state.is_attached()
    });
    tokio::select! {
        loaded = state.wait_for(cx, |state| state.loaded) => loaded.map_err(Failure::failed)?,
        _ = attachment.wait_for(cx, gone) => {
            return Err(Failure::failed(anyhow!("the session's process has ended; try it again")));
        }
    };
    Ok(rewind)
}

fn refused(error: CallError<RewindError>) -> Failure {
    match error {
        CallError::Service(
            error @ (RewindError::UnknownMessage { .. } | RewindError::NothingStaged),
        ) => Failure::usage(error),
        CallError::Service(error) => Failure::failed(error),
        CallError::Rpc(error) => {
            Failure::failed(anyhow!("the session did not do it: {}", error.message))
        }
    }
}

fn list(state: &RewindState, out: &mut dyn Write) -> io::Result<()> {
    if let Availability::Unavailable { reason } = &state.availability {
        writeln!(out, "Files cannot be rewound: {reason}")?;
    }
    for point in state.points.iter().rev() {
        writeln!(
            out,
            "{}  {:>4} since  {}",
            point.message, point.files_since, point.text
        )?;
        if let Some(problem) = &point.problem {
            writeln!(out, "  what its turn changed is not known: {problem}")?;
        }
    }
    if let Some(staged) = &state.staged {
        writeln!(
            out,
            "{} of the files are as before “{}”; --clear undoes that, --commit keeps it",
            staged.total, staged.text
        )?;
    }
    name(&state.left_alone, out)
}

fn report(restored: &Restored, cleared: bool, out: &mut dyn Write) -> io::Result<()> {
    let how = if cleared {
        "as before the rewind"
    } else {
        "kept as rewound"
    };
    writeln!(out, "{} of the files are {how}", restored.files)?;
    name(&restored.left_alone, out)
}

fn name(left_alone: &[LeftAlone], out: &mut dyn Write) -> io::Result<()> {
    for left in left_alone {
        writeln!(out, "left alone: {}: {}", left.path, left.reason)?;
    }
    Ok(())
}
