//! One program measured from its start to its end, with everything that it leaves running.
//!
//! The measurement is a process of its own, `xtask measure`: resource usage of children is counted
//! per process, a program started from a large one would inherit its peak memory, and a subreaper
//! inherits what the program leaves behind, so that its cost is counted and it can be ended by id.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike as _;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::{measuring_program, processes};

/// The name of the measuring command. No person calls it.
pub(crate) const COMMAND: &str = "measure";

/// How long what was left running may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a program cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Cost {
    /// Seconds from its start to its own end.
    pub(super) wall: f64,
    /// Processor seconds up to then: its own, its children's, and of what it left running.
    pub(super) processor: f64,
    /// Memory of the largest process, in KiB.
    pub(super) peak: i64,
    /// How many processes it left running; they have been ended.
    pub(super) left: usize,
}

/// A program to measure.
pub(super) struct Measured {
    command: Command,
    result: tempfile::NamedTempFile,
    output: PathBuf,
}

impl Measured {
    /// Measures `program` in `directory`; its output goes to a file there.
    pub(super) fn new(program: &Path, directory: &Path) -> Result<Self> {
        let result = tempfile::NamedTempFile::new().context("make a file for the result")?;
        let output = directory.join("measured-output");
        let mut command = measuring_program()?;
        command
            .arg(result.path())
            .arg(&output)
            .arg(program)
            .current_dir(directory);
        Ok(Self {
            command,
            result,
            output,
        })
    }

    pub(super) fn args<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.command.args(arguments);
        self
    }

    pub(super) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it. Fails with the end of its output unless it exits with 0.
    pub(super) fn run(mut self) -> Result<Cost> {
        let status = self
            .command
            .stdin(Stdio::null())
            .status()
            .context("start the measurement")?;
        if !status.success() {
            let printed = std::fs::read(&self.output).unwrap_or_default();
            let tail = printed.len().saturating_sub(2_000);
            let tail = String::from_utf8_lossy(printed.get(tail..).unwrap_or_default());
            bail!("{:?} failed; it printed:\n{tail}", self.command);
        }
        let text = std::fs::read_to_string(self.result.path()).context("read the result")?;
        serde_json::from_str(&text).context("parse the result")
    }
}

/// `measure RESULT OUTPUT PROGRAM ARGUMENT…`: the process that measures.
pub(crate) fn command(arguments: &[String]) -> Result<ExitCode> {
    let [result, output, program, rest @ ..] = arguments else {
        bail!("{COMMAND} takes RESULT OUTPUT PROGRAM [ARGUMENT]…");
    };
    prctl::set_child_subreaper(true).context("become a subreaper")?;
    let sink = File::create(output).with_context(|| format!("create {output}"))?;
    let errors = sink.try_clone().context("share the output file")?;
    let started = Instant::now();
    let mut child = Command::new(program)
        .args(rest)
        .stdin(Stdio::null())
        .stdout(sink)
        .stderr(errors)
        .spawn()
        .with_context(|| format!("start {program}"))?;
    let status = child
        .wait()
        .with_context(|| format!("wait for {program}"))?;
    let wall = started.elapsed().as_secs_f64();
    let own = Pid::from_raw(std::process::id().cast_signed());
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("read the resource usage")?;
    let living = processes::descendants(own)?;
    let reaped = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    let cost = Cost {
        wall,
        processor: reaped as f64 / 1e6 + processes::processor_seconds_of(&living),
        peak: usage.max_rss(),
        left: living.len(),
    };
    end_all(own, &living)?;
    std::fs::write(result, serde_json::to_vec(&cost)?)
        .with_context(|| format!("write {result}"))?;
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Asks these descendants to end and waits until none is left; past the patience they are killed.
fn end_all(own: Pid, living: &[Pid]) -> Result<()> {
    signal_all(living, Signal::SIGTERM)?;
    let (done, ended) = mpsc::channel::<()>();
    let watch = std::thread::spawn(move || match ended.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => {
            signal_all(&processes::descendants(own)?, Signal::SIGKILL)
        }
        _ => Ok(()),
    });
    loop {
        match waitpid(None, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(Errno::ECHILD) => break,
            Err(error) => return Err(error).context("wait for what was left running"),
        }
    }
    drop(done);
    watch.join().expect("the watch does not panic")
}

/// Sends each of these processes the signal; one that has ended is none the worse.
pub(super) fn signal_all(pids: &[Pid], signal: Signal) -> Result<()> {
    for pid in pids {
        match kill(*pid, signal) {
            // It ended by itself.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error).with_context(|| format!("end process {pid}")),
        }
    }
    Ok(())
}
