//! A session written out to be read: by programs, a line for each entry, or by people, as Markdown.

mod markdown;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::Write;

use bezel_session_types::{Entry, EntryId, LaneName};
use bezel_store::{PackageFacts, Queries, WriteOutError};
use serde_json::json;

pub(super) use markdown::markdown;

/// Entries read at once: a session may be larger than memory.
const PAGE: usize = 256;

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
        let page = queries.entries_after(after, PAGE)?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = last.seq;
        for entry in page {
            take(entry)?;
        }
    }
}

/// The sequence numbers of the main lane's path, ascending. An entry comes after its parent, so this is its order.
fn path(queries: &Queries<'_>) -> Result<Vec<u64>, WriteOutError> {
    let Some(mut at) = queries.tip(&LaneName::main())? else {
        return Ok(Vec::new());
    };
    let mut places: HashMap<EntryId, (u64, Option<EntryId>)> = HashMap::new();
    each(queries, |entry| {
        places.insert(entry.id, (entry.seq, entry.parent));
        Ok(())
    })?;
    let mut path = Vec::new();
    while let Some((seq, parent)) = places.remove(&at) {
        path.push(seq);
        match parent {
            Some(parent) => at = parent,
            None => break,
        }
    }
    path.reverse();
    Ok(path)
}

/// Hands over the entries of the main lane's path, the oldest first.
fn each_of_path(
    queries: &Queries<'_>,
    mut take: impl FnMut(Entry) -> Result<(), WriteOutError>,
) -> Result<(), WriteOutError> {
    let path = path(queries)?;
    each(queries, |entry| match path.binary_search(&entry.seq) {
        Ok(_) => take(entry),
        Err(_) => Ok(()),
    })
}
