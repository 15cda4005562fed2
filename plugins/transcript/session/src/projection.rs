//! Items from events, as the smallest edits of the transcript's state.

use std::collections::HashMap;

use bezel_api_session::{AgentEvent, EventBody};
use bezel_rpc::{Path, path};
use bezel_session_types::{OperationId, Progress};
use bezel_transcript_contract::{Item, ItemBody, Part, ToolItem, ToolStatus, entries};
use serde_json::Value;

use crate::WINDOW;
use crate::history::OpenCall;
use crate::remarks::{self, Remarks};

/// One change of the item list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Edit {
    /// Text grows at a path below the state.
    Append { path: Path, text: String },
    /// An item is another now.
    Replace { index: usize, item: Item },
    /// An item comes, at the end.
    Insert { index: usize, item: Item },
    /// An item goes.
    Remove { index: usize },
    /// An operation has ended and all its items are there.
    Settle { operation: OperationId },
    /// The oldest items go; they are in the pages.
    DropOldest { count: usize },
}

/// The items as the state has them, and where each is.
pub(crate) struct Projection {
    items: Vec<Item>,
    places: HashMap<String, usize>,
    /// Calls from before this process, which know their own id only when something happens to them.
    open: Vec<OpenCall>,
    remarks: Remarks,
}

/// Output that a running call shows at most; the rest is in its result.
const RUNNING_OUTPUT: usize = 16 * 1024;

impl Projection {
    pub(crate) fn new(items: Vec<Item>, open: Vec<OpenCall>) -> Self {
        let mut projection = Projection {
            items,
            places: HashMap::new(),
            open,
            remarks: Remarks::default(),
        };
        projection.index_from(0);
        projection
    }

    /// The edits that `events` amount to. Neighbouring appends to one place become one.
    pub(crate) fn apply_all<'a>(
        &mut self,
        events: impl Iterator<Item = &'a AgentEvent>,
    ) -> Vec<Edit> {
        let mut edits = Vec::new();
        for event in events {
            self.apply(event, &mut edits);
        }
        // The window moves in large steps, so that a long session does not move it at every item.
        if self.items.len() > 2 * WINDOW {
            let mut count = self.items.len() - WINDOW;
            // Pages begin before the first item, which is one of the tree.
            let kept = self.items[count..].iter();
            count += kept.take_while(|item| remarks::is_remark(&item.id)).count();
            self.items.drain(..count);
            self.places.clear();
            self.index_from(0);
            edits.push(Edit::DropOldest { count });
        }
        edits
    }

    fn apply(&mut self, event: &AgentEvent, edits: &mut Vec<Edit>) {
        let at = || event.at.to_string();
        match &event.body {
            EventBody::UserMessage { entry, message } => {
                let item = Item {
                    id: entry.to_string(),
                    at: at(),
                    body: entries::user(message),
                };
                self.put(item, edits);
            }
            EventBody::AnswerStarted { entry, model } => {
                // What the conversation has gone on from is settled.
                self.open.clear();
                let body = ItemBody::Assistant {
                    model: model.clone(),
                    parts: Vec::new(),
                    done: false,
                    error: None,
                    usage: None,
                };
                self.put(
                    Item {
                        id: entry.to_string(),
                        at: at(),
                        body,
                    },
                    edits,
                );
            }
            EventBody::Text { entry, text } => self.grow(entry.as_str(), text, false, edits),
            EventBody::Thinking { entry, text } => self.grow(entry.as_str(), text, true, edits),
            EventBody::ToolCallStarted { entry, index, tool } => {
                let tool = running_tool(tool, Value::Null, ToolStatus::Streaming);
                let body = ItemBody::Tool(tool);
                self.put(
                    Item {
                        id: entries::call_id(entry, *index),
                        at: at(),
                        body,
                    },
                    edits,
                );
            }
            EventBody::ToolCallText { entry, index, text } => {
                if let Some((place, tool)) = self.tool(&entries::call_id(entry, *index)) {
                    tool.arguments_text.push_str(text);
                    append(edits, path!["items", place, "arguments_text"], text);
                }
            }
            EventBody::AnswerEnded {
                entry,
                message,
                invocations,
            } => {
                let body = entries::answer(message);
                self.replace_body(entry.as_str(), body, &at(), edits);
                for (place, (invocation, call)) in
                    invocations.iter().zip(message.tool_calls()).enumerate()
                {
                    self.rename(&entries::call_id(entry, place), invocation.as_str());
                    let tool =
                        running_tool(&call.name, call.arguments.clone(), ToolStatus::Pending);
                    self.replace_body(invocation.as_str(), ItemBody::Tool(tool), &at(), edits);
                }
                // Calls that it had begun and was not to make.
                let answer = self.places.get(entry.as_str()).copied();
                self.discard(answer.map(|place| place + 1), edits);
            }
            EventBody::AnswerDiscarded { entry } => {
                let answer = self.places.get(entry.as_str()).copied();
                self.discard(answer, edits);
            }
            EventBody::ToolStarted {
                invocation,
                tool,
                arguments,
            } => {
                self.recognise(invocation.as_str(), |_, item| {
                    item.tool == *tool && item.arguments == **arguments
                });
                let tool = running_tool(tool, Value::clone(arguments), ToolStatus::Running);
                self.put(
                    Item {
                        id: invocation.to_string(),
                        at: at(),
                        body: ItemBody::Tool(tool),
                    },
                    edits,
                );
            }
            EventBody::ToolProgress {
                invocation,
                progress,
            } => {
                self.progress(invocation.as_str(), progress, edits);
            }
            EventBody::ToolEnded { invocation, result } => {
                let ended_at = at();
                self.recognise(invocation.as_str(), |open, _| open.call == result.call_id);
                if self.tool(invocation.as_str()).is_none() {
                    let tool = running_tool(&result.tool, Value::Null, ToolStatus::Pending);
                    let body = ItemBody::Tool(tool);
                    self.put(
                        Item {
                            id: invocation.to_string(),
                            at: at(),
                            body,
                        },
                        edits,
                    );
                }
                self.change_tool(invocation.as_str(), edits, |tool| {
                    entries::settle(tool, result, ended_at)
                });
            }
            EventBody::Compacted { entry, summary } => {
                let body = ItemBody::Compaction {
                    summary: summary.clone(),
                };
                self.put(
                    Item {
                        id: entry.to_string(),
                        at: at(),
                        body,
                    },
                    edits,
                );
            }
            EventBody::Noted {
                entry,
                failed,
                message,
            } => {
                let (text, failed) = (message.clone(), *failed);
                let item = Item {
                    id: entry.to_string(),
                    at: at(),
                    body: ItemBody::Note { text, failed },
                };
                self.put(item, edits);
            }
            EventBody::RunEnded(outcome) => {
                self.interrupt_open(&at(), edits);
                edits.push(Edit::Settle {
                    operation: outcome.operation_id.clone(),
                });
            }
            EventBody::HandlerFailed { plugin, hook, message } => {
                let text = remarks::failed(plugin, hook, message);
                self.remark((plugin, hook), text, &at(), edits);
            }
            EventBody::ContributionRefused { plugin, message } => {
                let text = remarks::refused(message);
                self.remark((plugin, message), text, &at(), edits);
            }
            EventBody::RunStarted(_) => self.remarks.begin(),
            EventBody::UsageRecorded { .. }
            | EventBody::LabelSet { .. }
            // Another path altogether: whoever applies events has begun anew from the tree.
            | EventBody::Navigated { .. }
            | EventBody::Committed { .. }
            | EventBody::Journalled { .. } => {}
        }
    }

    /// Says something that is not in the tree, unless that was said in this run.
    fn remark(&mut self, about: (&str, &str), text: String, at: &str, edits: &mut Vec<Edit>) {
        let after = self.items.last().map(|item| item.id.as_str());
        if let Some(id) = self.remarks.id(about, after) {
            let item = Item {
                id,
                at: at.to_owned(),
                body: ItemBody::Note {
                    text,
                    failed: false,
                },
            };
            self.put(item, edits);
        }
    }

    fn put(&mut self, item: Item, edits: &mut Vec<Edit>) {
        match self.places.get(&item.id) {
            Some(index) => {
                let index = *index;
                let at = std::mem::take(&mut self.items[index].at);
                self.items[index] = Item { at, ..item };
                edits.push(Edit::Replace {
                    index,
                    item: self.items[index].clone(),
                });
            }
            None => {
                let index = self.items.len();
                self.places.insert(item.id.clone(), index);
                self.items.push(item.clone());
                edits.push(Edit::Insert { index, item });
            }
        }
    }

    /// A call from before this process gets the id under which it goes on.
    fn recognise(&mut self, invocation: &str, fits: impl Fn(&OpenCall, &ToolItem) -> bool) {
        if self.open.is_empty() || self.places.contains_key(invocation) {
            return;
        }
        let place = self.open.iter().position(|open| {
            let item = self.places.get(&open.item).map(|at| &self.items[*at].body);
            matches!(item, Some(ItemBody::Tool(item)) if fits(open, item))
        });
        if let Some(place) = place {
            let open = self.open.remove(place);
            self.rename(&open.item, invocation);
        }
    }

    /// A streaming call gets the id under which it will be recorded.
    fn rename(&mut self, from: &str, to: &str) {
        if let Some(index) = self.places.remove(from) {
            self.items[index].id = to.to_owned();
            self.places.insert(to.to_owned(), index);
        }
    }

    fn replace_body(&mut self, id: &str, body: ItemBody, at: &str, edits: &mut Vec<Edit>) {
        self.put(
            Item {
                id: id.to_owned(),
                at: at.to_owned(),
                body,
            },
            edits,
        );
    }

    fn grow(&mut self, id: &str, text: &str, thinking: bool, edits: &mut Vec<Edit>) {
        let Some(index) = self.places.get(id).copied() else {
            return;
        };
        let ItemBody::Assistant { parts, .. } = &mut self.items[index].body else {
            return;
        };
        let last = parts.len().checked_sub(1);
        match (parts.last_mut(), last) {
            (Some(Part::Text { text: so_far }), Some(place)) if !thinking => {
                so_far.push_str(text);
                append(edits, path!["items", index, "parts", place, "text"], text);
            }
            (Some(Part::Thinking { text: so_far }), Some(place)) if thinking => {
                so_far.push_str(text);
                append(edits, path!["items", index, "parts", place, "text"], text);
            }
            _ => {
                let text = text.to_owned();
                parts.push(if thinking {
                    Part::Thinking { text }
                } else {
                    Part::Text { text }
                });
                edits.push(Edit::Replace {
                    index,
                    item: self.items[index].clone(),
                });
            }
        }
    }

    /// The answers and calls that were begun from this place on and will not come go.
    fn discard(&mut self, from: Option<usize>, edits: &mut Vec<Edit>) {
        let Some(from) = from else { return };
        for index in (from..self.items.len()).rev() {
            let begun = matches!(
                &self.items[index].body,
                ItemBody::Assistant { done: false, .. }
                    | ItemBody::Tool(ToolItem {
                        status: ToolStatus::Streaming,
                        ..
                    })
            );
            if begun {
                let gone = self.items.remove(index);
                self.places.remove(&gone.id);
                edits.push(Edit::Remove { index });
            }
        }
        self.index_from(from);
    }

    fn progress(&mut self, id: &str, progress: &Progress, edits: &mut Vec<Edit>) {
        match progress {
            Progress::Details(details) => {
                self.change_tool(id, edits, |tool| tool.details = details.clone());
            }
            Progress::Append(text) => {
                let Some((index, tool)) = self.tool(id) else {
                    return;
                };
                if tool.output.len() + text.len() <= RUNNING_OUTPUT {
                    tool.output.push_str(text);
                    append(edits, path!["items", index, "output"], text);
                    return;
                }
                self.change_tool(id, edits, |tool| {
                    let all = std::mem::take(&mut tool.output) + text;
                    let tail = all.ceil_char_boundary(all.len().saturating_sub(RUNNING_OUTPUT / 2));
                    tool.output = all[tail..].to_owned();
                    tool.clipped = true;
                });
            }
        }
    }

    /// When a run ends nothing of it is open: what has no result will get none.
    fn interrupt_open(&mut self, at: &str, edits: &mut Vec<Edit>) {
        for index in 0..self.items.len() {
            let item = &mut self.items[index];
            let changed = match &mut item.body {
                ItemBody::Tool(tool)
                    if tool.ended_at.is_none() && tool.status != ToolStatus::Interrupted =>
                {
                    tool.status = ToolStatus::Interrupted;
                    tool.ended_at = Some(at.to_owned());
                    true
                }
                ItemBody::Assistant { done, .. } if !*done => {
                    *done = true;
                    true
                }
                _ => false,
            };
            if changed {
                edits.push(Edit::Replace {
                    index,
                    item: item.clone(),
                });
            }
        }
    }

    fn change_tool(&mut self, id: &str, edits: &mut Vec<Edit>, change: impl FnOnce(&mut ToolItem)) {
        let Some((index, tool)) = self.tool(id) else {
            return;
        };
        change(tool);
        edits.push(Edit::Replace {
            index,
            item: self.items[index].clone(),
        });
    }

    fn tool(&mut self, id: &str) -> Option<(usize, &mut ToolItem)> {
        let index = *self.places.get(id)?;
        match &mut self.items[index].body {
            ItemBody::Tool(tool) => Some((index, tool)),
            _ => None,
        }
    }

    fn index_from(&mut self, from: usize) {
        for (index, item) in self.items.iter().enumerate().skip(from) {
            self.places.insert(item.id.clone(), index);
        }
    }
}

fn running_tool(tool: &str, arguments: Value, status: ToolStatus) -> ToolItem {
    ToolItem {
        tool: tool.to_owned(),
        arguments,
        arguments_text: String::new(),
        status,
        output: String::new(),
        clipped: false,
        details: Value::Null,
        structured: None,
        ended_at: None,
    }
}

fn append(edits: &mut Vec<Edit>, path: Path, text: &str) {
    match edits.last_mut() {
        Some(Edit::Append {
            path: last,
            text: so_far,
        }) if *last == path => so_far.push_str(text),
        _ => edits.push(Edit::Append {
            path,
            text: text.to_owned(),
        }),
    }
}
