//! Finds comments of the session's project that say what is left to do: an example.
//!
//! The product's manifest does not list it. It shows what a plugin author writes, and all of it: there
//! is no frame, no id and no connection in this crate. `docs/services.md` goes through it.

mod facet;
mod scan;
mod service;
mod tree;

pub use facet::facet;
pub use service::TodoService;
pub use tree::project_tree;

/// The tour for plugin authors: every snippet of it is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/services.md")]
pub struct Tour;
