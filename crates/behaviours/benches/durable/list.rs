//! 10,000 sessions, listed by a client that comes new; none of them has a database that could be opened.

use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::process::{Client, OWNER, Server, cx, runtime, scratch};
use crate::{Result, figure, median};

const SESSIONS: usize = 10_000;
const REPEATS: usize = 10;

pub fn run(rounds: usize) -> Result<Vec<Value>> {
    let folder = scratch()?;
    runtime()?.block_on(async {
        make(folder.path()).await?;
        let server = Server::start(folder.path())?;
        let (mut connected, mut listed, mut newest) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=rounds {
            let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..REPEATS {
                let started = Instant::now();
                let client = Client::connect(&server).await?;
                a.push(started.elapsed().as_secs_f64());
                let started = Instant::now();
                let state = client.directory.state();
                let found = state.ready(&cx()).await?.sessions.len();
                b.push(started.elapsed().as_secs_f64());
                if found != SESSIONS {
                    return Err(format!("{found} of {SESSIONS} sessions are there").into());
                }
                let started = Instant::now();
                let directory = folder.path().join("project");
                let directory = std::path::absolute(directory)?;
                let directory = directory.to_string_lossy().into_owned();
                client.directory.newest_in(&cx(), directory).await?;
                c.push(started.elapsed().as_secs_f64());
                client.link.stop().await;
            }
            // The first warms everything up.
            if round > 0 {
                connected.push(median(&mut a) * 1e3);
                listed.push(median(&mut b) * 1e3);
                newest.push(median(&mut c) * 1e3);
            }
        }
        none_opened(&server, folder.path())?;
        let shown = json!("shown");
        Ok(vec![
            figure(
                "list 10,000 sessions, none of which has a database",
                "ms",
                &listed,
                None,
                json!({ "at_most": 20.0 }),
            ),
            figure("connect before that", "ms", &connected, None, shown.clone()),
            figure("find the newest of a directory", "ms", &newest, None, shown),
        ])
    })
}

/// Lets a server make its records, and writes 10,000 into them: a record without a file is an empty session.
async fn make(folder: &Path) -> Result<()> {
    let project = std::path::absolute(folder.join("project"))?;
    std::fs::create_dir(&project)?;
    let server = Server::start(folder)?;
    let client = Client::connect(&server).await?;
    let first = client.session_in(&project).await?;
    client.management.remove(&cx(), first).await?;
    client.link.stop().await;
    drop(server);
    let mut records = Connection::open(folder.join("server.db"))?;
    let transaction = records.transaction()?;
    let workspace: String =
        transaction.query_row("SELECT id FROM workspaces", [], |row| row.get(0))?;
    for number in 0..SESSIONS {
        let at = 1_700_000_000_000_i64 + 1_000 * number as i64;
        let title = format!("Make the parser of part {number} forgive a missing newline");
        transaction
            .prepare_cached(
                "INSERT INTO sessions (id, title, owner, workspace_id, directory, model, thinking_level,
                    permission_mode, created_at, updated_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, NULL, NULL, 'ask', ?6, ?6)",
            )?
            .execute(params![
                format!("01928374-6501-7{:03x}-8000-{number:012x}", number % 4096),
                title,
                OWNER,
                workspace,
                project.to_string_lossy(),
                at,
            ])?;
    }
    transaction.commit()?;
    Ok(())
}

/// There is no session's database, and the server has none open.
fn none_opened(server: &Server, folder: &Path) -> Result<()> {
    let sessions = folder.join("sessions");
    let there = match std::fs::read_dir(&sessions) {
        Ok(entries) => entries.count(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error.into()),
    };
    let mut open = 0;
    for entry in std::fs::read_dir(format!("/proc/{}/fd", server.id()))? {
        let file = std::fs::read_link(entry?.path()).unwrap_or_default();
        open += usize::from(file.ends_with("session.db"));
    }
    match (there, open) {
        (0, 0) => Ok(()),
        found => Err(format!("folders of sessions, and databases that are open: {found:?}").into()),
    }
}
