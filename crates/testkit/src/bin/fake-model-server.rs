//! The fake model server as a program, for end-to-end tests.
//!
//! `fake-model-server SCRIPT.json|- [--port PORT] [--log FILE] [--until-stdin-ends]` prints its port on one
//! line and serves until it is killed, or until whoever started it closes its standard input or dies.
//! `SCRIPT.json` is what `Script::from_json` reads; `-` repeats a short text. The log gets one JSON line a
//! request, `{ "number", "path", "body", "closed_early" }`, when it arrives and again when it was closed early.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use bezel_testkit::{FakeModelServer, RecordedRequest, Script, Turn};
use serde_json::json;
use tokio::io::AsyncReadExt;

const HELP: &str = "\
usage: fake-model-server SCRIPT.json|- [--port PORT] [--log FILE] [--until-stdin-ends]

Prints its port on one line and answers like a model server, in every wire format.

  SCRIPT.json          what to answer, turn by turn; `-` repeats a short text
  --port PORT          listen there instead of on a free port
  --log FILE           write one JSON line a request
  --until-stdin-ends   end once standard input is closed
";

#[derive(Debug, thiserror::Error)]
enum ProgramError {
    #[error("{}", HELP.lines().next().unwrap_or_default())]
    Usage,
    #[error("reading the script {path}: {cause}")]
    Read {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error(transparent)]
    Script(#[from] bezel_testkit::ScriptError),
    #[error("serving: {0}")]
    Serve(#[from] std::io::Error),
}

struct Arguments {
    script: Script,
    port: u16,
    log: Option<PathBuf>,
    until_stdin_ends: bool,
}

fn arguments() -> Result<Arguments, ProgramError> {
    let mut words = std::env::args().skip(1);
    let path = PathBuf::from(words.next().ok_or(ProgramError::Usage)?);
    let script = if path.as_os_str() == "-" {
        Script::repeating(Turn::text("A short answer."))
    } else {
        let text = std::fs::read_to_string(&path);
        Script::from_json(&text.map_err(|cause| ProgramError::Read { path, cause })?)?
    };
    let mut arguments = Arguments {
        script,
        port: 0,
        log: None,
        until_stdin_ends: false,
    };
    while let Some(option) = words.next() {
        match option.as_str() {
            "--until-stdin-ends" => arguments.until_stdin_ends = true,
            "--port" => {
                let port = words.next().and_then(|port| port.parse().ok());
                arguments.port = port.ok_or(ProgramError::Usage)?;
            }
            "--log" => arguments.log = Some(words.next().ok_or(ProgramError::Usage)?.into()),
            _ => return Err(ProgramError::Usage),
        }
    }
    Ok(arguments)
}

fn line(number: usize, request: &RecordedRequest) -> String {
    let closed_early = request.closed_early;
    json!({ "number": number, "path": request.path, "body": request.body, "closed_early": closed_early }).to_string()
}

async fn log(server: &FakeModelServer, path: PathBuf) -> Result<Infallible, ProgramError> {
    let mut file = std::fs::File::create(path)?;
    let mut changes = server.changes();
    let mut written = BTreeMap::new();
    loop {
        for (number, request) in server.requests().iter().enumerate() {
            if written.insert(number, request.closed_early) != Some(request.closed_early) {
                writeln!(file, "{}", line(number, request))?;
            }
        }
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn stdin_ends() -> Result<(), ProgramError> {
    let mut bytes = [0; 256];
    let mut input = tokio::io::stdin();
    while input.read(&mut bytes).await? > 0 {}
    Ok(())
}

async fn run() -> Result<(), ProgramError> {
    let arguments = arguments()?;
    let server = FakeModelServer::start_on(arguments.port, arguments.script).await?;
    println!("{}", server.address().port());
    std::io::stdout().flush()?;
    let logging = async {
        match arguments.log {
            Some(path) => log(&server, path).await,
            None => std::future::pending().await,
        }
    };
    let ending = async {
        if arguments.until_stdin_ends {
            stdin_ends().await
        } else {
            std::future::pending().await
        }
    };
    tokio::select! {
        ended = ending => ended,
        failed = logging => failed.map(|never| match never {}),
    }
}

fn main() -> ExitCode {
    if std::env::args()
        .skip(1)
        .any(|word| word == "--help" || word == "-h")
    {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = runtime
        .map_err(ProgramError::Serve)
        .and_then(|runtime| runtime.block_on(run()));
    if let Err(error) = outcome {
        eprintln!("fake-model-server: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
