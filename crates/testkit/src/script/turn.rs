//! The turns of a script and their steps.

use std::time::Duration;

use bezel_session_types::{StopReason, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a fake model does with one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Turn {
    /// Streams an answer.
    Answer(Answer),
    /// Refuses with an HTTP error before anything is streamed.
    Refuse(Refusal),
    /// Writes a great many deltas as fast as the socket takes them.
    Flood(Flood),
}

/// A streamed answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// What is streamed, in order.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Why it ends; left out, it follows from the steps: `tool_use` after a call, else `stop`.
    #[serde(default)]
    pub stop_reason: Option<StopReason>,
    /// What it costs.
    #[serde(default)]
    pub usage: Option<Usage>,
}

/// One step of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// One delta of answer text.
    Text(String),
    /// A part of reasoning, streamed word by word.
    Thinking {
        /// The reasoning.
        text: String,
        /// What the caller must send back with it.
        #[serde(default)]
        signature: Option<String>,
    },
    /// A whole tool call, its arguments streamed in pieces. Calls in a row are parallel calls.
    ToolCall(ScriptedCall),
    /// Waits, in milliseconds.
    DelayMs(u64),
    /// An event that is not what the protocol says.
    Malformed,
    /// The connection breaks off: nothing after this is sent.
    Cut,
    /// Nothing more is sent and the connection stays open until the client closes it.
    Stall,
    /// The provider reports a failure inside the stream, which ends it.
    Fault(StreamFault),
}

/// A tool call of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The provider's id; left out, the server makes one.
    #[serde(default)]
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments. A string is sent as it stands: text that is not JSON.
    #[serde(default)]
    pub arguments: Value,
    /// What the caller must send back with it (Gemini).
    #[serde(default)]
    pub signature: Option<String>,
}

/// A failure that a provider reports inside a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamFault {
    /// Overloaded.
    Overloaded,
    /// Too many requests.
    RateLimited,
    /// The conversation does not fit.
    ContextOverflow,
}

/// An HTTP error with the provider's own body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// The provider's words; left out, what it says with that status.
    #[serde(default)]
    pub message: Option<String>,
    /// The `retry-after` header, as it stands.
    #[serde(default)]
    pub retry_after: Option<String>,
    /// Says that the conversation does not fit, as each provider says it.
    #[serde(default)]
    pub context_overflow: bool,
    /// The whole body, as it stands, instead of the provider's JSON.
    #[serde(default)]
    pub body: Option<String>,
}

/// Deltas encoded beforehand, for measurements.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flood {
    /// How many deltas.
    pub deltas: usize,
    /// The text of each.
    pub text: String,
    /// How many go out in one write: 1 is a server that flushes each event, more is a proxy that gathers
    /// them. Whatever it is, each delta is its own chunk.
    #[serde(default = "one")]
    pub a_write: usize,
}

fn one() -> usize {
    1
}

impl Turn {
    /// An answer of text, streamed word by word.
    pub fn text(text: &str) -> Turn {
        Turn::steps(words(text).map(|word| Step::Text(word.into())))
    }

    /// An answer of these steps.
    pub fn steps(steps: impl IntoIterator<Item = Step>) -> Turn {
        Turn::Answer(Answer {
            steps: steps.into_iter().collect(),
            stop_reason: None,
            usage: None,
        })
    }

    /// An answer that calls these tools side by side.
    pub fn tool_calls<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Turn {
        Turn::steps(
            calls
                .into_iter()
                .map(|(name, arguments)| Step::call(name, arguments)),
        )
    }

    /// An HTTP error with what each provider says at that status.
    pub fn status(status: u16) -> Turn {
        Turn::Refuse(Refusal {
            status,
            message: None,
            retry_after: None,
            context_overflow: false,
            body: None,
        })
    }

    /// The error of a conversation that is too long, as each provider reports it.
    pub fn context_overflow() -> Turn {
        let mut turn = Turn::status(400);
        if let Turn::Refuse(refusal) = &mut turn {
            refusal.context_overflow = true;
        }
        turn
    }

    /// `deltas` equal deltas, as fast as the socket takes them, `a_write` of them in one write.
    pub fn flood(deltas: usize, text: &str, a_write: usize) -> Turn {
        Turn::Flood(Flood {
            deltas,
            text: text.into(),
            a_write,
        })
    }

    /// The same with a `retry-after` header. Only for a refusal.
    pub fn retry_after(mut self, value: impl Into<String>) -> Turn {
        if let Turn::Refuse(refusal) = &mut self {
            refusal.retry_after = Some(value.into());
        }
        self
    }

    /// The same with another message. Only for a refusal.
    pub fn saying(mut self, message: impl Into<String>) -> Turn {
        if let Turn::Refuse(refusal) = &mut self {
            refusal.message = Some(message.into());
        }
        self
    }

    /// The same with these steps after its own. Only for an answer.
    pub fn then(mut self, steps: impl IntoIterator<Item = Step>) -> Turn {
        if let Turn::Answer(answer) = &mut self {
            answer.steps.extend(steps);
        }
        self
    }

    /// The same at this price. Only for an answer.
    pub fn usage(mut self, usage: Usage) -> Turn {
        if let Turn::Answer(answer) = &mut self {
            answer.usage = Some(usage);
        }
        self
    }

    /// The same ending for this reason. Only for an answer.
    pub fn stop_reason(mut self, reason: StopReason) -> Turn {
        if let Turn::Answer(answer) = &mut self {
            answer.stop_reason = Some(reason);
        }
        self
    }
}

impl Step {
    /// Reasoning with its signature.
    pub fn thinking(text: &str, signature: Option<&str>) -> Step {
        Step::Thinking {
            text: text.into(),
            signature: signature.map(Into::into),
        }
    }

    /// A tool call whose id the fake makes.
    pub fn call(name: &str, arguments: Value) -> Step {
        Step::ToolCall(ScriptedCall {
            id: None,
            name: name.into(),
            arguments,
            signature: None,
        })
    }

    /// A tool call with this id.
    pub fn call_with_id(id: &str, name: &str, arguments: Value) -> Step {
        Step::ToolCall(ScriptedCall {
            id: Some(id.into()),
            name: name.into(),
            arguments,
            signature: None,
        })
    }

    /// A wait.
    pub fn delay(duration: Duration) -> Step {
        Step::DelayMs(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

impl ScriptedCall {
    /// The arguments as the text that a model would have written.
    pub fn argument_text(&self) -> String {
        match &self.arguments {
            Value::String(text) => text.clone(),
            Value::Null => "{}".into(),
            other => other.to_string(),
        }
    }
}

impl Answer {
    /// Why it ends.
    pub fn ends_with(&self) -> StopReason {
        let calls = self
            .steps
            .iter()
            .any(|step| matches!(step, Step::ToolCall(_)));
        self.stop_reason.unwrap_or(if calls {
            StopReason::ToolUse
        } else {
            StopReason::Stop
        })
    }

    /// What it costs; a small constant where the script says nothing.
    pub fn costs(&self) -> Usage {
        self.usage.unwrap_or(Usage {
            input: 12,
            output: 7,
            ..Usage::default()
        })
    }
}

/// Cuts text after each word, so that the pieces joined are the text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}
