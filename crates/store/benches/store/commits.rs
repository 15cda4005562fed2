//! A commit as the harness makes it, against a bare transaction of the same rows with the same settings.

use bezel_session_types::{EntryId, LaneName};
use bezel_store::{Store, Transaction};
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::session::{body, entry, usage};
use crate::{Result, figure, median, timed};

const COMMITS: usize = 400;
const BYTES: usize = 700;

pub(crate) fn run(rounds: usize) -> Result<Vec<Value>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    let (mut ours_synced, mut bare_synced) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let folder = tempfile::tempdir_in(".")?;
        let store = Store::open(folder.path().join("ours.db"))?;
        let mut other = Bare::open(&folder.path().join("bare.db"))?;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let (mut c, mut d) = (Vec::new(), Vec::new());
        for index in 0..COMMITS {
            let durable = index % 8 == 0;
            let transaction = step(index);
            let (seconds, ()) = timed(|| {
                let committed = store.commit(transaction)?;
                if durable {
                    runtime.block_on(store.synced(&committed))?;
                }
                Ok(())
            })?;
            if durable {
                c.push(seconds)
            } else {
                a.push(seconds)
            }
            let rows = Rows::of(index);
            let (seconds, ()) = timed(|| other.commit(&rows, durable))?;
            if durable {
                d.push(seconds)
            } else {
                b.push(seconds)
            }
        }
        ours.push(median(&mut a) * 1e6);
        bare.push(median(&mut b) * 1e6);
        ours_synced.push(median(&mut c) * 1e6);
        bare_synced.push(median(&mut d) * 1e6);
    }
    Ok(vec![
        figure(
            "a commit of one step, p50",
            "µs",
            &ours,
            Some(("a bare transaction of the same rows", &bare)),
            json!({ "at_most_times": 1.25 }),
        ),
        figure(
            "the same, on the disk, p50",
            "µs",
            &ours_synced,
            Some(("a bare transaction and fdatasync of the log", &bare_synced)),
            json!({ "at_most_times": 1.25 }),
        ),
    ])
}

/// What one step of a run writes: an entry, the tip, the operation, an event, the usage.
fn step(index: usize) -> Transaction {
    let mut transaction = Transaction::new();
    let parent = index.checked_sub(1).map(entry);
    transaction.append(entry(index), parent, body(index, BYTES));
    transaction.set_tip(&LaneName::main(), Some(&entry(index)));
    transaction.set_value("operation/main", &operation(index));
    transaction.journal("turn_ended", json!({ "entry": entry(index) }));
    transaction.usage(usage());
    transaction
}

fn operation(index: usize) -> Value {
    json!({ "id": "0192837465", "kind": "run", "started_at": 1_700_000_000_000_i64, "turn": index,
            "phase": { "phase": "request", "entry": entry(index), "attempt": 0 } })
}

/// The same rows, as text already: what a hand-written program would give to SQLite.
struct Rows {
    seq: i64,
    id: EntryId,
    body: String,
    tip: String,
    operation: String,
    event: String,
}

impl Rows {
    fn of(index: usize) -> Self {
        let bezel_session_types::EntryBody::Message { message } = body(index, BYTES) else {
            unreachable!("the bench makes messages alone")
        };
        let text = |value: &dyn erased::Text| value.text();
        Rows {
            seq: index as i64 * 3 + 1,
            id: entry(index),
            body: text(&*message),
            tip: text(&entry(index)),
            operation: text(&operation(index)),
            event: text(&json!({ "entry": entry(index) })),
        }
    }
}

mod erased {
    /// Whatever has a JSON text.
    pub(super) trait Text {
        fn text(&self) -> String;
    }

    impl<T: serde::Serialize> Text for T {
        fn text(&self) -> String {
            serde_json::to_string(self).unwrap_or_default()
        }
    }
}

struct Bare {
    connection: Connection,
    log: std::fs::File,
}

impl Bare {
    fn open(path: &std::path::Path) -> Result<Self> {
        // The tables are the store's own.
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
        let log = std::fs::File::open(std::path::PathBuf::from(log))?;
        Ok(Bare { connection, log })
    }

    fn commit(&mut self, rows: &Rows, durable: bool) -> Result<()> {
        let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| -> rusqlite::Result<()> {
            self.connection.prepare_cached(sql)?.execute(values)?;
            Ok(())
        };
        run("BEGIN IMMEDIATE", &[])?;
        let parent = (rows.seq > 1).then_some(rows.seq - 3);
        run(
            "INSERT INTO entries (seq, id, parent, kind, created_at, body) VALUES (?1, ?2, ?3, 'message', 1, ?4)",
            params![rows.seq, rows.id.as_str(), parent, rows.body],
        )?;
        run(
            "INSERT INTO ancestry (seq, parent, depth, jump) VALUES (?1, ?2, ?3, ?1)",
            params![rows.seq, parent, rows.seq / 3],
        )?;
        for (key, value) in [("tip/main", &rows.tip), ("operation/main", &rows.operation)] {
            run(
                r#"INSERT INTO "values" (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value"#,
                params![key, value],
            )?;
        }
        run(
            "INSERT INTO journal (seq, created_at, kind, body) VALUES (?1, 1, 'turn_ended', ?2)",
            params![rows.seq + 1, rows.event],
        )?;
        run(
            "INSERT INTO usage VALUES (?1, 1, 'main', 'o', 'answer', 'bench::model', 1000, 100, 0, 0, 0, NULL)",
            params![rows.seq + 2],
        )?;
        run(
            "UPDATE usage_totals SET input = input + 1000, output = output + 100, requests = requests + 1",
            &[],
        )?;
        run("COMMIT", &[])?;
        if durable {
            self.log.sync_data()?;
        }
        Ok(())
    }
}
