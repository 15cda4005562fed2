//! Anthropic Messages. The signature of a part of reasoning is Anthropic's own; reasoning that Anthropic
//! keeps to itself is a part without text whose signature is `redacted:` and its data.

mod decode;
mod request;

pub(crate) use decode::Decoder;
pub(crate) use request::{body, thinks_between_calls};

/// Before the data of reasoning that is not shown. No signature of Anthropic's has a colon.
const REDACTED: &str = "redacted:";
