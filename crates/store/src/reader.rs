//! Reading beside the owner.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use crate::open::open_reading;
use crate::{OpenError, Queries, ReadError};

/// One session's database, read-only, while another process may own it. It never writes, folds
/// nothing back and holds no transaction between two reads. Its calls block for the disk.
pub struct Reader {
    path: PathBuf,
    // A plain mutex: held for one read, never across an await.
    connection: Mutex<Connection>,
}

impl Reader {
    /// Opens the database at `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let connection = open_reading(path)?;
        Ok(Reader {
            path: path.to_owned(),
            connection: Mutex::new(connection),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Works on the connection outside of any transaction.
    pub(crate) fn on_connection<T>(&self, work: impl FnOnce(&Connection) -> T) -> T {
        let connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        work(&connection)
    }

    /// Reads; everything within one call sees the same state, whatever the owner commits meanwhile.
    pub fn read<T>(
        &self,
        read: impl FnOnce(&Queries<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let sqlite = |source| ReadError::sqlite(&self.path, source);
        let transaction = connection.unchecked_transaction().map_err(sqlite)?;
        // Within the transaction: an owner may have brought the file to another format since.
        let format = transaction
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(sqlite)?;
        let value = read(&Queries::new(&transaction, &self.path, format));
        transaction.finish().map_err(sqlite)?;
        value
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Reader")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
