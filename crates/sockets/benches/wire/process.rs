//! Processes of a measurement: started, asked a line at a time, ended when they are dropped.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::samples::Answer;

/// The first argument of a process that plays a role.
pub const ROLE: &str = "--role";
/// What a process says once it can be used.
const READY: &str = "ready";

/// glibc copies page-aligned blocks twenty times slower on some processors without it; for all sides.
const TUNABLES: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.cpu.x86_rep_movsb_threshold=4000000000",
);

/// A role in its own process.
pub struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    what: String,
}

impl Process {
    /// This program in a role, once it is ready.
    pub fn play<const N: usize>(role: &str, arguments: [&str; N]) -> Result<Self> {
        let own = std::env::current_exe().context("find this program")?;
        let mut words = vec![ROLE, role];
        words.extend(arguments);
        Self::start(&own, &words)
    }

    /// Another program that says when it is ready.
    pub fn start(program: &Path, arguments: &[&str]) -> Result<Self> {
        let what = format!("{} {}", program.display(), arguments.join(" "));
        let mut child = Command::new(program)
            .args(arguments)
            .env(TUNABLES.0, TUNABLES.1)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {what}"))?;
        let input = child.stdin.take().context("its input is piped")?;
        let output = child.stdout.take().context("its output is piped")?;
        let mut process = Process {
            child,
            input,
            output: BufReader::new(output),
            what,
        };
        let said = process.line()?;
        ensure!(said == READY, "{} said `{said}`", process.what);
        Ok(process)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let length = self.output.read_line(&mut line)?;
        if length == 0 {
            bail!("{} ended", self.what);
        }
        Ok(line.trim_end().to_owned())
    }

    /// Asks for one measurement.
    pub fn ask(&mut self, question: &str) -> Result<Answer> {
        writeln!(self.input, "{question}").with_context(|| format!("ask {}", self.what))?;
        let line = self.line()?;
        serde_json::from_str(&line)
            .with_context(|| format!("{} answered `{question}` with `{line}`", self.what))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        if self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}

/// Lets this process end when the one that started it does, however that ends.
pub fn end_with_parent() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("follow the parent")
}

/// Says that this process can be used.
pub fn ready() -> Result<()> {
    say(READY)
}

fn say(line: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush().context("write to standard output")
}

/// Says that this process is ready, then answers questions until there are no more.
pub fn answer_questions(mut answer: impl FnMut(&str) -> Result<Answer>) -> Result<()> {
    ready()?;
    for line in std::io::stdin().lines() {
        let line = line.context("read a question")?;
        let found = answer(&line).with_context(|| format!("asked `{line}`"))?;
        say(&serde_json::to_string(&found)?)?;
    }
    Ok(())
}

/// Says that this process is ready, then waits until nobody needs it.
pub fn serve_until_unneeded() -> Result<()> {
    answer_questions(|question| bail!("there is nothing to answer to `{question}`"))
}
