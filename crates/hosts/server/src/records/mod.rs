//! Session records: in memory to read, in `server.db` to keep.

mod adopt;
mod archive;
mod copies;
mod database;
mod files;
mod memory;
pub(crate) mod reading;
mod tables;
#[cfg(test)]
mod tests;
mod title;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bezel_api_server::host::{ChangeListener, CommitListener, Subscription};
use bezel_api_server::{
    Commit, CreateManaged, FleetError, ManagedSession, SessionChange, SessionStatus, Workspace,
};
use bezel_context::{Context, WorkspaceId};
use bezel_session_types::SessionId;

use self::database::Database;
pub use self::database::RecordsError;
use self::files::Card;
pub(crate) use self::files::SessionFiles;
use self::memory::{Entry, Memory};
use self::tables::{Contents, WorkspaceRow};
pub(crate) use self::tables::{Record, WorkerRow, Write};
pub(crate) use self::title::{checked_agent, checked_title, shortened};
use crate::blocking::blocking;
use crate::feed::Feed;
use crate::options::Clock;
use crate::workspace::Location;

/// How far apart two changes of `updated_at` are at least while a session runs: each one is written
/// and goes to every directory's readers.
const TOUCH_INTERVAL: Duration = Duration::from_secs(5);

/// Whether an id has the form of those that [`SessionId::generate`] makes: it names a folder.
fn is_generated(id: &SessionId) -> bool {
    let id = id.as_str().as_bytes();
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    id.len() == 32 && id.iter().all(is_digit) && id[12] == b'7'
}

/// Of a directory in which a principal may not work.
pub(crate) const OUTSIDE: &str =
    "it lies outside the workspaces that you may reach; name one inside";

/// What a session's worker does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerNow {
    Starting,
    Connected,
    Disconnected,
    /// It died.
    Dead,
    /// It ended in order, or there is none.
    Closed,
}

/// A session that was to be recorded.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) session: ManagedSession,
    /// Whether it was not there before.
    pub(crate) is_new: bool,
}

/// The records of all sessions. Reads are from memory; each change is written before it is seen.
#[derive(Clone)]
pub(crate) struct Records(Arc<Shared>);

struct Shared {
    files: SessionFiles,
    clock: Clock,
    feed: Feed<(SessionChange, Context)>,
    /// The sessions whose workers told of commits.
    commits: Feed<SessionId>,
    // A plain mutex: held to look up or change, never across an await.
    memory: Mutex<Memory>,
    /// One change at a time: what is in memory and what is in the file change in the same order.
    line: tokio::sync::Mutex<()>,
    database: Arc<Mutex<Database>>,
}

impl Records {
    /// Reads what is there. Waits for the disk; makes no file.
    pub(crate) fn load(
        database: &Path,
        sessions: PathBuf,
        clock: Clock,
    ) -> Result<(Self, Vec<WorkerRow>), RecordsError> {
        let (
            database,
            Contents {
                workspaces,
                sessions: records,
                workers,
            },
        ) = Database::load(database)?;
        let mut memory = Memory::default();
        for workspace in workspaces {
            memory.register(workspace);
        }
        for record in records {
            memory
                .sessions
                .insert(record.session_id.clone(), Entry::new(record));
        }
        let shared = Shared {
            files: SessionFiles::new(sessions),
            clock,
            feed: Feed::default(),
            commits: Feed::default(),
            memory: Mutex::new(memory),
            line: tokio::sync::Mutex::default(),
            database: Arc::new(Mutex::new(database)),
        };
        Ok((Records(Arc::new(shared)), workers))
    }

    /// The sessions' folders.
    pub(crate) fn files(&self) -> &SessionFiles {
        &self.0.files
    }

    /// All sessions, the newest change first.
    pub(crate) fn snapshot(&self) -> Vec<ManagedSession> {
        self.0.lock().all()
    }

    /// The sessions that work in a directory, the newest change first.
    pub(crate) fn in_directory(&self, directory: &Path) -> Vec<ManagedSession> {
        self.0.lock().those(|record| record.directory == directory)
    }

    /// Whose a session is and which workspace it is of.
    pub(crate) fn belongs(&self, session_id: &SessionId) -> Option<(String, WorkspaceId)> {
        let memory = self.0.lock();
        let record = &memory.sessions.get(session_id)?.record;
        Some((record.owner.clone(), record.workspace_id.clone()))
    }

    /// One session.
    pub(crate) fn get(&self, session_id: &SessionId) -> Option<ManagedSession> {
        self.0.lock().managed(session_id)
    }

    /// All that this session began, and what those began, parents before their children.
    pub(crate) fn descendants(&self, session_id: &SessionId) -> Vec<SessionId> {
        self.0.lock().descendants(session_id)
    }

    /// The first of a session's ancestors: the session itself where nobody began it, or where who did is gone.
    pub(crate) fn root_of(&self, session_id: &SessionId) -> SessionId {
        self.0.lock().root_of(session_id)
    }

    /// The root of a workspace.
    pub(crate) fn root(&self, workspace: &WorkspaceId) -> Option<PathBuf> {
        self.0
            .lock()
            .workspaces
            .get(workspace)
            .map(|row| row.root.clone())
    }

    /// The workspace with this root.
    pub(crate) fn workspace(&self, root: &Path) -> Option<Workspace> {
        let memory = self.0.lock();
        let row = memory.workspaces.get(memory.roots.get(root)?)?;
        Some(Workspace {
            workspace_id: row.id.clone(),
            name: row.name.clone(),
        })
    }

    /// Whether something runs in some session, or a worker starts.
    pub(crate) fn any_busy(&self) -> bool {
        let busy = |entry: &Entry| {
            matches!(
                entry.status,
                SessionStatus::Active | SessionStatus::Waiting | SessionStatus::Starting
            ) || entry.running
        };
        self.0.lock().sessions.values().any(busy)
    }

    pub(crate) fn on_changed(&self, listener: ChangeListener) -> Subscription {
        self.0
            .feed
            .subscribe(move |(change, cx)| listener(change, cx))
    }

    pub(crate) fn on_committed(&self, listener: CommitListener) -> Subscription {
        self.0
            .commits
            .subscribe(move |session_id| listener(session_id))
    }

    /// Records a new session, and its workspace where that is new; one that is there already stays as it is. `may_use`
    /// judges the workspace.
    pub(crate) async fn create(
        &self,
        cx: &Context,
        options: CreateManaged,
        location: Location,
        may_use: impl Fn(&WorkspaceId) -> bool,
    ) -> Result<Recorded, FleetError> {
        let title = options
            .title
            .as_deref()
            .map(checked_title)
            .transpose()?
            .unwrap_or_default();
        let agent = options.agent.as_deref().map(checked_agent).transpose()?;
        let session_id = match options.session_id {
            Some(asked) if !is_generated(&asked) => {
                return Err(FleetError::Invalid(
                    "a session's id is a version 7 UUID of 32 lower-case hexadecimal digits; leave it out, and the server makes one".into(),
                ));
            }
            asked => asked.unwrap_or_else(SessionId::generate),
        };
        let _line = self.0.line.lock().await;
        if let Some(session) = self.get(&session_id) {
            // Asked for twice at once.
            return match session.owner == options.owner {
                true => Ok(Recorded {
                    session,
                    is_new: false,
                }),
                false => Err(FleetError::NotAuthorized { session_id }),
            };
        }
        let (workspace_id, new) = self.workspace_of(location.root);
        if !may_use(&workspace_id) {
            return Err(FleetError::Directory {
                directory: location.directory.display().to_string(),
                reason: OUTSIDE.into(),
            });
        }
        let now = self.0.clock.now();
        let record = Record {
            session_id,
            title,
            owner: options.owner,
            workspace_id,
            directory: location.directory,
            parent_id: options.parent_id,
            agent,
            model: options.model,
            thinking_level: None,
            permission_mode: options.permission_mode.unwrap_or_default(),
            created_at: now,
            updated_at: now,
            archived_at: None,
        };
        let session = self.insert(cx, record, new).await?;
        Ok(Recorded {
            session,
            is_new: true,
        })
    }

    /// The workspace of a location, recorded where it is new. `may_use` judges it.
    pub(crate) async fn register(
        &self,
        location: Location,
        may_use: impl Fn(&WorkspaceId) -> bool,
    ) -> Result<Workspace, FleetError> {
        let _line = self.0.line.lock().await;
        let (workspace_id, new) = self.workspace_of(location.root.clone());
        if !may_use(&workspace_id) {
            return Err(FleetError::Directory {
                directory: location.directory.display().to_string(),
                reason: OUTSIDE.into(),
            });
        }
        if let Some(row) = new {
            self.write(vec![Write::Workspace(row.clone())]).await?;
            self.0.lock().register(row);
        }
        Ok(self
            .workspace(&location.root)
            .expect("it was registered above"))
    }

    /// Changes a record: written first, then seen.
    pub(crate) async fn update(
        &self,
        cx: &Context,
        session_id: &SessionId,
        change: impl Fn(&mut Record),
    ) -> Result<ManagedSession, FleetError> {
        let _line = self.0.line.lock().await;
        let unknown = || FleetError::NotAuthorized {
            session_id: session_id.clone(),
        };
        let before = self
            .0
            .lock()
            .sessions
            .get(session_id)
            .map(|entry| entry.record.clone());
        let before = before.ok_or_else(unknown)?;
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return self.get(session_id).ok_or_else(unknown);
        }
        let now = self.0.clock.now();
        after.updated_at = now;
        self.write(vec![Write::Session(after)]).await?;
        let changed = self.0.change(cx, session_id, |entry| {
            change(&mut entry.record);
            entry.record.updated_at = now;
            true
        });
        self.tell();
        changed.ok_or_else(unknown)
    }

    /// Takes a commit report into memory. True where the record has to be written.
    pub(crate) fn commit(&self, cx: &Context, session_id: &SessionId, commit: &Commit) -> bool {
        let now = self.0.clock.now();
        let mut grew = false;
        let touched = self.0.change(cx, session_id, |entry| {
            grew = commit.seq > entry.seq;
            entry.seq = entry.seq.max(commit.seq);
            let told = (commit.running, commit.waiting);
            let turned = (entry.running, entry.waiting) != told;
            let age = now.duration_since(entry.record.updated_at);
            if !turned && age.unsigned_abs() < TOUCH_INTERVAL {
                return false;
            }
            (entry.running, entry.waiting) = told;
            if matches!(
                entry.status,
                SessionStatus::Active | SessionStatus::Waiting | SessionStatus::Idle
            ) {
                entry.status = entry.connected_status();
            }
            entry.record.updated_at = now;
            true
        });
        if grew {
            self.0.commits.push(session_id.clone());
        }
        self.tell();
        self.0.commits.deliver();
        touched.is_some()
    }

    /// Writes a record as it stands in memory.
    pub(crate) async fn persist(&self, session_id: &SessionId) -> Result<(), FleetError> {
        let _line = self.0.line.lock().await;
        let record = self
            .0
            .lock()
            .sessions
            .get(session_id)
            .map(|entry| entry.record.clone());
        match record {
            Some(record) => self.write(vec![Write::Session(record)]).await,
            None => Ok(()),
        }
    }

    /// What a session's worker does now. The caller may hold locks; [`Records::tell`] comes after.
    pub(crate) fn mark(&self, session_id: &SessionId, now: WorkerNow) {
        self.0.change(&Context::background(), session_id, |entry| {
            if !matches!(now, WorkerNow::Connected | WorkerNow::Disconnected) {
                (entry.running, entry.waiting) = (false, false);
            }
            let status = match now {
                WorkerNow::Starting => SessionStatus::Starting,
                WorkerNow::Connected => entry.connected_status(),
                WorkerNow::Disconnected | WorkerNow::Dead => SessionStatus::Unreachable,
                WorkerNow::Closed => SessionStatus::Closed,
            };
            std::mem::replace(&mut entry.status, status) != status
        });
    }

    /// Tells of what was marked.
    pub(crate) fn tell(&self) {
        self.0.feed.deliver();
    }

    /// Deletes the session's files and its record.
    pub(crate) async fn delete(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<(), FleetError> {
        let line = self.0.line.lock().await;
        let (files, id) = (self.0.files.clone(), session_id.clone());
        blocking(move || files.withdraw(&id)).await.map_err(|error| {
            FleetError::Storage(format!(
                "cannot delete the files of session {session_id}: {error}; check that {} is writable",
                self.0.files.database(session_id).display()
            ))
        })?;
        let writes = vec![
            Write::DeleteWorker(session_id.clone()),
            Write::DeleteSession(session_id.clone()),
        ];
        self.write(writes).await?;
        {
            let mut memory = self.0.lock();
            let removed = memory.managed(session_id);
            memory.sessions.remove(session_id);
            removed.into_iter().for_each(|session| {
                self.0
                    .feed
                    .push((SessionChange::Deleted(session), cx.clone()));
            });
        }
        self.0.feed.deliver();
        drop(line);
        let (files, id) = (self.0.files.clone(), session_id.clone());
        blocking(move || files.discard(&id)).await.map_err(|error| {
            tracing::warn!(session = %session_id, %error, "files of a deleted session remain");
            FleetError::Storage(format!(
                "session {session_id} is no more, and some of its files remain in {}: {error}; the next start of the server tries again",
                self.0.files.root().display()
            ))
        })
    }

    /// Makes the session's folder where it is missing.
    pub(crate) async fn prepare(&self, session: &ManagedSession) -> Result<(), FleetError> {
        let card = Card {
            owner: session.owner.clone(),
            workspace_root: self
                .root(&session.workspace_id)
                .unwrap_or_else(|| session.directory.clone()),
            directory: session.directory.clone(),
            permission_mode: session.permission_mode,
            created_at: session.created_at,
            parent_id: session.parent_id.clone(),
            agent: session.agent.clone(),
        };
        let (files, id) = (self.0.files.clone(), session.session_id.clone());
        blocking(move || files.prepare(&id, &card)).await.map_err(|error| {
            FleetError::Storage(format!(
                "cannot make the folder of session {}: {error}; check that {} is writable and the disk not full",
                session.session_id,
                self.0.files.database(&session.session_id).display()
            ))
        })
    }

    /// Remembers, or forgets, what a worker that outlives this server is known by.
    pub(crate) async fn keep_worker(&self, write: Write) -> Result<(), FleetError> {
        let _line = self.0.line.lock().await;
        self.write(vec![write]).await
    }

    /// The caller holds the line.
    async fn insert(
        &self,
        cx: &Context,
        record: Record,
        workspace: Option<WorkspaceRow>,
    ) -> Result<ManagedSession, FleetError> {
        let mut writes: Vec<Write> = workspace.iter().cloned().map(Write::Workspace).collect();
        writes.push(Write::Session(record.clone()));
        self.write(writes).await?;
        let session = {
            let mut memory = self.0.lock();
            workspace.into_iter().for_each(|row| memory.register(row));
            let session_id = record.session_id.clone();
            memory
                .sessions
                .insert(session_id.clone(), Entry::new(record));
            let session = memory.managed(&session_id).expect("it was inserted above");
            self.0
                .feed
                .push((SessionChange::Created(session.clone()), cx.clone()));
            session
        };
        self.0.feed.deliver();
        Ok(session)
    }

    /// The workspace with this root: a registered one, or a new one and its row. The caller holds the line.
    fn workspace_of(&self, root: PathBuf) -> (WorkspaceId, Option<WorkspaceRow>) {
        match self.workspace(&root) {
            Some(workspace) => (workspace.workspace_id, None),
            None => {
                let row = new_workspace(root);
                (row.id.clone(), Some(row))
            }
        }
    }

    /// The caller holds the line.
    async fn write(&self, writes: Vec<Write>) -> Result<(), FleetError> {
        let database = Arc::clone(&self.0.database);
        let written = blocking(move || {
            database
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .apply(&writes)
        });
        written
            .await
            .map_err(|error| FleetError::Storage(error.to_string()))
    }
}

impl Shared {
    /// Changes one session in memory and puts it in line to be told where `change` says so. Changes are
    /// told in the order in which they are made.
    fn change(
        &self,
        cx: &Context,
        session_id: &SessionId,
        change: impl FnOnce(&mut Entry) -> bool,
    ) -> Option<ManagedSession> {
        let mut memory = self.lock();
        if !change(memory.sessions.get_mut(session_id)?) {
            return None;
        }
        let session = memory.managed(session_id)?;
        self.feed
            .push((SessionChange::Changed(session.clone()), cx.clone()));
        Some(session)
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_workspace(root: PathBuf) -> WorkspaceRow {
    let id = WorkspaceId::new(uuid::Uuid::new_v4().simple().to_string());
    // The root directory has no name of its own.
    let name = root
        .file_name()
        .map_or_else(|| "/".into(), |name| name.to_string_lossy().into_owned());
    WorkspaceRow { id, root, name }
}
