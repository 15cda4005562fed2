//! Credentials in one JSON file that only its owner can read.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bezel_accounts_contract::{CredentialError, CredentialStore, Secret};
use futures::FutureExt;
use futures::future::BoxFuture;

type Table = BTreeMap<String, String>;

/// A file of credentials. It is read at each use: another worker may have written it.
pub(crate) struct FileStore {
    path: Option<PathBuf>,
    // Serialises this process's writers; held across file operations, never across an await.
    writing: Arc<Mutex<()>>,
}

impl FileStore {
    /// Over `path`; without one nothing is stored.
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        FileStore {
            path,
            writing: Arc::default(),
        }
    }

    fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Table) -> T + Send + 'static,
    ) -> BoxFuture<'static, Result<T, CredentialError>> {
        let (path, writing) = (self.path.clone(), Arc::clone(&self.writing));
        async move {
            let path = path.ok_or_else(|| CredentialError {
                message: "no file for credentials is configured; give the key in the environment"
                    .into(),
            })?;
            let _guard = writing.lock().unwrap_or_else(PoisonError::into_inner);
            let mut table = read(&path)?;
            let result = change(&mut table);
            write(&path, &table)?;
            Ok(result)
        }
        .boxed()
    }

    fn table(&self) -> Result<Table, CredentialError> {
        self.path.as_deref().map_or_else(|| Ok(Table::new()), read)
    }
}

impl CredentialStore for FileStore {
    fn get(&self, provider: &str) -> BoxFuture<'static, Result<Option<Secret>, CredentialError>> {
        let found = self
            .table()
            .map(|table| table.get(provider).map(Secret::new));
        async move { found }.boxed()
    }

    fn set(
        &self,
        provider: &str,
        secret: Secret,
    ) -> BoxFuture<'static, Result<(), CredentialError>> {
        let provider = provider.to_owned();
        self.change(move |table| {
            table.insert(provider, secret.reveal().to_owned());
        })
    }

    fn remove(&self, provider: &str) -> BoxFuture<'static, Result<bool, CredentialError>> {
        let provider = provider.to_owned();
        self.change(move |table| table.remove(&provider).is_some())
    }

    fn providers(&self) -> BoxFuture<'static, Result<Vec<String>, CredentialError>> {
        let names = self.table().map(|table| table.into_keys().collect());
        async move { names }.boxed()
    }
}

fn read(path: &Path) -> Result<Table, CredentialError> {
    let failed = |what: &str, error: &dyn std::fmt::Display| CredentialError {
        message: format!(
            "cannot {what} the credentials in {}: {error}",
            path.display()
        ),
    };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Table::new()),
        Err(error) => return Err(failed("read", &error)),
    };
    let mode = file
        .metadata()
        .map_err(|error| failed("read", &error))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        let reason = format!("others may read it; run `chmod 600 {}`", path.display());
        return Err(failed("use", &reason));
    }
    serde_json::from_reader(io::BufReader::new(file)).map_err(|error| failed("read", &error))
}

/// Writes beside the file and renames, so that a crash leaves the old or the new one.
fn write(path: &Path, table: &Table) -> Result<(), CredentialError> {
    let attempt = || -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        // A temporary file is made with mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        serde_json::to_writer_pretty(&mut file, table)?;
        file.flush()?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    attempt().map_err(|error| CredentialError {
        message: format!(
            "cannot write the credentials to {}: {error}",
            path.display()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_credential_is_kept_in_a_file_of_the_owner_alone_and_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/credentials.json");
        let store = FileStore::new(Some(path.clone()));
        assert_eq!(store.get("openai").await, Ok(None));
        store.set("openai", Secret::new("sk-1")).await.unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let other = FileStore::new(Some(path.clone()));
        assert_eq!(other.get("openai").await, Ok(Some(Secret::new("sk-1"))));
        assert_eq!(other.providers().await, Ok(vec!["openai".to_owned()]));
        assert_eq!(other.remove("openai").await, Ok(true));
        assert_eq!(store.remove("openai").await, Ok(false));
        assert_eq!(format!("{:?}", Secret::new("sk-1")), "Secret(…)");
    }

    #[tokio::test]
    async fn a_file_that_others_may_read_or_that_is_torn_is_refused_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("credentials.json");
        fs::write(&path, "{\"openai\":\"sk-1\"}").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let store = FileStore::new(Some(path.clone()));
        let error = store.get("openai").await.unwrap_err();
        assert!(
            error.message.contains("chmod 600") && !error.message.contains("sk-1"),
            "{error}"
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "{\"openai\":").unwrap();
        assert!(store.set("x", Secret::new("y")).await.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"openai\":");
    }
}
