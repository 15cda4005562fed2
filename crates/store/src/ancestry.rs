//! Where each entry stands on its path, so that a place far up is found without walking to it.
//!
//! Every entry has a row of a few bytes: its parent, its depth, and one ancestor further up to jump to. The
//! jumps are those of Myers' applicative random-access stack ("An applicative random-access stack", 1983):
//! with one jump an entry, set in constant time when it is appended, any depth of a path is reached in
//! at most about `2 log2(n)` steps. The bodies, which are most of a file, are not touched.
//!
//! The second step of the schema, with the ledger's totals, for the same reason: a long session opens like
//! a short one.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};

/// What the step adds.
pub(crate) const TABLES: &str = "
CREATE TABLE ancestry (
    seq INTEGER PRIMARY KEY,
    parent INTEGER,
    depth INTEGER NOT NULL,
    jump INTEGER NOT NULL
) STRICT;
CREATE TABLE usage_totals (
    only INTEGER PRIMARY KEY CHECK (only = 0),
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    cost REAL NOT NULL,
    requests INTEGER NOT NULL
) STRICT;
INSERT INTO usage_totals
SELECT 0, coalesce(sum(input), 0), coalesce(sum(output), 0), coalesce(sum(cache_read), 0),
       coalesce(sum(cache_write), 0), coalesce(sum(reasoning), 0), coalesce(sum(cost), 0.0), count(*)
FROM usage;
";

/// An entry's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) seq: i64,
    pub(crate) parent: Option<i64>,
    /// Entries before it on its path.
    pub(crate) depth: i64,
    /// An ancestor; itself at a root.
    pub(crate) jump: i64,
}

impl Place {
    /// The place of an entry that continues `parent`. `at` finds the ancestors' places.
    fn below<E>(
        seq: i64,
        parent: Option<Place>,
        mut at: impl FnMut(i64) -> Result<Place, E>,
    ) -> Result<Place, E> {
        let Some(parent) = parent else {
            return Ok(Place {
                seq,
                parent: None,
                depth: 0,
                jump: seq,
            });
        };
        let first = at(parent.jump)?;
        let second = at(first.jump)?;
        // Two jumps of one length become one of twice that, and one step more.
        let even = parent.depth - first.depth == first.depth - second.depth;
        Ok(Place {
            seq,
            parent: Some(parent.seq),
            depth: parent.depth + 1,
            jump: if even { second.seq } else { parent.seq },
        })
    }
}

/// Writes the places of all entries that are there. An entry always has a greater number than its parent;
/// where a damaged file has lost one, the path begins behind it, so that the rest can still be read.
pub(crate) fn fill(connection: &Connection) -> rusqlite::Result<()> {
    let mut known: HashMap<i64, Place> = HashMap::new();
    let mut entries = connection.prepare("SELECT seq, parent FROM entries ORDER BY seq")?;
    let mut rows = entries.query([])?;
    while let Some(row) = rows.next()? {
        let (seq, parent): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
        let find = |seq: i64| {
            let found = known.get(&seq).copied();
            found.ok_or(rusqlite::Error::QueryReturnedNoRows)
        };
        let parent = parent.and_then(|parent| known.get(&parent).copied());
        let place = Place::below(seq, parent, find)?;
        insert(connection, &place)?;
        known.insert(seq, place);
    }
    Ok(())
}

/// Writes the place of a new entry.
pub(crate) fn append(
    connection: &Connection,
    seq: i64,
    parent: Option<i64>,
) -> rusqlite::Result<()> {
    let parent = parent.map(|parent| find(connection, parent)).transpose()?;
    let place = Place::below(seq, parent, |seq| find(connection, seq))?;
    insert(connection, &place)
}

fn insert(connection: &Connection, place: &Place) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO ancestry (seq, parent, depth, jump) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![place.seq, place.parent, place.depth, place.jump])?;
    Ok(())
}

/// The place of an entry that is there.
fn find(connection: &Connection, seq: i64) -> rusqlite::Result<Place> {
    connection
        .prepare_cached("SELECT parent, depth, jump FROM ancestry WHERE seq = ?1")?
        .query_row(params![seq], |row| {
            Ok(Place {
                seq,
                parent: row.get(0)?,
                depth: row.get(1)?,
                jump: row.get(2)?,
            })
        })
}

/// The place of the entry with this name.
pub(crate) fn of_entry(connection: &Connection, id: &str) -> rusqlite::Result<Option<Place>> {
    connection
        .prepare_cached(
            "SELECT ancestry.seq, ancestry.parent, depth, jump
             FROM entries JOIN ancestry ON ancestry.seq = entries.seq WHERE id = ?1",
        )?
        .query_row(params![id], |row| {
            Ok(Place {
                seq: row.get(0)?,
                parent: row.get(1)?,
                depth: row.get(2)?,
                jump: row.get(3)?,
            })
        })
        .optional()
}

/// The ancestor of `from` at `depth`, which is not greater than its own; `from` itself is one.
pub(crate) fn ancestor(
    connection: &Connection,
    from: Place,
    depth: i64,
) -> rusqlite::Result<Place> {
    let mut place = from;
    while place.depth > depth {
        let far = find(connection, place.jump)?;
        place = match (far.depth < depth, place.parent) {
            (true, Some(parent)) => find(connection, parent)?,
            _ => far,
        };
    }
    Ok(place)
}
