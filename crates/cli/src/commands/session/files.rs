//! Sessions as files: taken along, taken in, checked, measured.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use bezel_context::Context;
use bezel_host_headless::{list_sessions, plain_line};
use bezel_rpc::Link;
use bezel_session_types::{ExportFormat, ImportSummary, SessionId};
use bezel_sessions_contract::{
    Archived, ImportSession, ListSessions, SessionSummary, SessionUpkeepClient,
};
use serde_json::json;

use super::failed;
use crate::arguments::ExportChoice;
use crate::failure::{Exit, Failure, Outcome};

/// Writes a session into one file.
pub(super) async fn export(
    cx: &Context,
    link: &Link,
    session: &SessionSummary,
    file: Option<PathBuf>,
    format: ExportChoice,
    json: bool,
) -> Outcome<()> {
    let id = &session.session_id;
    let (format, ending) = match format {
        ExportChoice::Bezel => (ExportFormat::Bezel, "bezel"),
        ExportChoice::Jsonl => (ExportFormat::Jsonl, "jsonl"),
        ExportChoice::Markdown => (ExportFormat::Markdown, "md"),
    };
    let file = file.unwrap_or_else(|| PathBuf::from(format!("{id}.{ending}")));
    let file = absolute(&file)?;
    let upkeep: SessionUpkeepClient = link.server().use_service();
    upkeep
        .export(cx, id.clone(), text(&file)?, Some(format))
        .await
        .map_err(failed)?;
    let mut out = io::stdout();
    if json {
        writeln!(out, "{}", json!({ "session": id, "file": file }))?;
    } else {
        writeln!(out, "{id} is in {}", file.display())?;
    }
    Ok(())
}

/// Takes a session in.
pub(super) async fn import(
    cx: &Context,
    link: &Link,
    file: &Path,
    directory: Option<PathBuf>,
    json: bool,
) -> Outcome<()> {
    let here = std::env::current_dir()
        .context("cannot tell the working directory; name one with --cwd")
        .map_err(Failure::usage)?;
    let directory = directory.as_deref().map(absolute).transpose()?;
    let options = ImportSession {
        file: text(&absolute(file)?)?,
        directory: directory.as_deref().map(text).transpose()?,
        fallback: text(&here)?,
    };
    let upkeep: SessionUpkeepClient = link.server().use_service();
    let imported = upkeep.import(cx, options).await.map_err(failed)?;
    let mut out = io::stdout();
    if json {
        writeln!(out, "{}", json!(imported))?;
        return Ok(());
    }
    let (session, summary) = (&imported.session, &imported.summary);
    writeln!(
        out,
        "{} “{}”: {} of a session of {}, in workspace {}",
        session.session_id,
        plain_line(&session.title),
        entries(summary.entries),
        summary.format.name(),
        plain_line(&session.workspace_name)
    )?;
    left_out(summary, &mut out)?;
    writeln!(out, "Open it with: bezel --session {}", session.session_id)?;
    Ok(())
}

fn entries(count: u64) -> String {
    match count {
        1 => "1 entry".to_owned(),
        count => format!("{count} entries"),
    }
}

fn left_out(summary: &ImportSummary, out: &mut dyn Write) -> io::Result<()> {
    if summary.left_out.is_empty() {
        return Ok(());
    }
    let kinds = summary.left_out.iter();
    let kinds: Vec<String> = kinds
        .map(|(kind, count)| format!("{count} × {}", plain_line(kind)))
        .collect();
    writeln!(
        out,
        "Left out, because Bezel has nothing like it: {}",
        kinds.join(", ")
    )
}

/// Looks whether one session is whole, or all of them are.
pub(super) async fn check(
    cx: &Context,
    link: &Link,
    session: Option<SessionSummary>,
    json: bool,
) -> Outcome {
    let upkeep: SessionUpkeepClient = link.server().use_service();
    let sessions: Vec<(SessionId, String)> = match session {
        Some(session) => vec![(session.session_id, session.title)],
        None => {
            let known = every(cx, link).await?.into_iter();
            let mut all: Vec<(SessionId, String)> = known
                .map(|session| (session.session_id, session.title))
                .collect();
            let strays = upkeep.strays(cx).await.map_err(failed)?;
            all.extend(strays.into_iter().map(|id| (id, "(not listed)".to_owned())));
            all
        }
    };
    let mut out = io::stdout();
    let (count, mut wrong, mut reports) = (sessions.len(), 0_usize, Vec::new());
    for (id, title) in sessions {
        let found = upkeep.check(cx, id.clone()).await.map_err(failed)?;
        wrong += usize::from(!found.problems.is_empty());
        if json {
            reports.push(
                json!({ "session": id, "entries": found.entries, "problems": found.problems }),
            );
            continue;
        }
        if found.problems.is_empty() {
            continue;
        }
        writeln!(out, "{id}  {}", plain_line(&title))?;
        for problem in &found.problems {
            writeln!(
                out,
                "  {}\n    → {}",
                plain_line(&problem.what),
                problem.remedy
            )?;
        }
    }
    if json {
        writeln!(out, "{}", json!(reports))?;
    } else if wrong == 0 {
        match count {
            1 => writeln!(out, "The session is whole")?,
            count => writeln!(out, "All {count} sessions are whole")?,
        }
    }
    Ok(match wrong {
        0 => Exit::Done,
        _ => Exit::Failed,
    })
}

/// All sessions, archived and begun by others.
async fn every(cx: &Context, link: &Link) -> Outcome<Vec<SessionSummary>> {
    let every = ListSessions {
        archived: Archived::Include,
        children: true,
        ..ListSessions::default()
    };
    list_sessions(cx, link, every).await.map_err(failed)
}

/// Says what sessions take.
pub(super) async fn size(cx: &Context, link: &Link, json: bool) -> Outcome<()> {
    let upkeep: SessionUpkeepClient = link.server().use_service();
    let sizes = upkeep.sizes(cx).await.map_err(failed)?;
    let mut out = io::stdout();
    if json {
        writeln!(out, "{}", json!(sizes))?;
        return Ok(());
    }
    let sessions = every(cx, link).await?;
    writeln!(
        out,
        "{:>10}  {:>10}  {:>10}  {:>10}",
        "total", "database", "log", "output"
    )?;
    for size in &sizes {
        let known = sessions.iter();
        let title = known
            .filter(|session| session.session_id == size.session_id)
            .map(|session| plain_line(&session.title))
            .next()
            .unwrap_or_default();
        writeln!(
            out,
            "{:>10}  {:>10}  {:>10}  {:>10}  {}  {title}",
            bytes(size.total()),
            bytes(size.database),
            bytes(size.log),
            bytes(size.output),
            size.session_id
        )?;
    }
    let total = sizes.iter().map(|size| size.total()).sum();
    writeln!(out, "{:>10}  in {} sessions", bytes(total), sizes.len())?;
    Ok(())
}

/// Bytes as people read them.
fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ => format!("{value:.1} {}", units[unit]),
    }
}

fn absolute(path: &Path) -> Outcome<PathBuf> {
    std::path::absolute(path)
        .with_context(|| format!("cannot tell where {} is", path.display()))
        .map_err(Failure::usage)
}

fn text(path: &Path) -> Outcome<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage(anyhow!("{} is no UTF-8; name another file", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_the_largest_unit_that_fits() {
        for (count, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (73_400_320, "70.0 MiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(bytes(count), expected);
        }
    }
}
