//! A tree that is being taken in, before it has ids of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bezel_session_types::{
    BranchSummary, Compaction, CompactionReason, CustomEntry, EntryBody, EntryId, InvocationId,
    Message, ResultContent, ToolCall, ToolResultMessage,
};
use serde_json::Value;

/// A tree without ids. A node always comes after the one that it continues.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) nodes: Vec<Node>,
    /// Where the conversation goes on.
    pub(super) tip: Option<usize>,
    pub(super) labels: Vec<(usize, String)>,
    pub(super) title: String,
    pub(super) directory: Option<PathBuf>,
    pub(super) origin: Option<String>,
    pub(super) left_out: BTreeMap<String, u64>,
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) parent: Option<usize>,
    /// Milliseconds since 1970.
    pub(super) at: i64,
    pub(super) body: NodeBody,
}

#[derive(Debug, Clone)]
pub(super) enum NodeBody {
    Message(Message),
    Compaction {
        summary: String,
        first_kept: Option<usize>,
        tokens_before: u64,
    },
    BranchSummary {
        summary: String,
        from: usize,
    },
    Custom {
        name: String,
        value: Value,
    },
}

impl Draft {
    /// Adds a node and says which it is. A time that is not told is that of the node before.
    pub(super) fn add(&mut self, parent: Option<usize>, at: Option<i64>, body: NodeBody) -> usize {
        let before = || self.nodes.last().map_or(0, |node| node.at);
        let at = at.unwrap_or_else(before);
        self.nodes.push(Node { parent, at, body });
        self.nodes.len() - 1
    }

    /// Notes that something was left out.
    pub(super) fn leave_out(&mut self, kind: impl Into<String>) {
        let mut kind = kind.into();
        // The name is somebody else's.
        kind.retain(|character| !character.is_control());
        if kind.len() > 60 {
            kind.truncate(kind.floor_char_boundary(60));
        }
        let known = self.left_out.len() < 100 || self.left_out.contains_key(&kind);
        let kind = if known { kind } else { "others".to_owned() };
        *self.left_out.entry(kind).or_default() += 1;
    }

    /// Gives every call exactly one result, right after the answer that made it, on every path: what a
    /// provider asks of a history. Results without a call are left out.
    pub(super) fn settle(&mut self) {
        let old = std::mem::take(&mut self.nodes);
        // Of each old node: where it is now, and the calls that are open behind it.
        let mut places: Vec<(Option<usize>, Arc<[ToolCall]>)> = Vec::with_capacity(old.len());
        let none: Arc<[ToolCall]> = Arc::new([]);
        for node in old {
            let (mut parent, mut open) = match node.parent {
                Some(parent) => places[parent].clone(),
                None => (None, Arc::clone(&none)),
            };
            if let NodeBody::Message(Message::ToolResult(result)) = &node.body {
                match open.iter().position(|call| call.id == result.call_id) {
                    Some(at) => {
                        let rest = open.iter().enumerate().filter(|(index, _)| *index != at);
                        open = rest.map(|(_, call)| call.clone()).collect();
                    }
                    None => {
                        self.leave_out("result without a call");
                        places.push((parent, open));
                        continue;
                    }
                }
            } else {
                parent = self.close(parent, node.at, &open);
                open = Arc::clone(&none);
            }
            if let NodeBody::Message(Message::Assistant(answer)) = &node.body {
                let mut calls: Vec<ToolCall> = Vec::new();
                for call in answer.tool_calls() {
                    if !calls.iter().any(|known| known.id == call.id) {
                        calls.push(call.clone());
                    }
                }
                open = calls.into();
            }
            let at = node.at;
            let body = match node.body {
                NodeBody::Compaction {
                    summary,
                    first_kept,
                    tokens_before,
                } => NodeBody::Compaction {
                    summary,
                    first_kept: first_kept.and_then(|kept| places[kept].0),
                    tokens_before,
                },
                NodeBody::BranchSummary { summary, from } => NodeBody::BranchSummary {
                    summary,
                    from: places[from].0.unwrap_or_default(),
                },
                body => body,
            };
            let place = self.add(parent, Some(at), body);
            places.push((Some(place), open));
        }
        let tip = self.tip.map(|tip| places[tip].clone());
        let mut ends: Vec<Option<Arc<[ToolCall]>>> = vec![None; self.nodes.len()];
        for (place, open) in &places {
            if let Some(place) = place.filter(|_| !open.is_empty()) {
                ends[place] = Some(Arc::clone(open));
            }
        }
        if let Some((Some(tip), open)) = &tip {
            ends[*tip] = Some(Arc::clone(open));
        }
        for node in &self.nodes {
            if let Some(parent) = node.parent
                && tip.as_ref().and_then(|(tip, _)| *tip) != Some(parent)
            {
                ends[parent] = None;
            }
        }
        self.tip = tip.and_then(|(tip, _)| tip);
        for (end, open) in ends.into_iter().enumerate() {
            let Some(open) = open else { continue };
            let last = self.close(Some(end), self.nodes[end].at, &open);
            if self.tip == Some(end) {
                self.tip = last;
            }
        }
        let place = |old: usize| places[old].0;
        let labels = std::mem::take(&mut self.labels);
        let moved = labels.into_iter();
        self.labels = moved
            .filter_map(|(node, label)| Some((place(node)?, label)))
            .collect();
    }

    /// Puts a result after `parent` for each open call; answers the last node.
    fn close(&mut self, parent: Option<usize>, at: i64, open: &[ToolCall]) -> Option<usize> {
        let mut last = parent;
        for call in open {
            let body = result(
                call.id.clone(),
                call.name.clone(),
                vec![ResultContent::text(
                    "The result of this call is not known: the session that it comes from has none.",
                )],
                true,
            );
            last = Some(self.add(last, Some(at), body));
        }
        last
    }

    /// The nodes as entries: with ids, in the order of the nodes.
    pub(super) fn into_entries(self) -> Entries {
        let ids: Vec<EntryId> = self.nodes.iter().map(|_| EntryId::generate()).collect();
        let entries = self.nodes.into_iter().enumerate().map(|(index, node)| {
            let body = match node.body {
                NodeBody::Message(Message::ToolResult(mut result)) => {
                    result.invocation_id = InvocationId::new(ids[index].as_str());
                    EntryBody::from(Message::ToolResult(result))
                }
                NodeBody::Message(message) => EntryBody::from(message),
                NodeBody::Compaction {
                    summary,
                    first_kept,
                    tokens_before,
                } => EntryBody::Compaction(Compaction {
                    summary,
                    first_kept: first_kept.map(|kept| ids[kept].clone()),
                    tokens_before,
                    reason: CompactionReason::Manual,
                }),
                NodeBody::BranchSummary { summary, from } => {
                    let from = ids[from].clone();
                    EntryBody::BranchSummary(BranchSummary { summary, from })
                }
                NodeBody::Custom { name, value } => EntryBody::Custom(CustomEntry { name, value }),
            };
            let parent = node.parent.map(|parent| ids[parent].clone());
            (ids[index].clone(), parent, node.at, body)
        });
        Entries {
            entries: entries.collect(),
            tip: self.tip.map(|tip| ids[tip].clone()),
            labels: self
                .labels
                .into_iter()
                .map(|(node, label)| (ids[node].clone(), label))
                .collect(),
        }
    }
}

/// A tree with ids.
pub(super) struct Entries {
    pub(super) entries: Vec<(EntryId, Option<EntryId>, i64, EntryBody)>,
    pub(super) tip: Option<EntryId>,
    pub(super) labels: Vec<(EntryId, String)>,
}

/// A tool's result; its id is given later.
pub(super) fn result(
    call_id: String,
    tool: String,
    content: Vec<ResultContent>,
    is_error: bool,
) -> NodeBody {
    NodeBody::Message(Message::ToolResult(ToolResultMessage {
        call_id,
        invocation_id: InvocationId::new(""),
        tool,
        content,
        structured: None,
        details: Value::Null,
        is_error,
    }))
}
