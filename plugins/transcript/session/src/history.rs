//! What a tree's entries say besides their items.

use bezel_session_types::{Entry, EntryBody, Message};
use bezel_transcript_contract::{Item, ItemBody, entries::call_id};

/// A call in the tree whose result is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenCall {
    /// The provider's id.
    pub(crate) call: String,
    /// The id of its item.
    pub(crate) item: String,
}

/// The calls of the last answer that have no result yet: a session that is taken up settles them.
pub(crate) fn open_calls(entries: &[Entry]) -> Vec<OpenCall> {
    let mut open = Vec::new();
    for entry in entries {
        let EntryBody::Message { message } = &entry.body else {
            continue;
        };
        match &**message {
            Message::Assistant(message) => {
                let calls = message.tool_calls().enumerate();
                open = calls
                    .map(|(place, call)| OpenCall {
                        call: call.id.clone(),
                        item: call_id(&entry.id, place),
                    })
                    .collect();
            }
            Message::ToolResult(result) => open.retain(|open| open.call != result.call_id),
            Message::User(_) => {}
        }
    }
    open
}

/// The place of an item. A call may have been named before its result gave it an id of its own.
pub(crate) fn place(items: &[Item], id: &str) -> Option<usize> {
    let find = |id: &str| items.iter().position(|item| item.id == id);
    find(id).or_else(|| {
        let (answer, call) = id.split_once(':')?;
        let place = (find(answer)? + 1).checked_add(call.parse().ok()?)?;
        matches!(items.get(place)?.body, ItemBody::Tool(_)).then_some(place)
    })
}
