//! Gemini `streamGenerateContent`. Signatures stand on parts of any sort: a call's is the call's own; that of
//! a text is kept as a part of reasoning without text behind it, and goes back to the text.

mod decode;
mod request;

pub(crate) use decode::Decoder;
pub(crate) use request::body;
