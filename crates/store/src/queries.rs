//! What can be read from a session database.

use std::num::NonZeroUsize;
use std::path::Path;

use bezel_session_types::{
    CommandId, Cost, Delivery, Entry, EntryBody, EntryId, LaneName, OperationId, Usage,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ancestry;
use crate::transaction::{prefix_end, tip_key};
use crate::{InboxRow, NewInboxRow, ReadError, Receipt};

/// Reads over one connection, all from one state of the database.
pub struct Queries<'connection> {
    pub(crate) connection: &'connection Connection,
    path: &'connection Path,
    /// The file's format: a reader meets files that no owner has brought to the current one yet.
    pub(crate) format: i64,
}

/// A stretch of a path through the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The entries, oldest first.
    pub entries: Vec<Entry>,
    /// True when the path goes on before the first.
    pub more: bool,
}

/// A lifecycle event as it stands in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalRow {
    /// Its place.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// `noun_verb`, stable.
    pub kind: String,
    /// Its facts.
    pub body: Value,
}

/// The ledger, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UsageTotals {
    /// Tokens.
    pub usage: Usage,
    /// Price of the requests whose price is known.
    pub cost: Cost,
    /// Requests.
    pub requests: u64,
}

/// The format from which on there are places and totals.
pub(crate) const ANCESTRY: i64 = 2;

/// More entries than a session has.
const EVERYTHING: usize = i32::MAX as usize;

const ENTRY_COLUMNS: &str = "entries.seq, entries.id,
    (SELECT above.id FROM entries AS above WHERE above.seq = entries.parent),
    entries.created_at, entries.kind, entries.body";

impl<'connection> Queries<'connection> {
    pub(crate) fn new(
        connection: &'connection Connection,
        path: &'connection Path,
        format: i64,
    ) -> Self {
        Queries {
            connection,
            path,
            format,
        }
    }

    /// One entry.
    pub fn entry(&self, id: &EntryId) -> Result<Option<Entry>, ReadError> {
        let sql = format!("SELECT {ENTRY_COLUMNS} FROM entries WHERE id = ?1");
        Ok(self.rows(&sql, params![id.as_str()], read_entry)?.pop())
    }

    /// Up to `limit` entries of the whole session after sequence number `after`, in order.
    pub fn entries_after(&self, after: u64, limit: usize) -> Result<Vec<Entry>, ReadError> {
        let sql =
            format!("SELECT {ENTRY_COLUMNS} FROM entries WHERE seq > ?1 ORDER BY seq LIMIT ?2");
        self.rows(&sql, params![after as i64, limit as i64], read_entry)
    }

    /// The entry that was written last; none in an empty session.
    pub fn newest(&self) -> Result<Option<Entry>, ReadError> {
        let sql = format!("SELECT {ENTRY_COLUMNS} FROM entries ORDER BY seq DESC LIMIT 1");
        Ok(self.rows(&sql, [], read_entry)?.pop())
    }

    /// How many entries the session has.
    pub fn count(&self) -> Result<u64, ReadError> {
        self.one("SELECT count(*) FROM entries", [], |row| {
            row.get::<_, i64>(0).map(|n| n as u64)
        })
    }

    /// The path that ends at `tip`, its last `limit` entries. To page on, ask again with the
    /// parent of the first entry as `tip`.
    pub fn path(&self, tip: &EntryId, limit: usize) -> Result<Page, ReadError> {
        let sql = path_page("id");
        let mut entries = self.rows(&sql, params![tip.as_str(), limit as i64 + 1], read_entry)?;
        let more = entries.len() > limit;
        if more {
            entries.remove(0);
        }
        Ok(Page { entries, more })
    }

    /// Hands over the entries of the path to `tip`, the oldest first. Each is read once, so many at a time, and nothing
    /// is read of the entries beside the path.
    pub fn each_of_path<E: From<ReadError>>(
        &self,
        tip: &EntryId,
        at_once: NonZeroUsize,
        mut take: impl FnMut(Entry) -> Result<(), E>,
    ) -> Result<(), E> {
        let places = "WITH RECURSIVE walk (seq, parent) AS (
                SELECT seq, parent FROM entries WHERE id = ?1
                UNION ALL
                SELECT entries.seq, entries.parent FROM walk JOIN entries ON entries.seq = walk.parent)
            SELECT seq FROM walk ORDER BY seq";
        let places: Vec<i64> = self.rows(places, params![tip.as_str()], |row| row.get(0))?;
        let page = path_page("seq");
        for places in places.chunks(at_once.get()) {
            let (last, count) = (places.last(), places.len() as i64);
            let entries = self.rows(&page, params![last, count], read_entry)?;
            entries.into_iter().try_for_each(&mut take)?;
        }
        Ok(())
    }

    /// The first `limit` entries that come after `after` on the path to `tip`, where the path goes through
    /// it; [`Page::more`] then says that it goes on to `tip` behind them. `None` where it does not.
    /// However far apart the two are, it costs what the page costs.
    pub fn path_after(
        &self,
        tip: &EntryId,
        after: &EntryId,
        limit: usize,
    ) -> Result<Option<Page>, ReadError> {
        if self.format < ANCESTRY {
            return self.walked_after(tip, after, limit);
        }
        let place = |id: &EntryId| ancestry::of_entry(self.connection, id.as_str());
        let found = place(tip)
            .and_then(|tip| Ok(tip.zip(place(after)?)))
            .map_err(|source| self.sqlite(source))?;
        let Some((tip, after)) = found.filter(|(tip, after)| after.depth <= tip.depth) else {
            return Ok(None);
        };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let last = tip.depth.min(after.depth.saturating_add(limit));
        let meeting = ancestry::ancestor(self.connection, tip, last).and_then(|last| {
            Ok((
                last,
                ancestry::ancestor(self.connection, last, after.depth)?,
            ))
        });
        let (last, meeting) = meeting.map_err(|source| self.sqlite(source))?;
        if meeting != after {
            return Ok(None);
        }
        let sql = format!(
            "WITH RECURSIVE walk (seq, parent) AS (
                SELECT seq, parent FROM ancestry WHERE seq = ?1
                UNION ALL
                SELECT ancestry.seq, ancestry.parent FROM walk JOIN ancestry ON ancestry.seq = walk.parent
                LIMIT ?2)
            SELECT {ENTRY_COLUMNS} FROM walk JOIN entries ON entries.seq = walk.seq ORDER BY entries.seq"
        );
        let entries = self.rows(
            &sql,
            params![last.seq, last.depth - after.depth],
            read_entry,
        )?;
        let more = last.depth < tip.depth;
        Ok(Some(Page { entries, more }))
    }

    /// The same in a file that knows parents alone.
    fn walked_after(
        &self,
        tip: &EntryId,
        after: &EntryId,
        limit: usize,
    ) -> Result<Option<Page>, ReadError> {
        let mut entries = self.path(tip, EVERYTHING)?.entries;
        let Some(at) = entries.iter().position(|entry| entry.id == *after) else {
            return Ok(None);
        };
        entries.drain(..=at);
        let more = entries.len() > limit;
        entries.truncate(limit);
        Ok(Some(Page { entries, more }))
    }

    /// How many entries come before this one on its path; none where there is no such entry.
    pub fn depth(&self, id: &EntryId) -> Result<Option<u64>, ReadError> {
        if self.format < ANCESTRY {
            let page = self.path(id, EVERYTHING)?;
            return Ok(page.entries.len().checked_sub(1).map(|depth| depth as u64));
        }
        let place = ancestry::of_entry(self.connection, id.as_str());
        let place = place.map_err(|source| self.sqlite(source))?;
        Ok(place.map(|place| place.depth as u64))
    }

    /// The entries of the path to `tip` that the path to `other` lacks, oldest first: all of it where
    /// there is no other.
    pub fn branch(&self, tip: &EntryId, other: Option<&EntryId>) -> Result<Vec<Entry>, ReadError> {
        let sql = format!(
            "WITH RECURSIVE kept (seq, parent) AS (
                SELECT seq, parent FROM entries WHERE id = ?2
                UNION ALL
                SELECT entries.seq, entries.parent FROM kept JOIN entries ON entries.seq = kept.parent),
            walk (seq, parent) AS (
                SELECT seq, parent FROM entries WHERE id = ?1 AND seq NOT IN (SELECT seq FROM kept)
                UNION ALL
                SELECT entries.seq, entries.parent FROM walk JOIN entries ON entries.seq = walk.parent
                WHERE entries.seq NOT IN (SELECT seq FROM kept))
            SELECT {ENTRY_COLUMNS} FROM walk JOIN entries ON entries.seq = walk.seq ORDER BY entries.seq"
        );
        let other = other.map(EntryId::as_str);
        self.rows(&sql, params![tip.as_str(), other], read_entry)
    }

    /// Up to `limit` entries of the whole session before sequence number `before` (or the newest), in
    /// order.
    pub fn entries_before(
        &self,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Entry>, ReadError> {
        let sql = format!(
            "SELECT {ENTRY_COLUMNS} FROM entries WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2"
        );
        let before = before.map_or(i64::MAX, |seq| seq as i64);
        let mut entries = self.rows(&sql, params![before, limit as i64], read_entry)?;
        entries.reverse();
        Ok(entries)
    }

    /// The tip of a lane; none while it has no entry.
    pub fn tip(&self, lane: &LaneName) -> Result<Option<EntryId>, ReadError> {
        self.value(&tip_key(lane))
    }

    /// The lanes that have a tip.
    pub fn lanes(&self) -> Result<Vec<LaneName>, ReadError> {
        let keys = self.keys("tip/")?;
        Ok(keys
            .into_iter()
            .map(|key| LaneName::new(&key["tip/".len()..]))
            .collect())
    }

    /// A value.
    pub fn value<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, ReadError> {
        let text: Option<String> = self
            .connection
            .prepare_cached(r#"SELECT value FROM "values" WHERE key = ?1"#)
            .and_then(|mut sql| sql.query_row(params![key], |row| row.get(0)).optional())
            .map_err(|source| self.sqlite(source))?;
        text.map(|text| self.parse(&format!("value {key}"), &text))
            .transpose()
    }

    /// The keys that begin with `prefix`, in order.
    pub fn keys(&self, prefix: &str) -> Result<Vec<String>, ReadError> {
        self.rows(
            r#"SELECT key FROM "values" WHERE key >= ?1 AND key < ?2 ORDER BY key"#,
            params![prefix, prefix_end(prefix)],
            |row| row.get(0),
        )
    }

    /// The values whose key begins with `prefix`, with their keys and in their order.
    pub fn values(&self, prefix: &str) -> Result<Vec<(String, Value)>, ReadError> {
        self.rows(
            r#"SELECT key, value FROM "values" WHERE key >= ?1 AND key < ?2 ORDER BY key"#,
            params![prefix, prefix_end(prefix)],
            |row| Ok((row.get(0)?, json(row, 1)?)),
        )
    }

    /// The admitted messages of a lane, in order of admission.
    pub fn inbox(&self, lane: &LaneName) -> Result<Vec<InboxRow>, ReadError> {
        self.rows(
            "SELECT seq, id, lane, command_id, operation_id, delivery, resume, message
             FROM inbox WHERE lane = ?1 ORDER BY seq",
            params![lane.as_str()],
            read_inbox,
        )
    }

    /// The lanes that have admitted messages.
    pub fn inbox_lanes(&self) -> Result<Vec<LaneName>, ReadError> {
        self.rows("SELECT DISTINCT lane FROM inbox", [], |row| {
            row.get::<_, String>(0).map(LaneName::new)
        })
    }

    /// Whether something was left that is to go on: an operation that did not end, or a message that was
    /// sent to run.
    pub fn has_open_work(&self) -> Result<bool, ReadError> {
        self.one(
            r#"SELECT EXISTS (SELECT 1 FROM "values" WHERE key >= 'operation/' AND key < 'operation0')
                OR EXISTS (SELECT 1 FROM inbox WHERE resume = 1)"#,
            [],
            |row| row.get(0),
        )
    }

    /// What a command came to.
    pub fn receipt(&self, command_id: &CommandId) -> Result<Option<Receipt>, ReadError> {
        let sql = "SELECT digest, result FROM receipts WHERE command_id = ?1";
        let receipts = self.rows(sql, params![command_id.as_str()], |row| {
            let command_id = command_id.clone();
            Ok(Receipt {
                command_id,
                digest: row.get(0)?,
                result: row.get(1)?,
            })
        })?;
        Ok(receipts.into_iter().next())
    }

    /// Up to `limit` lifecycle events after sequence number `after`, in order.
    pub fn journal(&self, after: u64, limit: usize) -> Result<Vec<JournalRow>, ReadError> {
        self.rows(
            "SELECT seq, created_at, kind, body FROM journal WHERE seq > ?1 ORDER BY seq LIMIT ?2",
            params![after as i64, limit as i64],
            |row| {
                Ok(JournalRow {
                    seq: row.get::<_, i64>(0)? as u64,
                    created_at: row.get(1)?,
                    kind: row.get(2)?,
                    body: json(row, 3)?,
                })
            },
        )
    }

    /// Up to `limit` of what happened after sequence number `after`, in order: lifecycle events, and each entry as
    /// the event `entry_added`, with its id, parent, kind and, of a message, role. An entry is its own fact: it is
    /// written once, in the commit that it tells of.
    pub fn happened(&self, after: u64, limit: usize) -> Result<Vec<JournalRow>, ReadError> {
        self.rows(
            "SELECT seq, created_at, kind, body, NULL, NULL, NULL FROM journal WHERE seq > ?1
             UNION ALL
             SELECT seq, created_at, kind, NULL, id,
                    (SELECT above.id FROM entries AS above WHERE above.seq = entries.parent),
                    CASE kind WHEN 'message' THEN body ->> '$.role' END
             FROM entries WHERE seq > ?1
             ORDER BY seq LIMIT ?2",
            params![after as i64, limit as i64],
            read_happened,
        )
    }

    /// How far the session has come: the greatest sequence number of an entry or an event. Neither is ever deleted,
    /// so it never falls.
    pub fn newest_seq(&self) -> Result<u64, ReadError> {
        self.one(
            "SELECT max(coalesce((SELECT max(seq) FROM journal), 0),
                        coalesce((SELECT max(seq) FROM entries), 0))",
            [],
            |row| row.get::<_, i64>(0).map(|seq| seq as u64),
        )
    }

    /// The ledger, added up.
    pub fn usage(&self) -> Result<UsageTotals, ReadError> {
        let sql = match self.format < ANCESTRY {
            true => {
                "SELECT coalesce(sum(input), 0), coalesce(sum(output), 0), coalesce(sum(cache_read), 0),
                        coalesce(sum(cache_write), 0), coalesce(sum(reasoning), 0),
                        coalesce(sum(cost), 0.0), count(*) FROM usage"
            }
            false => {
                "SELECT input, output, cache_read, cache_write, reasoning, cost, requests FROM usage_totals"
            }
        };
        self.one(sql, [], |row| {
            let tokens = |index| row.get::<_, i64>(index).map(|tokens| tokens as u64);
            Ok(UsageTotals {
                usage: Usage {
                    input: tokens(0)?,
                    output: tokens(1)?,
                    cache_read: tokens(2)?,
                    cache_write: tokens(3)?,
                    reasoning: tokens(4)?,
                },
                cost: Cost(row.get(5)?),
                requests: tokens(6)?,
            })
        })
    }

    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, ReadError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut sql| sql.query_map(params, read)?.collect())
            .map_err(|source| self.sqlite(source))
    }

    pub(crate) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, ReadError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut sql| sql.query_row(params, read))
            .map_err(|source| self.sqlite(source))
    }

    fn parse<T: DeserializeOwned>(&self, row: &str, text: &str) -> Result<T, ReadError> {
        serde_json::from_str(text).map_err(|source| ReadError::Row {
            path: self.path.to_owned(),
            row: row.to_owned(),
            source,
        })
    }

    fn sqlite(&self, source: rusqlite::Error) -> ReadError {
        ReadError::sqlite(self.path, source)
    }
}

/// The last `?2` entries of the path that ends where `column` is `?1`, the oldest first. The walk carries sequence
/// numbers alone; bodies are read for what the page holds.
fn path_page(column: &str) -> String {
    format!(
        "WITH RECURSIVE walk (seq, parent) AS (
            SELECT seq, parent FROM entries WHERE {column} = ?1
            UNION ALL
            SELECT entries.seq, entries.parent FROM walk JOIN entries ON entries.seq = walk.parent
            LIMIT ?2)
        SELECT {ENTRY_COLUMNS} FROM walk JOIN entries ON entries.seq = walk.seq ORDER BY entries.seq"
    )
}

fn read_entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let kind = row.get_ref(4)?.as_str()?;
    let body = match kind {
        "message" => EntryBody::Message {
            message: json(row, 5)?,
        },
        "compaction" => EntryBody::Compaction(json(row, 5)?),
        "branch_summary" => EntryBody::BranchSummary(json(row, 5)?),
        "custom" => EntryBody::Custom(json(row, 5)?),
        other => {
            let unknown = format!("entry of unknown kind `{other}`");
            return Err(rusqlite::Error::FromSqlConversionFailure(
                4,
                Type::Text,
                unknown.into(),
            ));
        }
    };
    Ok(Entry {
        seq: row.get::<_, i64>(0)? as u64,
        id: EntryId::new(row.get::<_, String>(1)?),
        parent: row.get::<_, Option<String>>(2)?.map(EntryId::new),
        created_at: row.get(3)?,
        body,
    })
}

fn read_happened(row: &Row<'_>) -> rusqlite::Result<JournalRow> {
    let entry: Option<String> = row.get(4)?;
    let kind: String = row.get(2)?;
    let (kind, body) = match entry {
        None => (kind, json(row, 3)?),
        Some(entry) => {
            let mut body = serde_json::json!({ "entry": entry, "kind": kind });
            for (name, index) in [("parent", 5), ("role", 6)] {
                if let Some(text) = row.get::<_, Option<String>>(index)? {
                    body[name] = text.into();
                }
            }
            ("entry_added".to_owned(), body)
        }
    };
    Ok(JournalRow {
        seq: row.get::<_, i64>(0)? as u64,
        created_at: row.get(1)?,
        kind,
        body,
    })
}

fn read_inbox(row: &Row<'_>) -> rusqlite::Result<InboxRow> {
    let delivery = match row.get_ref(5)?.as_str()? {
        "queue" => Delivery::Queue,
        _ => Delivery::Steer,
    };
    Ok(InboxRow {
        seq: row.get::<_, i64>(0)? as u64,
        row: NewInboxRow {
            id: EntryId::new(row.get::<_, String>(1)?),
            lane: LaneName::new(row.get::<_, String>(2)?),
            command_id: CommandId::new(row.get::<_, String>(3)?),
            operation_id: OperationId::new(row.get::<_, String>(4)?),
            delivery,
            resume: row.get(6)?,
            message: json(row, 7)?,
        },
    })
}

fn json<T: DeserializeOwned>(row: &Row<'_>, index: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(index)?.as_str()?;
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(index, Type::Text, Box::new(error))
    })
}
