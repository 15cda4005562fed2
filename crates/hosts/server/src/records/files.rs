//! A session's own folder: its database, its saved output, and the card that says where it belongs.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use bezel_api_server::PermissionMode;
use bezel_session_types::{Message, SessionId, UserContent};
use bezel_store::{Queries, ReadError, Reader};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::title::shortened;

const DATABASE: &str = "session.db";
const CARD: &str = "session.json";
const REMOVED: &str = ".removed-";

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
        self.folder(session_id).join("output")
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
