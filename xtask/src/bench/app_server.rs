//! Codex's long-lived host, `codex app-server`: JSON-RPC, a message a line, over standard input and
//! output. It streams each delta to its client, as our server does.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::model::KEY;
use super::peers::{Peer, codex_provider};
use super::processes;
use super::workloads::Turn;
use crate::command;

/// A running app-server with one thread of conversation.
pub(super) struct AppServer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    thread: String,
    /// Removed when the process has ended.
    folder: tempfile::TempDir,
}

impl AppServer {
    /// Starts codex for the model at `port` and opens a thread.
    pub(super) fn start(codex: &Peer, port: u16) -> Result<Self> {
        let folder = super::scratch()?;
        let (variable, key) = KEY;
        let mut child = command::program(codex.program())
            .args(["app-server", "-c", "model_provider=bench", "-c"])
            .arg(codex_provider(port))
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .env("CODEX_HOME", folder.path())
            .env(variable, key)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("start codex app-server")?;
        let input = child.stdin.take().context("its input is piped")?;
        let output = child.stdout.take().context("its output is piped")?;
        let mut server = Self {
            child,
            input,
            output: BufReader::new(output),
            thread: String::new(),
            folder,
        };
        let client = json!({ "clientInfo": { "name": "bench", "version": "1" } });
        server.call("initialize", &client)?;
        server.send(&json!({ "method": "initialized" }))?;
        let started = server.call(
            "thread/start",
            &json!({
                "model": "scripted",
                "cwd": server.folder.path(),
                "approvalPolicy": "never",
                "sandbox": "danger-full-access",
            }),
        )?;
        let thread = started["result"]["thread"]["id"].as_str();
        server.thread = thread
            .context("codex app-server opened no thread")?
            .to_owned();
        Ok(server)
    }

    /// One turn, from the prompt to its completion.
    pub(super) fn turn(&mut self) -> Result<Turn> {
        let own = Pid::from_raw(self.child.id().cast_signed());
        let processor = || -> Result<f64> {
            let mut all = processes::descendants(own)?;
            all.push(own);
            Ok(processes::processor_seconds_of(&all))
        };
        let before = processor()?;
        let started = Instant::now();
        let input = json!([{ "type": "text", "text": "go" }]);
        let prompt = json!({ "threadId": self.thread, "input": input });
        self.send(&json!({ "id": 2, "method": "turn/start", "params": prompt }))?;
        let completed = self.wait_for(|message| message["method"] == "turn/completed")?;
        let wall = started.elapsed().as_secs_f64();
        let status = &completed["params"]["turn"]["status"];
        if status != "completed" {
            bail!("a turn of codex app-server ended as {status}");
        }
        Ok(Turn {
            wall,
            processor: processor()? - before,
        })
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let line = format!("{message}\n");
        self.input
            .write_all(line.as_bytes())
            .context("write to codex app-server")
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        self.send(&json!({ "id": 1, "method": method, "params": parameters }))?;
        self.wait_for(|message| message["id"] == 1)
    }

    fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        loop {
            let mut line = String::new();
            let length = self
                .output
                .read_line(&mut line)
                .context("read from codex app-server")?;
            if length == 0 {
                bail!("codex app-server ended");
            }
            let message: Value = serde_json::from_str(&line)
                .with_context(|| format!("parse what codex app-server wrote: {line}"))?;
            if wanted(&message) {
                return Ok(message);
            }
        }
    }
}

impl Drop for AppServer {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        if self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}
