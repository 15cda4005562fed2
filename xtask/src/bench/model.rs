//! The fake model, an instance of the product that uses it, and a tap between them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::measure::{Measured, signal_all};
use super::{Bench, processes, scratch};
use crate::command;

/// The model's name as a person writes it.
pub(super) const MODEL: &str = "bench::scripted";

/// The key that the product is configured with.
pub(super) const KEY: (&str, &str) = ("BENCH_KEY", "bench");

/// The same short answer for every request.
pub(super) fn short_answer() -> Value {
    json!({ "repeat": { "answer": { "steps": [{ "text": "A short " }, { "text": "answer." }] } } })
}

/// Tool calls of `bash`, one a request, then a short answer for every further request.
pub(super) fn commands<'a>(commands: impl IntoIterator<Item = &'a str>) -> Value {
    let call = |command: &str| {
        let call = json!({ "name": "bash", "arguments": { "command": command } });
        json!({ "answer": { "steps": [{ "tool_call": call }] } })
    };
    let mut script = short_answer();
    script["turns"] = commands.into_iter().map(call).collect();
    script
}

/// The fake model server of the test kit, ended with this value.
pub(super) struct ModelServer {
    child: Child,
    pub(super) port: u16,
}

impl ModelServer {
    pub(super) fn start(bench: &Bench, script: &Value) -> Result<Self> {
        let mut file = tempfile::NamedTempFile::new().context("make a file for the script")?;
        file.write_all(script.to_string().as_bytes())
            .context("write the script")?;
        let mut child = Command::new(&bench.model_server)
            .arg(file.path())
            .arg("--until-stdin-ends")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the fake model server")?;
        let output = child.stdout.take().context("its output is piped")?;
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .context("read its port")?;
        let port = line.trim().parse().with_context(|| {
            format!("the fake model server printed {line:?} where its port belongs")
        })?;
        Ok(Self { child, port })
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        // The end of its input ends it; what is left is to collect it.
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}

/// An instance of the product with a home and a project of its own.
pub(super) struct Instance {
    bezel: PathBuf,
    /// Removed last, when everything that used it has ended.
    folder: tempfile::TempDir,
}

impl Instance {
    /// Configured for the model at `port`. Nothing runs yet.
    pub(super) fn new(bench: &Bench, port: u16) -> Result<Self> {
        let instance = Self {
            bezel: bench.bezel.clone(),
            folder: scratch()?,
        };
        for folder in [instance.home(), instance.project()] {
            std::fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
        }
        let (variable, _) = KEY;
        let config = format!(
            "model = \"{MODEL}\"\npermission_mode = \"full\"\n\n[providers.bench]\nkind = \"openai\"\n\
             base_url = \"http://127.0.0.1:{port}/v1\"\napi_key_env = \"{variable}\"\n\n\
             [[providers.bench.models]]\nid = \"scripted\"\ncontext = 262144\n"
        );
        std::fs::write(instance.home().join("config.toml"), config)
            .context("write a config.toml")?;
        Ok(instance)
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(super) fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// `bezel` in the instance's project.
    pub(super) fn command(&self) -> Command {
        let (variable, key) = KEY;
        let mut command = command::program(&self.bezel);
        command
            .current_dir(self.project())
            .env("BEZEL_HOME", self.home())
            .env(variable, key);
        command
    }

    /// `bezel run` in `directory`, measured with all that it leaves running, which is ended.
    pub(super) fn measured_run(&self, directory: &Path) -> Result<Measured> {
        let (variable, key) = KEY;
        Ok(Measured::new(&self.bezel, directory)?
            .env("BEZEL_HOME", self.home())
            .env(variable, key)
            .args(["run"]))
    }

    /// `bezel run PROMPT` with what further arguments say; leaves the server and worker running.
    pub(super) fn run(&self, directory: &Path, arguments: &[&str]) -> Result<()> {
        let mut command = self.command();
        command
            .current_dir(directory)
            .args(["run"])
            .args(arguments)
            .stdin(Stdio::null());
        command::output(&mut command).map(drop)
    }

    /// Everything of this instance that runs now.
    pub(super) fn processes(&self) -> Result<Vec<Pid>> {
        processes::with_environment("BEZEL_HOME", &self.home())
    }

    /// The worker processes of this instance.
    pub(super) fn workers(&self) -> Result<Vec<Pid>> {
        let mut found = self.processes()?;
        found.retain(|pid| processes::command_line(*pid).contains(" worker"));
        Ok(found)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let mut stop = self.command();
        stop.args(["server", "stop"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Where no server runs this fails, and nothing is left to end.
        drop(stop.status());
        let left = self.processes().unwrap_or_default();
        if let Err(error) = signal_all(&left, Signal::SIGKILL) {
            eprintln!("{error:#}");
        }
    }
}

/// Which way bytes went through a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// To the model: the beginning of a request, or more of one.
    Up { request: bool },
    /// From the model.
    Down,
}

/// A proxy in front of the model that notes when bytes pass. Each piece is noted before it is passed
/// on, so a gap holds one write of the proxy and nothing else of it.
pub(super) struct Tap {
    pub(super) port: u16,
    passed: Arc<Mutex<Vec<(Instant, Way)>>>,
}

impl Tap {
    /// In front of the model at `port`. Its threads end with the connections that they serve.
    pub(super) fn start(port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen on loopback")?;
        let own = listener.local_addr().context("tell the port")?.port();
        let passed = Arc::new(Mutex::new(Vec::new()));
        let notes = passed.clone();
        std::thread::spawn(move || -> Result<()> {
            loop {
                let (client, _) = listener.accept()?;
                let model = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
                client.set_nodelay(true)?;
                model.set_nodelay(true)?;
                let (up_from, up_to) = (client.try_clone()?, model.try_clone()?);
                let up_notes = notes.clone();
                std::thread::spawn(move || {
                    pass(up_from, up_to, &up_notes, |bytes| Way::Up {
                        request: bytes.starts_with(b"POST "),
                    })
                });
                let down_notes = notes.clone();
                std::thread::spawn(move || pass(model, client, &down_notes, |_| Way::Down));
            }
        });
        Ok(Self { port: own, passed })
    }

    /// Milliseconds from the last byte of each answer to the first of the next request.
    pub(super) fn gaps(&self) -> Vec<f64> {
        gaps(&self.passed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn gaps(passed: &[(Instant, Way)]) -> Vec<f64> {
    passed
        .windows(2)
        .filter_map(|pair| match pair {
            [(answered, Way::Down), (asked, Way::Up { request: true })] => {
                Some(asked.duration_since(*answered).as_secs_f64() * 1e3)
            }
            _ => None,
        })
        .collect()
}

/// Copies until either side ends, noting each piece before it is passed on.
fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    notes: &Mutex<Vec<(Instant, Way)>>,
    way: fn(&[u8]) -> Way,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    let note = |way| {
        let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push((Instant::now(), way));
    };
    loop {
        let length = from.read(&mut buffer)?;
        let Some(piece) = buffer.get(..length).filter(|piece| !piece.is_empty()) else {
            return to.shutdown(std::net::Shutdown::Write);
        };
        note(way(piece));
        to.write_all(piece)?;
    }
}

#[cfg(test)]
mod tests;
