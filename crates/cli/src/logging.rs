//! Logs go to files, never to the terminal. `BEZEL_LOG` sets the level: `debug`, or `bezel_rpc=trace,warn`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bezel_telemetry::Reading;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::paths::create_private;
use crate::telemetry;

/// Bytes after which a log is moved aside when it is opened; one older file is kept.
const ROTATE_AT: u64 = 8 * 1024 * 1024;

/// Where a process writes its log.
pub enum Target {
    /// To a file that is opened at the first line; for processes that seldom log.
    File(PathBuf),
    /// To standard error, which the starter of this process has pointed at a file.
    StandardError,
}

/// A level that `BEZEL_LOG` cannot mean.
#[derive(Debug, thiserror::Error)]
#[error(
    "BEZEL_LOG={text:?} is not a log level ({reason}): write for example `debug` or `bezel_rpc=trace,info`"
)]
pub struct LevelError {
    text: String,
    reason: String,
}

/// Sends this process's log to `target`, and its spans nowhere.
pub fn start(target: Target) -> Result<(), LevelError> {
    start_with_spans(target, Reading::default())
}

/// Sends this process's log to `target`, and its spans where `asked` says.
pub fn start_with_spans(target: Target, asked: Reading) -> Result<(), LevelError> {
    let levels = levels(std::env::var("BEZEL_LOG").ok().as_deref())?;
    let writer = match target {
        Target::File(path) => BoxMakeWriter::new(Lazy::new(path)),
        Target::StandardError => BoxMakeWriter::new(io::stderr),
    };
    let registry = tracing_subscriber::registry();
    // A filter of its own costs a layer something at each span: only where there are two layers.
    let outcome = match asked.settings {
        None => registry.with(levels).with(lines(writer)).try_init(),
        Some(settings) => {
            let spans = telemetry::start(settings).layer();
            registry
                .with(lines(writer).with_filter(levels))
                .with(spans)
                .try_init()
        }
    };
    // Only a second call in one process fails; the first one's log goes on.
    if outcome.is_ok() {
        log_panics();
    }
    for notice in asked.notices {
        tracing::warn!(target: "bezel", "{notice}");
    }
    Ok(())
}

/// One line for each message.
fn lines<S>(writer: BoxMakeWriter) -> impl tracing_subscriber::Layer<S> + Send + Sync
where
    S: tracing::Subscriber + for<'s> LookupSpan<'s>,
{
    tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(true)
        .with_writer(writer)
}

/// A log file to append to, moved aside first when it has grown large. Readable by the user alone.
pub fn open(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        create_private(directory).map_err(io::Error::other)?;
    }
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > ROTATE_AT) {
        std::fs::rename(path, path.with_extension("log.old"))?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

/// The last lines of what was written to a log from byte `begin` on; empty where it cannot be read.
pub fn tail(log: &Path, begin: u64, lines: usize) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(log)?;
        file.seek(SeekFrom::Start(begin))?;
        let mut bytes = Vec::new();
        file.take(64 * 1024).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn levels(text: Option<&str>) -> Result<Targets, LevelError> {
    match text.filter(|text| !text.trim().is_empty()) {
        None => Ok(Targets::new()
            .with_default(LevelFilter::WARN)
            .with_target("bezel", LevelFilter::INFO)),
        Some(text) => {
            let wrong = |reason: String| LevelError {
                text: text.to_owned(),
                reason,
            };
            // Alone, a word could also name a target; it is more likely a misspelt level.
            for word in text
                .split(',')
                .map(str::trim)
                .filter(|word| !word.contains('='))
            {
                word.parse::<LevelFilter>()
                    .map_err(|error| wrong(format!("`{word}`: {error}")))?;
            }
            text.parse().map_err(|error| wrong(format!("{error}")))
        }
    }
}

fn log_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!(target: "bezel", "{panic}\n{}", std::backtrace::Backtrace::force_capture());
        before(panic);
    }));
}

/// Opens its file when there is something to write. A log that cannot be opened is no reason to fail.
struct Lazy {
    path: PathBuf,
    file: OnceLock<Option<File>>,
}

impl Lazy {
    fn new(path: PathBuf) -> Self {
        Lazy {
            path,
            file: OnceLock::new(),
        }
    }
}

impl<'a> MakeWriter<'a> for Lazy {
    type Writer = Box<dyn Write + 'a>;

    fn make_writer(&'a self) -> Self::Writer {
        match self.file.get_or_init(|| open(&self.path).ok()) {
            Some(file) => Box::new(file),
            None => Box::new(io::sink()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_level_is_refused_with_an_example() {
        assert!(levels(Some("bezel_rpc=trace,warn")).is_ok());
        let error = levels(Some("lots")).unwrap_err().to_string();
        assert!(error.contains("lots") && error.contains("debug"), "{error}");
    }

    #[test]
    fn a_large_log_is_moved_aside_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs/server.log");
        open(&path).unwrap().set_len(ROTATE_AT + 1).unwrap();
        writeln!(open(&path).unwrap(), "fresh").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "fresh\n");
        assert!(path.with_extension("log.old").exists());
    }
}
