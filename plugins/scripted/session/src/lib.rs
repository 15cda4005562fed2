//! The embedded scripted model: a tour that needs no key and no network.
//!
//! It is a provider like any other and answers by rules: what it says next follows from the conversation
//! alone ([`answer`]), and its calls run the session's real tools.

mod facet;
mod provider;
mod reply;
mod tour;
mod words;

pub use facet::{ScriptedConfig, facet};
pub use provider::{Tour, model};
pub use tour::{Audience, Part, answer};
