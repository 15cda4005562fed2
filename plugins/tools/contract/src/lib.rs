//! Details that the built-in tools attach to their results, for renderers.
//!
//! A result's `details` is one [`ToolDetails`], tagged by `kind` and not by the tool's name, so that a
//! renamed tool still renders. The model never sees it, and no renderer reads the text that the model
//! gets. Unknown fields are ignored and additions are optional: old sessions keep rendering.

mod background;
mod command;
mod diff;
mod search;
mod todo;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use background::BackgroundCommands;
pub use command::{BackgroundDetails, BashDetails, CommandStatus};
pub use diff::{DiffHunk, DiffLine, DiffLineKind, FileAction, FileDiff};
pub use search::{GlobDetails, GrepDetails, GrepMode, LsDetails};
pub use todo::{TodoDetails, TodoItem, TodoStatus};

/// What a built-in tool tells renderers about one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToolDetails {
    /// `read`.
    Read(ReadDetails),
    /// `write`, `edit` and `apply_patch`: what changed, file by file, in the order of the call.
    Changes(ChangesDetails),
    /// `bash`, while it runs and when it has ended.
    Bash(BashDetails),
    /// `bash_output` and `bash_kill`.
    Background(BackgroundDetails),
    /// `grep`.
    Grep(GrepDetails),
    /// `glob`.
    Glob(GlobDetails),
    /// `ls`.
    Ls(LsDetails),
    /// `todo`.
    Todo(TodoDetails),
}

/// What `read` showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadDetails {
    /// Absolute.
    pub path: String,
    /// What the file turned out to be.
    pub content: ReadContent,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// What a read file turned out to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReadContent {
    /// Text.
    Text {
        /// First line shown, from 1; 0 when the file is empty.
        first_line: u64,
        /// Last line shown; 0 when the file is empty.
        last_line: u64,
        /// Lines of the whole file; absent when the file is too large to count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total_lines: Option<u64>,
        /// Lines that were cut because they are too long.
        #[serde(default)]
        cut_lines: u64,
        /// How the file encodes its text, such as `utf-8` or `utf-16le`.
        encoding: String,
    },
    /// A picture, sent to the model.
    Image {
        /// Media type of what was sent.
        media_type: String,
        /// Pixels of the file.
        width: u32,
        /// Pixels of the file.
        height: u32,
        /// Pixels of what was sent, when it was shrunk.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent: Option<(u32, u32)>,
    },
}

/// What a call changed on disk. Empty `files` means that it changed nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ChangesDetails {
    /// One entry for each changed file.
    pub files: Vec<FileDiff>,
}

impl ToolDetails {
    /// Reads the details of a result or of a progress report; `None` when no built-in tool made them.
    pub fn from_value(details: &Value) -> Option<Self> {
        details
            .is_object()
            .then(|| Self::deserialize(details).ok())
            .flatten()
    }

    /// The value that a result carries.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("details have string keys and finite numbers")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn details_survive_their_json_form_and_ignore_unknown_fields() {
        let details = ToolDetails::Bash(BashDetails {
            command: "make".into(),
            directory: "/srv".into(),
            status: CommandStatus::Exited { code: 2 },
            duration_ms: 12,
            output_bytes: 3,
            saved_file: None,
            background_id: None,
        });
        let mut value = details.to_value();
        assert_eq!(value["kind"], "bash");
        assert_eq!(value["status"], json!({"state": "exited", "code": 2}));
        value["from_a_later_version"] = json!(true);
        assert_eq!(ToolDetails::from_value(&value), Some(details));
    }

    #[test]
    fn foreign_details_are_not_read_as_ours() {
        for foreign in [
            json!(null),
            json!({"kind": "weather"}),
            json!({"path": "/x"}),
            json!("bash"),
        ] {
            assert_eq!(ToolDetails::from_value(&foreign), None, "{foreign}");
        }
    }
}
