//! A session whose worker is killed in a turn, opened again: the product's own processes.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bezel_chat_contract::{Activity, ChatClient, ChatState, Phase};
use bezel_rpc::AttachmentState;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::home::{Home, say};
use crate::process::{cx, runtime, scratch};
use crate::{Product, Result, figure, median};

const KILLS: usize = 7;

pub fn run(rounds: usize, product: &Product<'_>) -> Result<Vec<Value>> {
    let (mut opened, mut admitted) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let place = Place::new(product)?;
        runtime()?.block_on(async {
            for number in 0..KILLS {
                let (open, admit) = place.kill_and_open(number).await?;
                a.push(open);
                b.push(admit);
            }
            Ok::<(), crate::Error>(())
        })?;
        opened.push(median(&mut a) * 1e3);
        admitted.push(median(&mut b) * 1e3);
    }
    Ok(vec![
        figure(
            "open a session killed in a turn, until it takes prompts",
            "ms",
            &opened,
            None,
            json!({ "at_most": 50.0 }),
        ),
        figure(
            "until it has taken one, on the disk",
            "ms",
            &admitted,
            None,
            json!("shown"),
        ),
    ])
}

/// A home of the product with a server that runs, and its model.
struct Place {
    home: Option<Home>,
    model: Child,
    _script: tempfile::TempDir,
}

impl Place {
    fn new(product: &Product<'_>) -> Result<Self> {
        let folder = scratch()?;
        let script = folder.path().join("script.json");
        let call = json!({ "name": "bash", "arguments": { "command": "sleep 600" } });
        // Whatever is asked, a command that does not end.
        let script_text =
            json!({ "repeat": { "answer": { "steps": [{ "tool_call": call }] } } }).to_string();
        std::fs::write(&script, script_text)?;
        let mut model = Command::new(product.model_server)
            .arg(&script)
            .arg("--until-stdin-ends")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut port = String::new();
        let output = model.stdout.take().ok_or("its output is piped")?;
        BufReader::new(output).read_line(&mut port)?;
        let mut place = Place {
            home: None,
            model,
            _script: folder,
        };
        place.home = Some(Home::start(product, port.trim())?);
        Ok(place)
    }

    fn home(&self) -> Result<&Home> {
        Ok(self
            .home
            .as_ref()
            .ok_or("the home is there until it ends")?)
    }

    /// Kills a new session's worker while its tool runs, and opens the session: seconds until it takes prompts,
    /// and until it has taken one.
    async fn kill_and_open(&self, number: usize) -> Result<(f64, f64)> {
        let home = self.home()?;
        let client = home.client().await?;
        let session = client.session_in(&home.project()?).await?;
        let chat: ChatClient = client.link.attached().use_service();
        let state = chat.state();
        state.ready(&cx()).await?;
        say(&chat, &format!("first-{number}")).await?;
        let runs = |state: &ChatState| {
            matches!(
                state.activity,
                Activity::Running {
                    phase: Phase::Tools { .. },
                    ..
                }
            )
        };
        state.wait_for(&cx(), runs).await?;
        let worker = self.worker(session.as_str())?;
        while !has_children(worker)? {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        kill_process(worker, Signal::KILL)?;
        let gone = |state: &AttachmentState| !state.is_attached();
        client
            .link
            .attached()
            .attachment()
            .wait_for(&cx(), gone)
            .await?;
        client.link.stop().await;
        // Another client, as somebody who comes back.
        let client = home.client().await?;
        let chat: ChatClient = client.link.attached().use_service();
        let started = Instant::now();
        client.attach(&session).await?;
        chat.state().ready(&cx()).await?;
        let open = started.elapsed().as_secs_f64();
        say(&chat, &format!("second-{number}")).await?;
        let admitted = started.elapsed().as_secs_f64();
        chat.interrupt(&cx()).await?;
        client.management.remove(&cx(), session).await?;
        client.link.stop().await;
        Ok((open, admitted))
    }

    /// The worker of a session: the process that has its database's lock.
    fn worker(&self, session: &str) -> Result<Pid> {
        let lock = self.find(&self.home()?.bezel()?, session)?;
        let holder = std::fs::read_to_string(lock)?;
        let first = holder.lines().next().unwrap_or_default();
        let pid = first.trim().parse().ok().and_then(Pid::from_raw);
        pid.ok_or_else(|| format!("the lock of {session} names no process").into())
    }

    fn find(&self, folder: &Path, session: &str) -> Result<PathBuf> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir()
                && let Ok(found) = self.find(&path, session)
            {
                return Ok(found);
            }
            let name = path.to_string_lossy();
            if name.contains(session) && name.ends_with("session.db.lock") {
                return Ok(path);
            }
        }
        Err(format!("session {session} has no lock").into())
    }
}

/// Whether a process has started another: the tool's command.
fn has_children(process: Pid) -> Result<bool> {
    for task in std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()))? {
        let children = std::fs::read_to_string(task?.path().join("children"))?;
        if !children.trim().is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Drop for Place {
    fn drop(&mut self) {
        // Its server first, which asks the model.
        drop(self.home.take());
        // The end of its input ends it.
        drop(self.model.stdin.take());
        drop(self.model.wait());
    }
}
