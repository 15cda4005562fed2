//! Finds files of the session's location by fuzzy name.

mod facet;
mod listing;
mod ranking;
mod search;

pub use facet::facet;
pub use ranking::Match;
pub use search::{FileSearch, FileSearchError};
