//! Unix sockets: one listener per path, only for this user, and attempts to reach one.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bezel_context::Context;
use bezel_rpc::{Connect, ConnectError, PeerIdentity, Transport};
use futures::future::BoxFuture;
use rustix::fs::{FlockOperation, flock};
use tokio::net::UnixStream;

use crate::stream::transport;

/// Why nobody listens on a path after an attempt to.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process does.
    #[error("a server already listens on {}; use that one, or stop it first", .path.display())]
    InUse {
        /// The socket's path.
        path: PathBuf,
    },
    /// Something else stands there.
    #[error("cannot listen on {}: something that is not a socket stands there; move it away", .path.display())]
    NotASocket {
        /// The socket's path.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot listen on {}: {cause}", .path.display())]
    Io {
        /// The socket's path.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

/// Listens on a Unix socket that only this user can reach. Dropping it removes the socket.
#[derive(Debug)]
pub struct UnixListener {
    listener: tokio::net::UnixListener,
    path: PathBuf,
    inode: u64,
    /// Held as long as this process serves the path; a process that dies releases it.
    _lock: File,
}

impl UnixListener {
    /// Listens on `path`. A socket that a dead process left is replaced; a living one is not.
    pub fn bind(path: impl Into<PathBuf>) -> Result<Self, BindError> {
        let path = path.into();
        let failed = |cause: io::Error| BindError::Io {
            path: path.clone(),
            cause,
        };
        let lock_path = beside(&path, "lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(lock_path)
            .map_err(failed)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(BindError::InUse { path });
        }
        match std::fs::symlink_metadata(&path) {
            Ok(metadata) if !metadata.file_type().is_socket() => {
                return Err(BindError::NotASocket { path });
            }
            // Whoever listens without our lock is alive if it accepts.
            Ok(_) if std::os::unix::net::UnixStream::connect(&path).is_ok() => {
                return Err(BindError::InUse { path });
            }
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                return Err(BindError::Io { path, cause });
            }
            Ok(_) | Err(_) => {}
        }
        // Made elsewhere and moved into place, so that the path never leads to a socket that others can reach.
        let fresh = beside(&path, "new");
        remove(&fresh).map_err(failed)?;
        let listener = tokio::net::UnixListener::bind(&fresh).map_err(failed)?;
        let placed = std::fs::set_permissions(&fresh, Permissions::from_mode(0o600))
            .and_then(|()| std::fs::rename(&fresh, &path))
            .and_then(|()| std::fs::symlink_metadata(&path));
        let metadata = placed.map_err(failed)?;
        Ok(UnixListener {
            listener,
            path,
            inode: metadata.ino(),
            _lock: lock,
        })
    }

    /// The next connection, and which user it came from.
    pub async fn accept(&self) -> io::Result<(Transport, PeerIdentity)> {
        let (stream, _) = self.listener.accept().await?;
        let uid = stream.peer_cred()?.uid();
        let transport = transport(stream.into_std()?)?;
        let peer = PeerIdentity {
            uid: Some(uid),
            address: None,
        };
        Ok((transport, peer))
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for UnixListener {
    fn drop(&mut self) {
        let ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| metadata.ino() == self.inode);
        if ours && let Err(error) = remove(&self.path) {
            // The next listener replaces it anyway.
            drop(error);
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(extension);
    path.with_file_name(name)
}

/// A way to connect to the server that listens on `path`; each use is one attempt.
pub fn dial_unix(path: impl Into<PathBuf>) -> Arc<dyn Connect> {
    Arc::new(UnixDial { path: path.into() })
}

struct UnixDial {
    path: PathBuf,
}

impl Connect for UnixDial {
    fn connect<'c>(&'c self, cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        Box::pin(async {
            let stream = cx.run(UnixStream::connect(&self.path)).await?;
            let unreachable = |cause| ConnectError::Unreachable {
                endpoint: self.path.display().to_string(),
                cause,
            };
            let transport = stream.and_then(UnixStream::into_std).and_then(transport);
            transport.map_err(unreachable)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_left_by_a_dead_process_is_replaced_and_a_living_one_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("server.sock");
        // A listener that went without removing its socket.
        drop(std::os::unix::net::UnixListener::bind(&path).expect("it binds"));
        let listener = UnixListener::bind(&path).expect("the stale socket is replaced");
        let mode = std::fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = UnixListener::bind(&path).expect_err("a server listens");
        assert!(matches!(&error, BindError::InUse { .. }));
        assert!(error.to_string().contains("already listens on"));
        drop(listener);
        assert!(!path.exists());
        UnixListener::bind(&path).expect("the path is free again");
    }

    #[tokio::test]
    async fn a_server_without_our_lock_and_a_plain_file_are_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("server.sock");
        let foreign = std::os::unix::net::UnixListener::bind(&path).expect("it binds");
        assert!(matches!(
            UnixListener::bind(&path),
            Err(BindError::InUse { .. })
        ));
        drop(foreign);
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, "precious").expect("written");
        assert!(matches!(
            UnixListener::bind(&path),
            Err(BindError::NotASocket { .. })
        ));
        assert_eq!(std::fs::read(&path).expect("still there"), b"precious");
    }

    #[tokio::test]
    async fn the_listener_learns_the_peers_user() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("server.sock");
        let listener = UnixListener::bind(&path).expect("it binds");
        let cx = Context::background();
        let dial = dial_unix(&path);
        let (dialled, accepted) = futures::join!(dial.connect(&cx), listener.accept());
        dialled.expect("connected");
        let (_, identity) = accepted.expect("accepted");
        assert_eq!(identity.uid, Some(rustix::process::getuid().as_raw()));
    }

    #[tokio::test]
    async fn dialling_where_nobody_listens_names_the_path() {
        let dial = dial_unix("/nonexistent/server.sock");
        let error = dial
            .connect(&Context::background())
            .await
            .expect_err("nobody listens");
        assert!(error.to_string().contains("/nonexistent/server.sock"));
    }
}
