//! Markdown: parsed into blocks of styled spans, laid out as lines, and both kept up to date while text
//! still arrives.
//!
//! [`parse`] gives blocks for presentations that lay out themselves; [`lay_out`] gives lines of a width;
//! [`MarkdownText`] is text that grows, and does work only for what is not settled yet.

mod address;
mod block;
mod layout;
mod parse;
mod stream;
mod table;

pub use block::{Alignment, Block, Inline, ListItem};
pub use layout::lay_out;
pub use parse::parse;
pub use stream::MarkdownText;
