//! OpenAI Responses, without a conversation stored at the provider: the whole input goes out each time, and
//! reasoning goes back encrypted. The signature of a part of reasoning is its `encrypted_content`.

mod decode;
mod request;

pub(crate) use decode::Decoder;
pub(crate) use request::body;
