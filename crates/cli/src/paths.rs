//! Where Bezel keeps what it keeps.
//!
//! | What | With `BEZEL_HOME` | Otherwise |
//! |---|---|---|
//! | configuration | `$BEZEL_HOME/config.toml` | `bezel/config.toml` in the platform's config directory |
//! | data: `server.db`, `approvals.json`, `sessions/ID/` | `$BEZEL_HOME/data/` | `bezel/` in the platform's data directory |
//! | runtime: `server.sock`, `server.lock`, `token` | `$BEZEL_HOME/run/` | `bezel/` in `$XDG_RUNTIME_DIR`, else `run/` in the state directory |
//! | logs | `$BEZEL_HOME/logs/` | `logs/` in the state directory |
//! | state: `trust.json`, `credentials.json` | `$BEZEL_HOME/state/` | `bezel/` in the platform's state directory |

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

/// Bytes that a socket's path may have on this platform, the closing zero apart.
const SOCKET_PATH_LIMIT: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Where Bezel keeps what it keeps. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The user's configuration file.
    pub config: PathBuf,
    /// The server's database and the sessions.
    pub data: PathBuf,
    /// Socket, lock and token; readable by the user alone.
    pub run: PathBuf,
    /// One file per process.
    pub logs: PathBuf,
    /// What Bezel remembers and is not data: trusted projects.
    pub state: PathBuf,
    /// The value of `BEZEL_HOME`, where it is set.
    pub home: Option<PathBuf>,
}

/// Why the paths could not be told or used.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// Neither `BEZEL_HOME` nor a home directory.
    #[error(
        "cannot tell where your files belong: set HOME, or BEZEL_HOME to a directory for everything of Bezel"
    )]
    NoHome,
    /// `BEZEL_HOME` is relative and the working directory is gone.
    #[error("cannot resolve BEZEL_HOME={}: {error}; give it as an absolute path", path.display())]
    RelativeHome {
        /// As it was given.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The socket's path is longer than the system takes.
    #[error(
        "the socket path {} has {length} bytes and this system takes {SOCKET_PATH_LIMIT}: set BEZEL_HOME to a shorter directory",
        path.display()
    )]
    SocketPathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
    /// A directory could not be made.
    #[error("cannot create the directory {}: {error}; make it writable or set BEZEL_HOME to one that is", path.display())]
    Create {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The runtime directory belongs to somebody else.
    #[error("{} belongs to another user: remove it, or set BEZEL_HOME to a directory of your own", path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
    },
}

impl Paths {
    /// The paths of this process, from its environment.
    pub fn of_process() -> Result<Self, PathsError> {
        Self::from_environment(|name| std::env::var_os(name))
    }

    /// The paths that an environment asks for.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, PathsError> {
        if let Some(home) = variable("BEZEL_HOME").filter(|home| !home.is_empty()) {
            let path = PathBuf::from(home);
            let home = std::path::absolute(&path)
                .map_err(|error| PathsError::RelativeHome { path, error })?;
            return Ok(Self::under(home));
        }
        let config = dirs::config_dir().ok_or(PathsError::NoHome)?.join("bezel");
        let data = dirs::data_dir().ok_or(PathsError::NoHome)?.join("bezel");
        let state = dirs::state_dir()
            .or_else(dirs::data_local_dir)
            .ok_or(PathsError::NoHome)?
            .join("bezel");
        let run =
            dirs::runtime_dir().map_or_else(|| state.join("run"), |runtime| runtime.join("bezel"));
        Ok(Paths {
            config: config.join("config.toml"),
            data,
            run,
            logs: state.join("logs"),
            state,
            home: None,
        })
    }

    /// Everything under one directory.
    pub fn under(home: PathBuf) -> Self {
        Paths {
            config: home.join("config.toml"),
            data: home.join("data"),
            run: home.join("run"),
            logs: home.join("logs"),
            state: home.join("state"),
            home: Some(home),
        }
    }

    /// The server's socket.
    pub fn socket(&self) -> Result<PathBuf, PathsError> {
        let path = self.run.join("server.sock");
        let length = path.as_os_str().as_bytes().len();
        if length > SOCKET_PATH_LIMIT {
            return Err(PathsError::SocketPathTooLong { path, length });
        }
        Ok(path)
    }

    /// Held by the server while it lives; names its process.
    pub fn server_lock(&self) -> PathBuf {
        self.run.join("server.lock")
    }

    /// Held by a client while it starts the server.
    pub fn start_lock(&self) -> PathBuf {
        self.run.join("start.lock")
    }

    /// The secret that local clients show.
    pub fn token(&self) -> PathBuf {
        self.run.join("token")
    }

    /// Where the running server takes connections from other machines, if it does.
    pub fn served(&self) -> PathBuf {
        self.run.join("served.json")
    }

    /// The trusted projects.
    pub fn trust(&self) -> PathBuf {
        self.state.join("trust.json")
    }

    /// What was approved for projects, always.
    pub fn approvals(&self) -> PathBuf {
        self.data.join("approvals.json")
    }

    /// Stored credentials of providers.
    pub fn credentials(&self) -> PathBuf {
        self.state.join("credentials.json")
    }

    /// The server's log.
    pub fn server_log(&self) -> PathBuf {
        self.logs.join("server.log")
    }

    /// The log of a session's worker.
    pub fn session_log(&self, session: &str) -> PathBuf {
        self.logs.join("sessions").join(format!("{session}.log"))
    }

    /// Makes the runtime directory, for the user alone, and refuses one of somebody else.
    pub fn create_run(&self) -> Result<(), PathsError> {
        create_private(&self.run)?;
        let create = |error| PathsError::Create {
            path: self.run.clone(),
            error,
        };
        let metadata = std::fs::metadata(&self.run).map_err(create)?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(PathsError::Foreign {
                path: self.run.clone(),
            });
        }
        if metadata.mode() & 0o077 != 0 {
            std::fs::set_permissions(&self.run, std::fs::Permissions::from_mode(0o700))
                .map_err(create)?;
        }
        Ok(())
    }
}

/// Makes a directory and its parents, readable by the user alone.
pub fn create_private(path: &Path) -> Result<(), PathsError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| PathsError::Create {
            path: path.to_owned(),
            error,
        })
}

/// Replaces a file whole, readable by the user alone: after a crash there is the old or the new one.
pub fn replace_private(file: &Path, bytes: &[u8]) -> io::Result<()> {
    // Of this process alone, so that two that write at once do not mix.
    let fresh = file.with_extension(format!("new-{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true).mode(0o600);
    let mut handle = options.open(&fresh)?;
    handle.write_all(bytes)?;
    handle.sync_all()?;
    std::fs::rename(&fresh, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bezel_home_holds_everything() {
        let paths =
            Paths::from_environment(|name| (name == "BEZEL_HOME").then(|| "/b".into())).unwrap();
        assert_eq!(paths.config, Path::new("/b/config.toml"));
        for path in [&paths.data, &paths.run, &paths.logs, &paths.state] {
            assert!(path.starts_with("/b"), "{}", path.display());
        }
    }

    #[test]
    fn a_socket_path_that_the_system_cannot_take_is_named_with_its_remedy() {
        let paths = Paths::under(PathBuf::from(format!("/{}", "x".repeat(120))));
        let error = paths.socket().unwrap_err().to_string();
        assert!(
            error.contains("137 bytes") && error.contains("BEZEL_HOME"),
            "{error}"
        );
    }

    #[test]
    fn the_runtime_directory_is_closed_to_others() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path().to_owned());
        std::fs::create_dir(&paths.run).unwrap();
        std::fs::set_permissions(&paths.run, std::fs::Permissions::from_mode(0o755)).unwrap();
        paths.create_run().unwrap();
        assert_eq!(std::fs::metadata(&paths.run).unwrap().mode() & 0o777, 0o700);
    }
}
