//! A transcript as Markdown.

use std::io::{self, Write};

use bezel_session_types::{
    AssistantContent, AssistantMessage, Entry, EntryBody, Message, ResultContent,
    ToolResultMessage, UserContent, UserMessage,
};
use bezel_store::{PackageFacts, Queries, WriteOutError};
use jiff::Timestamp;
use serde_json::Value;

use super::each_of_path;

/// Lines of a call's arguments or result that are shown: the rest of a long one is counted.
const MOST_LINES: usize = 60;
/// Bytes of one such line.
const MOST_LINE: usize = 2_000;

/// Writes what was said and done on the main lane's path. Reasoning, pictures and what only programs read are left
/// out.
pub(in crate::upkeep) fn markdown(
    queries: &Queries<'_>,
    facts: &PackageFacts,
    out: &mut dyn Write,
) -> Result<(), WriteOutError> {
    let title = match facts.title.trim() {
        "" => "Session",
        title => title,
    };
    writeln!(out, "# {}", title.replace('\n', " "))?;
    let mut speaker = Speaker::None;
    each_of_path(queries, |entry| Ok(write(&entry, &mut speaker, out)?))
}

/// Whose heading stands above.
#[derive(PartialEq)]
enum Speaker {
    None,
    Person,
    Model(String),
}

fn write(entry: &Entry, speaker: &mut Speaker, out: &mut dyn Write) -> io::Result<()> {
    match &entry.body {
        EntryBody::Message { message } => match &**message {
            Message::User(message) if message.synthetic => {
                folded("A note to the model", &message.to_text(), out)
            }
            Message::User(message) => {
                *speaker = Speaker::Person;
                let at = Timestamp::from_millisecond(entry.created_at).unwrap_or_default();
                writeln!(out, "\n## Person · {}", at.strftime("%Y-%m-%d %H:%M UTC"))?;
                person(message, out)
            }
            Message::Assistant(message) => {
                let model = Speaker::Model(message.model.to_string());
                if *speaker != model {
                    writeln!(out, "\n## {}", message.model)?;
                    *speaker = model;
                }
                answer(message, out)
            }
            Message::ToolResult(result) => outcome(result, out),
        },
        EntryBody::Compaction(compaction) => folded(
            "Everything before was summarised for the model",
            &compaction.summary,
            out,
        ),
        EntryBody::BranchSummary(branch) => folded(
            "Another branch of the conversation was left",
            &branch.summary,
            out,
        ),
        EntryBody::Custom(custom) => match custom.note() {
            Some(note) => writeln!(out, "\n*{}*", note.message.replace('\n', " ")),
            None => Ok(()),
        },
    }
}

fn person(message: &UserMessage, out: &mut dyn Write) -> io::Result<()> {
    for part in &message.content {
        match part {
            UserContent::Text { text } => writeln!(out, "\n{}", text.trim_end())?,
            UserContent::Image(image) => writeln!(out, "\n*(a picture, {})*", image.media_type)?,
        }
    }
    Ok(())
}

fn answer(message: &AssistantMessage, out: &mut dyn Write) -> io::Result<()> {
    for part in &message.content {
        match part {
            AssistantContent::Text { text } if text.trim().is_empty() => {}
            AssistantContent::Text { text } => writeln!(out, "\n{}", text.trim())?,
            AssistantContent::Thinking { .. } => {}
            AssistantContent::ToolCall(call) => {
                writeln!(out, "\n**{}**", call.name)?;
                let (language, text) = shown(&call.arguments);
                block(language, &text, out)?;
            }
        }
    }
    match &message.error {
        Some(error) => writeln!(out, "\n*It ended early: {}*", error.replace('\n', " ")),
        None => Ok(()),
    }
}

/// Arguments as a person reads them: a command by itself, anything else as JSON.
fn shown(arguments: &Value) -> (&'static str, String) {
    let members = arguments.as_object();
    match arguments.get("command").and_then(Value::as_str) {
        Some(command) if members.is_some_and(|members| members.len() == 1) => {
            ("bash", command.to_owned())
        }
        _ => (
            "json",
            serde_json::to_string_pretty(arguments).unwrap_or_default(),
        ),
    }
}

fn outcome(result: &ToolResultMessage, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    for part in &result.content {
        match part {
            ResultContent::Text { text: more } => {
                text += more.trim_end();
                text.push('\n');
            }
            ResultContent::Image(image) => text += &format!("(a picture, {})\n", image.media_type),
        }
    }
    let lines = text.lines().count();
    let failed = if result.is_error { ", failed" } else { "" };
    let counted = match lines {
        0 => "nothing".to_owned(),
        1 => "1 line".to_owned(),
        lines => format!("{lines} lines"),
    };
    writeln!(
        out,
        "\n<details><summary>Result of {}{failed}: {counted}</summary>",
        escaped(&result.tool)
    )?;
    block("text", &text, out)?;
    writeln!(out, "\n</details>")
}

/// Text that most readers pass over.
fn folded(summary: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\n<details><summary>{summary}</summary>\n\n{}\n\n</details>",
        text.trim()
    )
}

/// A block of code, with a fence that its text does not end.
fn block(language: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let text = text.trim_end();
    if text.is_empty() {
        return Ok(());
    }
    let runs = text.split(|character| character != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
    writeln!(out, "\n{fence}{language}")?;
    for line in text.lines().take(MOST_LINES) {
        match line.len() {
            0..=MOST_LINE => writeln!(out, "{line}")?,
            _ => writeln!(out, "{}…", &line[..line.floor_char_boundary(MOST_LINE)])?,
        }
    }
    writeln!(out, "{fence}")?;
    match text.lines().count().saturating_sub(MOST_LINES) {
        0 => Ok(()),
        more => writeln!(out, "\n*…and {more} more lines*"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
