//! The seal of a packed session: a digest of everything in it, by which damage is found that leaves SQLite's own
//! structure whole.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use crate::schema::has_table;

/// Adds the seal of what the database holds now. Whoever drops the table breaks it.
pub(crate) fn seal(connection: &Connection) -> rusqlite::Result<()> {
    let digest = digest(connection)?;
    connection.execute_batch("CREATE TABLE seal (digest BLOB NOT NULL) STRICT;")?;
    connection.execute("INSERT INTO seal (digest) VALUES (?1)", params![digest])?;
    Ok(())
}

/// Whether the database holds what it was sealed with; one without a seal was packed before there were any.
pub(crate) fn is_unbroken(connection: &Connection) -> rusqlite::Result<bool> {
    if !has_table(connection, "seal")? {
        return Ok(true);
    }
    let sealed: Option<Vec<u8>> = connection
        .query_row("SELECT digest FROM seal", [], |row| row.get(0))
        .optional()?;
    match sealed {
        Some(sealed) => Ok(sealed == digest(connection)?),
        None => Ok(false),
    }
}

/// SHA-256 over the rows of all tables but the seal's, by table and by their first column, which is a key.
fn digest(connection: &Connection) -> rusqlite::Result<Vec<u8>> {
    let mut tables = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'seal' ORDER BY name",
    )?;
    let tables: Vec<String> = tables
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut hasher = Sha256::new();
    for table in tables {
        field(&mut hasher, b't', table.as_bytes());
        let quoted = table.replace('"', "\"\"");
        let mut rows = connection.prepare(&format!("SELECT * FROM \"{quoted}\" ORDER BY 1"))?;
        let columns = rows.column_count();
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                match row.get_ref(column)? {
                    ValueRef::Null => field(&mut hasher, b'n', b""),
                    ValueRef::Integer(value) => field(&mut hasher, b'i', &value.to_le_bytes()),
                    ValueRef::Real(value) => field(&mut hasher, b'r', &value.to_le_bytes()),
                    ValueRef::Text(text) => field(&mut hasher, b's', text),
                    ValueRef::Blob(bytes) => field(&mut hasher, b'b', bytes),
                }
            }
        }
    }
    Ok(hasher.finalize().to_vec())
}

fn field(hasher: &mut Sha256, kind: u8, bytes: &[u8]) {
    hasher.update([kind]);
    hasher.update((bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}
