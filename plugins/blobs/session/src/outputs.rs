//! Whole outputs of tool calls: the files that shortened results name.

use std::path::{Path, PathBuf};

use bezel_session_types::{InvocationId, ResultContent, ToolResultMessage};
use bezel_tools_contract::ToolDetails;
use serde::Deserialize;

/// The file with the whole output of a result, where it names one. Only files that lie in `directory` itself
/// count, whatever the result says.
pub(crate) fn file(result: &ToolResultMessage, directory: &Path) -> Option<PathBuf> {
    let saved = saved(result).map(PathBuf::from);
    let saved = saved.filter(|path| path.parent() == Some(directory));
    saved.or_else(|| named(result, directory))
}

/// What a tool says of its own saved output.
fn saved(result: &ToolResultMessage) -> Option<String> {
    match ToolDetails::deserialize(&result.details).ok()? {
        ToolDetails::Bash(command) => command.saved_file,
        ToolDetails::Background(background) => background.command.saved_file,
        _ => None,
    }
}

/// What the text of a bounded result names: a file of this call, whose name begins with the call's id.
fn named(result: &ToolResultMessage, directory: &Path) -> Option<PathBuf> {
    let text = text(result);
    let start = format!("{}/{}", directory.display(), result.invocation_id);
    let (_, rest) = text.rsplit_once(&start)?;
    let end = rest.find(".txt")?;
    let number = &rest[..end];
    let fits = number.is_empty()
        || number
            .strip_prefix('-')
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    fits.then(|| directory.join(format!("{}{number}.txt", result.invocation_id)))
}

/// The text of a result.
pub(crate) fn text(result: &ToolResultMessage) -> String {
    let texts = result.content.iter().filter_map(|part| match part {
        ResultContent::Text { text } => Some(text.as_str()),
        ResultContent::Image(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Whether an id may be a call's: it stands in file names.
pub(crate) fn is_sound(id: &InvocationId) -> bool {
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !id.as_str().is_empty() && id.as_str().bytes().all(sound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn result(text: &str, details: Value) -> ToolResultMessage {
        ToolResultMessage {
            call_id: "c".into(),
            invocation_id: InvocationId::new("i1"),
            tool: "bash".into(),
            content: vec![ResultContent::text(text)],
            structured: None,
            details,
            is_error: false,
        }
    }

    fn bash(saved: &str) -> Value {
        json!({
            "kind": "bash", "command": "x", "directory": "/p", "status": { "state": "killed" },
            "duration_ms": 1, "output_bytes": 1, "saved_file": saved,
        })
    }

    #[test]
    fn a_result_leads_to_its_own_file_and_to_no_other() {
        let of = |text: &str, details: Value| {
            let file = file(&result(text, details), Path::new("/s/output"))?;
            Some(file.display().to_string())
        };
        let found = |name: &str| Some(format!("/s/output/{name}"));
        assert_eq!(of("…", bash("/s/output/other.txt")), found("other.txt"));
        assert_eq!(of("…", bash("/etc/passwd")), None);
        assert_eq!(of("…", bash("/s/output/../secret")), None);
        let marker = |name: &str| {
            format!("head\n[... The whole output is in /s/output/{name}; read ...]\ntail")
        };
        assert_eq!(of(&marker("i1.txt"), Value::Null), found("i1.txt"));
        assert_eq!(of(&marker("i1-2.txt"), Value::Null), found("i1-2.txt"));
        assert_eq!(of(&marker("i2.txt"), Value::Null), None);
        assert_eq!(of(&marker("i1/../../secret.txt"), Value::Null), None);
        assert_eq!(of("all of it", Value::Null), None);
    }
}
