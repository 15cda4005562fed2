//! The session database: one SQLite file per session, written by one owner, readable beside it.
//!
//! [`Store`] owns the file: it holds a lock that the kernel releases when its holder dies, and
//! commits one [`Transaction`] at a time, all or nothing. A commit survives `kill -9`; one that was
//! awaited with [`Store::synced`] survives a power cut too. [`Reader`] reads the same file from
//! another process without disturbing the owner. Both read through [`Queries`]. A whole session travels as
//! one file, a [`Package`].
//!
//! The crate knows rows, not sessions: what an operation or a lane is, the harness says.

mod ancestry;
mod check;
mod error;
mod fork;
mod lock;
mod open;
mod package;
mod queries;
mod reader;
mod schema;
mod seal;
mod store;
mod sync;
mod transaction;
mod view;

pub use error::{CommitError, OpenError, ReadError};
pub use fork::{ForkError, ForkOrigin, ForkScope, fork};
pub use package::{Package, PackageError, PackageFacts, WriteOutError};
pub use queries::{JournalRow, Page, Queries, UsageTotals};
pub use reader::Reader;
pub use store::Store;
pub use transaction::{
    Committed, InboxRow, JournalEvent, NewEntry, NewInboxRow, Receipt, Transaction, UsageRow,
};
pub use view::view;
