//! One transaction: everything of one step, written together or not at all.

use std::path::Path;
use std::sync::Arc;

use bezel_session_types::{
    CommandId, Cost, Delivery, Entry, EntryBody, EntryId, LaneName, ModelRef, OperationId, Usage,
    UserMessage,
};
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use serde::Serialize;

use crate::error::is_damage;
use crate::{CommitError, ancestry};

/// What one commit writes. Sequence numbers and times are given by the store.
#[derive(Debug, Default)]
pub struct Transaction {
    entries: Vec<NewEntry>,
    values: Vec<(String, Option<String>)>,
    removed_prefixes: Vec<String>,
    inbox: Vec<NewInboxRow>,
    inbox_removed: Vec<EntryId>,
    inbox_messages: Vec<(EntryId, UserMessage)>,
    inbox_operations: Vec<(EntryId, OperationId)>,
    inbox_promoted: Vec<EntryId>,
    inbox_held: Vec<EntryId>,
    receipts: Vec<Receipt>,
    receipt_results: Vec<(CommandId, String)>,
    journal: Vec<JournalEvent>,
    usage: Vec<UsageRow>,
    clears_pending: bool,
}

/// An entry to append.
#[derive(Debug)]
pub struct NewEntry {
    /// Its name, reserved by whoever writes it.
    pub id: EntryId,
    /// What it continues.
    pub parent: Option<EntryId>,
    /// What it holds.
    pub body: EntryBody,
    /// When it was written, where that was elsewhere: milliseconds since 1970.
    pub created_at: Option<i64>,
}

/// A message to admit.
#[derive(Debug, Clone, PartialEq)]
pub struct NewInboxRow {
    /// The id that its entry will have.
    pub id: EntryId,
    /// Whose conversation it enters.
    pub lane: LaneName,
    /// The command that brought it.
    pub command_id: CommandId,
    /// The operation that it will belong to.
    pub operation_id: OperationId,
    /// When it enters.
    pub delivery: Delivery,
    /// Whether the person asked for it to run.
    pub resume: bool,
    /// What was said.
    pub message: UserMessage,
}

/// An admitted message that was not delivered yet.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxRow {
    /// Order of admission.
    pub seq: u64,
    /// The rest.
    pub row: NewInboxRow,
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The command.
    pub command_id: CommandId,
    /// Digest of its input.
    pub digest: [u8; 32],
    /// JSON of its result.
    pub result: String,
}

/// A lifecycle event that followers read in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEvent {
    /// `noun_verb`, stable.
    pub kind: &'static str,
    /// JSON of its facts.
    pub body: String,
}

/// What one model request took.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageRow {
    /// Whose request.
    pub lane: LaneName,
    /// Of which operation.
    pub operation_id: OperationId,
    /// `answer`, `compaction` or `branch_summary`.
    pub purpose: &'static str,
    /// Which model.
    pub model: ModelRef,
    /// Tokens.
    pub usage: Usage,
    /// Price, where known.
    pub cost: Option<Cost>,
}

/// A transaction that is in the database.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The greatest sequence number given so far.
    pub seq: u64,
    /// The entries that were written, in order.
    pub entries: Vec<Arc<Entry>>,
    /// Sequence numbers of the inbox rows that were written, in order.
    pub inbox: Vec<u64>,
    /// Which commit it was, for [`Store::synced`](crate::Store::synced).
    pub(crate) number: u64,
}

impl Transaction {
    /// A transaction that writes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// True while it writes nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
            && self.values.is_empty()
            && self.removed_prefixes.is_empty()
            && self.inbox.is_empty()
            && self.inbox_removed.is_empty()
            && self.inbox_messages.is_empty()
            && self.inbox_operations.is_empty()
            && self.inbox_promoted.is_empty()
            && self.inbox_held.is_empty()
            && self.receipts.is_empty()
            && self.receipt_results.is_empty()
            && self.journal.is_empty()
            && self.usage.is_empty()
            && !self.clears_pending
    }

    /// Appends an entry to the tree.
    pub fn append(&mut self, id: EntryId, parent: Option<EntryId>, body: impl Into<EntryBody>) {
        self.entries.push(NewEntry {
            id,
            parent,
            body: body.into(),
            created_at: None,
        });
    }

    /// Appends an entry that was written elsewhere, at that time.
    pub fn append_at(&mut self, id: EntryId, parent: Option<EntryId>, at: i64, body: EntryBody) {
        self.entries.push(NewEntry {
            id,
            parent,
            body,
            created_at: Some(at),
        });
    }

    /// Moves a lane's tip.
    pub fn set_tip(&mut self, lane: &LaneName, entry: Option<&EntryId>) {
        match entry {
            Some(entry) => self.set_value(tip_key(lane), entry),
            None => self.delete_value(tip_key(lane)),
        }
    }

    /// Sets a value; the latest wins.
    pub fn set_value<T: Serialize + ?Sized>(&mut self, key: impl Into<String>, value: &T) {
        let text = serde_json::to_string(value).expect("stored values have text keys");
        self.values.push((key.into(), Some(text)));
    }

    /// Removes a value.
    pub fn delete_value(&mut self, key: impl Into<String>) {
        self.values.push((key.into(), None));
    }

    /// Removes all values whose key begins with `prefix`, before any is set.
    pub fn delete_values(&mut self, prefix: impl Into<String>) {
        self.removed_prefixes.push(prefix.into());
    }

    /// Admits a message.
    pub fn admit(&mut self, row: NewInboxRow) {
        self.inbox.push(row);
    }

    /// Takes a message out of the inbox: delivered or withdrawn.
    pub fn take_out(&mut self, id: &EntryId) {
        self.inbox_removed.push(id.clone());
    }

    /// Changes what an admitted message says.
    pub fn edit_admitted(&mut self, id: &EntryId, message: &UserMessage) {
        self.inbox_messages.push((id.clone(), message.clone()));
    }

    /// Gives an admitted message to another operation.
    pub fn reassign_admitted(&mut self, id: &EntryId, operation_id: &OperationId) {
        self.inbox_operations
            .push((id.clone(), operation_id.clone()));
    }

    /// Takes every message out of the inbox, and every receipt: of a session that becomes another one.
    pub fn clear_pending(&mut self) {
        self.clears_pending = true;
    }

    /// Makes an admitted message one that steers and is to run.
    pub fn promote_admitted(&mut self, id: &EntryId) {
        self.inbox_promoted.push(id.clone());
    }

    /// Lets an admitted message wait until somebody resumes.
    pub fn hold_admitted(&mut self, id: &EntryId) {
        self.inbox_held.push(id.clone());
    }

    /// Records what a command came to. The same command twice fails the transaction.
    pub fn receipt(&mut self, receipt: Receipt) {
        self.receipts.push(receipt);
    }

    /// Changes what a recorded command came to.
    pub fn update_receipt(&mut self, command_id: &CommandId, result: String) {
        self.receipt_results.push((command_id.clone(), result));
    }

    /// Adds a lifecycle event.
    pub fn journal(&mut self, kind: &'static str, body: impl Serialize) {
        let body = serde_json::to_string(&body).expect("journal events have text keys");
        self.journal.push(JournalEvent { kind, body });
    }

    /// Adds to the ledger.
    pub fn usage(&mut self, row: UsageRow) {
        self.usage.push(row);
    }
}

pub(crate) fn tip_key(lane: &LaneName) -> String {
    format!("tip/{lane}")
}

pub(crate) fn delivery_text(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::Steer => "steer",
        Delivery::Queue => "queue",
    }
}

/// Everything turned to text before the connection is taken, so that it is held for the writes alone.
pub(crate) struct Prepared {
    transaction: Transaction,
    bodies: Vec<String>,
    messages: Vec<String>,
    edited: Vec<String>,
    /// Bytes of text, roughly what the log will grow by.
    pub(crate) bytes: usize,
}

impl Prepared {
    pub(crate) fn new(transaction: Transaction) -> Self {
        fn text<T: Serialize>(value: &T) -> String {
            serde_json::to_string(value).expect("stored rows have text keys")
        }
        let bodies: Vec<String> = transaction
            .entries
            .iter()
            .map(|entry| match &entry.body {
                EntryBody::Message { message } => text(message),
                EntryBody::Compaction(compaction) => text(compaction),
                EntryBody::BranchSummary(summary) => text(summary),
                EntryBody::Custom(custom) => text(custom),
            })
            .collect();
        let messages: Vec<String> = transaction
            .inbox
            .iter()
            .map(|row| text(&row.message))
            .collect();
        let edited: Vec<String> = transaction
            .inbox_messages
            .iter()
            .map(|(_, message)| text(message))
            .collect();
        let values = transaction
            .values
            .iter()
            .filter_map(|(_, value)| value.as_ref());
        let texts = bodies
            .iter()
            .chain(&messages)
            .chain(&edited)
            .chain(transaction.journal.iter().map(|event| &event.body))
            .chain(values);
        let bytes = texts.map(String::len).sum();
        Prepared {
            transaction,
            bodies,
            messages,
            edited,
            bytes,
        }
    }

    /// Writes all rows inside the open SQL transaction. `seq` is advanced past what was given.
    pub(crate) fn write(
        &self,
        connection: &Connection,
        path: &Path,
        seq: &mut u64,
        now: i64,
    ) -> Result<(), CommitError> {
        let sqlite = |source| sqlite_error(path, source);
        let mut next = || {
            *seq += 1;
            *seq as i64
        };
        let transaction = &self.transaction;
        for (entry, body) in transaction.entries.iter().zip(&self.bodies) {
            let parent = match &entry.parent {
                None => None,
                Some(parent) => Some(entry_seq(connection, parent).map_err(sqlite)?.ok_or_else(
                    || CommitError::UnknownParent {
                        path: path.to_owned(),
                        parent: parent.clone(),
                    },
                )?),
            };
            let seq = next();
            connection
                .prepare_cached(
                    "INSERT INTO entries (seq, id, parent, kind, created_at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )
                .and_then(|mut statement| {
                    let (kind, at) = (entry.body.kind(), entry.created_at.unwrap_or(now));
                    statement.execute(params![seq, entry.id.as_str(), parent, kind, at, body])
                })
                .and_then(|_| ancestry::append(connection, seq, parent))
                .map_err(sqlite)?;
        }
        for (row, message) in transaction.inbox.iter().zip(&self.messages) {
            connection
                .prepare_cached(
                    "INSERT INTO inbox (seq, id, lane, command_id, operation_id, delivery, resume, message)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                )
                .and_then(|mut statement| {
                    statement.execute(params![
                        next(),
                        row.id.as_str(),
                        row.lane.as_str(),
                        row.command_id.as_str(),
                        row.operation_id.as_str(),
                        delivery_text(row.delivery),
                        row.resume,
                        message
                    ])
                })
                .map_err(sqlite)?;
        }
        for event in &transaction.journal {
            connection
                .prepare_cached(
                    "INSERT INTO journal (seq, created_at, kind, body) VALUES (?1, ?2, ?3, ?4)",
                )
                .and_then(|mut statement| {
                    statement.execute(params![next(), now, event.kind, event.body])
                })
                .map_err(sqlite)?;
        }
        for row in &transaction.usage {
            connection
                .prepare_cached(
                    "INSERT INTO usage (seq, created_at, lane, operation_id, purpose, model,
                       input, output, cache_read, cache_write, reasoning, cost)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                )
                .and_then(|mut statement| {
                    statement.execute(params![
                        next(),
                        now,
                        row.lane.as_str(),
                        row.operation_id.as_str(),
                        row.purpose,
                        row.model.to_string(),
                        row.usage.input as i64,
                        row.usage.output as i64,
                        row.usage.cache_read as i64,
                        row.usage.cache_write as i64,
                        row.usage.reasoning as i64,
                        row.cost.map(|cost| cost.0)
                    ])
                })
                .and_then(|_| add_to_totals(connection, row))
                .map_err(sqlite)?;
        }
        for receipt in &transaction.receipts {
            connection
                .prepare_cached(
                    "INSERT INTO receipts (command_id, seq, digest, result) VALUES (?1, ?2, ?3, ?4)",
                )
                .and_then(|mut statement| {
                    let id = receipt.command_id.as_str();
                    statement.execute(params![id, next(), receipt.digest, receipt.result])
                })
                .map_err(sqlite)?;
        }
        self.write_changes(connection).map_err(sqlite)
    }

    /// Rows that replace or remove others.
    fn write_changes(&self, connection: &Connection) -> rusqlite::Result<()> {
        let transaction = &self.transaction;
        if transaction.clears_pending {
            connection.execute_batch("DELETE FROM inbox; DELETE FROM receipts;")?;
        }
        for prefix in &transaction.removed_prefixes {
            connection
                .prepare_cached(r#"DELETE FROM "values" WHERE key >= ?1 AND key < ?2"#)?
                .execute(params![prefix, prefix_end(prefix)])?;
        }
        for (key, value) in &transaction.values {
            match value {
                Some(value) => connection
                    .prepare_cached(
                        r#"INSERT INTO "values" (key, value) VALUES (?1, ?2)
                           ON CONFLICT (key) DO UPDATE SET value = excluded.value"#,
                    )?
                    .execute(params![key, value])?,
                None => connection
                    .prepare_cached(r#"DELETE FROM "values" WHERE key = ?1"#)?
                    .execute(params![key])?,
            };
        }
        for ((id, _), message) in transaction.inbox_messages.iter().zip(&self.edited) {
            connection
                .prepare_cached("UPDATE inbox SET message = ?2 WHERE id = ?1")?
                .execute(params![id.as_str(), message])?;
        }
        for (id, operation_id) in &transaction.inbox_operations {
            connection
                .prepare_cached("UPDATE inbox SET operation_id = ?2 WHERE id = ?1")?
                .execute(params![id.as_str(), operation_id.as_str()])?;
        }
        for id in &transaction.inbox_promoted {
            connection
                .prepare_cached("UPDATE inbox SET delivery = ?2, resume = 1 WHERE id = ?1")?
                .execute(params![id.as_str(), delivery_text(Delivery::Steer)])?;
        }
        for id in &transaction.inbox_held {
            connection
                .prepare_cached("UPDATE inbox SET resume = 0 WHERE id = ?1")?
                .execute(params![id.as_str()])?;
        }
        for id in &transaction.inbox_removed {
            connection
                .prepare_cached("DELETE FROM inbox WHERE id = ?1")?
                .execute(params![id.as_str()])?;
        }
        for (command_id, result) in &transaction.receipt_results {
            connection
                .prepare_cached("UPDATE receipts SET result = ?2 WHERE command_id = ?1")?
                .execute(params![command_id.as_str(), result])?;
        }
        Ok(())
    }

    /// What was written, given the sequence number before the write.
    pub(crate) fn finish(self, before: u64, seq: u64, now: i64, number: u64) -> Committed {
        let entries = (before + 1..)
            .zip(self.transaction.entries)
            .map(|(seq, entry)| {
                let NewEntry {
                    id,
                    parent,
                    body,
                    created_at,
                } = entry;
                Arc::new(Entry {
                    id,
                    parent,
                    seq,
                    created_at: created_at.unwrap_or(now),
                    body,
                })
            });
        let entries: Vec<_> = entries.collect();
        let first = before + entries.len() as u64 + 1;
        let inbox = (first..first + self.transaction.inbox.len() as u64).collect();
        Committed {
            seq,
            entries,
            inbox,
            number,
        }
    }
}

fn add_to_totals(connection: &Connection, row: &UsageRow) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE usage_totals SET input = input + ?1, output = output + ?2,
               cache_read = cache_read + ?3, cache_write = cache_write + ?4,
               reasoning = reasoning + ?5, cost = cost + ?6, requests = requests + 1",
        )?
        .execute(params![
            row.usage.input as i64,
            row.usage.output as i64,
            row.usage.cache_read as i64,
            row.usage.cache_write as i64,
            row.usage.reasoning as i64,
            row.cost.map_or(0.0, |cost| cost.0)
        ])?;
    Ok(())
}

pub(crate) fn entry_seq(connection: &Connection, id: &EntryId) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT seq FROM entries WHERE id = ?1")?
        .query_row(params![id.as_str()], |row| row.get(0))
        .optional()
}

/// The least text that is greater than everything that begins with `prefix`.
pub(crate) fn prefix_end(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    end.push(char::MAX);
    end
}

pub(crate) fn sqlite_error(path: &Path, source: rusqlite::Error) -> CommitError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => CommitError::Full { path },
        Some(ErrorCode::ConstraintViolation) => CommitError::Duplicate { path, source },
        _ if is_damage(&source) => CommitError::Torn { path, source },
        _ => CommitError::Sqlite { path, source },
    }
}
