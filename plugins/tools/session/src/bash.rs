//! `bash`: runs a command.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bezel_context::Context;
use bezel_session_types::{
    Access, ExecutionMode, Progress, Replay, Resource, Tool, ToolError, ToolHost, ToolInvocation,
    ToolOutput, ToolSpec,
};
use bezel_tools_contract::{BashDetails, CommandStatus, ToolDetails};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::bound::size;
use crate::command::{
    Feed, Followed, JobState, Launched, Place, StartError, Waited, complete_length, plain_text,
    skipped,
};
use crate::{ToolShared, schema};

/// Seconds that a command gets when the model does not say.
const DEFAULT_SECONDS: u64 = 120;
/// Seconds that it gets at most.
const MOST_SECONDS: u64 = 600;
/// Nothing is shown of a command that ends before this.
const FIRST_FEED: Duration = Duration::from_millis(100);
/// Pause between two reports of progress.
const FEED_PAUSE: Duration = Duration::from_millis(50);
/// Bytes of one report; output between two reports beyond that is passed over.
const FEED_BYTES: u64 = 8 * 1024;

const DESCRIPTION: &str = r#"
Runs a command in bash and returns what it writes to stdout and stderr, with its exit code unless that is 0.

- Each call starts a new shell in the directory in which the last one ended: `cd` lasts, variables and functions do not. Paths with spaces need quotes.
- There is no terminal and no input: use the options that keep a program from asking (`-y`, `--no-pager`, `git commit -m`), and no editors or other programs for a screen.
- For files use the fitting tools, which are faster and safer: `read` and not cat or head, `grep` and `glob` and not grep, rg or find, `edit` and `write` and not sed or echo.
- Commands that depend on each other go into one call, joined with `&&`. Independent ones can be made as several calls in one step; they then run side by side.
- A command that runs longer than `timeout` seconds (default 120, at most 600) is ended with all its processes. Give a build or a test suite the time that it needs.
- With `background` the call returns at once with an id, for a server or a long job: read its output with `bash_output`, end it with `bash_kill`. Do not add `&` then. Background commands end with the session.
- Long output is cut in the middle for you; the whole is saved in a file that the result names. Do not pipe through head or tail to save room.
"#;

/// Arguments of `bash`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The command, as you would type it in bash; it may have several lines.
    command: String,
    /// What the command does, in five to ten words, for the user who sees it run: "Run the parser's tests".
    #[expect(dead_code, reason = "presentations read it from the call's arguments")]
    description: Option<String>,
    /// Seconds after which the command is ended. Default: 120, at most 600. In the background there is no limit unless you set one.
    #[schemars(range(min = 1, max = 600))]
    timeout: Option<u64>,
    /// Return at once and let the command go on in the background. Default: false.
    background: Option<bool>,
}

/// The tool.
pub(crate) struct Bash {
    spec: ToolSpec,
    shared: ToolShared,
}

impl Bash {
    pub(crate) fn new(shared: ToolShared) -> Self {
        let spec =
            schema::spec::<Arguments>("Bash", DESCRIPTION, ExecutionMode::Parallel, Replay::Never);
        Bash { spec, shared }
    }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute(
        &self,
        cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments: Arguments = schema::arguments(&invocation)?;
            if arguments.command.trim().is_empty() {
                return Err(ToolError::failed("The command is empty. Say what to run."));
            }
            if arguments.command.contains('\0') {
                return Err(ToolError::failed(
                    "The command holds a NUL character, which no shell takes. Write it as an escape, such as printf '\\\\0'.",
                ));
            }
            if cx.is_cancelled() {
                return Err(ToolError::Interrupted);
            }
            let place = self.place(&invocation);
            let launched =
                self.shared
                    .commands
                    .launch(&invocation, &arguments.command, &place.directory)?;
            if arguments.background.unwrap_or(false) {
                return self.background(launched, &place, arguments.timeout);
            }
            let seconds = arguments
                .timeout
                .unwrap_or(DEFAULT_SECONDS)
                .clamp(1, MOST_SECONDS);
            self.foreground(
                &cx,
                &invocation,
                launched,
                &place,
                Duration::from_secs(seconds),
            )
            .await
        })
    }

    fn accesses(&self, arguments: &Value, directory: &Path) -> Option<Vec<Access>> {
        let arguments = Arguments::deserialize(arguments).ok()?;
        let directory = self.shared.commands.directory(directory);
        Some(vec![Access::shell(arguments.command, directory)])
    }
}

impl From<StartError> for ToolError {
    fn from(error: StartError) -> Self {
        ToolError::failed(error.to_string())
    }
}

impl Bash {
    /// Where a call runs: in the directory in which it was judged, wherever another call went meanwhile.
    fn place(&self, invocation: &ToolInvocation) -> Place {
        let place = self.shared.commands.place(invocation.host.directory());
        let mut judged = invocation
            .accesses
            .iter()
            .flat_map(|accesses| accesses.iter());
        let judged = judged.find_map(|access| match &access.resource {
            Resource::Command { directory, .. } => Some(directory),
            _ => None,
        });
        match judged {
            Some(directory) if *directory != place.directory => Place {
                directory: directory.clone(),
                gone: None,
            },
            _ => place,
        }
    }

    fn background(
        &self,
        launched: Launched,
        place: &Place,
        timeout: Option<u64>,
    ) -> Result<ToolOutput, ToolError> {
        let time_out = timeout.map(|seconds| Duration::from_secs(seconds.clamp(1, MOST_SECONDS)));
        let background = self.shared.commands.keep(launched, time_out)?;
        let details = background.state.details(None, Some(background.id.clone()));
        let text = format!(
            "{}Started in the background as {}. Read its output with bash_output, end it with bash_kill.",
            gone(place),
            background.id
        );
        Ok(ToolOutput::text(text).with_details(ToolDetails::Bash(details).to_value()))
    }

    async fn foreground(
        &self,
        cx: &Context,
        invocation: &ToolInvocation,
        mut launched: Launched,
        place: &Place,
        time_out: Duration,
    ) -> Result<ToolOutput, ToolError> {
        let state = Arc::clone(&launched.job.state);
        let mut feed = ProgressFeed {
            host: Arc::clone(&invocation.host),
            sent: 0,
            next: Instant::now() + FIRST_FEED,
            announced: false,
        };
        let waited = launched.job.wait(cx, Some(time_out), false, Some(&mut feed)).await.map_err(|error| {
            ToolError::failed(format!("The output of the command could not be read, so it was ended: {error}. Try again."))
        })?;
        let commands = &self.shared.commands;
        let (status, background) = match waited {
            Waited::Cancelled => {
                state.settle(CommandStatus::Killed);
                return Err(ToolError::Interrupted);
            }
            Waited::Ended(status) => {
                commands.settled(&launched.job);
                state.settle(status.clone());
                (status, None)
            }
            Waited::Lingers(status) => (status, Some(())),
        };
        let moved = commands.follow(&launched);
        let survivors = std::mem::take(&mut launched.job.survivors);
        let excerpt = state.spool.excerpt(0);
        let background = match background {
            Some(()) => {
                let background = commands.keep(launched, None)?;
                background.see_all();
                Some(background.id)
            }
            None => None,
        };
        let mut details = state.details(excerpt.saved, background.clone());
        details.status = status.clone();
        let said = Said {
            place,
            status: &status,
            followed: &moved,
            background: background.as_deref(),
            survivors: &survivors,
        };
        let text = said.text(&excerpt.text, &details);
        let details = ToolDetails::Bash(details).to_value();
        match status {
            CommandStatus::Exited { .. }
            | CommandStatus::Signalled { .. }
            | CommandStatus::Running => Ok(ToolOutput::text(text).with_details(details)),
            _ => Err(ToolError::Failed {
                message: text,
                details,
            }),
        }
    }
}

/// What a result says besides the output.
struct Said<'a> {
    place: &'a Place,
    status: &'a CommandStatus,
    followed: &'a Followed,
    background: Option<&'a str>,
    survivors: &'a [i32],
}

impl Said<'_> {
    fn text(&self, output: &str, details: &BashDetails) -> String {
        let mut text = gone(self.place);
        text += if output.trim().is_empty() {
            "(no output)"
        } else {
            output.trim_end_matches('\n')
        };
        text.push('\n');
        if let Some(status) = status_line(self.status, details.duration_ms) {
            text += &format!("\n[{status}]");
        }
        match self.followed {
            Followed::Stayed => {}
            Followed::Moved(directory) => {
                text += &format!("\n[working directory is now {}]", directory.display());
            }
            Followed::Lost => {
                text += &format!(
                    "\n[the command changed the working directory, which could not be noted in {}: make room there; the next command starts where this one did]",
                    std::env::temp_dir().display()
                );
            }
        }
        if let Some(id) = self.background {
            text += &format!(
                "\n[processes that the command started still run, in the background as {id}: read their output with bash_output, end them with bash_kill]"
            );
        }
        if !self.survivors.is_empty() {
            let pids: Vec<String> = self.survivors.iter().map(i32::to_string).collect();
            text += &format!(
                "\n[could not end the processes {}; they may belong to another user]",
                pids.join(", ")
            );
        }
        text
    }
}

/// How a command ended, for the model; `None` for success.
pub(crate) fn status_line(status: &CommandStatus, took_ms: u64) -> Option<String> {
    let seconds = |ms: u64| format!("{:.1} s", ms as f64 / 1_000.0);
    Some(match status {
        CommandStatus::Exited { code: 0 } => return None,
        CommandStatus::Exited { code: 127 } => {
            "exit code 127: command not found, or it could not be run".into()
        }
        CommandStatus::Exited { code } => format!("exit code {code}"),
        CommandStatus::Signalled { signal } => format!("ended by signal {signal}"),
        CommandStatus::TimedOut { after_ms } => format!(
            "timed out: ended with all its processes after {}. Set a longer `timeout` (at most {MOST_SECONDS} seconds), or run it with `background`",
            seconds(*after_ms)
        ),
        CommandStatus::OutputLimit { limit_bytes } => format!(
            "ended with all its processes, because it wrote more than {}. Limit what it writes",
            size(*limit_bytes)
        ),
        CommandStatus::Killed => format!("ended on request after {}", seconds(took_ms)),
        CommandStatus::Running => format!("still running after {}", seconds(took_ms)),
    })
}

fn gone(place: &Place) -> String {
    match &place.gone {
        Some(gone) => format!(
            "[{} no longer exists; the command ran in {}]\n",
            gone.display(),
            place.directory.display()
        ),
        None => String::new(),
    }
}

/// Shows output while the command runs: in small bundles, a few times a second, the latest first in importance.
struct ProgressFeed {
    host: Arc<dyn ToolHost>,
    sent: u64,
    next: Instant,
    announced: bool,
}

impl Feed for ProgressFeed {
    fn due(&self, state: &JobState) -> Option<Instant> {
        (!self.announced || state.spool.total() > self.sent).then_some(self.next)
    }

    fn feed(&mut self, state: &JobState) {
        self.next = Instant::now() + FEED_PAUSE;
        if !self.announced {
            self.announced = true;
            self.host.progress(Progress::Details(
                ToolDetails::Bash(state.details(None, None)).to_value(),
            ));
        }
        let total = state.spool.total();
        let from = self.sent.max(total.saturating_sub(FEED_BYTES));
        let bytes = state.spool.slice(from, total);
        let bytes = &bytes[..complete_length(&bytes)];
        if bytes.is_empty() {
            self.sent = self.sent.max(from);
            return;
        }
        let mut text = if from > self.sent {
            skipped(from - self.sent)
        } else {
            String::new()
        };
        text += &plain_text(bytes);
        self.sent = from + bytes.len() as u64;
        self.host.progress(Progress::Append(text));
    }
}
