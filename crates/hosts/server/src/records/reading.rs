//! What was said and done in a session, read beside its worker.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bezel_api_server::FleetError;
use bezel_session_types::{
    Entry, EntryBody, EntryId, HistoryPage, HistoryRange, JournalFact, JournalGap, JournalPage,
    LaneName, Message, ModelView, SessionId, assemble,
};
use bezel_store::{OpenError, Page, Queries, ReadError, Reader};
use serde::Serialize;

use super::Records;
use crate::blocking::blocking;

/// A page of history ends before it is larger than this, as JSON: a message of the wire takes 16 MiB.
const PAGE_BYTES: usize = 4 << 20;

impl Records {
    /// Reads a session's database; none where it has no file yet.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        session_id: &SessionId,
        read: impl FnOnce(&Queries<'_>) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<Option<T>, FleetError> {
        let path: PathBuf = self.files().database(session_id);
        let outcome = blocking(move || {
            let reader = match Reader::open(&path) {
                Ok(reader) => reader,
                Err(OpenError::Missing { .. }) => return Ok(None),
                Err(error) => return Err(error.to_string()),
            };
            reader
                .read(read)
                .map(Some)
                .map_err(|error| error.to_string())
        });
        outcome.await.map_err(FleetError::Storage)
    }
}

/// The newest `limit` messages of the main lane, oldest first.
pub(crate) fn newest(queries: &Queries<'_>, limit: usize) -> Result<Vec<Message>, ReadError> {
    let mut newest_first = Vec::new();
    let mut tip = queries.tip(&LaneName::main())?;
    while let Some(from) = tip.take() {
        let missing = limit - newest_first.len();
        if missing == 0 {
            break;
        }
        let page = queries.path(&from, missing)?;
        tip = page
            .entries
            .first()
            .filter(|_| page.more)
            .and_then(|first| first.parent.clone());
        let messages = page
            .entries
            .into_iter()
            .rev()
            .filter_map(|entry| match entry.body {
                EntryBody::Message { message } => Some(Arc::unwrap_or_clone(message)),
                _ => None,
            });
        newest_first.extend(messages);
    }
    newest_first.reverse();
    Ok(newest_first)
}

/// What the model would be given, as the harness gives it.
pub(crate) fn model_view(queries: &Queries<'_>) -> Result<ModelView, ReadError> {
    let Some(tip) = queries.tip(&LaneName::main())? else {
        return Ok(ModelView::default());
    };
    let view = queries.view(&tip)?;
    let compaction = view
        .iter()
        .rfind(|entry| matches!(entry.body, EntryBody::Compaction(_)));
    Ok(ModelView {
        compaction: compaction.map(|entry| entry.id.clone()),
        messages: assemble(&view),
        tip: Some(tip),
    })
}

/// A stretch of the active path; none where it does not go through an end of `range`, by that end's name.
pub(crate) fn history(
    queries: &Queries<'_>,
    range: &HistoryRange,
    limit: usize,
) -> Result<Result<HistoryPage, EntryId>, ReadError> {
    let tip = queries.tip(&LaneName::main())?;
    let goes_through = |entry: &EntryId| match &tip {
        Some(tip) => Ok(queries.path_after(tip, entry, 1)?.is_some()),
        None => Ok(false),
    };
    for end in [&range.before, &range.after].into_iter().flatten() {
        if !goes_through(end)? {
            return Ok(Err(end.clone()));
        }
    }
    // The last entry that may be in the page.
    let last = match &range.before {
        Some(before) => queries.entry(before)?.and_then(|entry| entry.parent),
        None => tip,
    };
    let Some(last) = last else {
        return Ok(Ok(HistoryPage::default()));
    };
    let page = match &range.after {
        // Where `before` does not come after `after`, nothing is between them.
        Some(after) => bounded_after(
            queries
                .path_after(&last, after, limit)?
                .unwrap_or_else(nothing),
        ),
        None => bounded_before(queries.path(&last, limit)?),
    };
    Ok(Ok(page))
}

fn nothing() -> Page {
    Page {
        entries: Vec::new(),
        more: false,
    }
}

/// The first entries of `page`, as many as there is room for.
fn bounded_after(page: Page) -> HistoryPage {
    let (mut entries, mut more) = (page.entries, page.more);
    let fits = fitting(entries.iter()).max(1).min(entries.len());
    more |= fits < entries.len();
    entries.truncate(fits);
    HistoryPage { entries, more }
}

/// The last entries of `page`, as many as there is room for.
fn bounded_before(page: Page) -> HistoryPage {
    let (mut entries, mut more) = (page.entries, page.more);
    let fits = fitting(entries.iter().rev()).max(1).min(entries.len());
    more |= fits < entries.len();
    entries.drain(..entries.len() - fits);
    HistoryPage { entries, more }
}

/// How many of these fit into a page.
fn fitting<'entry>(entries: impl Iterator<Item = &'entry Entry>) -> usize {
    let mut room = PAGE_BYTES;
    let fitting = entries.take_while(|entry| {
        let size = size(entry);
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    });
    fitting.count()
}

/// Bytes of a value as JSON.
fn size(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        // What has no JSON form is not sent either.
        Err(_) => usize::MAX,
    }
}

/// Where to go on after a gap.
fn gap(snapshot: u64, tip: Option<EntryId>) -> JournalPage {
    JournalPage {
        events: Vec::new(),
        next: snapshot,
        gap: Some(JournalGap { snapshot, tip }),
    }
}

/// What a session without a file says: a cursor into something else has nothing to go on from.
pub(crate) fn no_journal(after: u64) -> JournalPage {
    match after {
        0 => JournalPage::default(),
        _ => gap(0, None),
    }
}

/// Facts after a cursor. All from one state: a writer's next commit has greater numbers than all of it.
pub(crate) fn journal(
    queries: &Queries<'_>,
    after: u64,
    limit: usize,
) -> Result<JournalPage, ReadError> {
    let newest = queries.newest_seq()?;
    if after > newest {
        return Ok(gap(newest, queries.tip(&LaneName::main())?));
    }
    let rows = queries.happened(after, limit)?;
    Ok(JournalPage {
        next: rows.last().map_or(after, |row| row.seq),
        events: rows
            .into_iter()
            .map(|row| JournalFact {
                seq: row.seq,
                created_at: row.created_at,
                kind: row.kind,
                body: row.body,
            })
            .collect(),
        gap: None,
    })
}
