//! Details of shell commands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One shell command. As progress it says what runs; as a result, how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BashDetails {
    /// The command as it was given; the start of a very long one.
    pub command: String,
    /// Absolute directory in which it started.
    pub directory: String,
    /// How it stands.
    pub status: CommandStatus,
    /// Since its start, in milliseconds.
    pub duration_ms: u64,
    /// Bytes of output so far, stdout and stderr together.
    pub output_bytes: u64,
    /// Where the whole output is, when it was too long to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_file: Option<String>,
    /// What `bash_output` and `bash_kill` call it, when it goes on in the background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_id: Option<String>,
}

/// How a command stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CommandStatus {
    /// It runs.
    Running,
    /// It ended by itself.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// A signal ended it that did not come from the agent.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// It was ended because its time was over.
    TimedOut {
        /// The limit in milliseconds.
        after_ms: u64,
    },
    /// It was ended on request, or with its session.
    Killed,
    /// It was ended because it wrote more than may be saved.
    OutputLimit {
        /// The limit in bytes.
        limit_bytes: u64,
    },
}

/// A background command that was looked at or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackgroundDetails {
    /// What the model calls it.
    pub id: String,
    /// The command, its state and its output so far.
    pub command: BashDetails,
    /// Bytes of output that this call showed or passed over.
    pub new_bytes: u64,
}
