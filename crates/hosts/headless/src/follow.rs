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
        let open = self
            .told
            .iter()
            .filter(|(_, told)| !told.settled)
            .map(|(id, _)| id);
        open.chain(&self.newest)
            .any(|id| !shown.contains(id.as_str()))
            || self.newest.is_none()
    }

    /// Tells what is new in `items`, oldest first.
    pub(crate) fn tell<'a>(&mut self, items: impl Iterator<Item = &'a Item>) -> Vec<RunEvent> {
        let mut events = Vec::new();
        for item in items {
            if self.newest.as_ref() != Some(&item.id) {
                self.newest = Some(item.id.clone());
            }
            if self.before.contains(&item.id)
                || self.told.get(&item.id).is_some_and(|told| told.settled)
            {
                continue;
            }
            // A call that is still being written has a name of its own until it is whole.
            if matches!(&item.body, ItemBody::Tool(tool) if tool.status == ToolStatus::Streaming) {
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
                        });
                    }
                }
                ItemBody::Tool(tool) => told.tool(&item.id, tool, &mut events),
                ItemBody::Compaction { summary } => {
                    told.settled = true;
                    events.push(RunEvent::Compaction {
                        item: item.id.clone(),
                        summary: summary.clone(),
                    });
                }
            }
        }
        events
    }

    /// Whether everything that was begun was told to its end.
    pub(crate) fn is_settled(&self) -> bool {
        self.told.values().all(|told| told.settled)
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
        });
    }
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        Part::Thinking { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use bezel_session_types::ModelRef;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn item(id: &str, body: ItemBody) -> Item {
        Item {
            id: id.into(),
            at: "2026-01-01T00:00:00Z".into(),
            body,
        }
    }

    fn user(id: &str, text: &str) -> Item {
        item(
            id,
            ItemBody::User {
                text: text.into(),
                images: 0,
                synthetic: false,
            },
        )
    }

    fn answer(id: &str, parts: &[Part], done: bool) -> Item {
        let model = ModelRef {
            provider: "p".into(),
            model_id: "m".into(),
        };
        item(
            id,
            ItemBody::Assistant {
                model,
                parts: parts.to_vec(),
                done,
                error: None,
                usage: None,
            },
        )
    }

    fn text(text: &str) -> Part {
        Part::Text { text: text.into() }
    }

    fn tool(id: &str, status: ToolStatus, output: &str) -> Item {
        item(
            id,
            ItemBody::Tool(ToolItem {
                tool: "bash".into(),
                arguments: json!({ "command": "ls" }),
                arguments_text: String::new(),
                status,
                output: output.into(),
                clipped: false,
                details: json!(null),
                ended_at: None,
            }),
        )
    }

    fn state(items: &[Item]) -> TranscriptState {
        TranscriptState {
            items: items.to_vec(),
            ..TranscriptState::default()
        }
    }

    #[test]
    fn the_own_prompt_is_not_told_and_a_message_of_somebody_else_is() {
        let before = [user("1", "old"), answer("2", &[text("old answer")], true)];
        let mut follower = Follower::new(&state(&before), "do it");
        let now = [
            &before[..],
            &[
                user("3", "do it"),
                user("4", "and this"),
                user("5", "do it"),
            ],
        ]
        .concat();
        let told: Vec<_> = follower
            .tell(now.iter())
            .into_iter()
            .map(|event| serde_json::to_value(event).unwrap())
            .collect();
        assert_eq!(
            told,
            [
                json!({ "type": "message", "item": "4", "text": "and this", "synthetic": false }),
                json!({ "type": "message", "item": "5", "text": "do it", "synthetic": false }),
            ]
        );
        assert!(follower.tell(now.iter()).is_empty());
    }

    #[test]
    fn a_call_whose_written_form_is_gone_is_not_looked_for_among_older_items() {
        let call = |id: &str, status| {
            let tool = ToolItem {
                tool: "bash".into(),
                arguments: json!({}),
                arguments_text: String::new(),
                status,
                output: String::new(),
                clipped: false,
                details: json!(null),
                ended_at: None,
            };
            item(id, ItemBody::Tool(tool))
        };
        let mut follower = Follower::new(&state(&[user("1", "old")]), "x");
        follower.tell([call("2/0", ToolStatus::Streaming)].iter());
        let ended = [call("invocation", ToolStatus::Done)];
        let told = follower.tell(ended.iter());
        assert!(!told.is_empty());
        assert!(follower.is_settled());
        assert!(!follower.misses(ended.iter(), true));
    }

    #[test]
    fn a_text_that_begins_anew_is_marked_and_told_whole() {
        let mut follower = Follower::new(&state(&[]), "x");
        follower.tell([answer("1", &[text("Hello wor")], false)].iter());
        let told = follower.tell([answer("1", &[text("Hi")], true)].iter());
        assert_eq!(
            told,
            [
                RunEvent::TextDelta {
                    item: "1".into(),
                    part: 0,
                    text: "Hi".into(),
                    restarted: true
                },
                RunEvent::Text {
                    item: "1".into(),
                    part: 0,
                    text: "Hi".into()
                },
            ]
        );
        assert_eq!(follower.answer(), Some("Hi"));
    }

    #[test]
    fn a_window_that_skipped_items_is_noticed() {
        let mut follower = Follower::new(&state(&[user("1", "old")]), "x");
        follower.tell(
            [
                user("1", "old"),
                tool("2", ToolStatus::Running, ""),
                user("3", "a"),
            ]
            .iter(),
        );
        let later = [user("3", "a"), user("4", "b")];
        // The running tool has left the window.
        assert!(follower.misses(later.iter(), true));
        assert!(!follower.misses(later.iter(), false));
        follower.tell([tool("2", ToolStatus::Done, "")].iter().chain(&later));
        assert!(!follower.misses(later.iter(), true));
        // Nothing of what was seen is there any more.
        assert!(follower.misses([user("9", "z")].iter(), true));
        let fresh = Follower::new(&state(&[]), "x");
        assert!(fresh.misses([user("9", "z")].iter(), true));
    }

    /// One step of a conversation that only grows.
    #[derive(Debug, Clone)]
    enum Step {
        Append(String),
        NewPart,
        NewAnswer,
        Tool(ToolStatus),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => "[a-zé\n]{0,8}".prop_map(Step::Append),
            1 => Just(Step::NewPart),
            1 => Just(Step::NewAnswer),
            2 => prop_oneof![Just(ToolStatus::Streaming), Just(ToolStatus::Running), Just(ToolStatus::Done), Just(ToolStatus::Failed)]
                .prop_map(Step::Tool),
        ]
    }

    fn grow(items: &mut Vec<Item>, step: &Step) {
        let next = items.len().to_string();
        let finish = |items: &mut Vec<Item>| {
            if let Some(Item {
                body: ItemBody::Assistant { done, .. },
                ..
            }) = items.last_mut()
            {
                *done = true;
            }
        };
        match (step, items.last_mut().map(|item| &mut item.body)) {
            (Step::Append(more), Some(ItemBody::Assistant { parts, .. })) => {
                if let Some(Part::Text { text }) = parts.last_mut() {
                    text.push_str(more);
                }
            }
            (Step::NewPart, Some(ItemBody::Assistant { parts, .. })) => parts.push(text("")),
            (Step::Tool(status), Some(ItemBody::Tool(tool)))
                if tool.status == ToolStatus::Streaming =>
            {
                tool.status = *status
            }
            (Step::Tool(status), Some(ItemBody::Tool(tool)))
                if tool.status == ToolStatus::Running =>
            {
                if *status != ToolStatus::Streaming {
                    tool.status = *status;
                }
            }
            (Step::Tool(status), _) => {
                finish(items);
                items.push(tool(&next, *status, "out"));
            }
            _ => {
                finish(items);
                items.push(answer(&next, &[text("")], false));
            }
        }
    }

    proptest! {
        /// Whatever states are skipped, the pieces add up to the whole and every call is told once.
        #[test]
        fn pieces_add_up_whatever_was_skipped(steps in prop::collection::vec((step(), any::<bool>()), 1..60)) {
            let mut items = Vec::new();
            let mut follower = Follower::new(&state(&[]), "x");
            let mut told = Vec::new();
            for (step, seen) in &steps {
                grow(&mut items, step);
                if *seen {
                    told.extend(follower.tell(items.iter()));
                }
            }
            if let Some(Item { body: ItemBody::Assistant { done, .. }, .. }) = items.last_mut() {
                *done = true;
            }
            told.extend(follower.tell(items.iter()));
            prop_assert!(follower.tell(items.iter()).is_empty());
            for item in &items {
                let of_item = |event: &&RunEvent| serde_json::to_value(event).unwrap()["item"] == json!(item.id);
                let events: Vec<&RunEvent> = told.iter().filter(of_item).collect();
                match &item.body {
                    ItemBody::Assistant { parts, .. } => {
                        for (index, part) in parts.iter().enumerate() {
                            let Part::Text { text: whole } = part else { continue };
                            let pieces: String = events.iter().filter_map(|event| match event {
                                RunEvent::TextDelta { part, text, restarted: false, .. } if *part == index => Some(text.as_str()),
                                _ => None,
                            }).collect();
                            prop_assert_eq!(&pieces, whole);
                            let complete = events.iter().filter(|event| {
                                matches!(event, RunEvent::Text { part, text, .. } if *part == index && text == whole)
                            });
                            prop_assert_eq!(complete.count(), 1);
                        }
                    }
                    ItemBody::Tool(tool) => {
                        let starts = events.iter().filter(|event| matches!(event, RunEvent::ToolStart { .. })).count();
                        let ends = events.iter().filter(|event| matches!(event, RunEvent::ToolEnd { .. })).count();
                        prop_assert_eq!(starts, usize::from(tool.status != ToolStatus::Streaming));
                        prop_assert_eq!(ends, usize::from(matches!(tool.status, ToolStatus::Done | ToolStatus::Failed)));
                    }
                    _ => {}
                }
            }
        }
    }
}
