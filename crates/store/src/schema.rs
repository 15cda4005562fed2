//! The tables, and how older files become current ones.

use rusqlite::Connection;

use crate::ancestry;

/// Marks a file as a session database, in SQLite's own header field: "Bzls".
pub(crate) const APPLICATION_ID: i64 = 0x427a_6c73;

/// One step from a version to the next.
enum Step {
    Sql(&'static str),
    /// Tables, and rows that SQL alone cannot make of those that are there.
    Filled(&'static str, fn(&Connection) -> rusqlite::Result<()>),
}

/// Each step brings a file from version `index` to `index + 1`. A released step never changes.
const MIGRATIONS: &[Step] = &[
    Step::Sql(FIRST),
    Step::Filled(ancestry::TABLES, ancestry::fill),
];

const FIRST: &str = r#"
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    parent INTEGER REFERENCES entries (seq),
    kind TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE TABLE "values" (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE inbox (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    lane TEXT NOT NULL,
    command_id TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    delivery TEXT NOT NULL,
    resume INTEGER NOT NULL,
    message TEXT NOT NULL
) STRICT;
CREATE TABLE receipts (
    command_id TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    digest BLOB NOT NULL,
    result TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE journal (
    seq INTEGER PRIMARY KEY,
    created_at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE TABLE usage (
    seq INTEGER PRIMARY KEY,
    created_at INTEGER NOT NULL,
    lane TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    purpose TEXT NOT NULL,
    model TEXT NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    cost REAL
) STRICT;
"#;

/// The newest format this program knows.
pub(crate) const CURRENT: i64 = MIGRATIONS.len() as i64;

pub(crate) fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let found = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    connection.query_row(found, [name], |row| row.get(0))
}

/// Brings the file to [`CURRENT`], each step in a transaction of its own with the version it reaches.
pub(crate) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let reached = usize::try_from(found).unwrap_or(0);
    for (index, step) in MIGRATIONS.iter().enumerate().skip(reached) {
        let transaction = connection.transaction()?;
        match step {
            Step::Sql(sql) => transaction.execute_batch(sql)?,
            Step::Filled(sql, fill) => {
                transaction.execute_batch(sql)?;
                fill(&transaction)?;
            }
        }
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", index as i64 + 1)?;
        transaction.commit()?;
    }
    Ok(())
}
