//! A session's files apart from any run: taken in from elsewhere, packed to be taken along, checked.
//!
//! None of it belongs to a harness that runs. Taking in writes a new database at a place that nobody works
//! with yet; packing and checking only read, also beside the owner.

mod check;
mod claude;
mod codex;
mod draft;
mod import;
mod lines;
mod pi;
#[cfg(test)]
mod tests;

pub use check::check;
pub use import::{ImportError, ImportPlace, import};

use std::path::Path;

use bezel_store::Reader;
pub use bezel_store::{PackageError, PackageFacts};

/// Packs a session into one new file, whoever works in it meanwhile. The session is as it was at one
/// moment; its saved output is what is there.
pub fn export(database: &Path, facts: &PackageFacts, target: &Path) -> Result<(), PackageError> {
    let reader = Reader::open(database).map_err(PackageError::Open)?;
    reader.pack(facts, &facts.output_directory, target)
}
