//! What was said in a session, read beside its worker.

use std::path::Path;
use std::sync::Arc;

use bezel_api_server::FleetError;
use bezel_session_types::{EntryBody, LaneName, Message};
use bezel_store::{OpenError, Queries, ReadError, Reader};

/// The newest `limit` messages of the main lane, oldest first. A session without a file has none.
pub(crate) fn newest(path: &Path, limit: usize) -> Result<Vec<Message>, FleetError> {
    let reader = match Reader::open(path) {
        Ok(reader) => reader,
        Err(OpenError::Missing { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(FleetError::Storage(error.to_string())),
    };
    let read = reader.read(|queries| walk(queries, limit));
    read.map_err(|error| FleetError::Storage(error.to_string()))
}

fn walk(queries: &Queries<'_>, limit: usize) -> Result<Vec<Message>, ReadError> {
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
