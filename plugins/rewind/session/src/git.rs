//! The private object store: a bare repository of Bezel's own, written and read through `git`.
//!
//! Git never sees the session's directory here: contents go in and come out through pipes. So nothing of the
//! person's repository (index, references, stash, hooks, filters, attributes, configuration) can take part.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::tree::{BlobId, Change, Node, Tree, TreePath};

mod reading;

pub(crate) use reading::Reader;

/// Where the files are in a recorded tree.
const FILES: &str = "files";
/// Where the rest is: what git cannot say of a path.
const REST: &str = "rest.json";

/// A recorded tree: the name of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct CommitId(String);

/// The store.
#[derive(Debug, Clone)]
pub(crate) struct ObjectStore {
    git: PathBuf,
    directory: PathBuf,
}

/// Something that the store could not do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    /// There is no git.
    #[error("there is no `git` on the PATH; install it to have checkpoints")]
    Missing,
    /// It is too old.
    #[error("`git --version` says `{said}`; checkpoints need git 2.29 or newer")]
    TooOld {
        /// What it says of itself.
        said: String,
    },
    /// It could not be run or talked to.
    #[error("cannot {attempt} with {}: {source}", .git.display())]
    Io {
        /// What was attempted.
        attempt: &'static str,
        /// Which git.
        git: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It said no.
    #[error("git could not {attempt} in {}: {said}", .directory.display())]
    Failed {
        /// What was attempted.
        attempt: &'static str,
        /// In which store.
        directory: PathBuf,
        /// What it said.
        said: String,
    },
    /// A content is not there.
    #[error("the checkpoint store {} has lost {what}", .directory.display())]
    Lost {
        /// Which store.
        directory: PathBuf,
        /// What is missing.
        what: String,
    },
}

/// What git cannot say of a path: directories, links, unusual permissions, what is not kept.
#[derive(Serialize, Deserialize)]
struct Rest(Vec<(TreePath, Node)>);

impl ObjectStore {
    /// Finds git on `path` and makes the store where it is not there yet.
    pub(crate) fn open(directory: &Path, path: Option<&OsStr>) -> Result<Self, GitError> {
        let git = find_git(path).ok_or(GitError::Missing)?;
        let store = ObjectStore {
            git,
            directory: directory.to_owned(),
        };
        store.check_version()?;
        if !directory.join("HEAD").is_file() {
            store.create()?;
        }
        store.sweep();
        Ok(store)
    }

    fn check_version(&self) -> Result<(), GitError> {
        let said = self.run("find out its version", &["--version"])?;
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        let mut numbers = said
            .split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|part| part.parse::<u32>().ok());
        match (numbers.next(), numbers.next()) {
            (Some(2), Some(minor)) if minor < 29 => Err(GitError::TooOld { said }),
            (Some(0 | 1), _) | (None, _) => Err(GitError::TooOld { said }),
            _ => Ok(()),
        }
    }

    fn create(&self) -> Result<(), GitError> {
        let attempt = "make the checkpoint store";
        let io = |source| self.io(attempt, source);
        std::fs::create_dir_all(&self.directory).map_err(io)?;
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&self.directory, private).map_err(io)?;
        let arguments = [
            "init",
            "--quiet",
            "--bare",
            "--template=",
            "--object-format=sha256",
        ];
        self.run(attempt, &arguments)?;
        Ok(())
    }

    /// Deletes what a killed git has left. Nothing refers to it.
    fn sweep(&self) {
        let folders = [self.directory.clone(), self.directory.join("objects/pack")];
        let entries = folders
            .iter()
            .filter_map(|folder| std::fs::read_dir(folder).ok());
        for entry in entries.flatten().flatten() {
            let name = entry.file_name();
            let name = name.as_bytes();
            let is_left = name.starts_with(b"tmp_") || name.starts_with(b"fast_import_crash_");
            if is_left && let Err(error) = std::fs::remove_file(entry.path()) {
                tracing::debug!(%error, path = %entry.path().display(), "a temporary file of git stays");
            }
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.git);
        command
            .env_clear()
            .env("GIT_DIR", &self.directory)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("LC_ALL", "C")
            .current_dir(self.directory.parent().unwrap_or(Path::new("/")))
            .args([
                "-c",
                "core.compression=1",
                "-c",
                "core.fsync=objects,reference",
                "-c",
                "core.fsyncMethod=batch",
            ])
            .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
            .args([
                "-c",
                "core.protectNTFS=false",
                "-c",
                "core.protectHFS=false",
            ]);
        command
    }

    fn run(&self, attempt: &'static str, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::null());
        let output = command
            .output()
            .map_err(|source| self.io(attempt, source))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(self.failed(attempt, &output.stderr, &output.status.to_string()))
    }

    fn io(&self, attempt: &'static str, source: io::Error) -> GitError {
        GitError::Io {
            attempt,
            git: self.git.clone(),
            source,
        }
    }

    fn failed(&self, attempt: &'static str, stderr: &[u8], status: &str) -> GitError {
        let said = String::from_utf8_lossy(stderr);
        // A crash report follows what fast-import has to say.
        let said = said.lines().find(|line| !line.trim().is_empty());
        GitError::Failed {
            attempt,
            directory: self.directory.clone(),
            said: said.unwrap_or(status).to_owned(),
        }
    }

    fn lost(&self, what: impl Into<String>) -> GitError {
        GitError::Lost {
            directory: self.directory.clone(),
            what: what.into(),
        }
    }

    /// Begins to write contents and a tree.
    pub(crate) fn write(&self) -> Result<Writer, GitError> {
        let attempt = "start writing a checkpoint";
        let mut command = self.command();
        let spawned = command
            .args(["fast-import", "--quiet", "--done", "--date-format=raw"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = Ended(spawned.map_err(|source| self.io(attempt, source))?);
        let (input, output) = (child.0.stdin.take(), child.0.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(self.io(attempt, io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Writer {
            store: self.clone(),
            input: BufWriter::with_capacity(64 * 1024, input),
            output,
            child,
        })
    }
}

/// Puts contents and one tree into the store. Dropped before [`Writer::commit`], it leaves nothing that counts.
pub(crate) struct Writer {
    store: ObjectStore,
    input: BufWriter<ChildStdin>,
    output: ChildStdout,
    child: Ended,
}

impl Writer {
    /// One file's content.
    pub(crate) fn blob(&mut self, content: &[u8]) -> Result<(), GitError> {
        let written = write!(self.input, "blob\ndata {}\n", content.len())
            .and_then(|()| self.input.write_all(content))
            .and_then(|()| self.input.write_all(b"\n"));
        written.map_err(|source| self.broken(source))
    }

    /// Records `tree`, whose contents are all written: as the difference to an earlier one where there is one.
    pub(crate) fn commit(
        mut self,
        tree: &Tree,
        earlier: Option<(&CommitId, &[Change])>,
    ) -> Result<CommitId, GitError> {
        let mut text = Vec::new();
        // A name of its own: the lock of a killed writer is in nobody's way.
        let reference = format!("refs/bezel/{}", uuid::Uuid::now_v7().simple());
        text.extend_from_slice(
            format!("commit {reference}\nmark :1\ncommitter Bezel <> 0 +0000\ndata 0\n").as_bytes(),
        );
        match earlier {
            Some((commit, changes)) => {
                text.extend_from_slice(format!("from {}\n", commit.0).as_bytes());
                let removed = changes
                    .iter()
                    .filter(|change| is_file(change.before.as_ref()));
                for change in removed.filter(|change| !is_file(change.after.as_ref())) {
                    text.extend_from_slice(b"D ");
                    quote(&change.path, &mut text);
                }
                for change in changes {
                    if let Some(node) = &change.after {
                        modify(&change.path, node, &mut text);
                    }
                }
            }
            None => {
                for (path, node) in tree {
                    modify(path, node, &mut text);
                }
            }
        }
        let rest = tree.iter().filter(|(_, node)| !is_plain(node));
        let rest = Rest(
            rest.map(|(path, node)| (path.clone(), node.clone()))
                .collect(),
        );
        let rest = serde_json::to_vec(&rest)
            .map_err(|error| self.store.io("write a checkpoint", error.into()))?;
        text.extend_from_slice(format!("M 100644 inline {REST}\ndata {}\n", rest.len()).as_bytes());
        text.extend_from_slice(&rest);
        text.extend_from_slice(b"\nget-mark :1\ndone\n");
        let written = self
            .input
            .write_all(&text)
            .and_then(|()| self.input.flush());
        written.map_err(|source| self.broken(source))?;
        let Writer {
            store,
            input,
            mut output,
            mut child,
        } = self;
        drop(input);
        let attempt = "write a checkpoint";
        let mut said = String::new();
        output
            .read_to_string(&mut said)
            .map_err(|source| store.io(attempt, source))?;
        let (status, errors) = child.wait().map_err(|source| store.io(attempt, source))?;
        let commit = BlobId::parse(said.trim());
        match commit {
            Some(commit) if status.success() => Ok(CommitId(commit.as_str().to_owned())),
            _ => Err(store.failed(attempt, &errors, &status.to_string())),
        }
    }

    /// The pipe broke: git has ended, and says why.
    fn broken(&mut self, source: io::Error) -> GitError {
        let attempt = "write a checkpoint";
        match self.child.wait() {
            Ok((status, errors)) => self.store.failed(attempt, &errors, &status.to_string()),
            Err(_) => self.store.io(attempt, source),
        }
    }
}

fn is_file(node: Option<&Node>) -> bool {
    matches!(node, Some(Node::File { .. }))
}

/// Whether git's own words say all of it.
fn is_plain(node: &Node) -> bool {
    matches!(
        node,
        Node::File {
            mode: 0o644 | 0o755,
            ..
        }
    )
}

fn modify(path: &TreePath, node: &Node, text: &mut Vec<u8>) {
    if let Node::File { mode, blob } = node {
        let mode = if mode & 0o100 == 0 {
            "100644"
        } else {
            "100755"
        };
        text.extend_from_slice(format!("M {mode} {} ", blob.as_str()).as_bytes());
        quote(path, text);
    }
}

/// A path as fast-import takes it: quoted as in C, so that every byte can be in it.
fn quote(path: &TreePath, text: &mut Vec<u8>) {
    text.extend_from_slice(format!("\"{FILES}/").as_bytes());
    for byte in path.as_bytes() {
        match byte {
            b'"' | b'\\' => text.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => text.push(*byte),
            _ => text.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    text.extend_from_slice(b"\"\n");
}

/// A child that does not outlive its owner.
struct Ended(Child);

impl Ended {
    /// Waits for the end; also what it said on its standard error.
    fn wait(&mut self) -> io::Result<(std::process::ExitStatus, Vec<u8>)> {
        let mut errors = Vec::new();
        if let Some(mut pipe) = self.0.stderr.take() {
            pipe.read_to_end(&mut errors)?;
        }
        Ok((self.0.wait()?, errors))
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // Both fail where it has ended and was waited for, which is what is wanted.
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait().map(drop)) {
            tracing::debug!(%error, "git could not be ended");
        }
    }
}

pub(crate) fn find_git(path: Option<&OsStr>) -> Option<PathBuf> {
    let candidates = std::env::split_paths(path?).map(|folder| folder.join("git"));
    candidates.into_iter().find(|candidate| {
        let is_program = |file: File| {
            let metadata = file.metadata().ok();
            metadata.is_some_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        candidate.is_absolute() && File::open(candidate).is_ok_and(is_program)
    })
}
