//! Markdown, highlighting, diffs, themes and fuzzy search, computed once for every presentation.
//!
//! Nothing here knows a terminal or a browser: text is [`StyledLine`]s of [`StyledSpan`]s whose
//! [`Role`]s say what a piece is; a [`theme::Theme`] says what a role looks like.

pub mod clock;
pub mod diff;
pub mod format;
pub mod fuzzy;
pub mod highlight;
pub mod markdown;
pub mod text;
pub mod theme;
pub mod wrap;

pub use text::{Role, StyledLine, StyledSpan, TextStyle};
