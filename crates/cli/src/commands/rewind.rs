//! `bezel session rewind`: the files and the conversation as before a message, and back.

use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use bezel_context::Context;
use bezel_rewind_contract::{
    Availability, FileChange, LeftAlone, Origin, Progress, Reach, Restored, RewindClient,
    RewindError, RewindState, SetAside, StageRequest, Staged,
};
use bezel_rpc::{CallError, Link, State};
use bezel_session_types::{EntryId, SessionId};
use bezel_sessions_contract::LaunchEnvironment;
use serde_json::json;

use super::opened;
use crate::arguments::RewindArguments;
use crate::failure::{Failure, Outcome};

/// How often it is said how far files are written, where that is no terminal.
const SAID_EVERY: Duration = Duration::from_secs(2);
/// Files that are named of those that somebody else may have changed.
const MOST_MARKED: usize = 20;

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
    let mut told = Told::new("a rewind that was cut off is being finished");
    loop {
        // Whatever moves is waited for.
        let seen = state.get().progress;
        let moved = state.wait_for(cx, |state| state.loaded || state.progress != seen);
        let shown = opened.shown(cx, moved).await?;
        told.tell(shown.progress);
        if shown.loaded {
            break;
        }
    }
    drop(told);
    let mut out = io::stdout();
    let force = arguments.force;
    if arguments.clear || arguments.commit {
        let done = match arguments.clear {
            true => watched(cx, &state, rewind.clear(cx, force)).await,
            false => watched(cx, &state, rewind.commit(cx)).await,
        };
        let restored = done.map_err(refused)?;
        return match arguments.json {
            true => Ok(writeln!(out, "{}", json!(restored))?),
            false => Ok(report(&restored, arguments.clear, &mut out)?),
        };
    }
    if let Some(message) = &arguments.to {
        let request = StageRequest {
            message: meant(&state.get(), message)?,
            reach: match arguments.files_only {
                true => Reach::Files,
                false => Reach::FilesAndConversation,
            },
            force,
        };
        let staged = watched(cx, &state, rewind.stage(cx, request)).await;
        let staged = staged.map_err(refused)?;
        if arguments.json {
            return Ok(writeln!(out, "{}", json!(staged))?);
        }
        for file in &staged.files {
            write!(out, "{}", file.patch)?;
        }
        mark(&staged.files, &mut out)?;
        name(&staged.left_alone, &mut out)?;
        name_copies(&staged.set_aside, &mut out)?;
        return Ok(tell(&staged, &mut out)?);
    }
    // A run that has just ended is in it.
    let listed = watched(cx, &state, rewind.refresh(cx)).await;
    let listed = listed.map_err(refused)?;
    match arguments.json {
        true => writeln!(out, "{}", json!(listed))?,
        false => list(&listed, &mut out)?,
    }
    Ok(())
}

/// Says meanwhile how far files are written.
async fn watched<T>(cx: &Context, state: &State<RewindState>, work: impl Future<Output = T>) -> T {
    let (mut work, mut told) = (pin!(work), Told::new("files are being written"));
    let mut seen = None;
    loop {
        let moved = |state: &RewindState| state.progress.is_some() && state.progress != seen;
        tokio::select! {
            biased;
            done = &mut work => return done,
            Ok(moved) = state.wait_for(cx, moved) => {
                seen = moved.progress;
                told.tell(seen);
            }
        }
    }
}

/// Says on standard error how far something is: on a terminal in one line, elsewhere now and then, where it takes
/// that long.
struct Told {
    what: &'static str,
    is_terminal: bool,
    /// When it was said last; at first when it began.
    last: Instant,
    said: bool,
}

impl Told {
    fn new(what: &'static str) -> Self {
        Told {
            what,
            is_terminal: io::stderr().is_terminal(),
            last: Instant::now(),
            said: false,
        }
    }

    fn tell(&mut self, progress: Option<Progress>) {
        let Some(Progress { done, total }) = progress else {
            return;
        };
        if !self.is_terminal && self.last.elapsed() < SAID_EVERY {
            return;
        }
        (self.last, self.said) = (Instant::now(), true);
        let (start, end) = match self.is_terminal {
            true => ("\r", ""),
            false => ("", "\n"),
        };
        // Who does not read it misses nothing.
        write!(io::stderr(), "{start}{}: {done} of {total}{end}", self.what).ok();
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if self.is_terminal && self.said {
            writeln!(io::stderr()).ok();
        }
    }
}

/// The message whose id is this or begins or ends so; what is none of those known goes on as it is.
fn meant(state: &RewindState, part: &str) -> Outcome<EntryId> {
    let ids = || state.points.iter().map(|point| &point.message);
    let exact = ids().any(|id| id.as_str() == part);
    let fits = |id: &&EntryId| id.as_str().starts_with(part) || id.as_str().ends_with(part);
    let mut found = ids().filter(fits);
    match (exact || part.is_empty(), found.next(), found.next()) {
        (false, Some(id), None) => Ok(id.clone()),
        (false, Some(_), Some(_)) => Err(Failure::usage(anyhow!(
            "several messages have ids that begin or end with {part}; write more of it"
        ))),
        _ => Ok(EntryId::new(part)),
    }
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
        "{} as before “{}”{conversation}; --clear undoes that, --commit keeps it",
        files(staged.total),
        staged.text
    )
}

fn report(restored: &Restored, cleared: bool, out: &mut dyn Write) -> io::Result<()> {
    let how = if cleared {
        "as before the rewind"
    } else {
        "kept as rewound"
    };
    writeln!(out, "{} {how}", files(restored.files))?;
    if restored.conversation {
        writeln!(
            out,
            "the conversation has gone back; its tree keeps what was left"
        )?;
    }
    name_copies(&restored.set_aside, out)?;
    name(&restored.left_alone, out)
}

/// So many files, and the verb.
fn files(count: u32) -> String {
    match count {
        1 => "1 file is".to_owned(),
        count => format!("{count} files are"),
    }
}

/// Names what somebody else may have changed.
fn mark(files: &[FileChange], out: &mut dyn Write) -> io::Result<()> {
    for (origin, how) in [
        (Origin::Command, "while a command ran"),
        (Origin::Crash, "around a crash, while a call ran"),
    ] {
        let files = files.iter().filter(|file| file.origin == origin);
        let paths: Vec<&str> = files.map(|file| file.path.as_str()).collect();
        let more = match paths.len().saturating_sub(MOST_MARKED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        if !paths.is_empty() {
            let named = paths[..paths.len().min(MOST_MARKED)].join(", ");
            writeln!(
                out,
                "changed {how}, what you changed there just then went back too: {named}{more}"
            )?;
        }
    }
    Ok(())
}

fn name_copies(set_aside: &[SetAside], out: &mut dyn Write) -> io::Result<()> {
    for file in set_aside {
        writeln!(out, "set aside: {}: {}", file.path, file.copy)?;
    }
    Ok(())
}

fn name(left_alone: &[LeftAlone], out: &mut dyn Write) -> io::Result<()> {
    for left in left_alone {
        writeln!(out, "left alone: {}: {}", left.path, left.reason)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bezel_rewind_contract::Point;

    use super::*;

    #[test]
    fn a_message_is_named_by_its_id_or_the_beginning_or_end_of_it() {
        let point = |id: &str| Point {
            message: EntryId::new(id),
            text: String::new(),
            at: 0,
            files: 0,
            files_since: 0,
            problem: None,
        };
        let state = RewindState {
            points: ["ab1", "ab2", "b2"].map(point).to_vec(),
            ..RewindState::default()
        };
        let id = |part: &str| meant(&state, part).map(|id| id.to_string()).ok();
        for (part, expected) in [
            ("ab1", Some("ab1")),
            ("1", Some("ab1")),
            ("ab2", Some("ab2")),
            ("b2", Some("b2")),
            ("2", None),
            ("ab", None),
            // The session says that there is none.
            ("zz", Some("zz")),
            ("", Some("")),
        ] {
            assert_eq!(id(part).as_deref(), expected, "{part}");
        }
        assert_eq!(files(1), "1 file is");
        assert_eq!(files(2), "2 files are");
    }
}
