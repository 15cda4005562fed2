//! The stretch of a path that a model is given.

use std::sync::Arc;

use bezel_session_types::{Entry, EntryBody, EntryId};

use crate::{Page, Queries, ReadError};

/// Entries read at a time.
const PAGE: usize = 256;

/// The path to `tip` from its newest compaction's first kept entry on, oldest first: from the compaction itself
/// where it kept none, the whole path where there is none. `read` gives the last entries of a path, as
/// [`Queries::path`] does; a caller that must not hold a transaction so long opens one for each page.
pub fn view(
    tip: &EntryId,
    mut read: impl FnMut(&EntryId, usize) -> Result<Page, ReadError>,
) -> Result<Vec<Arc<Entry>>, ReadError> {
    let mut newest_first: Vec<Arc<Entry>> = Vec::new();
    let mut kept: Option<Option<EntryId>> = None;
    let mut from = Some(tip.clone());
    while let Some(tip) = from {
        let page = read(&tip, PAGE)?;
        from = page.entries.first().and_then(|entry| entry.parent.clone());
        for entry in page.entries.into_iter().rev() {
            let id = entry.id.clone();
            if let (None, EntryBody::Compaction(compaction)) = (&kept, &entry.body) {
                kept = Some(compaction.first_kept.clone());
            }
            newest_first.push(Arc::new(entry));
            match &kept {
                Some(None) => return Ok(oldest_first(newest_first)),
                Some(Some(first)) if *first == id => return Ok(oldest_first(newest_first)),
                _ => {}
            }
        }
    }
    Ok(oldest_first(newest_first))
}

fn oldest_first(mut entries: Vec<Arc<Entry>>) -> Vec<Arc<Entry>> {
    entries.reverse();
    entries
}

impl Queries<'_> {
    /// The stretch of the path to `tip` that a model is given, all from one state: see [`view`].
    pub fn view(&self, tip: &EntryId) -> Result<Vec<Arc<Entry>>, ReadError> {
        view(tip, |tip, limit| self.path(tip, limit))
    }
}
