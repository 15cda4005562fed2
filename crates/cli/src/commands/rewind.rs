//! `bezel session rewind`: the files and the conversation as before a message, and back.

use std::io::{self, Write};

use anyhow::anyhow;
use bezel_context::Context;
use bezel_rewind_contract::{
    Availability, LeftAlone, Reach, Restored, RewindClient, RewindError, RewindState, StageRequest,
    Staged,
};
use bezel_rpc::{CallError, Link};
use bezel_session_types::{EntryId, SessionId};
use bezel_sessions_contract::LaunchEnvironment;
use serde_json::json;

use super::opened;
use crate::arguments::RewindArguments;
use crate::failure::{Failure, Outcome};

/// Runs the command for a session that was found.
pub async fn run(
    cx: &Context,
    link: &Link,
    environment: LaunchEnvironment,
    session: &SessionId,
    arguments: &RewindArguments,
) -> Outcome<()> {
    let opened = opened::open(cx, link, environment, session).await?;
    let rewind: RewindClient = opened.services.use_service();
    let state = rewind.state();
    let loaded = state.wait_for(cx, |state| state.loaded);
    let state = opened.shown(cx, loaded).await?;
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
        let request = StageRequest {
            message: EntryId::new(message.as_str()),
            reach: match arguments.files_only {
                true => Reach::Files,
                false => Reach::FilesAndConversation,
            },
            force,
        };
        let staged = rewind.stage(cx, request).await.map_err(refused)?;
        if arguments.json {
            return Ok(writeln!(out, "{}", json!(staged))?);
        }
        for file in &staged.files {
            write!(out, "{}", file.patch)?;
        }
        name(&staged.left_alone, &mut out)?;
        return Ok(tell(&staged, &mut out)?);
    }
    match arguments.json {
        true => writeln!(out, "{}", json!(*state))?,
        false => list(&state, &mut out)?,
    }
    Ok(())
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
        tell(staged, out)?;
    }
    name(&state.left_alone, out)
}

fn tell(staged: &Staged, out: &mut dyn Write) -> io::Result<()> {
    let conversation = match staged.reach {
        Reach::FilesAndConversation => {
            "; the conversation goes back with --commit or the next message"
        }
        Reach::Files => "; the conversation stays",
    };
    writeln!(
        out,
        "{} of the files are as before “{}”{conversation}; --clear undoes that, --commit keeps it",
        staged.total, staged.text
    )
}

fn report(restored: &Restored, cleared: bool, out: &mut dyn Write) -> io::Result<()> {
    let how = if cleared {
        "as before the rewind"
    } else {
        "kept as rewound"
    };
    writeln!(out, "{} of the files are {how}", restored.files)?;
    if restored.conversation {
        writeln!(
            out,
            "the conversation has gone back; its tree keeps what was left"
        )?;
    }
    name(&restored.left_alone, out)
}

fn name(left_alone: &[LeftAlone], out: &mut dyn Write) -> io::Result<()> {
    for left in left_alone {
        writeln!(out, "left alone: {}: {}", left.path, left.reason)?;
    }
    Ok(())
}
