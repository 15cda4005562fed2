//! What is known of sessions without asking the disk.

use std::collections::HashMap;
use std::path::PathBuf;

use bezel_api_server::{ManagedSession, SessionStatus};
use bezel_context::WorkspaceId;
use bezel_session_types::SessionId;

use super::tables::{Record, WorkspaceRow};

#[derive(Default)]
pub(super) struct Memory {
    pub(super) sessions: HashMap<SessionId, Entry>,
    pub(super) workspaces: HashMap<WorkspaceId, WorkspaceRow>,
    pub(super) roots: HashMap<PathBuf, WorkspaceId>,
    /// Sessions that are being made of others, and of which.
    pub(super) copies: HashMap<SessionId, SessionId>,
}

pub(super) struct Entry {
    pub(super) record: Record,
    pub(super) status: SessionStatus,
    /// What the worker said last; also while it has lost its connection.
    pub(super) running: bool,
    /// What the worker said last: whether what runs waits for a person.
    pub(super) waiting: bool,
    /// The newest journal sequence number that the worker told of.
    pub(super) seq: u64,
}

impl Memory {
    pub(super) fn register(&mut self, row: WorkspaceRow) {
        self.roots.insert(row.root.clone(), row.id.clone());
        self.workspaces.insert(row.id.clone(), row);
    }

    /// A session as facets see it.
    pub(super) fn managed(&self, session_id: &SessionId) -> Option<ManagedSession> {
        self.sessions
            .get(session_id)
            .map(|entry| self.describe(entry))
    }

    /// All sessions, the newest change first.
    pub(super) fn all(&self) -> Vec<ManagedSession> {
        self.those(|_| true)
    }

    /// The sessions with such a record, the newest change first.
    pub(super) fn those(&self, such: impl Fn(&Record) -> bool) -> Vec<ManagedSession> {
        let entries = self.sessions.values();
        let mut those: Vec<&Entry> = entries.filter(|entry| such(&entry.record)).collect();
        let order = |entry: &Entry| entry.record.updated_at;
        those.sort_by(|a, b| {
            let same = || b.record.session_id.cmp(&a.record.session_id);
            order(b).cmp(&order(a)).then_with(same)
        });
        those
            .into_iter()
            .map(|entry| self.describe(entry))
            .collect()
    }

    pub(super) fn descendants(&self, session_id: &SessionId) -> Vec<SessionId> {
        let mut all = vec![session_id.clone()];
        let mut next = 0;
        while let Some(parent) = all.get(next).cloned() {
            next += 1;
            let children = self.sessions.values().map(|entry| &entry.record);
            let mut children: Vec<SessionId> = children
                .filter(|record| record.parent_id.as_ref() == Some(&parent))
                // Folders that somebody wrote by hand may name each other.
                .filter(|record| !all.contains(&record.session_id))
                .map(|record| record.session_id.clone())
                .collect();
            children.sort_unstable();
            all.extend(children);
        }
        all.split_off(1)
    }

    pub(super) fn root_of(&self, session_id: &SessionId) -> SessionId {
        let mut line = vec![session_id];
        while let Some(parent) = line
            .last()
            .and_then(|last| self.sessions.get(*last)?.record.parent_id.as_ref())
            // Folders that somebody wrote by hand may name each other.
            .filter(|parent| self.sessions.contains_key(*parent) && !line.contains(parent))
        {
            line.push(parent);
        }
        line.pop().unwrap_or(session_id).clone()
    }

    fn describe(&self, entry: &Entry) -> ManagedSession {
        let record = entry.record.clone();
        let workspace = self.workspaces.get(&record.workspace_id);
        ManagedSession {
            workspace_name: workspace.map(|row| row.name.clone()).unwrap_or_default(),
            session_id: record.session_id,
            title: record.title,
            workspace_id: record.workspace_id,
            owner: record.owner,
            directory: record.directory,
            parent_id: record.parent_id,
            agent: record.agent,
            model: record.model,
            thinking_level: record.thinking_level,
            permission_mode: record.permission_mode,
            status: entry.status,
            created_at: record.created_at,
            updated_at: record.updated_at,
            archived_at: record.archived_at,
        }
    }
}

impl Entry {
    pub(super) fn new(record: Record) -> Self {
        Entry {
            record,
            status: SessionStatus::Closed,
            running: false,
            waiting: false,
            seq: 0,
        }
    }

    /// What a connected worker does.
    pub(super) fn connected_status(&self) -> SessionStatus {
        match (self.running, self.waiting) {
            (true, true) => SessionStatus::Waiting,
            (true, false) => SessionStatus::Active,
            (false, _) => SessionStatus::Idle,
        }
    }
}
