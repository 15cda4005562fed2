//! Other agents, measured in the same run where they are installed.
//!
//! They are looked for in `PATH`, and under `--peers DIR` in the folders that npm makes:
//! `npm install @openai/codex` in `DIR/codex`, `npm install @aaif/goose-binary-linux-x64` in
//! `DIR/goose`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::measure::{Cost, Measured};
use super::model::KEY;
use crate::command;

/// Another agent and how it is asked one thing without its interface.
struct Kind {
    name: &'static str,
    /// The executable inside `DIR/NAME`.
    inside: &'static str,
    ask: fn(Measured, home: &Path, port: u16) -> Measured,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "codex",
        inside: "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        ask: ask_codex,
    },
    Kind {
        name: "goose",
        inside: "node_modules/@aaif/goose-binary-linux-x64/bin/goose",
        ask: ask_goose,
    },
];

/// The configuration that points codex at the fake model, as `-c` takes it.
pub(super) fn codex_provider(port: u16) -> String {
    let (variable, _) = KEY;
    format!(
        "model_providers.bench={{name=\"bench\",base_url=\"http://127.0.0.1:{port}/v1\",\
         wire_api=\"responses\",env_key=\"{variable}\"}}"
    )
}

fn ask_codex(measured: Measured, home: &Path, port: u16) -> Measured {
    let (variable, key) = KEY;
    let provider = codex_provider(port);
    measured
        .env("CODEX_HOME", home)
        .env(variable, key)
        .args(["exec", "--skip-git-repo-check", "--model", "scripted"])
        .args(["--dangerously-bypass-approvals-and-sandbox"])
        .args(["-c", "model_provider=bench", "-c", provider.as_str(), "go"])
}

fn ask_goose(measured: Measured, home: &Path, port: u16) -> Measured {
    let (_, key) = KEY;
    measured
        .env("XDG_CONFIG_HOME", home)
        .env("GOOSE_PROVIDER", "openai")
        .env("GOOSE_MODEL", "scripted")
        .env("GOOSE_MODE", "auto")
        .env("GOOSE_DISABLE_KEYRING", "1")
        .env("OPENAI_API_KEY", key)
        .env("OPENAI_HOST", format!("http://127.0.0.1:{port}"))
        .args(["run", "--no-session", "--text", "go"])
}

/// An installed peer.
pub(super) struct Peer {
    pub(super) name: &'static str,
    program: PathBuf,
    ask: fn(Measured, &Path, u16) -> Measured,
}

impl Peer {
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Asks the model at `port` once, with a home that lives as long as this run, and nothing of
    /// the peer running before.
    pub(super) fn ask(&self, port: u16) -> Result<Cost> {
        let folder = super::scratch()?;
        let measured = Measured::new(&self.program, folder.path())?.env("HOME", folder.path());
        (self.ask)(measured, folder.path(), port).run()
    }
}

/// All peers that are installed.
pub(super) struct Peers {
    found: Vec<Peer>,
}

impl Peers {
    pub(super) fn find(folder: Option<PathBuf>) -> Self {
        let locate = |kind: &Kind| {
            let installed = folder
                .as_ref()
                .map(|folder| folder.join(kind.name).join(kind.inside));
            installed
                .filter(|path| path.is_file())
                .or_else(|| command::find(kind.name, &[]))
        };
        let found = KINDS.iter().filter_map(|kind| {
            Some(Peer {
                name: kind.name,
                program: locate(kind)?,
                ask: kind.ask,
            })
        });
        Self {
            found: found.collect(),
        }
    }

    pub(super) fn all(&self) -> &[Peer] {
        &self.found
    }

    pub(super) fn named(&self, name: &str) -> Option<&Peer> {
        self.found.iter().find(|peer| peer.name == name)
    }

    /// What each calls itself.
    pub(super) fn versions(&self) -> Vec<String> {
        let version = |peer: &Peer| {
            let printed = command::output(command::program(&peer.program).arg("--version"));
            format!("{} {}", peer.name, printed.unwrap_or_default().trim())
        };
        self.found.iter().map(version).collect()
    }

    pub(super) fn absent(&self) -> Vec<String> {
        let absent = |kind: &&Kind| self.named(kind.name).is_none();
        let named = |kind: &Kind| kind.name.to_owned();
        KINDS.iter().filter(absent).map(named).collect()
    }
}
