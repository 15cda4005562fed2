//! Items for tests.

use bezel_session_types::ModelRef;
use bezel_transcript_contract::{Item, ItemBody, Part, ToolItem, ToolStatus};
use serde_json::{Value, json};

pub(crate) const AT: &str = "2026-03-01T12:00:00Z";

pub(crate) fn item(id: &str, body: ItemBody) -> Item {
    Item {
        id: id.into(),
        at: AT.into(),
        body,
    }
}

/// Something that a person said; the text is the id.
pub(crate) fn said(id: &str) -> Item {
    item(
        id,
        ItemBody::User {
            text: id.into(),
            images: 0,
            synthetic: false,
        },
    )
}

pub(crate) fn answer(id: &str, parts: Vec<Part>, done: bool) -> Item {
    let model = ModelRef {
        provider: "test".into(),
        model_id: "model".into(),
    };
    item(
        id,
        ItemBody::Assistant {
            model,
            parts,
            done,
            error: None,
            usage: None,
        },
    )
}

pub(crate) fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

pub(crate) fn thinking(text: &str) -> Part {
    Part::Thinking { text: text.into() }
}

/// A call that succeeded.
pub(crate) fn call(id: &str, tool: &str) -> Item {
    called(id, tool, ToolStatus::Done, "")
}

/// A call at some point of its life.
pub(crate) fn called(id: &str, tool: &str, status: ToolStatus, output: &str) -> Item {
    let ended = matches!(status, ToolStatus::Done | ToolStatus::Failed);
    let tool = ToolItem {
        tool: tool.into(),
        arguments: json!({"path": "src/lib.rs"}),
        arguments_text: String::new(),
        status,
        output: output.into(),
        clipped: false,
        details: Value::Null,
        structured: None,
        ended_at: ended.then(|| "2026-03-01T12:00:01.5Z".into()),
    };
    item(id, ItemBody::Tool(tool))
}
