//! OpenAI chat completions, and the servers that are compatible with it.
//!
//! The format has no place for signatures, and servers disagree on where reasoning stands. So the signature
//! of a part of reasoning says where it came from, and it goes back there: the name of a field
//! (`reasoning_content`, `reasoning`), `content` for a chunk of the content, or the JSON array of
//! `reasoning_details`.

mod chunk;
mod decode;
mod request;

pub(crate) use decode::Decoder;
pub(crate) use request::body;

/// The field of DeepSeek, llama.cpp and most others.
const REASONING_CONTENT: &str = "reasoning_content";
/// The field of Groq, vLLM and others.
const REASONING: &str = "reasoning";
/// A chunk of the content: Mistral.
const IN_CONTENT: &str = "content";
