//! A session as one file, packed beside its owner and unpacked elsewhere.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use bezel_session_types::{
    EntryId, LaneName, Message, ResultContent, SessionId, ToolResultMessage,
};
use bezel_store::{
    OpenError, Package, PackageError, PackageFacts, Reader, Store, Transaction, WriteOutError,
};
use rusqlite::Connection;

use crate::support::{Place, ROLE, append, child_role};

fn facts(place: &Place) -> PackageFacts {
    PackageFacts {
        session_id: SessionId::new("s1"),
        title: "A “title”".into(),
        directory: "/srv".into(),
        output_directory: outputs(place),
        version: "0.1.0".into(),
    }
}

fn outputs(place: &Place) -> PathBuf {
    place.directory.path().join("out \"put\"")
}

fn pack(place: &Place) -> Result<PathBuf, PackageError> {
    let target = place.directory.path().join("packed.bezel");
    let reader = Reader::open(&place.path).unwrap();
    reader.pack(&facts(place), &outputs(place), &target)?;
    Ok(target)
}

/// Everything in the directory of a place, by name.
fn listing(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn chain(store: &Store, count: usize) {
    for index in 0..count {
        let parent = index.checked_sub(1).map(|before| format!("e{before}"));
        store
            .commit(append(&format!("e{index}"), parent.as_deref()))
            .unwrap();
    }
}

#[test]
fn a_session_travels_as_one_file_with_its_output_and_what_names_it() {
    let place = Place::new();
    let store = place.open();
    chain(&store, 3);
    fs::create_dir(outputs(&place)).unwrap();
    fs::create_dir(outputs(&place).join("folder")).unwrap();
    let saved = outputs(&place).join("i1.txt");
    fs::write(&saved, b"long \xff output").unwrap();
    let mut transaction = Transaction::new();
    let result = ToolResultMessage {
        call_id: "c".into(),
        invocation_id: bezel_session_types::InvocationId::new("i1"),
        tool: "bash".into(),
        content: vec![ResultContent::text(format!(
            "the rest is in {}",
            saved.display()
        ))],
        structured: None,
        details: serde_json::Value::Null,
        is_error: false,
    };
    transaction.append(
        EntryId::new("r"),
        Some(EntryId::new("e2")),
        Message::ToolResult(result),
    );
    transaction.set_tip(&LaneName::main(), Some(&EntryId::new("r")));
    store.commit(transaction).unwrap();

    let target = pack(&place).unwrap();
    assert_eq!(
        fs::metadata(&target).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let elsewhere = Place::new();
    let moved = elsewhere.directory.path().join("packed");
    fs::rename(&target, &moved).unwrap();
    drop(store);
    drop(place);

    let package = Package::open(&moved).unwrap();
    assert_eq!(package.facts().unwrap().title, "A “title”");
    let there = elsewhere.directory.path().join("output");
    package
        .unpack(&elsewhere.path, &there, Path::new("/final \\ place"))
        .unwrap();
    assert_eq!(fs::read(there.join("i1.txt")).unwrap(), b"long \xff output");
    assert_eq!(listing(&there), ["i1.txt"]);
    let mode = fs::metadata(&elsewhere.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let store = elsewhere.open();
    let tip = store
        .read(|queries| queries.tip(&LaneName::main()))
        .unwrap()
        .unwrap();
    let page = store.read(|queries| queries.path(&tip, 10)).unwrap();
    assert_eq!(page.entries.len(), 4);
    let Some(Message::ToolResult(result)) = page.entries[3].message() else {
        panic!("no result")
    };
    let ResultContent::Text { text } = &result.content[0] else {
        panic!("no text")
    };
    assert_eq!(text, "the rest is in /final \\ place/i1.txt");
    assert_eq!(
        store.read(|queries| queries.check()).unwrap(),
        Vec::<String>::new()
    );
}

#[test]
fn a_package_is_one_moment_of_a_session_that_goes_on() {
    let place = Place::new();
    let store = place.open();
    store.commit(append("e0", None)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut index = 1;
            while !done.load(Ordering::Relaxed) && index < 20_000 {
                let parent = format!("e{}", index - 1);
                store
                    .commit(append(&format!("e{index}"), Some(&parent)))
                    .unwrap();
                index += 1;
            }
        });
        for round in 0..20 {
            let target = pack(&place).unwrap();
            let copy = Place::new();
            let package = Package::open(&target).unwrap();
            package
                .unpack(&copy.path, Path::new("/none"), Path::new("/none"))
                .unwrap();
            let store = copy.open();
            let (count, tip, found) = store
                .read(|queries| {
                    Ok((
                        queries.count()?,
                        queries.tip(&LaneName::main())?,
                        queries.check()?,
                    ))
                })
                .unwrap();
            assert_eq!(
                tip.unwrap().as_str(),
                format!("e{}", count - 1),
                "round {round}"
            );
            assert_eq!(found, Vec::<String>::new());
            fs::remove_file(target).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_file_that_is_there_is_never_written_over() {
    let place = Place::new();
    chain(&place.open(), 1);
    let target = pack(&place).unwrap();
    fs::write(&target, "mine").unwrap();
    let error = pack(&place).unwrap_err();
    assert!(matches!(error, PackageError::Exists { .. }), "{error}");
    assert_eq!(fs::read(&target).unwrap(), b"mine");
    let names = listing(place.directory.path());
    assert!(!names.iter().any(|name| name.contains("part")), "{names:?}");
}

#[test]
fn a_place_that_cannot_be_written_to_is_named_and_nothing_is_left_there() {
    let place = Place::new();
    chain(&place.open(), 1);
    let reader = Reader::open(&place.path).unwrap();
    for target in ["/proc/packed", "/nowhere/at/all/packed"] {
        let error = reader
            .pack(&facts(&place), &outputs(&place), Path::new(target))
            .unwrap_err();
        assert!(error.to_string().contains(target), "{error}");
        assert!(error.to_string().contains("writable"), "{error}");
    }
}

/// In a child whose files may not grow beyond a limit: packs, and says what came of it.
#[test]
fn a_process_that_packs_onto_a_full_disk() {
    let Some(path) = child_role() else { return };
    let reader = Reader::open(&path).unwrap();
    let directory = path.parent().unwrap();
    let facts = PackageFacts {
        session_id: SessionId::new("s1"),
        title: String::new(),
        directory: "/srv".into(),
        output_directory: directory.join("output"),
        version: "0.1.0".into(),
    };
    let packed = reader.pack(&facts, &facts.output_directory, &directory.join("packed"));
    println!("packed: {}", packed.unwrap_err());
    let written = reader.write_out(&directory.join("written"), |queries, out| {
        for entry in queries.entries_after(0, 1_000)? {
            writeln!(out, "{}", serde_json::json!(entry)).map_err(WriteOutError::Write)?;
        }
        Ok(())
    });
    println!("written: {}", written.unwrap_err());
}

#[test]
fn a_disk_that_is_full_is_told_and_nothing_is_left_there_or_lost_here() {
    let place = Place::new();
    let store = place.open();
    chain(&store, 600);
    let outputs = place.directory.path().join("output");
    fs::create_dir(&outputs).unwrap();
    fs::write(outputs.join("long.txt"), "x".repeat(200_000)).unwrap();
    let before = listing(place.directory.path());
    // In blocks of half a kibibyte: room for a beginning, for no more. The signal is ignored, so that the system
    // refuses as it does where a disk is full.
    for blocks in [8, 64, 160] {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let ended = Command::new("sh")
            .args(["-c", &script])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "packages::a_process_that_packs_onto_a_full_disk",
                "--nocapture",
            ])
            .env(ROLE, &place.path)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(ended.status.success(), "{blocks}: {told}");
        for kind in ["packed: ", "written: "] {
            let line = told.lines().find(|line| line.starts_with(kind));
            let line = line.unwrap_or_else(|| panic!("{blocks}: {told}"));
            assert!(line.contains("full"), "{blocks}: {line}");
        }
        assert_eq!(listing(place.directory.path()), before, "{blocks}");
        assert_eq!(store.read(|queries| queries.check()).unwrap(), [""; 0]);
    }
    // With room again it is packed.
    pack(&place).unwrap();
}

#[test]
fn what_is_no_package_is_refused_by_name_and_left_as_it_is() {
    let place = Place::new();
    chain(&place.open(), 40);
    let target = pack(&place).unwrap();
    let whole = fs::read(&target).unwrap();
    let check = |bytes: &[u8], what: &str| {
        fs::write(&target, bytes).unwrap();
        let error = Package::open(&target).map(|_| ()).expect_err(what);
        assert!(
            error.to_string().contains(target.to_str().unwrap()),
            "{error}"
        );
        assert_eq!(
            fs::read(&target).unwrap(),
            bytes,
            "{what}: the file was changed"
        );
        error
    };
    assert!(matches!(check(b"", "empty"), OpenError::Missing { .. }));
    assert!(matches!(
        check(&[7; 9000], "garbage"),
        OpenError::Foreign { .. }
    ));
    for page in 1..whole.len() / 4096 {
        check(&whole[..page * 4096], "cut short");
    }
    let mut bent = whole.clone();
    bent[60..64].copy_from_slice(&99_u32.to_be_bytes());
    assert!(matches!(
        check(&bent, "later"),
        OpenError::Newer { found: 99, .. }
    ));
    let mut bent = whole.clone();
    bent[2 * 4096..2 * 4096 + 200].fill(0xaa);
    check(&bent, "damaged within");
    // SQLite finds nothing wrong with another letter.
    let mut bent = whole.clone();
    let words = b"text of e20";
    let at = whole.windows(words.len()).position(|bytes| bytes == words);
    bent[at.unwrap()] = b'T';
    let refused = check(&bent, "another letter").to_string();
    assert!(
        refused.contains("does not hold what was packed"),
        "{refused}"
    );
    // One that was packed before there were seals is taken.
    fs::write(&target, &whole).unwrap();
    let connection = Connection::open(&target).unwrap();
    connection.execute_batch("DROP TABLE seal").unwrap();
    drop(connection);
    Package::open(&target).unwrap();
    fs::write(&target, &whole).unwrap();
    let connection = Connection::open(&target).unwrap();
    connection
        .execute_batch("CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END")
        .unwrap();
    drop(connection);
    let bytes = fs::read(&target).unwrap();
    assert!(check(&bytes, "a trigger").to_string().contains("triggers"));
}

/// All that a package holds, by table.
fn rows(package: &Path) -> Vec<String> {
    let connection = Connection::open(package).unwrap();
    let mut rows = Vec::new();
    for table in [
        "entries",
        "\"values\"",
        "inbox",
        "receipts",
        "journal",
        "usage",
        "outputs",
        "package",
    ] {
        let mut found = connection
            .prepare(&format!("SELECT * FROM {table} ORDER BY 1"))
            .unwrap();
        let columns = found.column_count();
        let mut found = found.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let fields = (0..columns).map(|column| format!("{:?}", row.get_ref(column).unwrap()));
            rows.push(format!(
                "{table}: {}",
                fields.collect::<Vec<_>>().join(", ")
            ));
        }
    }
    rows
}

#[test]
fn a_package_that_was_overwritten_anywhere_is_refused_or_holds_all_that_it_did() {
    let place = Place::new();
    chain(&place.open(), 40);
    fs::create_dir(outputs(&place)).unwrap();
    fs::write(outputs(&place).join("a.txt"), "saved ".repeat(2_000)).unwrap();
    let target = pack(&place).unwrap();
    let (whole, held) = (fs::read(&target).unwrap(), rows(&target));
    for at in (0..whole.len()).step_by(64) {
        let mut bent = whole.clone();
        bent[at..at + 64].fill(0xff);
        fs::write(&target, &bent).unwrap();
        match Package::open(&target) {
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains(target.to_str().unwrap()), "{error}");
                assert!(!error.contains("disk not full"), "byte {at}: {error}");
            }
            // What no row lies in may be anything.
            Ok(_) => {
                assert_eq!(rows(&target), held, "byte {at}");
                let held_text = whole[at..at + 64]
                    .windows(6)
                    .any(|bytes| bytes == b"saved ");
                assert!(!held_text, "byte {at}");
            }
        }
    }
}

#[test]
fn an_output_never_leaves_its_directory() {
    let place = Place::new();
    chain(&place.open(), 1);
    fs::create_dir(outputs(&place)).unwrap();
    fs::write(outputs(&place).join("a"), "x").unwrap();
    for name in ["../../escaped", "/tmp/escaped", "..", ".", "", "a/b", "a/"] {
        let target = pack(&place).unwrap();
        let connection = Connection::open(&target).unwrap();
        connection
            .execute("UPDATE outputs SET name = ?1", [name])
            .unwrap();
        connection.execute_batch("DROP TABLE seal").unwrap();
        drop(connection);
        let copy = Place::new();
        let there = copy.directory.path().join("output");
        let error = Package::open(&target)
            .unwrap()
            .unpack(&copy.path, &there, &there)
            .unwrap_err();
        assert!(
            matches!(error, PackageError::OutputName { .. }),
            "{name}: {error}"
        );
        assert!(!there.exists() && !copy.directory.path().join("../escaped").exists());
        fs::remove_file(target).unwrap();
    }
}
