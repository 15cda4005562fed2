//! Entries in short.

use std::collections::BTreeMap;

use bezel_session_types::{AssistantContent, Entry, EntryBody, EntryId, Message, ResultContent};
use bezel_tree_contract::{Node, NodeKind};
use jiff::Timestamp;

/// Characters of a node's text.
const SHORT: usize = 160;

pub(crate) fn node(entry: &Entry, labels: &BTreeMap<EntryId, String>) -> Node {
    let (kind, text) = kind_and_text(&entry.body);
    let at = Timestamp::from_millisecond(entry.created_at).unwrap_or(Timestamp::UNIX_EPOCH);
    Node {
        id: entry.id.clone(),
        parent: entry.parent.clone(),
        seq: entry.seq,
        at: at.to_string(),
        kind,
        text: short(&text),
        label: labels.get(&entry.id).cloned(),
    }
}

fn kind_and_text(body: &EntryBody) -> (NodeKind, String) {
    match body {
        EntryBody::Message { message } => match &**message {
            Message::User(user) if user.synthetic => (NodeKind::Synthetic, user.to_text()),
            Message::User(user) => (NodeKind::User, user.to_text()),
            Message::Assistant(answer) => {
                let said = answer.to_text();
                let text = match said.trim().is_empty() {
                    false => said,
                    true => {
                        let calls = answer.content.iter().filter_map(|part| match part {
                            AssistantContent::ToolCall(call) => Some(call.name.as_str()),
                            _ => None,
                        });
                        format!("calls {}", calls.collect::<Vec<_>>().join(", "))
                    }
                };
                (NodeKind::Assistant, text)
            }
            Message::ToolResult(result) => {
                let said = result.content.iter().find_map(|part| match part {
                    ResultContent::Text { text } => Some(text.as_str()),
                    ResultContent::Image(_) => None,
                });
                let text = format!("{}: {}", result.tool, said.unwrap_or_default());
                (NodeKind::Tool, text)
            }
        },
        EntryBody::Compaction(compaction) => (NodeKind::Compaction, compaction.summary.clone()),
        EntryBody::BranchSummary(branch) => (NodeKind::Branch, branch.summary.clone()),
        EntryBody::Custom(custom) => match custom.note() {
            Some(note) => (NodeKind::Other, note.message.to_owned()),
            None => (NodeKind::Other, custom.name.clone()),
        },
    }
}

/// The beginning, on one line.
fn short(text: &str) -> String {
    let mut short = String::new();
    let mut characters = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count() + usize::from(characters > 0);
        if characters + length > SHORT {
            if characters == 0 {
                short.extend(word.chars().take(SHORT));
            }
            short.push('…');
            break;
        }
        if characters > 0 {
            short.push(' ');
        }
        short.push_str(word);
        characters += length;
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_short_is_one_line_cut_at_a_word_or_within_an_endless_one() {
        assert_eq!(short("\n one\n\ttwo "), "one two");
        let words = short(&"word ".repeat(100));
        assert!(
            words.ends_with("word…") && words.chars().count() <= SHORT + 1,
            "{words}"
        );
        assert_eq!(short(&"é".repeat(1_000)).chars().count(), SHORT + 1);
    }
}
