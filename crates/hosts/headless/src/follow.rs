//! From transcript states to events: each state is compared with what was told, and only the new is told.
//!
//! A state may skip any number of intermediate ones. What matters is that the last state tells
//! everything, so a reader that is slow sees larger pieces and never a gap.

use std::collections::{HashMap, HashSet};

use bezel_transcript_contract::{Item, ItemBody, Part, ToolItem, ToolStatus, TranscriptState};

use crate::events::{RunEvent, ToolEndStatus};

/// What was told of a conversation so far.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    /// Items that were there before the run.
    before: HashSet<String>,
    told: HashMap<String, Told>,
    /// The newest item that was looked at, the run's or one from before it.
    newest: Option<String>,
    /// The text of the run's own prompt, until its item was seen.
    prompt: Option<String>,
    /// The last answer that has text.
    answer: Option<String>,
    /// Items that were shown last and are not told to the end. What was begun and is not shown any more, as an answer
    /// that its process cut off, will not come.
    open: HashSet<String>,
    /// Whether a call was shown last that has no id of its own yet.
    has_unnamed: bool,
    /// Whether the newest item is an answer that is complete.
    ends_with_answer: bool,
}

#[derive(Debug, Default)]
struct Told {
    parts: Vec<ToldPart>,
    started: bool,
    settled: bool,
}

#[derive(Debug, Default)]
struct ToldPart {
    text: String,
    complete: bool,
}

impl Follower {
    /// Follows what comes after `baseline`, in a run that sends `prompt`.
    pub(crate) fn new(baseline: &TranscriptState, prompt: &str) -> Self {
        Follower {
            before: baseline.items.iter().map(|item| item.id.clone()).collect(),
            newest: baseline.items.last().map(|item| item.id.clone()),
            prompt: Some(prompt.to_owned()),
            ..Follower::default()
        }
    }

    /// Whether `items`, the newest of the conversation, leave out some that are not told to the end.
    pub(crate) fn misses<'a>(
        &self,
        items: impl Iterator<Item = &'a Item>,
        has_older: bool,
    ) -> bool {
        if !has_older {
            return false;
        }
        let shown: HashSet<&str> = items.map(|item| item.id.as_str()).collect();
        let open = self.open.iter();
        open.chain(&self.newest)
            .any(|id| !shown.contains(id.as_str()))
            || self.newest.is_none()
    }

    /// Tells what is new in `items`, oldest first.
    pub(crate) fn tell<'a>(&mut self, items: impl Iterator<Item = &'a Item>) -> Vec<RunEvent> {
        let mut events = Vec::new();
        self.open.clear();
        self.has_unnamed = false;
        self.ends_with_answer = false;
        for item in items {
            if self.newest.as_ref() != Some(&item.id) {
                self.newest = Some(item.id.clone());
            }
            if self.before.contains(&item.id) {
                continue;
            }
            if !matches!(&item.body, ItemBody::Note { failed: false, .. }) {
                self.ends_with_answer =
                    matches!(&item.body, ItemBody::Assistant { done: true, .. });
            }
            if self.told.get(&item.id).is_some_and(|told| told.settled) {
                continue;
            }
            if is_unnamed(item) && !self.told.contains_key(&item.id) {
                self.has_unnamed = true;
                continue;
            }
            let told = self.told.entry(item.id.clone()).or_default();
            match &item.body {
                ItemBody::User {
                    text, synthetic, ..
                } => {
                    told.settled = true;
                    if !synthetic && self.prompt.as_deref() == Some(text.as_str()) {
                        self.prompt = None;
                    } else {
                        events.push(RunEvent::Message {
                            item: item.id.clone(),
                            text: text.clone(),
                            synthetic: *synthetic,
                        });
                    }
                }
                ItemBody::Assistant {
                    parts, done, error, ..
                } => {
                    told.answer(&item.id, parts, *done, &mut events);
                    let text: String = parts.iter().filter_map(text_of).collect();
                    if !text.is_empty() {
                        self.answer = Some(text);
                    }
                    if let (true, Some(error)) = (done, error) {
                        events.push(RunEvent::Warning {
                            message: error.clone(),
                            of_answer: true,
                        });
                    }
                }
                ItemBody::Tool(tool) => told.tool(&item.id, tool, &mut events),
                ItemBody::Branch { .. } => told.settled = true,
                ItemBody::Note { text, failed } => {
                    // A failure is told by how the run ended.
                    if !failed && !std::mem::replace(&mut told.settled, true) {
                        events.push(RunEvent::Warning {
                            message: text.clone(),
                            of_answer: false,
                        });
                    }
                    told.settled = true;
                }
                ItemBody::Compaction { summary } => {
                    told.settled = true;
                    events.push(RunEvent::Compaction {
                        item: item.id.clone(),
                        summary: summary.clone(),
                    });
                }
            }
            if !told.settled {
                self.open.insert(item.id.clone());
            }
        }
        events
    }

    /// Whether everything that was shown last was told to its end.
    pub(crate) fn is_settled(&self) -> bool {
        self.open.is_empty() && !self.has_unnamed
    }

    /// Whether what was told last is an answer of the model, told to its end.
    pub(crate) fn ends_with_answer(&self) -> bool {
        self.ends_with_answer
    }

    /// The text of the last answer that has any.
    pub(crate) fn answer(&self) -> Option<&str> {
        self.answer.as_deref()
    }
}

impl Told {
    fn answer(&mut self, item: &str, parts: &[Part], done: bool, events: &mut Vec<RunEvent>) {
        let voided = self.parts.len() > parts.len();
        self.parts.resize_with(parts.len(), ToldPart::default);
        for (index, (part, told)) in parts.iter().zip(&mut self.parts).enumerate() {
            let complete = done || index + 1 < parts.len();
            match part {
                Part::Text { text } => {
                    let continues = text.starts_with(&told.text) && !(voided && told.complete);
                    let added = if continues {
                        &text[told.text.len()..]
                    } else {
                        text.as_str()
                    };
                    if !added.is_empty() || !continues {
                        let text = added.to_owned();
                        events.push(RunEvent::TextDelta {
                            item: item.into(),
                            part: index,
                            text,
                            restarted: !continues,
                        });
                        told.complete = false;
                    }
                    told.text.clone_from(text);
                    if complete && !told.complete {
                        events.push(RunEvent::Text {
                            item: item.into(),
                            part: index,
                            text: text.clone(),
                        });
                    }
                }
                Part::Thinking { text } => {
                    if complete && !(told.complete && told.text == *text) {
                        told.text.clone_from(text);
                        events.push(RunEvent::Thinking {
                            item: item.into(),
                            part: index,
                            text: text.clone(),
                        });
                    }
                }
            }
            told.complete = complete;
        }
        self.settled = done;
        if done {
            // Never compared again.
            self.parts = Vec::new();
        }
    }

    fn tool(&mut self, item: &str, tool: &ToolItem, events: &mut Vec<RunEvent>) {
        if !self.started {
            self.started = true;
            events.push(RunEvent::ToolStart {
                item: item.into(),
                tool: tool.tool.clone(),
                arguments: tool.arguments.clone(),
            });
        }
        let status = match tool.status {
            ToolStatus::Done => ToolEndStatus::Done,
            ToolStatus::Failed => ToolEndStatus::Failed,
            // A process that has just begun has not looked yet what became of the call.
            ToolStatus::Interrupted if tool.ended_at.is_none() => return,
            ToolStatus::Interrupted => ToolEndStatus::Interrupted,
            ToolStatus::Streaming | ToolStatus::Pending | ToolStatus::Running => return,
        };
        self.settled = true;
        events.push(RunEvent::ToolEnd {
            item: item.into(),
            tool: tool.tool.clone(),
            status,
            output: tool.output.clone(),
            clipped: tool.clipped,
            details: tool.details.clone(),
            structured: tool.structured.clone(),
        });
    }
}

/// Whether an item is a call that will go on under an id of its own: one that is still being written, or one that
/// another process had begun and that the session's process of now has not looked at yet.
fn is_unnamed(item: &Item) -> bool {
    let ItemBody::Tool(tool) = &item.body else {
        return false;
    };
    match tool.status {
        ToolStatus::Streaming => true,
        ToolStatus::Interrupted => tool.ended_at.is_none(),
        _ => false,
    }
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        Part::Thinking { .. } => None,
    }
}

#[cfg(test)]
mod tests;
