//! A server that other machines reach: its port, and what is told of it.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use bezel_access_contract::{AccessClient, PairOptions};
use bezel_context::{Context, Scope, Spawner};
use bezel_rpc::{Connect, Credential};
use bezel_sockets::{ServerTls, WebSocketOptions};
use serde::{Deserialize, Serialize};

use super::lock::Owner;
use super::port::Port;
use crate::connect::join_through;
use crate::failure::{Failure, Outcome};
use crate::paths::Paths;

/// How other machines reach a server.
pub struct Remote {
    /// `HOST:PORT`.
    pub listen: String,
    /// The files of certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Takes unencrypted connections from other machines.
    pub allow_insecure: bool,
    /// Names beside its own.
    pub allowed_hosts: Vec<String>,
}

/// What clients of this machine read about the port of the running server.
#[derive(Serialize, Deserialize)]
struct Served {
    url: String,
    pid: u32,
}

/// The file about the port; dropping it removes the file.
pub struct ServedFile(PathBuf);

impl Remote {
    /// Takes the port.
    pub async fn listen(self, spawner: Spawner) -> Outcome<Port> {
        let tls = self
            .tls
            .map(|(certificate, key)| ServerTls::read(&certificate, &key))
            .transpose()
            .map_err(Failure::usage)?;
        let options = WebSocketOptions {
            tls,
            allow_insecure: self.allow_insecure,
            allowed_hosts: self.allowed_hosts,
            site: None,
        };
        Port::bind(&self.listen, options, spawner).await
    }
}

/// Says on standard output where the server is and how to pair, and in a file where it is.
pub async fn announce(paths: &Paths, url: &str, local: Arc<dyn Connect>) -> Outcome<ServedFile> {
    let served = Served {
        url: url.to_owned(),
        pid: std::process::id(),
    };
    let file = ServedFile(paths.served());
    serde_json::to_vec(&served)
        .map_err(io::Error::from)
        .and_then(|text| std::fs::write(&file.0, text))
        .with_context(|| format!("cannot write {}", file.0.display()))
        .map_err(Failure::failed)?;
    let how = match first_code(local).await {
        Ok(code) => format!(
            "On the other machine, within five minutes:\n  bezel attach {url} --code {code}\nMore codes: bezel access pair"
        ),
        Err(reason) => format!("Nobody can pair: {reason}"),
    };
    let text = format!("Bezel serves at {url}\n{how}\n");
    // It serves whether anybody reads that or not.
    if let Err(error) = io::stdout().lock().write_all(text.as_bytes()) {
        tracing::debug!(%error, "nobody reads where the server is");
    }
    Ok(file)
}

async fn first_code(local: Arc<dyn Connect>) -> Result<String, anyhow::Error> {
    let cx = Context::background();
    let joined = join_through(&cx, local, Credential::none()).await?;
    let access: AccessClient = joined.link.server().use_service();
    let options = PairOptions {
        label: None,
        scopes: vec![Scope::Read, Scope::Operate],
        directory: None,
    };
    let made = access.pair(&cx, options).await;
    joined.leave().await;
    Ok(made?.code)
}

/// Where the server of `owner` takes connections from other machines; none where it takes none.
pub fn served_url(paths: &Paths, owner: &Owner) -> Option<String> {
    let text = std::fs::read(paths.served()).ok()?;
    let served: Served = serde_json::from_slice(&text).ok()?;
    // A server that was killed leaves its file.
    (served.pid == owner.pid).then_some(served.url)
}

impl Drop for ServedFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(%error, "the file about the port is gone already");
        }
    }
}
