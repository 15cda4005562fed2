//! Keeps a session's blobs on its disk, and gives out whole outputs of its tools.
//!
//! The bytes lie in the session's own directory, so they go when the session goes. This process is their
//! only writer, and what it knows of them beyond their files it can find out from their files.

mod facet;
mod index;
mod limits;
mod outputs;
mod service;
mod store;

pub use facet::facet;
pub use limits::StoreLimits;
pub use store::BlobStore;
