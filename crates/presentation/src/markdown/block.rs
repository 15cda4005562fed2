//! The blocks of a Markdown text.

use std::sync::Arc;

use crate::StyledLine;

/// Styled text of a paragraph, heading or cell; more than one line where the author broke it.
pub type Inline = Vec<StyledLine>;

/// One block.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A heading.
    Heading {
        /// 1 to 6.
        level: u8,
        /// Its text.
        text: Inline,
    },
    /// Text.
    Paragraph(Inline),
    /// Code, fenced or indented.
    Code {
        /// What stands behind the fence; empty if nothing.
        language: Arc<str>,
        /// The code, with its last newline if it has one.
        text: String,
    },
    /// A quotation.
    Quote(Vec<Block>),
    /// A list.
    List {
        /// The first number of an ordered one.
        start: Option<u64>,
        /// Whether its items are set apart by empty lines.
        loose: bool,
        /// The items.
        items: Vec<ListItem>,
    },
    /// A table.
    Table {
        /// How each column is aligned.
        alignments: Vec<Alignment>,
        /// The first row.
        header: Vec<Inline>,
        /// All others.
        rows: Vec<Vec<Inline>>,
    },
    /// A line across.
    Rule,
    /// HTML, as it stands.
    Html(String),
}

/// One item of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListItem {
    /// For tasks: whether it is done.
    pub done: Option<bool>,
    /// What it holds.
    pub blocks: Vec<Block>,
}

/// How a column is aligned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Alignment {
    /// To the left.
    #[default]
    Left,
    /// In the middle.
    Center,
    /// To the right.
    Right,
}
