//! A home of the product: a server that runs, with a model of the caller's.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bezel_chat_contract::{ChatClient, PromptPart, PromptRequest};
use bezel_session_types::{CommandId, Delivery};
use bezel_sessions_contract::LaunchEnvironment;

use crate::process::{Client, cx, scratch};
use crate::{Product, Result};

/// Ended with this value.
pub struct Home {
    bezel: PathBuf,
    folder: tempfile::TempDir,
}

impl Home {
    /// A home with a running server, whose sessions ask the model at that port.
    pub fn start(product: &Product<'_>, port: &str) -> Result<Self> {
        let home = Home {
            bezel: std::path::absolute(product.bezel)?,
            folder: scratch()?,
        };
        for folder in [home.bezel()?, home.project()?] {
            std::fs::create_dir(folder)?;
        }
        let mut config = std::fs::File::create(home.bezel()?.join("config.toml"))?;
        write!(
            config,
            "model = \"bench::scripted\"\npermission_mode = \"full\"\n\n[providers.bench]\nkind = \"openai\"\n\
             base_url = \"http://127.0.0.1:{port}/v1\"\napi_key_env = \"BENCH_KEY\"\n\n\
             [[providers.bench.models]]\nid = \"scripted\"\ncontext = 262144\n",
        )?;
        let started = home.command()?.args(["session", "list"]).output()?;
        match started.status.success() {
            true => Ok(home),
            false => Err(String::from_utf8_lossy(&started.stderr).into_owned().into()),
        }
    }

    /// Where the product keeps what it keeps.
    pub fn bezel(&self) -> Result<PathBuf> {
        Ok(std::path::absolute(self.folder.path().join("b"))?)
    }

    /// Where sessions work.
    pub fn project(&self) -> Result<PathBuf> {
        Ok(std::path::absolute(self.folder.path().join("project"))?)
    }

    fn command(&self) -> Result<Command> {
        let mut command = Command::new(&self.bezel);
        command
            .current_dir(self.project()?)
            .env("BEZEL_HOME", self.bezel()?)
            .env("BENCH_KEY", "bench")
            .stdin(Stdio::null());
        Ok(command)
    }

    /// A client of the server.
    pub async fn client(&self) -> Result<Client> {
        let run = self.bezel()?.join("run");
        let token = std::fs::read_to_string(run.join("token"))?;
        // Relative, for the length that a socket's path may have.
        let socket = from_here(&run.join("server.sock"))?;
        Client::over(&socket, token.trim(), Some(environment())).await
    }

    /// The processes that were started for this home.
    pub fn processes(&self) -> Result<Vec<u32>> {
        let variable = format!("BEZEL_HOME={}", self.bezel()?.display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc")? {
            let entry = entry?;
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            // One that ends meanwhile has none.
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment
                .split(|byte| *byte == 0)
                .any(|set| set == variable.as_bytes())
            {
                found.push(pid);
            }
        }
        Ok(found)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Ok(mut stop) = self.command() {
            stop.args(["server", "stop"])
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            // Where no server runs there is nothing to end.
            drop(stop.status());
        }
    }
}

/// The variables of a shell that sessions need.
fn environment() -> LaunchEnvironment {
    let path = std::env::var("PATH").unwrap_or_default();
    let variables = [
        ("PATH".to_owned(), path),
        ("BENCH_KEY".to_owned(), "bench".to_owned()),
    ];
    LaunchEnvironment(variables.into())
}

/// A path from here.
fn from_here(path: &Path) -> Result<PathBuf> {
    let here = std::env::current_dir()?;
    Ok(path.strip_prefix(here)?.to_owned())
}

/// Admits a message.
pub async fn say(chat: &ChatClient, command: &str) -> Result<()> {
    let reply = chat
        .prompt(
            &cx().with_timeout(Duration::from_secs(10)),
            PromptRequest {
                command_id: CommandId::new(command),
                content: vec![PromptPart::Text {
                    text: "Go on.".into(),
                }],
                delivery: Delivery::Steer,
                resume: true,
            },
        )
        .await?;
    match reply.accepted {
        true => Ok(()),
        false => Err(reply.error.unwrap_or_default().into()),
    }
}
