//! The contracts that are measured.

use bezel_rpc::{Context, State, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Some 4 KiB: 64 lines and a version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Page {
    /// The worker's target.
    pub owner: String,
    pub version: u64,
    pub lines: Vec<String>,
}

impl Page {
    pub fn filled(owner: &str) -> Self {
        Page {
            owner: owner.to_owned(),
            version: 0,
            lines: (0..64).map(|line| line_of(line, 0)).collect(),
        }
    }

    /// The next version: one line differs.
    pub fn advance(&mut self) {
        self.version += 1;
        let index = (self.version % 64) as usize;
        self.lines[index] = line_of(index, self.version);
    }
}

fn line_of(index: usize, version: u64) -> String {
    format!("line {index:2} at version {version:10}: some text that fills the page")
}

/// Some MiB of entries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Book {
    pub version: u64,
    pub entries: Vec<Entry>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    pub title: String,
    pub text: String,
}

/// What the server itself offers.
#[service("control", version = "1.0")]
pub trait Control {
    /// Attaches the caller to a target.
    async fn attach(&self, cx: &Context, target: String);
    /// Frames of state that workers have sent so far.
    #[scope(read)]
    async fn encodings(&self, cx: &Context) -> u64;
}

/// A worker's calls.
#[service("text", version = "1.0")]
pub trait Text {
    async fn echo(&self, cx: &Context, text: String) -> String;
    /// `size` bytes of output.
    #[scope(read)]
    async fn output(&self, cx: &Context, size: usize) -> String;
}

/// One cell with a writer.
#[service("sheet", version = "1.0")]
pub trait Sheet {
    fn page(&self) -> State<Page>;
    /// Changes the page so often; answers its version.
    async fn write(&self, cx: &Context, times: u64) -> u64;
    /// Sets the page so often to what it is.
    async fn rewrite(&self, cx: &Context, times: u64);
}

/// One large cell.
#[service("library", version = "1.0")]
pub trait Library {
    fn book(&self) -> State<Book>;
    /// Gives one entry another title; answers the new version.
    async fn rename(&self, cx: &Context, index: usize, title: String) -> u64;
}

/// A call whose work is nothing, for what a handle costs.
#[service("adder", version = "1.0")]
pub trait Adder {
    async fn add(&self, cx: &Context, left: u64, right: u64) -> u64;
}

/// Fifty cells, and a writer that changes them all the while.
macro_rules! board {
    ($($cell:ident)*) => {
        #[service("board", version = "1.0")]
        pub trait Board {
            $(fn $cell(&self) -> State<Page>;)*
            /// Turns the writer on and off.
            async fn churn(&self, cx: &Context, on: bool);
        }

        /// The cells' names, in the order of the contract.
        pub const CELL_NAMES: &[&str] = &[$(stringify!($cell)),*];

        /// All cells, in the order of the contract.
        pub fn cells(board: &BoardClient) -> Vec<State<Page>> {
            vec![$(board.$cell()),*]
        }

        macro_rules! cells_of_board {
            ($found:ident) => {
                $(fn $cell(&self) -> State<Page> { self.$found(stringify!($cell)) })*
            };
        }
        pub(super) use cells_of_board;
    };
}

board! {
    c00 c01 c02 c03 c04 c05 c06 c07 c08 c09 c10 c11 c12 c13 c14 c15 c16 c17 c18 c19 c20 c21 c22 c23 c24
    c25 c26 c27 c28 c29 c30 c31 c32 c33 c34 c35 c36 c37 c38 c39 c40 c41 c42 c43 c44 c45 c46 c47 c48 c49
}
