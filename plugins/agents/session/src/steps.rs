//! The end of an agent's steps: the last request of a turn is answered in text.

use std::num::NonZeroU32;
use std::sync::Arc;

use bezel_api_session::RequestDraft;
use bezel_session_types::{Message, ToolChoice, UserMessage};

/// Has a request that is the last of its turn, or one after it, answered without tools. What makes another after it,
/// a plugin's word for example, is answered without them too, until a person says something.
pub(crate) fn limit(mut draft: RequestDraft, steps: Option<NonZeroU32>) -> RequestDraft {
    let Some(steps) = steps.filter(|steps| draft.step >= steps.get()) else {
        return draft;
    };
    let mut word = UserMessage::text(format!(
        "This was the last of the {steps} steps that you have for a turn: no tool can be called any more until the \
         person says something. Answer now in text alone: what is done, what was found, what is left to do, and how you \
         would go on."
    ));
    word.synthetic = true;
    draft.messages.push(Arc::new(Message::User(word)));
    draft.options.tool_choice = ToolChoice::None;
    draft
}
