//! `bash_output`: what a background command has written since the last look, and how it stands.

use std::path::Path;
use std::time::Duration;

use bezel_context::Context;
use bezel_session_types::{
    Access, ExecutionMode, Replay, Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec,
};
use bezel_tools_contract::{CommandStatus, ToolDetails};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::bash::status_line;
use crate::command::{Background, Commands};
use crate::{ToolShared, schema};

/// Longest wait in seconds.
const MOST_SECONDS: u64 = 600;

const DESCRIPTION: &str = r#"
Reads what a background command has written since you last looked, and says whether it still runs.

- `id` is what `bash` returned.
- With `wait` the call waits up to that many seconds for the command to end, and returns early when it does. Use it for a job whose end you need; do not look again and again in a loop.
- Without `wait` it returns at once, which suits a server that never ends.
"#;

/// Arguments of `bash_output`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The id of the background command, such as "bash_1".
    id: String,
    /// Seconds to wait for the command to end. Default: 0, at most 600.
    #[schemars(range(max = 600))]
    wait: Option<u64>,
}

/// The tool.
pub(crate) struct BashOutput {
    spec: ToolSpec,
    shared: ToolShared,
}

impl BashOutput {
    pub(crate) fn new(shared: ToolShared) -> Self {
        let spec = schema::spec::<Arguments>(
            "Command output",
            DESCRIPTION,
            ExecutionMode::Parallel,
            Replay::Never,
        );
        BashOutput { spec, shared }
    }
}

impl Tool for BashOutput {
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
            let background = find(&self.shared.commands, &arguments.id)?;
            let seconds = arguments.wait.unwrap_or(0).min(MOST_SECONDS);
            if seconds > 0 {
                let mut status = background.state.watch();
                let over = status.wait_for(|standing| standing.status != CommandStatus::Running);
                let over = tokio::time::timeout(Duration::from_secs(seconds), over);
                // A passed time is no failure: the command still runs then.
                if cx.run(over).await.is_err() {
                    return Err(ToolError::Interrupted);
                }
            }
            // What the command has written already is taken in before the look.
            tokio::task::yield_now().await;
            Ok(report(&background))
        })
    }

    fn accesses(&self, _arguments: &Value, _directory: &Path) -> Option<Vec<Access>> {
        Some(Vec::new())
    }
}

/// The background command that a model names.
pub(crate) fn find(commands: &Commands, id: &str) -> Result<Background, ToolError> {
    commands.find(id).map_err(|known| {
        let known = if known.is_empty() {
            "There is none in this session; a command goes there when bash is called with `background`.".into()
        } else {
            format!("There are {}.", known.join(", "))
        };
        ToolError::failed(format!("There is no background command {id:?}. {known}"))
    })
}

/// The unseen output and the state of a command.
pub(crate) fn report(background: &Background) -> ToolOutput {
    // The status first: output that comes after it is shown next time, and none is lost.
    let details = background.details(0);
    let (excerpt, new_bytes) = background.unseen();
    let output = excerpt.text.trim_end_matches('\n');
    let output = if output.trim().is_empty() {
        "(no new output)"
    } else {
        output
    };
    let status = status_line(&details.command.status, details.command.duration_ms);
    let status = status.unwrap_or_else(|| "exit code 0".into());
    let mut command = details.command;
    command.output_bytes = background.state.spool.total();
    command.saved_file = excerpt
        .saved
        .map(|path| path.display().to_string())
        .or(command.saved_file);
    let details = bezel_tools_contract::BackgroundDetails {
        id: details.id,
        command,
        new_bytes,
    };
    ToolOutput::text(format!("{output}\n\n[{}: {status}]", background.id))
        .with_details(ToolDetails::Background(details).to_value())
}
