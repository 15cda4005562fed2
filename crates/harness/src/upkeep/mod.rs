//! A session's files apart from any run: taken in from elsewhere, packed to be taken along, checked.
//!
//! None of it belongs to a harness that runs. Taking in writes a new database at a place that nobody works
//! with yet; packing, writing out and checking only read, also beside the owner.

mod check;
mod claude;
mod codex;
mod draft;
mod import;
mod lines;
mod pi;
mod readable;
#[cfg(test)]
mod tests;

pub use check::check;
pub use import::{ImportError, ImportPlace, import};

use std::path::Path;

use bezel_session_types::ExportFormat;
use bezel_store::Reader;
pub use bezel_store::{PackageError, PackageFacts};

/// Writes a session into one new file, whoever works in it meanwhile. The session is as it was at one
/// moment; its saved output, which only a whole session has with it, is what is there.
pub fn export(
    database: &Path,
    facts: &PackageFacts,
    format: ExportFormat,
    target: &Path,
) -> Result<(), PackageError> {
    let reader = Reader::open(database).map_err(PackageError::Open)?;
    match format {
        ExportFormat::Bezel => reader.pack(facts, &facts.output_directory, target),
        ExportFormat::Jsonl => {
            reader.write_out(target, |queries, out| readable::lines(queries, facts, out))
        }
        ExportFormat::Markdown => reader.write_out(target, |queries, out| {
            readable::markdown(queries, facts, out)
        }),
    }
}
