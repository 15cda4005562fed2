//! An answer as it comes in.

use bezel_session_types::{
    AssistantContent, AssistantMessage, EntryId, ModelEvent, ModelRef, StopReason, ToolCall, Usage,
};

use crate::events::MessageDelta;

/// An answer that comes in.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveMessage {
    /// The id that its entry will have.
    pub entry: EntryId,
    /// From which model.
    pub model: ModelRef,
    /// What came so far; complete calls among it.
    pub content: Vec<AssistantContent>,
    /// The calls that are being written, for display.
    pub calls: Vec<LiveToolCall>,
}

/// A call that is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveToolCall {
    /// Place among the calls of this answer, from 0.
    pub index: usize,
    /// The provider's id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Raw JSON text of the arguments so far.
    pub arguments: String,
}

/// What an event did to the answer.
pub(crate) enum Took {
    /// It came in; for observers.
    Delta(MessageDelta),
    /// It came in; there is nothing to show.
    Silent,
    /// The answer is complete.
    End {
        stop_reason: StopReason,
        usage: Usage,
    },
}

impl LiveMessage {
    pub(crate) fn new(entry: EntryId, model: ModelRef) -> Self {
        LiveMessage {
            entry,
            model,
            content: Vec::new(),
            calls: Vec::new(),
        }
    }

    pub(crate) fn take(&mut self, event: ModelEvent) -> Took {
        match event {
            ModelEvent::Text(more) => {
                if more.is_empty() {
                    return Took::Silent;
                }
                match self.content.last_mut() {
                    Some(AssistantContent::Text { text }) => text.push_str(&more),
                    _ => self
                        .content
                        .push(AssistantContent::Text { text: more.clone() }),
                }
                Took::Delta(MessageDelta::Text {
                    part: self.content.len() - 1,
                    text: more,
                })
            }
            ModelEvent::Thinking(more) => {
                if more.is_empty() {
                    return Took::Silent;
                }
                match self.content.last_mut() {
                    Some(AssistantContent::Thinking {
                        text,
                        signature: None,
                    }) => text.push_str(&more),
                    _ => self.content.push(AssistantContent::Thinking {
                        text: more.clone(),
                        signature: None,
                    }),
                }
                Took::Delta(MessageDelta::Thinking {
                    part: self.content.len() - 1,
                    text: more,
                })
            }
            ModelEvent::ThinkingSignature(signed) => {
                match self.content.last_mut() {
                    Some(AssistantContent::Thinking { signature, .. }) if signature.is_none() => {
                        *signature = Some(signed);
                    }
                    // Reasoning that the provider shows nothing of.
                    _ => self.content.push(AssistantContent::Thinking {
                        text: String::new(),
                        signature: Some(signed),
                    }),
                }
                Took::Silent
            }
            ModelEvent::ToolCallStart { index, id, name } => {
                let (arguments, call) = (String::new(), (id.clone(), name.clone()));
                self.calls.push(LiveToolCall {
                    index,
                    id: call.0,
                    name: call.1,
                    arguments,
                });
                Took::Delta(MessageDelta::ToolCallStart { index, id, name })
            }
            ModelEvent::ToolCallDelta { index, arguments } => {
                if let Some(call) = self.calls.iter_mut().find(|call| call.index == index) {
                    call.arguments.push_str(&arguments);
                }
                Took::Delta(MessageDelta::ToolCallArguments {
                    index,
                    text: arguments,
                })
            }
            ModelEvent::ToolCall(call) => {
                let call = self.with_own_id(call);
                self.content.push(AssistantContent::ToolCall(call));
                Took::Silent
            }
            ModelEvent::End { stop_reason, usage } => Took::End { stop_reason, usage },
        }
    }

    /// Ids of calls are what results are matched by: one that is missing or not the only one of
    /// its kind is replaced.
    fn with_own_id(&self, mut call: ToolCall) -> ToolCall {
        let taken = |id: &str| {
            self.content
                .iter()
                .any(|part| matches!(part, AssistantContent::ToolCall(other) if other.id == id))
        };
        if call.id.is_empty() || taken(&call.id) {
            let base = if call.id.is_empty() {
                "call".to_owned()
            } else {
                call.id
            };
            let free = (2..)
                .map(|number| format!("{base}_{number}"))
                .find(|id| !taken(id));
            call.id = free.expect("there is a free number");
        }
        call
    }

    /// The answer as it ended.
    pub(crate) fn finish(self, stop_reason: StopReason, usage: Usage) -> AssistantMessage {
        let LiveMessage { model, content, .. } = self;
        AssistantMessage {
            content,
            model,
            usage,
            stop_reason,
            error: None,
        }
    }

    /// The answer as far as it came. Its calls were never planned and leave with it.
    pub(crate) fn cut_off(
        self,
        stop_reason: StopReason,
        error: Option<String>,
    ) -> AssistantMessage {
        let mut message = AssistantMessage {
            error,
            ..self.finish(stop_reason, Usage::default())
        };
        message
            .content
            .retain(|part| !matches!(part, AssistantContent::ToolCall(_)));
        message
    }
}
