//! A home for one test: nothing in it comes from outside, nothing of it stays.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// `BEZEL_HOME`, a project to work in, and the environment that commands get.
pub struct Home {
    directory: tempfile::TempDir,
    environment: Vec<(String, String)>,
}

/// What a command did.
#[derive(Debug)]
pub struct Done {
    /// Its exit status; none where a signal ended it.
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Home {
    pub fn new() -> Self {
        // Short, for the socket's sake.
        let directory = tempfile::Builder::new()
            .prefix("bz")
            .tempdir_in("/tmp")
            .unwrap();
        std::fs::create_dir(directory.path().join("project")).unwrap();
        Home {
            directory,
            environment: Vec::new(),
        }
    }

    /// Where Bezel keeps what it keeps.
    pub fn bezel(&self) -> PathBuf {
        self.directory.path().join("b")
    }

    /// Where commands run.
    pub fn project(&self) -> PathBuf {
        self.directory.path().join("project")
    }

    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    pub fn configure(&self, text: &str) {
        std::fs::create_dir_all(self.bezel()).unwrap();
        std::fs::write(self.bezel().join("config.toml"), text).unwrap();
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bezel"));
        command
            .args(arguments)
            .current_dir(self.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.directory.path())
            .env("BEZEL_HOME", self.bezel())
            // Nobody is there to be asked; the tests of permissions say otherwise.
            .env("BEZEL_PERMISSION_MODE", "full")
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Done {
        finish(self.command(arguments).spawn().unwrap())
    }

    /// Runs a command with something on its standard input.
    pub fn pipe(&self, arguments: &[&str], input: &[u8]) -> Done {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        finish(child)
    }

    /// The running server's process.
    pub fn server(&self) -> Option<u32> {
        let status = self.run(&["server", "status", "--json"]);
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        status["server"]["pid"]
            .as_u64()
            .map(|pid| u32::try_from(pid).unwrap())
    }

    pub fn server_log(&self) -> String {
        std::fs::read_to_string(self.bezel().join("logs/server.log")).unwrap_or_default()
    }

    /// The processes of workers of this home.
    pub fn workers(&self) -> Vec<u32> {
        processes()
            .filter(|pid| read(*pid, "cmdline").starts_with("bezel-worker"))
            .filter(|pid| self.has(*pid))
            .collect()
    }

    /// Whether a process was started for this home.
    pub fn has(&self, pid: u32) -> bool {
        let home = format!("BEZEL_HOME={}", self.bezel().display());
        read(pid, "environ")
            .split('\0')
            .any(|variable| variable == home)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A server that a test left ends with the test, and so do its workers.
        self.run(&["server", "stop"]);
    }
}

pub fn finish(child: Child) -> Done {
    let output = child.wait_with_output().unwrap();
    Done {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Done {
    /// The JSON lines of the output.
    pub fn lines(&self) -> Vec<Value> {
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(parse).collect()
    }

    #[track_caller]
    pub fn succeeded(&self) -> &Self {
        assert_eq!(self.status, Some(0), "{self:#?}");
        self
    }

    #[track_caller]
    pub fn failed(&self, status: i32, saying: &str) -> &Self {
        assert_eq!(self.status, Some(status), "{self:#?}");
        assert!(
            self.stderr.contains(saying),
            "{saying:?} is not in {self:#?}"
        );
        self
    }
}

/// The contents of a file of a process; empty where the process has gone.
pub fn read(pid: u32, file: &str) -> String {
    let bytes =
        std::fs::read(Path::new("/proc").join(pid.to_string()).join(file)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// All processes of this machine.
pub fn processes() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Waits until a value from outside this process is as it should be.
#[track_caller]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn signal(pid: u32, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.cast_signed()), signal).unwrap();
}
