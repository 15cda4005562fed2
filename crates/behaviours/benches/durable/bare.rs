//! What SQLite and the disk alone take for the same rows with the same settings.

use std::fs::File;
use std::path::{Path, PathBuf};

use bezel_store::Store;
use rusqlite::{Connection, params};
use serde_json::Value;

use crate::Result;

/// A session's database in the hands of a program that writes no more than the rows.
pub struct Bare {
    pub connection: Connection,
    log: File,
    seq: i64,
}

impl Bare {
    /// Opens one; the tables are the store's own.
    pub fn open(path: &Path) -> Result<Self> {
        drop(Store::open(path)?);
        let connection = Connection::open(path)?;
        connection.set_prepared_statement_cache_capacity(48);
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = OFF;
             PRAGMA cache_size = -512; PRAGMA wal_autocheckpoint = 16384; PRAGMA temp_store = MEMORY;
             BEGIN IMMEDIATE; COMMIT;",
        )?;
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let seq = connection.query_row("SELECT coalesce(max(seq), 0) FROM journal", [], |row| {
            row.get(0)
        })?;
        Ok(Bare {
            connection,
            log: File::open(PathBuf::from(log))?,
            seq,
        })
    }

    /// Writes so many answers in one transaction and brings it to the disk: for each what was answered, and the
    /// fact for those who follow.
    pub fn answers(&mut self, count: usize, answer: &str, fact: &str) -> Result<()> {
        let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| -> rusqlite::Result<()> {
            self.connection.prepare_cached(sql)?.execute(values)?;
            Ok(())
        };
        run("BEGIN IMMEDIATE", &[])?;
        for _ in 0..count {
            self.seq += 1;
            let key = format!(
                "memo/01928374650192837465:0192837465019283746501{:010}::question/questions:response",
                self.seq
            );
            run(
                r#"INSERT INTO "values" (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value"#,
                params![key, answer],
            )?;
            run(
                "INSERT INTO journal (seq, created_at, kind, body) VALUES (?1, 1, 'request_answered', ?2)",
                params![self.seq, fact],
            )?;
        }
        run("COMMIT", &[])?;
        self.log.sync_data()?;
        Ok(())
    }

    /// Reads the values from `first` to before `end`, as JSON.
    pub fn values(&self, first: &str, end: &str) -> Result<Vec<(String, Value)>> {
        let mut select = self.connection.prepare_cached(
            r#"SELECT key, value FROM "values" WHERE key >= ?1 AND key < ?2 ORDER BY key"#,
        )?;
        let mut rows = select.query(params![first, end])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let value = serde_json::from_str(row.get_ref(1)?.as_str()?)?;
            found.push((row.get(0)?, value));
        }
        Ok(found)
    }
}
