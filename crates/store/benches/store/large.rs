//! A session of 100,000 entries and 70 MB against one of four: opening, the last screen, a jump, an append, memory.

use std::path::Path;
use std::process::Command;

use bezel_session_types::{EntryId, LaneName};
use bezel_store::{Queries, ReadError, Store, Transaction};
use serde_json::{Value, json};

use crate::session::{body, entry, make};
use crate::{Result, figure, median, timed};

const ENTRIES: usize = 100_000;
const BYTES: usize = 700;
/// Entries of a screen and what is kept around it, as the transcript reads them.
const WINDOW: usize = 200;
const REPEATS: usize = 30;

/// The role in which this program opens a session and says what memory that took.
pub(crate) const ROLE: &str = "memory-of";

pub(crate) fn run(rounds: usize) -> Result<Vec<Value>> {
    let folder = tempfile::tempdir_in(".")?;
    let (large, small) = (
        folder.path().join("large.db"),
        folder.path().join("small.db"),
    );
    let (filled, _) = timed(|| make(&large, ENTRIES, BYTES).map(drop))?;
    eprintln!("made {ENTRIES} entries in {filled:.1} s");
    // As many entries on the screen as the large one has, so that reading is compared and not decoding.
    make(&small, WINDOW + 3, BYTES).map(drop)?;
    let four = folder.path().join("four.db");
    make(&four, 4, BYTES).map(drop)?;
    let mut rows: [Vec<f64>; 9] = Default::default();
    for round in 0..rounds {
        let mut samples: [Vec<f64>; 2] = Default::default();
        for repeat in 0..REPEATS {
            // Every pair counts by itself; what one of a pair does to the other, it does to either.
            let is_large_first = repeat % 2 == 0;
            let (ours, theirs) = pair(is_large_first, || open(&large), || open(&four))?;
            rows[0].push(ours);
            rows[1].push(theirs);
            let (ours, theirs) = pair(is_large_first, || screen(&large), || screen(&small))?;
            rows[2].push(ours);
            rows[3].push(theirs);
            let (back, forth) = jump(&large, repeat * 3_301 + 7)?;
            samples[0].push(back);
            samples[1].push(forth);
        }
        let (ours, theirs) = pair(round % 2 == 0, || append(&large), || append(&four))?;
        let beyond = memory(&large)? - memory(&four)?;
        let [back, forth] = &mut samples;
        let figures = [median(back), median(forth), ours, theirs, beyond];
        for (row, figure) in rows[4..].iter_mut().zip(figures) {
            row.push(figure);
        }
    }
    let milliseconds = |index: usize| rows[index].iter().map(|s| s * 1e3).collect::<Vec<f64>>();
    let microseconds = |index: usize| rows[index].iter().map(|s| s * 1e6).collect::<Vec<f64>>();
    Ok(vec![
        figure(
            "open 100,000 entries, 70 MB, as the owner",
            "ms",
            &milliseconds(0),
            Some(("a session of 4 entries", &milliseconds(1))),
            json!({ "at_most_times": 1.1 }),
        ),
        figure(
            "open and read the last screen (200 entries)",
            "ms",
            &milliseconds(2),
            Some(("the same of a session that has no more", &milliseconds(3))),
            json!({ "at_most_times": 1.1 }),
        ),
        figure(
            "jump to any entry: 200 entries before it",
            "ms",
            &milliseconds(4),
            None,
            json!({ "at_most": 2.0 }),
        ),
        figure(
            "jump to any entry: 200 entries after it",
            "ms",
            &milliseconds(5),
            None,
            json!({ "at_most": 2.0 }),
        ),
        figure(
            "append an entry",
            "µs",
            &microseconds(6),
            Some(("to a session of 4 entries", &microseconds(7))),
            json!({ "at_most_times": 1.1 }),
        ),
        figure(
            "memory beyond a session of 4 entries",
            "MiB",
            &rows[8],
            None,
            json!({ "at_most": 10.0 }),
        ),
    ])
}

/// Measures one and the other, in this order or in that.
fn pair(
    is_one_first: bool,
    one: impl FnOnce() -> Result<f64>,
    other: impl FnOnce() -> Result<f64>,
) -> Result<(f64, f64)> {
    if is_one_first {
        let first = one()?;
        return Ok((first, other()?));
    }
    let first = other()?;
    Ok((one()?, first))
}

/// What a worker reads when it takes a session up.
fn take_up(queries: &Queries<'_>) -> std::result::Result<Option<EntryId>, ReadError> {
    let main = LaneName::main();
    queries.lanes()?;
    queries.inbox_lanes()?;
    queries.keys("operation/")?;
    queries.inbox(&main)?;
    queries.usage()?;
    queries.tip(&main)
}

fn open(path: &Path) -> Result<f64> {
    let (seconds, store) = timed(|| {
        let store = Store::open(path)?;
        store.read(take_up)?;
        Ok(store)
    })?;
    drop(store);
    Ok(seconds)
}

fn screen(path: &Path) -> Result<f64> {
    let (seconds, store) = timed(|| {
        let store = Store::open(path)?;
        if let Some(tip) = store.read(take_up)? {
            store.read(|queries| queries.path(&tip, WINDOW))?;
        }
        Ok(store)
    })?;
    drop(store);
    Ok(seconds)
}

/// The entries before the one with this number, and those after it on the way to the tip.
fn jump(path: &Path, index: usize) -> Result<(f64, f64)> {
    let store = Store::open(path)?;
    let tip = store.read(take_up)?.ok_or("the session has no tip")?;
    let target = entry(index);
    let (back, page) = timed(|| Ok(store.read(|queries| queries.path(&target, WINDOW))?))?;
    if page.entries.is_empty() {
        return Err("there is no such entry".into());
    }
    let (forth, _) =
        timed(|| Ok(store.read(|queries| queries.path_after(&tip, &target, WINDOW))?))?;
    Ok((back, forth))
}

fn append(path: &Path) -> Result<f64> {
    let store = Store::open(path)?;
    let main = LaneName::main();
    let mut samples = Vec::new();
    for index in 0..300 {
        let tip = store.read(|queries| queries.tip(&main))?;
        let mut transaction = Transaction::new();
        let id = EntryId::generate();
        transaction.append(id.clone(), tip, body(index * 3, BYTES));
        transaction.set_tip(&main, Some(&id));
        samples.push(timed(|| Ok(store.commit(transaction)?))?.0);
    }
    Ok(median(&mut samples))
}

/// Memory in MiB that a process of its own takes which has the session open and has read its last screen.
fn memory(path: &Path) -> Result<f64> {
    let output = Command::new(std::env::current_exe()?)
        .arg(ROLE)
        .arg(path)
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// In that process.
pub(crate) fn measure_memory(path: &str) -> Result<()> {
    let store = Store::open(path)?;
    let tip = store.read(take_up)?.ok_or("the session has no tip")?;
    let page = store.read(|queries| queries.path(&tip, WINDOW))?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes: f64 = line
        .and_then(|line| line.split_whitespace().next())
        .ok_or("the kernel does not say")?
        .parse()?;
    println!("{}", kibibytes / 1024.0);
    drop((store, page));
    Ok(())
}
