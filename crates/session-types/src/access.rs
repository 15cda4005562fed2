//! What a tool call touches, and what a session may do unasked.

use std::borrow::Cow;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing that a tool call would do, as the tool itself says before it runs. Whoever judges calls reads
/// these and needs to know no tool.
///
/// A tool names everything that its arguments make it touch, and leaves nothing out that it cannot be sure of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// What is done: one of the words below, or the tool's own. Rules name it.
    pub action: Cow<'static, str>,
    /// What it is done to.
    pub resource: Resource,
}

impl Access {
    /// Looks into a file or a directory. The resource is a path.
    pub const READ: &str = "read";
    /// Makes, changes, moves or deletes a file. The resource is a path.
    pub const EDIT: &str = "edit";
    /// Runs a shell command. The resource is a command.
    pub const SHELL: &str = "shell";
    /// Asks another machine for something. The resource is a URL as text.
    pub const WEB: &str = "web";

    /// Looks into this path.
    pub fn read(path: impl Into<PathBuf>) -> Self {
        Access {
            action: Self::READ.into(),
            resource: Resource::Path(path.into()),
        }
    }

    /// Makes, changes, moves or deletes this path.
    pub fn edit(path: impl Into<PathBuf>) -> Self {
        Access {
            action: Self::EDIT.into(),
            resource: Resource::Path(path.into()),
        }
    }

    /// Runs this command line in this directory.
    pub fn shell(command: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        Access {
            action: Self::SHELL.into(),
            resource: Resource::Command {
                command: command.into(),
                directory: directory.into(),
            },
        }
    }
}

/// What an [`Access`] is to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// Anything, or something that cannot be told before the call runs.
    Any,
    /// A file or a directory, absolute; it need not exist, and links in it are not followed yet.
    Path(PathBuf),
    /// A command line in the grammar of bash.
    Command {
        /// As it will be run.
        command: String,
        /// Where it starts, absolute.
        directory: PathBuf,
    },
    /// Anything else that rules can match as text, such as a URL.
    Text(String),
}

/// What an agent may do unasked, the mode that allows least first. In every mode a configured rule that denies is
/// final.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// Look, but change nothing: what would change something is refused.
    Plan,
    /// Look at the project; everything else is asked for.
    #[default]
    Ask,
    /// As `ask`, and change files of the project.
    AcceptEdits,
    /// As `accept-edits`, and run commands that are known to stay inside the project.
    Auto,
    /// Everything.
    Full,
}

impl PermissionMode {
    /// All of them, from the one that allows least.
    pub const ALL: [PermissionMode; 5] = [
        PermissionMode::Plan,
        PermissionMode::Ask,
        PermissionMode::AcceptEdits,
        PermissionMode::Auto,
        PermissionMode::Full,
    ];

    /// The word that stands for it in flags, configuration and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            PermissionMode::Plan => "plan",
            PermissionMode::Ask => "ask",
            PermissionMode::AcceptEdits => "accept-edits",
            PermissionMode::Auto => "auto",
            PermissionMode::Full => "full",
        }
    }
}

impl std::fmt::Display for PermissionMode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}
