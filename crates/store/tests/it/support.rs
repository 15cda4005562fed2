//! What the tests share.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bezel_session_types::{EntryId, LaneName, Message, UserMessage};
use bezel_store::{Store, Transaction};
use tempfile::TempDir;

/// A directory with the path of a database in it.
pub struct Place {
    pub directory: TempDir,
    pub path: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session.db");
        Place { directory, path }
    }

    pub fn open(&self) -> Store {
        Store::open(&self.path).unwrap()
    }
}

pub fn user(text: &str) -> Message {
    Message::User(UserMessage::text(text))
}

/// A transaction that appends one message to the main lane.
pub fn append(id: &str, parent: Option<&str>) -> Transaction {
    let mut transaction = Transaction::new();
    let id = EntryId::new(id);
    transaction.append(
        id.clone(),
        parent.map(EntryId::new),
        user(&format!("text of {id}")),
    );
    transaction.set_tip(&LaneName::main(), Some(&id));
    transaction
}

/// Names the database to a child.
pub const ROLE: &str = "BEZEL_STORE_TEST_DATABASE";

/// Runs the test `name` of this binary in a process of its own, on the database at `path`, until it
/// prints `ready`.
pub fn child(name: &str, path: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(ROLE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let ready = lines
        .map_while(Result::ok)
        .any(|line| line.contains("ready"));
    assert!(ready, "the child process ended before it was ready");
    child
}

/// In the child: the database to work on. In an ordinary test run there is none.
pub fn child_role() -> Option<PathBuf> {
    std::env::var_os(ROLE).map(PathBuf::from)
}

/// In the child: says that it is ready and waits to be killed.
pub fn ready_and_wait() -> ! {
    println!("ready");
    loop {
        std::thread::park();
    }
}
