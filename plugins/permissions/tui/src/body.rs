//! What is asked, as Markdown: the command, the change, or the arguments as they are.

use bezel_permissions_contract::{Ask, Asked, Rule};
use serde_json::Value;

/// Lines of a command, a change or arguments that a dialog shows.
const MOST_LINES: usize = 2_000;
/// Reasons that stand before what is asked; the others stand behind it.
const FIRST_REASONS: usize = 2;
/// Characters of what a reason is for.
const MOST_NAMED: usize = 120;
/// Blanks in a row that are shown as they are.
const MOST_BLANKS: usize = 8;
/// The same at the beginning of a line.
const MOST_INDENT: usize = 40;

/// Why it is asked for, and what would run. The reasons come first, so that nothing long hides them.
pub(crate) fn markdown(ask: &Ask) -> String {
    let reasons: Vec<String> = ask
        .asked
        .iter()
        .map(|asked| reason(asked, &ask.arguments))
        .collect();
    let (first, others) = reasons.split_at(reasons.len().min(FIRST_REASONS));
    let mut body = first.concat();
    match others.len() {
        0 => {}
        1 => body.push_str("- and one more, below\n"),
        more => body.push_str(&format!("- and {more} more, below\n")),
    }
    body.push('\n');
    body.push_str(&subject(&ask.arguments));
    if !others.is_empty() {
        body.push('\n');
        body.push_str(&others.concat());
    }
    body
}

/// A text in which nothing is out of sight: long runs of blanks and of empty lines are counted, and characters that
/// are not seen, or that change the order of others, are named.
fn revealed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines() {
        if line.chars().all(is_blank) {
            empty += 1;
            continue;
        }
        push_empty(&mut out, empty);
        empty = 0;
        push_line(&mut out, line);
        out.push('\n');
    }
    push_empty(&mut out, empty);
    out
}

fn push_empty(out: &mut String, lines: usize) {
    match lines {
        0 => {}
        1 | 2 => out.push_str(&"\n".repeat(lines)),
        lines => out.push_str(&format!("⏎ ×{}\n", grouped(lines))),
    }
}

fn push_line(out: &mut String, line: &str) {
    let mut blanks = String::new();
    let flush = |out: &mut String, blanks: &mut String| {
        // A difference has a sign before it.
        let begins = out
            .rsplit('\n')
            .next()
            .is_none_or(|line| matches!(line, "" | "+" | "-"));
        let most = match begins {
            true => MOST_INDENT,
            false => MOST_BLANKS,
        };
        match blanks.chars().count() {
            count if count > most => out.push_str(&format!(" ·×{} ", grouped(count))),
            _ => out.push_str(blanks),
        }
        blanks.clear();
    };
    for character in line.chars() {
        if is_blank(character) {
            blanks.push(if character == '\t' { '\t' } else { ' ' });
            continue;
        }
        flush(out, &mut blanks);
        match is_unseen(character) {
            true => out.push_str(&format!("⟨U+{:04X}⟩", u32::from(character))),
            false => out.push(character),
        }
    }
    flush(out, &mut blanks);
}

fn is_blank(character: char) -> bool {
    character.is_whitespace()
        || matches!(
            character,
            '\u{2800}' | '\u{3164}' | '\u{115f}' | '\u{1160}' | '\u{ffa0}'
        )
}

/// Whether a character takes no room, or decides in which order others are shown.
fn is_unseen(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// A number with its thousands apart.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// What an answer would approve beside this call.
pub(crate) fn covered(rules: &[Rule]) -> String {
    let rules: Vec<String> = rules
        .iter()
        .map(|rule| match rule.action.as_str() {
            "shell" => revealed(&rule.resource).trim_end().to_owned(),
            action => format!("{action} {}", revealed(&rule.resource).trim_end()),
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
    let text = &revealed(text);
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
    let line = revealed(text).trim_end().replace('\n', " ⏎ ");
    let line = match line.char_indices().nth(MOST_NAMED) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    };
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
        let long = "x\n".repeat(2_020);
        assert!(subject(&json!({ "command": long })).contains("…and 20 more lines"));
    }

    #[test]
    fn nothing_is_out_of_sight_behind_blanks_and_empty_lines() {
        let hidden = format!(
            "true;{}touch x{}touch y",
            " ".repeat(3_000),
            "\n".repeat(61)
        );
        assert_eq!(revealed(&hidden), "true; ·×3,000 touch x\n⏎ ×60\ntouch y\n");
        assert_eq!(revealed("a\n\n  b\tc"), "a\n\n  b\tc\n");
        assert_eq!(revealed("a\u{3000}\u{202e}b"), "a ⟨U+202E⟩b\n");
        let mixed = format!("a{}b", " \t\u{a0}".repeat(5));
        assert_eq!(revealed(&mixed), "a ·×15 b\n");
    }
}
