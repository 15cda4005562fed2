//! What the tables of `server.db` hold, and the SQL that reads and writes it.

use std::path::PathBuf;
use std::str::FromStr;

use bezel_context::WorkspaceId;
use bezel_session_types::PermissionMode;
use bezel_session_types::{ModelRef, SessionId, ThinkingLevel};
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A session as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) session_id: SessionId,
    pub(crate) title: String,
    pub(crate) owner: String,
    pub(crate) workspace_id: WorkspaceId,
    pub(crate) directory: PathBuf,
    pub(crate) parent_id: Option<SessionId>,
    pub(crate) agent: Option<String>,
    pub(crate) model: Option<ModelRef>,
    pub(crate) thinking_level: Option<ThinkingLevel>,
    pub(crate) permission_mode: PermissionMode,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) archived_at: Option<Timestamp>,
}

/// A registered project root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkspaceRow {
    pub(crate) id: WorkspaceId,
    pub(crate) root: PathBuf,
    pub(crate) name: String,
}

/// A worker that may outlive this server: the digest of its credential, and what finds its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkerRow {
    pub(crate) session_id: SessionId,
    pub(crate) credential: [u8; 32],
    pub(crate) process: String,
}

/// One change of the file.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    Workspace(WorkspaceRow),
    Session(Record),
    DeleteSession(SessionId),
    Worker(WorkerRow),
    DeleteWorker(SessionId),
}

/// Everything that the file holds.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Contents {
    pub(crate) workspaces: Vec<WorkspaceRow>,
    pub(crate) sessions: Vec<Record>,
    pub(crate) workers: Vec<WorkerRow>,
}

/// What the tables hold, as SQL.
pub(super) trait Tables {
    fn read(&mut self) -> rusqlite::Result<Contents>;
    fn write(&mut self, writes: &[Write]) -> rusqlite::Result<()>;
}

impl Tables for Connection {
    fn read(&mut self) -> rusqlite::Result<Contents> {
        let transaction = self.transaction()?;
        let contents = Contents {
            workspaces: transaction
                .prepare("SELECT id, root, name FROM workspaces")?
                .query_map([], |row| {
                    Ok(WorkspaceRow {
                        id: WorkspaceId::new(row.get::<_, String>(0)?),
                        root: row.get::<_, String>(1)?.into(),
                        name: row.get(2)?,
                    })
                })?
                .collect::<rusqlite::Result<_>>()?,
            sessions: transaction
                .prepare(
                    "SELECT id, title, owner, workspace_id, directory, model, thinking_level,
                            permission_mode, created_at, updated_at, parent_id, agent, archived_at
                       FROM sessions",
                )?
                .query_map([], read_record)?
                .collect::<rusqlite::Result<_>>()?,
            workers: transaction
                .prepare("SELECT session_id, credential, process FROM workers")?
                .query_map([], |row| {
                    Ok(WorkerRow {
                        session_id: SessionId::new(row.get::<_, String>(0)?),
                        credential: row.get(1)?,
                        process: row.get(2)?,
                    })
                })?
                .collect::<rusqlite::Result<_>>()?,
        };
        transaction.finish()?;
        Ok(contents)
    }

    fn write(&mut self, writes: &[Write]) -> rusqlite::Result<()> {
        let transaction = self.transaction()?;
        for write in writes {
            match write {
                Write::Workspace(WorkspaceRow { id, root, name }) => transaction
                    .prepare_cached("INSERT INTO workspaces (id, root, name) VALUES (?1, ?2, ?3)")?
                    .execute(params![id.as_str(), root.to_string_lossy(), name])?,
                Write::Session(record) => transaction
                    .prepare_cached(
                        "INSERT OR REPLACE INTO sessions (id, title, owner, workspace_id, directory,
                            model, thinking_level, permission_mode, created_at, updated_at,
                            parent_id, agent, archived_at)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
                    )?
                    .execute(params![
                        record.session_id.as_str(),
                        record.title,
                        record.owner,
                        record.workspace_id.as_str(),
                        record.directory.to_string_lossy(),
                        record.model.as_ref().map(ModelRef::to_string),
                        record.thinking_level.as_ref().map(word).transpose()?,
                        word(&record.permission_mode)?,
                        record.created_at.as_millisecond(),
                        record.updated_at.as_millisecond(),
                        record.parent_id.as_ref().map(SessionId::as_str),
                        record.agent,
                        record.archived_at.map(Timestamp::as_millisecond),
                    ])?,
                Write::DeleteSession(id) => transaction
                    .prepare_cached("DELETE FROM sessions WHERE id = ?1")?
                    .execute(params![id.as_str()])?,
                Write::Worker(WorkerRow { session_id, credential, process }) => transaction
                    .prepare_cached(
                        "INSERT OR REPLACE INTO workers (session_id, credential, process)
                         VALUES (?1, ?2, ?3)",
                    )?
                    .execute(params![session_id.as_str(), credential, process])?,
                Write::DeleteWorker(id) => transaction
                    .prepare_cached("DELETE FROM workers WHERE session_id = ?1")?
                    .execute(params![id.as_str()])?,
            };
        }
        transaction.commit()
    }
}

fn read_record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let level: Option<String> = row.get(6)?;
    Ok(Record {
        session_id: SessionId::new(row.get::<_, String>(0)?),
        title: row.get(1)?,
        owner: row.get(2)?,
        workspace_id: WorkspaceId::new(row.get::<_, String>(3)?),
        directory: row.get::<_, String>(4)?.into(),
        model: row
            .get::<_, Option<String>>(5)?
            .map(|text| ModelRef::from_str(&text))
            .transpose()
            .map_err(|error| unreadable(5, error))?,
        thinking_level: level.map(|text| parse(6, &text)).transpose()?,
        permission_mode: parse(7, &row.get::<_, String>(7)?)?,
        created_at: time(row, 8)?,
        updated_at: time(row, 9)?,
        parent_id: row.get::<_, Option<String>>(10)?.map(SessionId::new),
        agent: row.get(11)?,
        archived_at: row
            .get::<_, Option<i64>>(12)?
            .map(|at| moment(12, at))
            .transpose()?,
    })
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    moment(column, row.get(column)?)
}

fn moment(column: usize, milliseconds: i64) -> rusqlite::Result<Timestamp> {
    Timestamp::from_millisecond(milliseconds).map_err(|error| unreadable(column, error))
}

/// The word that a unit variant is written as.
fn word<T: Serialize>(value: &T) -> rusqlite::Result<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => Ok(text),
        other => Err(rusqlite::Error::ToSqlConversionFailure(
            format!("not a word: {other:?}").into(),
        )),
    }
}

fn parse<T: DeserializeOwned>(column: usize, text: &str) -> rusqlite::Result<T> {
    serde_json::from_value(serde_json::Value::String(text.into()))
        .map_err(|error| unreadable(column, error))
}

fn unreadable(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
}
