//! The chunks of a streamed chat completions answer, as servers write them.

use std::borrow::Cow;
use std::fmt;

use bezel_session_types::Usage;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::wire::Text;

#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    pub(super) usage: Option<ChatUsage>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Text<'a>>,
    /// Moonshot has it here.
    #[serde(default)]
    pub(super) usage: Option<ChatUsage>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) content: Content<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning: Option<Text<'a>>,
    #[serde(default)]
    pub(super) reasoning_details: Option<Vec<Detail>>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<Text<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(default)]
    pub(super) index: Option<usize>,
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) function: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<Text<'a>>,
}

/// One entry of OpenRouter's `reasoning_details`. What belongs to one entry comes in pieces.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Detail {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) signature: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) format: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) index: Option<usize>,
}

#[derive(Deserialize)]
pub(super) struct ChatUsage {
    #[serde(default)]
    pub(super) prompt_tokens: Option<u64>,
    #[serde(default)]
    pub(super) completion_tokens: Option<u64>,
    #[serde(default)]
    pub(super) total_tokens: Option<u64>,
    /// DeepSeek's name for it.
    #[serde(default)]
    pub(super) prompt_cache_hit_tokens: Option<u64>,
    #[serde(default)]
    pub(super) prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    pub(super) completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize)]
pub(super) struct PromptDetails {
    #[serde(default)]
    pub(super) cached_tokens: Option<u64>,
    #[serde(default)]
    pub(super) cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct CompletionDetails {
    #[serde(default)]
    pub(super) reasoning_tokens: Option<u64>,
}

/// The content of a delta: text, or Mistral's chunks of text and thought.
#[derive(Default)]
pub(super) struct Content<'a> {
    pub(super) text: Option<Cow<'a, str>>,
    pub(super) chunks: Vec<ContentChunk>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentChunk {
    Text {
        text: String,
    },
    Thinking {
        thinking: Vec<ContentChunk>,
    },
    #[serde(other)]
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;

        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("text, chunks or null")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Content {
                    text: Some(Cow::Borrowed(text)),
                    chunks: Vec::new(),
                })
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content {
                    text: Some(Cow::Owned(text.into())),
                    chunks: Vec::new(),
                })
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Content::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut sequence: A,
            ) -> Result<Self::Value, A::Error> {
                let mut chunks = Vec::new();
                while let Some(chunk) = sequence.next_element()? {
                    chunks.push(chunk);
                }
                Ok(Content { text: None, chunks })
            }
        }

        deserializer.deserialize_any(ContentVisitor)
    }
}

impl Detail {
    /// Appends a further piece of the same entry.
    pub(super) fn extend(&mut self, piece: Detail) {
        let append = |whole: &mut Option<String>, piece: Option<String>| {
            if let Some(piece) = piece {
                whole.get_or_insert_default().push_str(&piece);
            }
        };
        append(&mut self.text, piece.text);
        append(&mut self.summary, piece.summary);
        append(&mut self.data, piece.data);
        self.signature = piece.signature.or(self.signature.take());
        self.id = piece.id.or(self.id.take());
        self.format = piece.format.or(self.format.take());
    }
}

impl From<ChatUsage> for Usage {
    fn from(usage: ChatUsage) -> Self {
        let input = usage.prompt_tokens.unwrap_or_default();
        let output = usage.completion_tokens.unwrap_or_default();
        let details = usage.prompt_tokens_details;
        let cache_read = details
            .as_ref()
            .and_then(|details| details.cached_tokens)
            .or(usage.prompt_cache_hit_tokens);
        let cache_read = cache_read.unwrap_or_default();
        let cache_write = details
            .and_then(|details| details.cache_write_tokens)
            .unwrap_or_default();
        let reasoning = usage
            .completion_tokens_details
            .and_then(|details| details.reasoning_tokens)
            .unwrap_or_default();
        // xAI counts reasoning beside the output, not within it.
        let beside = usage.total_tokens == Some(input + output + reasoning);
        Usage {
            input: input.saturating_sub(cache_read).saturating_sub(cache_write),
            output: if beside { output + reasoning } else { output },
            cache_read,
            cache_write,
            reasoning,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_counts_what_each_server_counts_elsewhere() {
        let usage = |text: &str| Usage::from(serde_json::from_str::<ChatUsage>(text).unwrap());
        let deepseek =
            usage(r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":4}"#);
        assert_eq!((deepseek.input, deepseek.cache_read), (6, 4));
        let xai = usage(
            r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":35,"completion_tokens_details":{"reasoning_tokens":20}}"#,
        );
        assert_eq!((xai.output, xai.reasoning), (25, 20));
    }
}
