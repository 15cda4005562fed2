//! `bash_kill`: ends a background command with all its processes.

use std::path::Path;

use bezel_context::Context;
use bezel_session_types::{
    Access, ExecutionMode, Replay, Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec,
};
use bezel_tools_contract::CommandStatus;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::bash_output::{find, report};
use crate::{ToolShared, schema};

const DESCRIPTION: &str = r#"
Ends a background command with all its processes and returns the output that you have not seen yet.

- `id` is what `bash` returned. A command that has ended already is no error.
- End servers and watchers that you started and no longer need.
"#;

/// Arguments of `bash_kill`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The id of the background command, such as "bash_1".
    id: String,
}

/// The tool.
pub(crate) struct BashKill {
    spec: ToolSpec,
    shared: ToolShared,
}

impl BashKill {
    pub(crate) fn new(shared: ToolShared) -> Self {
        let spec = schema::spec::<Arguments>(
            "End command",
            DESCRIPTION,
            ExecutionMode::Parallel,
            Replay::Never,
        );
        BashKill { spec, shared }
    }
}

impl Tool for BashKill {
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
            background.cancel();
            let mut status = background.state.watch();
            let over = status.wait_for(|standing| standing.status != CommandStatus::Running);
            if cx.run(over).await.is_err() {
                return Err(ToolError::Interrupted);
            }
            Ok(report(&background))
        })
    }

    fn accesses(&self, _arguments: &Value, _directory: &Path) -> Option<Vec<Access>> {
        Some(Vec::new())
    }
}
