//! `bezel access`: pairing codes, paired clients, and taking them back.

use std::io::{self, Write};
use std::path::Path;

use anyhow::anyhow;
use bezel_access_contract::{AccessClient, AccessError, PairOptions, PairedClient};
use bezel_context::{Context, CredentialId, Scope};
use bezel_rpc::CallError;
use serde_json::json;

use crate::arguments::{AccessCommand, ScopeName, ServerChoice};
use crate::commands::run::{runtime, tell};
use crate::connect::{Joined, join_chosen};
use crate::daemon::{self, Status};
use crate::failure::{Exit, Failure, Outcome};
use crate::paths::Paths;
use crate::{logging, remote};

/// Runs the command.
pub fn run(server: ServerChoice, command: AccessCommand) -> Outcome {
    let paths = Paths::of_process().map_err(Failure::usage)?;
    logging::start(logging::Target::File(paths.logs.join("client.log"))).map_err(Failure::usage)?;
    let url = match (&server.server, &command) {
        (Some(url), _) => Some(url.clone()),
        (None, AccessCommand::Pair { .. }) => served(&paths)?,
        (None, _) => None,
    };
    runtime()?.block_on(async {
        let cx = Context::background();
        let joined = join_chosen(&cx, &paths, &server)
            .await
            .map_err(Failure::failed)?;
        let outcome = act(
            &cx,
            &joined,
            command,
            url.as_deref(),
            server.server.is_some(),
        )
        .await;
        joined.leave().await;
        outcome
    })
}

/// Where the running server takes connections; a code is of no use where it takes none.
fn served(paths: &Paths) -> Outcome<Option<String>> {
    match daemon::status(paths).map_err(Failure::failed)? {
        Status::Running(owner) => match daemon::served_url(paths, &owner) {
            Some(url) => Ok(Some(url)),
            None => {
                let what = "the running server takes no connections from other machines: end it with \
                            `bezel server stop`, then start it with `bezel serve`";
                Err(Failure::failed(anyhow!(what)))
            }
        },
        _ => Err(Failure::failed(anyhow!(
            "no server runs here: start one with `bezel serve`, which prints a first pairing code"
        ))),
    }
}

async fn act(
    cx: &Context,
    joined: &Joined,
    command: AccessCommand,
    url: Option<&str>,
    elsewhere: bool,
) -> Outcome {
    let access: AccessClient = joined.link.server().use_service();
    let mut out = io::stdout();
    match command {
        AccessCommand::Pair {
            scopes,
            cwd,
            label,
            json,
        } => {
            let options = PairOptions {
                label,
                scopes: scopes.into_iter().map(scope).collect(),
                directory: cwd.map(|cwd| directory(&cwd, elsewhere)).transpose()?,
            };
            let made = access.pair(cx, options).await.map_err(failed)?;
            if json {
                writeln!(out, "{}", json!(made))?;
            } else {
                writeln!(out, "{}", made.code)?;
                let url = url.unwrap_or("URL");
                tell(&format!(
                    "Works once, for five minutes. On the other machine:\n  bezel attach {url} --code {}",
                    made.code
                ));
            }
        }
        AccessCommand::List { json } => {
            let state = access.state();
            let ready = state.ready(&cx.with_timeout(remote::ANSWER)).await;
            let clients = match ready {
                Ok(state) => state.clients.clone(),
                Err(_) => {
                    let why = joined.link.server().check::<AccessClient>().err();
                    let why = why.map_or_else(
                        || "this client may not see them: it lacks the scope admin".to_owned(),
                        |error| error.message,
                    );
                    return Err(Failure::failed(anyhow!(
                        "cannot list the paired clients: {why}"
                    )));
                }
            };
            if json {
                writeln!(out, "{}", json!(clients))?;
            } else {
                list(&clients, &mut out)?;
            }
        }
        AccessCommand::Revoke { id } => {
            let revoked = access
                .revoke(cx, CredentialId::new(id))
                .await
                .map_err(failed)?;
            for id in revoked {
                writeln!(out, "{id} has no access any more")?;
            }
        }
    }
    Ok(Exit::Done)
}

/// A directory as the server is told of it: one of this machine in full, one of another machine as it is.
fn directory(cwd: &Path, elsewhere: bool) -> Outcome<String> {
    let path = match elsewhere {
        true => cwd.to_owned(),
        false => std::path::absolute(cwd).map_err(Failure::usage)?,
    };
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Failure::usage(anyhow!(
            "cannot bind to {}: its name is not UTF-8",
            cwd.display()
        ))
    })
}

fn scope(name: ScopeName) -> Scope {
    match name {
        ScopeName::Read => Scope::Read,
        ScopeName::Operate => Scope::Operate,
        ScopeName::Admin => Scope::Admin,
    }
}

fn failed(error: CallError<AccessError>) -> Failure {
    match error {
        CallError::Service(error) => Failure::failed(error),
        CallError::Rpc(error) => {
            Failure::failed(anyhow!("the server did not do it: {}", error.message))
        }
    }
}

fn list(clients: &[PairedClient], out: &mut dyn Write) -> io::Result<()> {
    if clients.is_empty() {
        return writeln!(
            out,
            "No client is paired; `bezel access pair` prints a pairing code"
        );
    }
    for client in clients {
        let scopes: Vec<String> = client.scopes.iter().map(scope_word).collect();
        let place = match &client.workspaces {
            None => "all workspaces".to_owned(),
            Some(workspaces) => workspaces
                .iter()
                .map(|workspace| workspace.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        };
        let label = if client.label.is_empty() {
            "(no name)"
        } else {
            &client.label
        };
        let used = client.last_used_at.as_deref().map_or_else(
            || "never used".to_owned(),
            |used| format!("used {}", minute(used)),
        );
        writeln!(
            out,
            "{}  {label}  {}  {place}  paired {}, {used}",
            client.id,
            scopes.join(","),
            minute(&client.created_at),
        )?;
    }
    Ok(())
}

fn scope_word(scope: &Scope) -> String {
    let word = serde_json::to_value(scope).ok();
    word.as_ref()
        .and_then(|word| word.as_str())
        .unwrap_or_default()
        .to_owned()
}

fn minute(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}
