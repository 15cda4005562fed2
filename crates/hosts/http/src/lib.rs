//! The HTTP presentation: members as requests, states and events as server-sent events.
//!
//! [`HttpHost`] turns requests into calls of a link, which it makes with the request's bearer token over a
//! connection of its own: [`Visitors`] hands those to the server's listener, with the address that the request
//! came from. So a request is let in, limited, checked, cancelled and answered as any other presentation is,
//! and this host decides nothing of that. It opens no port: who has one gives it requests.
//!
//! What can be reached is what its OpenAPI document lists. [`openapi`] writes that from the contracts.

mod answer;
mod catalogue;
mod closed;
mod follow;
mod links;
pub mod openapi;
mod request;
mod serve;
mod stream;

pub use catalogue::DocumentError;
pub use serve::{HttpHost, HttpOptions, Visitors};
