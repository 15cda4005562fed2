//! The tool calls of one answer while they arrive.

use bezel_session_types::{ModelEvent, ToolCall};
use serde_json::{Map, Value};

use super::call_id;
use crate::answer::Events;

/// A call whose arguments arrive in pieces.
#[derive(Debug)]
struct Open {
    id: String,
    name: String,
    arguments: String,
    signature: Option<String>,
    done: bool,
}

/// The calls of one answer, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Calls(Vec<Open>);

impl Calls {
    /// A call begins; an empty id is replaced. Returns its place.
    pub(crate) fn start(
        &mut self,
        id: &str,
        name: &str,
        signature: Option<String>,
        events: &mut Events,
    ) -> usize {
        let id = if id.is_empty() {
            call_id::generate()
        } else {
            id.into()
        };
        let index = self.0.len();
        events.push(ModelEvent::ToolCallStart {
            index,
            id: id.clone(),
            name: name.into(),
        });
        self.0.push(Open {
            id,
            name: name.into(),
            arguments: String::new(),
            signature,
            done: false,
        });
        index
    }

    /// More of a call's arguments.
    pub(crate) fn arguments(&mut self, index: usize, piece: &str, events: &mut Events) {
        if let Some(open) = self.0.get_mut(index).filter(|open| !open.done) {
            open.arguments.push_str(piece);
            events.arguments(index, piece);
        }
    }

    /// A call is complete; `whole` are its arguments where the provider repeats them.
    pub(crate) fn finish(&mut self, index: usize, whole: Option<&str>, events: &mut Events) {
        let Some(open) = self.0.get_mut(index).filter(|open| !open.done) else {
            return;
        };
        open.done = true;
        let text = whole.unwrap_or(&open.arguments);
        events.push(ModelEvent::ToolCall(ToolCall {
            id: open.id.clone(),
            name: open.name.clone(),
            arguments: parse(text),
            signature: open.signature.take(),
        }));
    }

    /// Every call that is still open is complete.
    pub(crate) fn finish_all(&mut self, events: &mut Events) {
        for index in 0..self.0.len() {
            self.finish(index, None, events);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The place of the call with this id.
    pub(crate) fn with_id(&self, id: &str) -> Option<usize> {
        self.0.iter().position(|open| open.id == id)
    }
}

/// Arguments as a value: no text is no arguments, and text that is not JSON stays text.
fn parse(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_joined_and_what_is_not_json_stays_text() {
        let (mut calls, mut events) = (Calls::default(), Events::default());
        let first = calls.start("a", "read", None, &mut events);
        let second = calls.start("", "bash", None, &mut events);
        calls.arguments(first, "{\"pa", &mut events);
        calls.arguments(second, "{broken", &mut events);
        calls.arguments(first, "th\":1}", &mut events);
        calls.finish_all(&mut events);
        calls.finish_all(&mut events);
        let complete: Vec<_> = std::iter::from_fn(|| events.pop())
            .filter_map(|event| match event {
                ModelEvent::ToolCall(call) => Some(call),
                _ => None,
            })
            .collect();
        assert_eq!(complete.len(), 2, "each call is complete once");
        assert_eq!(complete[0].arguments, json!({ "path": 1 }));
        assert_eq!(complete[1].arguments, json!("{broken"));
        assert!(complete[1].id.starts_with("call_"));
        assert_eq!(parse(" "), json!({}));
    }
}
