//! `bezel session`: list, show, rename, archive, fork, answer, delete; export, import, check and size are in [`files`],
//! going back in [`rewind`], what the model is given in [`context`].

mod context;
mod files;

use std::io::{self, Write};

use anyhow::anyhow;
use bezel_context::Context;
use bezel_host_headless::{SelectError, find_session, list_sessions, plain_line, plain_text};
use bezel_rpc::{CallError, Link};
use bezel_session_types::{AssistantContent, EntryId, Message, ResultContent, SessionId};
use bezel_sessions_contract::{
    Archived, ForkError, ForkRequest, LaunchEnvironment, ListSessions, SessionDirectoryClient,
    SessionError, SessionForkClient, SessionManagementClient, SessionSummary,
};
use serde_json::json;

use crate::arguments::{ServerChoice, SessionCommand};
use crate::commands::rewind;
use crate::commands::run::runtime;
use crate::commands::{asked, opened, permit};
use crate::connect::join_chosen;
use crate::failure::{Exit, Failure, Outcome};
use crate::logging;
use crate::paths::Paths;
use crate::setup::environment;

/// Runs the command.
pub fn run(server: ServerChoice, command: SessionCommand) -> Outcome {
    let paths = Paths::of_process().map_err(Failure::usage)?;
    logging::start(logging::Target::File(paths.logs.join("client.log"))).map_err(Failure::usage)?;
    runtime()?.block_on(async {
        let cx = Context::background();
        let joined = join_chosen(&cx, &paths, &server)
            .await
            .map_err(Failure::failed)?;
        let environment = match server.server.is_some() {
            // Another machine's sessions work with that machine's variables.
            true => LaunchEnvironment::default(),
            false => LaunchEnvironment(environment()),
        };
        let outcome = act(&cx, &joined.link, environment, command).await;
        joined.leave().await;
        outcome
    })
}

async fn act(
    cx: &Context,
    link: &Link,
    environment: LaunchEnvironment,
    command: SessionCommand,
) -> Outcome {
    let mut out = io::stdout();
    let management: SessionManagementClient = link.server().use_service();
    match command {
        SessionCommand::List {
            all,
            search,
            archived,
            children,
            json,
        } => {
            let query = ListSessions {
                text: search,
                archived: match (all, archived) {
                    (true, _) => Archived::Include,
                    (false, true) => Archived::Only,
                    (false, false) => Archived::Exclude,
                },
                children: all || children,
                ..ListSessions::default()
            };
            let narrow = query.text.is_some() || archived;
            let sessions = list_sessions(cx, link, query).await.map_err(failed)?;
            if json {
                writeln!(out, "{}", json!(sessions))?;
            } else if sessions.is_empty() && narrow {
                writeln!(out, "There is no such session")?;
            } else {
                list(&sessions, &mut out)?;
            }
        }
        SessionCommand::Archive { id, json } => {
            archive(cx, link, &id, true, json, &mut out).await?;
        }
        SessionCommand::Unarchive { id, json } => {
            archive(cx, link, &id, false, json, &mut out).await?;
        }
        SessionCommand::Show { id, limit, json } => {
            let session = found(cx, link, &id).await?;
            let directory: SessionDirectoryClient = link.server().use_service();
            let messages = directory
                .messages(cx, session.session_id.clone(), limit)
                .await
                .map_err(failed)?;
            if json {
                writeln!(
                    out,
                    "{}",
                    json!({ "session": session, "messages": messages })
                )?;
            } else {
                show(&session, &messages, &mut out)?;
            }
        }
        SessionCommand::Context { id, request, json } => {
            let session = found(cx, link, &id).await?;
            match request {
                true => context::request(cx, link, environment, &session, &mut out).await?,
                false => context::show(cx, link, &session, json, &mut out).await?,
            }
        }
        SessionCommand::Rename { id, title, json } => {
            let session = found(cx, link, &id).await?;
            if title.trim().is_empty() {
                return Err(Failure::usage(anyhow!("the title is empty: write one")));
            }
            let renamed = management
                .rename(cx, session.session_id, title)
                .await
                .map_err(failed)?;
            if json {
                writeln!(out, "{}", json!(renamed))?;
            } else {
                writeln!(out, "{} is now “{}”", renamed.session_id, renamed.title)?;
            }
        }
        SessionCommand::Pending { id, json } => {
            return asked::pending(cx, link, environment, &id, json).await;
        }
        SessionCommand::Answer(arguments) => {
            return asked::answer(cx, link, environment, arguments).await;
        }
        SessionCommand::Permit(arguments) => {
            return permit::run(cx, link, environment, arguments).await;
        }
        SessionCommand::Fork {
            id,
            at,
            tree,
            title,
            json,
        } => {
            let session = found(cx, link, &id).await?;
            let request = ForkRequest {
                at: at.map(EntryId::new),
                whole_tree: tree,
                title,
            };
            let forked = fork(cx, link, environment, &session.session_id, request).await?;
            if json {
                writeln!(out, "{}", json!(forked))?;
            } else {
                writeln!(
                    out,
                    "{} is a copy of {}; `bezel --session {0}` opens it",
                    forked.session_id, session.session_id
                )?;
            }
        }
        SessionCommand::Rewind(arguments) => {
            let session = found(cx, link, &arguments.id).await?;
            rewind::run(cx, link, environment, &session.session_id, &arguments).await?;
        }
        SessionCommand::Delete { id, json } => {
            let session = found(cx, link, &id).await?;
            management
                .remove(cx, session.session_id.clone())
                .await
                .map_err(failed)?;
            if json {
                writeln!(out, "{}", json!({ "deleted": session.session_id }))?;
            } else {
                writeln!(out, "{} is deleted", session.session_id)?;
            }
        }
        SessionCommand::Export {
            id,
            file,
            format,
            json,
        } => {
            let session = found(cx, link, &id).await?;
            files::export(cx, link, &session, file, format, json).await?;
        }
        SessionCommand::Import { file, cwd, json } => {
            files::import(cx, link, &file, cwd, json).await?;
        }
        SessionCommand::Check { id, all: _, json } => {
            let session = match id {
                Some(id) => Some(found(cx, link, &id).await?),
                None => None,
            };
            return files::check(cx, link, session, json).await;
        }
        SessionCommand::Size { json } => files::size(cx, link, json).await?,
    }
    Ok(Exit::Done)
}

/// Puts a session away or takes it back.
async fn archive(
    cx: &Context,
    link: &Link,
    id: &str,
    archived: bool,
    json: bool,
    out: &mut dyn Write,
) -> Outcome<()> {
    let session = found(cx, link, id).await?;
    let management: SessionManagementClient = link.server().use_service();
    let changed = management
        .archive(cx, session.session_id, archived)
        .await
        .map_err(failed)?;
    match (json, archived) {
        (true, _) => writeln!(out, "{}", json!(changed))?,
        (false, true) => writeln!(
            out,
            "{} is archived; `bezel session unarchive {0}` takes it back",
            changed.session_id
        )?,
        (false, false) => writeln!(out, "{} is listed again", changed.session_id)?,
    }
    Ok(())
}

/// Has the session's own worker copy it; one that does not run is started.
async fn fork(
    cx: &Context,
    link: &Link,
    environment: LaunchEnvironment,
    session: &SessionId,
    request: ForkRequest,
) -> Outcome<SessionSummary> {
    let opened = opened::open(cx, link, environment, session).await?;
    let forks: SessionForkClient = opened.services.use_service();
    forks.fork(cx, request).await.map_err(|error| match error {
        CallError::Service(error @ ForkError::Refused { .. }) => Failure::usage(error),
        CallError::Service(error) => Failure::failed(error),
        CallError::Rpc(error) => {
            Failure::failed(anyhow!("the session was not forked: {}", error.message))
        }
    })
}

pub(super) async fn found(cx: &Context, link: &Link, id: &str) -> Outcome<SessionSummary> {
    find_session(cx, link, id)
        .await
        .map_err(|error| match error {
            SelectError::Call(_) => Failure::failed(error),
            _ => Failure::usage(error),
        })
}

pub(super) fn failed(error: CallError<SessionError>) -> Failure {
    match error {
        CallError::Service(error) => Failure::failed(error),
        CallError::Rpc(error) => {
            Failure::failed(anyhow!("the server did not do it: {}", error.message))
        }
    }
}

fn list(sessions: &[SessionSummary], out: &mut dyn Write) -> io::Result<()> {
    if sessions.is_empty() {
        return writeln!(
            out,
            "There are no sessions yet; `bezel` or `bezel run` begins one"
        );
    }
    // Ids are ordered by time: close ones begin alike, so that a short form would seldom be enough.
    for session in sessions {
        let title = if session.title.is_empty() {
            "(no title yet)"
        } else {
            &session.title
        };
        let status = serde_json::to_value(session.status).ok();
        let status = status
            .as_ref()
            .and_then(|status| status.as_str())
            .unwrap_or_default();
        let model = session
            .model
            .as_ref()
            .map_or_else(String::new, |model| format!("  [{model}]"));
        let archived = match session.archived_at {
            Some(_) => "  (archived)",
            None => "",
        };
        // The end of an id is enough to name a session.
        let begun = session
            .parent_id
            .as_ref()
            .map_or_else(String::new, |parent| {
                let parent = parent.as_str();
                let end = parent.len().saturating_sub(8);
                format!("  (begun by {})", parent.get(end..).unwrap_or(parent))
            });
        let updated = session
            .updated_at
            .get(..16)
            .unwrap_or(&session.updated_at)
            .replace('T', " ");
        writeln!(
            out,
            "{}  {updated}  {status:<11}  {}  {}{model}{begun}{archived}",
            session.session_id,
            session.workspace_name,
            plain_line(title)
        )?;
    }
    Ok(())
}

fn show(session: &SessionSummary, messages: &[Message], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{}  {}  {}",
        session.session_id,
        session.workspace_name,
        plain_line(&session.title)
    )?;
    messages
        .iter()
        .try_for_each(|message| show_message(message, out))
}

fn show_message(message: &Message, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    match message {
        Message::User(user) => {
            let text = plain_text(&user.to_text());
            writeln!(out, "> {}", text.replace('\n', "\n> "))?
        }
        Message::Assistant(answer) => {
            for part in &answer.content {
                match part {
                    AssistantContent::Text { text } => writeln!(out, "{}", plain_text(text))?,
                    AssistantContent::Thinking { .. } => {}
                    AssistantContent::ToolCall(call) => {
                        let line = format!("· {} {}", call.name, call.arguments);
                        writeln!(out, "{}", plain_line(&line))?
                    }
                }
            }
            if let Some(error) = &answer.error {
                writeln!(out, "error: {}", plain_text(error))?;
            }
        }
        Message::ToolResult(result) => {
            let failed = if result.is_error { " failed" } else { "" };
            writeln!(out, "· {}{failed}:", plain_line(&result.tool))?;
            for part in &result.content {
                match part {
                    ResultContent::Text { text } => {
                        let text = plain_text(text.trim_end());
                        writeln!(out, "  {}", text.replace('\n', "\n  "))?
                    }
                    ResultContent::Image(image) => writeln!(out, "  ({})", image.media_type)?,
                }
            }
        }
    }
    Ok(())
}
