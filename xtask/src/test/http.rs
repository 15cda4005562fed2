//! A served Bezel and schemathesis, which reads its OpenAPI document and asks it everything that may go wrong.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::tools;
use crate::command;
use crate::run::{self, Profile};
use crate::workspace::Workspace;

/// One run is as the next; it is printed, so that a finding can be had again.
const SEED: &str = "2718281828";
/// Requests per operation and phase.
const EXAMPLES: &str = "5";
/// Operations that are not asked: a stream never ends, nor does a run that waits for somebody's leave, and who ends
/// the process or the session that the others ask makes them fail. Two take integers beyond 2^53, which their schemas
/// leave out.
const LEFT_OUT: &[&str] = &[
    "blobs_put",
    "chat_wait_idle",
    "tree_outline",
    "session_directory_events",
    "session_directory_follow",
    "session_events",
    "session_management_remove",
    "session_process_renew",
];
/// For one answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Serves a project with a model that needs no network, and lets schemathesis at it.
pub(super) fn schemathesis(workspace: &Workspace) -> Result<()> {
    let packages = tools::ensure_schemathesis(workspace)?;
    let bezel = run::build(workspace, Profile::Dev, "bezel")?;
    // Short, for the socket's sake.
    let mut scratch = tempfile::Builder::new();
    let scratch = scratch.prefix("bz").tempdir_in("/tmp")?;
    let project = scratch.path().join("project");
    std::fs::create_dir_all(&project)?;
    let home = scratch.path().join("b");
    std::fs::create_dir_all(&home)?;
    std::fs::write(home.join("config.toml"), "model = \"scripted::tour\"\n")?;
    let at = |arguments: &[&str]| {
        let mut program = command::program(&bezel);
        program
            .args(arguments)
            .current_dir(&project)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", scratch.path())
            .env("BEZEL_HOME", &home)
            .stdin(Stdio::null());
        program
    };
    let mut serve = at(&["serve", "--listen", "127.0.0.1:0"]);
    let server = Serving::start(
        serve
            .stdout(Stdio::piped())
            .spawn()
            .context("start the server")?,
    )?;
    // Bound to the project, so that nothing that it is asked reaches further.
    let code = command::output(&mut at(&[
        "access", "pair", "--cwd", ".", "--scopes", "operate",
    ]))?;
    let paired = server.post("/v1/pair", "", &json!({ "code": code.trim() }))?;
    let token = text(&paired, "token")?;
    let create = json!({ "options": { "directory": ".", "title": "asked" } });
    let created = server.post("/v1/server/session-management/create", &token, &create)?;
    let session = text(&created, "session_id")?;
    let hooks = workspace.root().join("xtask/schemathesis.py");
    let settings = scratch.path().join("schemathesis.toml");
    std::fs::write(&settings, configuration(&hooks, &session))?;
    let mut asks = command::program("python3");
    asks.current_dir(scratch.path())
        .env("PYTHONPATH", &packages)
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(&settings)
        .arg("run")
        .arg(format!("{}/v1/openapi.json", server.url))
        .args(["--phases", "examples,coverage,fuzzing"])
        .args(["--seed", SEED, "--max-examples", EXAMPLES])
        .args(["--continue-on-failure", "--request-timeout", "20"]);
    for operation in LEFT_OUT {
        asks.args(["--exclude-operation-id", operation]);
    }
    eprintln!(
        "$ python3 -m schemathesis.cli run … --seed {SEED} (without {})",
        LEFT_OUT.join(", ")
    );
    asks.env("BEZEL_TOKEN", &token);
    let status = asks.status().context("start schemathesis")?;
    // With its workers, which a signal would leave.
    command::output(&mut at(&["server", "stop"]))?;
    if !status.success() {
        bail!("schemathesis found what does not hold, see above (it ended with {status})");
    }
    Ok(())
}

/// What a request needs that no schema can say: a token, and a session that is there.
fn configuration(hooks: &Path, session: &str) -> String {
    let hooks = hooks.display();
    format!(
        r#"
hooks = "{hooks}"
headers = {{ Authorization = "Bearer ${{BEZEL_TOKEN}}" }}

[parameters]
"path.session_id" = "{session}"

[checks.positive_data_acceptance]
# A contract's own error is an answer to good arguments too.
expected-statuses = ["2xx", "401", "403", "404", "409", "422"]
"#
    )
}

fn text(answer: &Value, field: &str) -> Result<String> {
    let found = answer[field].as_str().map(str::to_owned);
    found.with_context(|| format!("the server's answer has no {field}: {answer}"))
}

/// A server in the foreground. Dropping it ends it.
struct Serving {
    child: Child,
    url: String,
}

impl Serving {
    fn start(mut child: Child) -> Result<Self> {
        let output = child.stdout.take().context("the server has no output")?;
        let mut serving = Serving {
            child,
            url: String::new(),
        };
        for line in BufReader::new(output).lines() {
            if let Some((_, url)) = line?.split_once("serves at ") {
                serving.url = url.to_owned();
                return Ok(serving);
            }
        }
        bail!("the server ended before it said where it serves")
    }

    /// One request; the answer's body, where it is a success.
    fn post(&self, path: &str, token: &str, body: &Value) -> Result<Value> {
        let host = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let body = body.to_string();
        let authorization = match token {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {host}\r\n{authorization}Content-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .context("the answer has no end")?;
        if !head.starts_with("HTTP/1.1 200 ") {
            bail!("{path} was answered with {head}\n{body}");
        }
        Ok(serde_json::from_str(body)?)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let ended = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(self.child.id().cast_signed()),
            nix::sys::signal::Signal::SIGTERM,
        );
        if ended.is_err() || self.child.wait().is_err() {
            eprintln!("the server had ended already");
        }
    }
}
