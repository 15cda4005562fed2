//! What is asked, as Markdown: the command, the change, or the arguments as they are.

use bezel_permissions_contract::{Ask, Asked, Rule};
use serde_json::Value;

/// Lines of a command, a change or arguments that a dialog shows.
const MOST_LINES: usize = 40;

/// What would run, and why it is asked for.
pub(crate) fn markdown(ask: &Ask) -> String {
    let mut body = subject(&ask.arguments);
    body.push('\n');
    for asked in &ask.asked {
        body.push_str(&reason(asked, &ask.arguments));
    }
    body
}

/// What an answer would approve beside this call.
pub(crate) fn covered(rules: &[Rule]) -> String {
    let rules: Vec<String> = rules
        .iter()
        .map(|rule| match rule.action.as_str() {
            "shell" => rule.resource.clone(),
            action => format!("{action} {}", rule.resource),
        })
        .collect();
    rules.join(", ")
}

fn reason(asked: &Asked, arguments: &Value) -> String {
    // The whole command stands above already.
    let whole = arguments["command"].as_str() == Some(&asked.resource);
    match (asked.action.as_str(), whole) {
        (_, true) => format!("- {}\n", asked.reason),
        ("shell", _) => format!("- {}: {}\n", code(&asked.resource), asked.reason),
        (action, _) => format!("- {action} {}: {}\n", code(&asked.resource), asked.reason),
    }
}

/// The arguments by their shape: a command line, a change of a file, a patch, a file's content. Others as JSON.
fn subject(arguments: &Value) -> String {
    let text = |name: &str| arguments[name].as_str();
    if let Some(command) = text("command") {
        return block("bash", command);
    }
    if let Some(patch) = text("patch") {
        return block("diff", patch);
    }
    let path = text("path").or_else(|| text("file_path"));
    if let (Some(path), Some(edits)) = (path, arguments["edits"].as_array()) {
        let changes: Vec<String> = edits.iter().filter_map(change).collect();
        if changes.len() == edits.len() {
            return format!("{}\n{}", code(path), block("diff", &changes.join("\n")));
        }
    }
    if let (Some(path), Some(content)) = (path, text("content")) {
        let language = path.rsplit_once('.').map_or("", |(_, ending)| ending);
        return format!("{}\n{}", code(path), block(language, content));
    }
    if let (Some(path), Some(1)) = (path, arguments.as_object().map(|all| all.len())) {
        return format!("{}\n", code(path));
    }
    match serde_json::to_string_pretty(arguments) {
        Ok(json) => block("json", &json),
        Err(_) => String::new(),
    }
}

/// A replacement as a difference.
fn change(edit: &Value) -> Option<String> {
    let (old, new) = (edit["old_text"].as_str()?, edit["new_text"].as_str()?);
    let lines = |sign: char, text: &str| -> Vec<String> {
        text.lines().map(|line| format!("{sign}{line}")).collect()
    };
    Some([lines('-', old), lines('+', new)].concat().join("\n"))
}

/// A block of code, with a fence that its text does not end.
fn block(language: &str, text: &str) -> String {
    let longest = text
        .split(|character| character != '`')
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let count = text.lines().count();
    let mut shown: Vec<&str> = text.lines().take(MOST_LINES).collect();
    let more = match count.saturating_sub(MOST_LINES) {
        0 => String::new(),
        more => format!("…and {more} more lines\n"),
    };
    if shown.is_empty() {
        shown.push("");
    }
    format!("{fence}{language}\n{}\n{fence}\n{more}", shown.join("\n"))
}

/// Code inside a sentence.
fn code(text: &str) -> String {
    let line = text.replace('\n', " ");
    match line.contains('`') {
        true => format!("`` {line} ``"),
        false => format!("`{line}`"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fence_is_longer_than_any_in_its_text() {
        assert!(block("bash", "echo ```` x").starts_with("`````bash\n"));
        assert!(block("bash", "ls").starts_with("```bash\n"));
    }

    #[test]
    fn arguments_are_shown_by_their_shape() {
        assert_eq!(subject(&json!({ "command": "ls" })), "```bash\nls\n```\n");
        let edit = json!({ "path": "a.rs", "edits": [{ "old_text": "x\ny", "new_text": "z" }] });
        assert_eq!(subject(&edit), "`a.rs`\n```diff\n-x\n-y\n+z\n```\n");
        let write = json!({ "path": "a.rs", "content": "fn main() {}\n" });
        assert_eq!(subject(&write), "`a.rs`\n```rs\nfn main() {}\n```\n");
        assert_eq!(subject(&json!({ "path": "a.rs" })), "`a.rs`\n");
        assert!(subject(&json!({ "n": 1 })).contains("\"n\": 1"));
        let long = "x\n".repeat(60);
        assert!(subject(&json!({ "command": long })).contains("…and 20 more lines"));
    }
}
