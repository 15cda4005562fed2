//! A session written out to be read: by programs, a line for each entry, or by people, as Markdown.

mod markdown;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::num::NonZeroUsize;

use bezel_session_types::{Entry, LaneName};
use bezel_store::{PackageFacts, Queries, WriteOutError};
use serde_json::json;

pub(super) use markdown::markdown;

/// Entries read at once: a session may be larger than memory.
const AT_ONCE: NonZeroUsize = NonZeroUsize::new(256).expect("it is above zero");

/// One line of JSON about the session, then one for each entry of the whole tree in the order of writing, in the
/// shape of [`Entry`].
pub(super) fn lines(
    queries: &Queries<'_>,
    facts: &PackageFacts,
    out: &mut dyn Write,
) -> Result<(), WriteOutError> {
    let about = json!({
        "kind": "session",
        "version": 1,
        "session_id": facts.session_id,
        "title": facts.title,
        "directory": facts.directory,
        "tip": queries.tip(&LaneName::main())?,
        "written_by": format!("bezel {}", facts.version),
    });
    writeln!(out, "{about}")?;
    each(queries, |entry| {
        serde_json::to_writer(&mut *out, &entry).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
        Ok(())
    })
}

/// Hands over all entries in the order of writing.
fn each(
    queries: &Queries<'_>,
    mut take: impl FnMut(Entry) -> Result<(), WriteOutError>,
) -> Result<(), WriteOutError> {
    let mut after = 0;
    loop {
        let page = queries.entries_after(after, AT_ONCE.get())?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = last.seq;
        for entry in page {
            take(entry)?;
        }
    }
}

/// Hands over the entries of the main lane's path, the oldest first.
fn each_of_path(
    queries: &Queries<'_>,
    take: impl FnMut(Entry) -> Result<(), WriteOutError>,
) -> Result<(), WriteOutError> {
    match queries.tip(&LaneName::main())? {
        Some(tip) => queries.each_of_path(&tip, AT_ONCE, take),
        None => Ok(()),
    }
}
