//! A session's own folder: its database, its saved output, and the card that says where it belongs.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use bezel_session_types::{Message, PermissionMode, SessionId, SessionSize, UserContent};
use bezel_store::{OpenError, Queries, ReadError, Reader};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::title::shortened;

const DATABASE: &str = "session.db";
const CARD: &str = "session.json";
const REMOVED: &str = ".removed-";
/// Begins the name of a folder in which a session is being taken in.
const COMING: &str = ".coming-";
const COPY: &str = ".copy-";

/// The folders of all sessions. Its calls wait for the file system.
#[derive(Debug, Clone)]
pub(crate) struct SessionFiles {
    root: PathBuf,
}

/// What a session needs to be found again without a record. Written once, when its folder is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Card {
    pub(crate) owner: String,
    pub(crate) workspace_root: PathBuf,
    pub(crate) directory: PathBuf,
    pub(crate) permission_mode: PermissionMode,
    pub(crate) created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent_id: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
}

/// A session's database that has no record.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) session_id: SessionId,
    pub(crate) folder: PathBuf,
    pub(crate) card: Option<Card>,
    pub(crate) title: String,
    /// Of the newest entry, or of the file.
    pub(crate) updated_at: Option<Timestamp>,
}

/// It could not be told whether something waits.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PendingError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl SessionFiles {
    pub(crate) fn new(root: PathBuf) -> Self {
        SessionFiles { root }
    }

    /// Where the folders are.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The session's database.
    pub(crate) fn database(&self, session_id: &SessionId) -> PathBuf {
        self.folder(session_id).join(DATABASE)
    }

    /// Where its long output is saved.
    pub(crate) fn output(&self, session_id: &SessionId) -> PathBuf {
        self.output_in(&self.folder(session_id))
    }

    /// The database in a folder that has not got its name yet.
    pub(crate) fn database_in(&self, folder: &Path) -> PathBuf {
        folder.join(DATABASE)
    }

    /// The saved output in a folder.
    pub(crate) fn output_in(&self, folder: &Path) -> PathBuf {
        folder.join("output")
    }

    /// Whether there is a folder of this session.
    pub(crate) fn has(&self, session_id: &SessionId) -> bool {
        super::is_generated(session_id) && self.folder(session_id).is_dir()
    }

    /// Makes a folder out of sight for a session that is taken in.
    pub(crate) fn begin(&self, session_id: &SessionId) -> io::Result<PathBuf> {
        let folder = self.root.join(format!("{COMING}{session_id}"));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        Ok(folder)
    }

    /// Gives the folder of a session that was taken in its card and its name: from now on it is found.
    pub(crate) fn settle(&self, session_id: &SessionId, card: &Card) -> io::Result<()> {
        let folder = self.root.join(format!("{COMING}{session_id}"));
        std::fs::write(folder.join(CARD), serde_json::to_vec(card)?)?;
        let place = self.folder(session_id);
        std::fs::rename(&folder, &place)?;
        // What is in it was brought to the disk by its writer; its name is here.
        std::fs::File::open(&self.root)?.sync_all()
    }

    /// Deletes the folder of a session that was not taken in after all.
    pub(crate) fn abandon(&self, session_id: &SessionId) -> io::Result<()> {
        match std::fs::remove_dir_all(self.root.join(format!("{COMING}{session_id}"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            abandoned => abandoned,
        }
    }

    /// Deletes what an earlier life of the server was taking in. Nobody does that now.
    pub(crate) fn abandon_all(&self) -> io::Result<()> {
        for name in self.names()? {
            if let Some(id) = name.strip_prefix(COMING) {
                self.abandon(&SessionId::new(id))?;
            }
        }
        Ok(())
    }

    /// What the session takes of the disk. What goes while it is looked at counts nothing.
    pub(crate) fn size(&self, session_id: &SessionId) -> SessionSize {
        let mut size = SessionSize {
            session_id: session_id.clone(),
            database: 0,
            log: 0,
            output: 0,
        };
        let mut folders = vec![self.folder(session_id)];
        let mut outermost = true;
        while let Some(folder) = folders.pop() {
            for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let Ok(metadata) = file.metadata() else {
                    continue;
                };
                let name = file.file_name();
                let name = name.to_string_lossy();
                let counted = match outermost.then_some(&*name) {
                    _ if metadata.is_dir() => {
                        folders.push(file.path());
                        continue;
                    }
                    Some(DATABASE) => &mut size.database,
                    Some(name) if name.starts_with(DATABASE) => &mut size.log,
                    _ => &mut size.output,
                };
                *counted += metadata.len();
            }
            outermost = false;
        }
        size
    }

    /// Whether something in the session waits for a worker: an operation, or an admitted message.
    pub(crate) fn is_pending(&self, session_id: &SessionId) -> Result<bool, PendingError> {
        let reader = match Reader::open(self.database(session_id)) {
            Ok(reader) => reader,
            Err(OpenError::Missing { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let pending = reader.read(|queries| {
            Ok(!queries.keys("operation/")?.is_empty() || !queries.inbox_lanes()?.is_empty())
        });
        Ok(pending?)
    }

    /// Makes the folder and its card where they are missing.
    pub(crate) fn prepare(&self, session_id: &SessionId, card: &Card) -> io::Result<()> {
        let folder = self.folder(session_id);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        let path = folder.join(CARD);
        if path.try_exists()? {
            return Ok(());
        }
        let unfinished = folder.join(".session.json");
        std::fs::write(&unfinished, serde_json::to_vec(card)?)?;
        std::fs::rename(&unfinished, &path)
    }

    /// Takes the folder out of sight, so that nothing adopts it again.
    pub(crate) fn withdraw(&self, session_id: &SessionId) -> io::Result<()> {
        let hidden = self.root.join(format!("{REMOVED}{session_id}"));
        match std::fs::rename(self.folder(session_id), hidden) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed,
        }
    }

    /// Deletes a folder that was withdrawn.
    pub(crate) fn discard(&self, session_id: &SessionId) -> io::Result<()> {
        match std::fs::remove_dir_all(self.root.join(format!("{REMOVED}{session_id}"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            discarded => discarded,
        }
    }

    /// Whether something was left in a session that is to go on. One that cannot be read has nothing.
    pub(crate) fn has_open_work(&self, session_id: &SessionId) -> bool {
        let reader = Reader::open(self.database(session_id)).ok();
        let read = reader.and_then(|reader| reader.read(|queries| queries.has_open_work()).ok());
        read.unwrap_or(false)
    }

    /// Makes a folder out of sight for a session that is not whole yet. Its database is not there.
    pub(crate) fn begin_copy(&self, session_id: &SessionId, card: &Card) -> io::Result<PathBuf> {
        let folder = self.copy(session_id);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        std::fs::write(folder.join(CARD), serde_json::to_vec(card)?)?;
        Ok(folder.join(DATABASE))
    }

    /// Brings such a folder into sight: whole, or not at all.
    pub(crate) fn place_copy(&self, session_id: &SessionId) -> io::Result<()> {
        let folder = self.copy(session_id);
        // Refused where nothing was written.
        File::open(folder.join(DATABASE))?.sync_all()?;
        File::open(&folder)?.sync_all()?;
        std::fs::rename(&folder, self.folder(session_id))?;
        File::open(&self.root)?.sync_all()
    }

    /// Deletes such a folder.
    pub(crate) fn clear_copy(&self, session_id: &SessionId) -> io::Result<()> {
        match std::fs::remove_dir_all(self.copy(session_id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            cleared => cleared,
        }
    }

    /// Deletes all of them: what an earlier life of the server left. Says how many.
    pub(crate) fn clear_copies(&self) -> io::Result<usize> {
        let names = self.names()?;
        let left = names.iter().filter_map(|name| name.strip_prefix(COPY));
        let mut count = 0;
        for id in left {
            self.clear_copy(&SessionId::new(id))?;
            count += 1;
        }
        Ok(count)
    }

    fn copy(&self, session_id: &SessionId) -> PathBuf {
        self.root.join(format!("{COPY}{session_id}"))
    }

    /// The names of the folders, known or not, and of those that were withdrawn and not deleted.
    pub(crate) fn session_ids(&self) -> io::Result<(Vec<SessionId>, Vec<SessionId>)> {
        let (mut ids, mut withdrawn) = (Vec::new(), Vec::new());
        for name in self.names()? {
            match name.strip_prefix(REMOVED) {
                Some(id) => withdrawn.push(SessionId::new(id)),
                None if name.starts_with('.') => {}
                None => ids.push(SessionId::new(name)),
            }
        }
        Ok((ids, withdrawn))
    }

    /// Looks at a folder without a record; `None` where it holds no database that can be read.
    pub(crate) fn inspect(&self, session_id: &SessionId) -> Option<Found> {
        let folder = self.folder(session_id);
        let database = self.database(session_id);
        let metadata = std::fs::metadata(&database).ok()?;
        let read = Reader::open(&database).map_err(|error| error.to_string());
        let read = read.and_then(|reader| {
            reader
                .read(begin_and_end)
                .map_err(|error| error.to_string())
        });
        let (title, newest) = match read {
            Ok(read) => read,
            Err(reason) => {
                tracing::warn!(session = %session_id, reason, "a session file without a record cannot be read");
                return None;
            }
        };
        let card = std::fs::read(folder.join(CARD)).ok();
        let card = card.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let modified = metadata
            .modified()
            .ok()
            .and_then(|time| Timestamp::try_from(time).ok());
        let updated_at = newest.or(modified);
        Some(Found {
            session_id: session_id.clone(),
            folder,
            card,
            title,
            updated_at,
        })
    }

    fn folder(&self, session_id: &SessionId) -> PathBuf {
        self.root.join(session_id.as_str())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }
}

/// The title that the first prompt gives, and the time of the newest entry.
fn begin_and_end(queries: &Queries<'_>) -> Result<(String, Option<Timestamp>), ReadError> {
    let (mut title, mut newest, mut after) = (None, None, 0);
    loop {
        let entries = queries.entries_after(after, 256)?;
        let Some(last) = entries.last() else { break };
        after = last.seq;
        newest = Timestamp::from_millisecond(last.created_at).ok();
        let texts = entries.iter().filter_map(|entry| match entry.message() {
            Some(Message::User(user)) if !user.synthetic => {
                user.content.iter().find_map(|part| match part {
                    UserContent::Text { text } => Some(text),
                    UserContent::Image(_) => None,
                })
            }
            _ => None,
        });
        title = title.or_else(|| {
            texts
                .map(|text| shortened(text))
                .find(|text| !text.is_empty())
        });
    }
    Ok((title.unwrap_or_default(), newest))
}
