//! What survives a restart, what is adopted, what is never written.

use std::sync::Arc;

use bezel_host_server::{ServerHost, ServerStartError};
use bezel_session_types::{
    EntryBody, EntryId, LaneName, Message, SessionId, UserContent, UserMessage,
};
use bezel_sessions_contract::{CommitReport, LaunchEnvironment, SessionStatus};
use bezel_store::{Store, Transaction};
use tempfile::TempDir;

use crate::launcher::FakeLauncher;
use crate::over_both;
use crate::world::{Via, World, begin_in, cx, options, refused};

fn said(text: &str) -> EntryBody {
    let content = vec![UserContent::Text { text: text.into() }];
    EntryBody::from(Message::User(UserMessage {
        content,
        synthetic: false,
    }))
}

/// A session database as a worker leaves it.
fn write_database(path: &std::path::Path, texts: &[String]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let store = Store::open(path).unwrap();
    let mut tip = None;
    for text in texts {
        let id = EntryId::generate();
        let mut transaction = Transaction::new();
        transaction.append(id.clone(), tip.replace(id.clone()), said(text));
        transaction.set_tip(&LaneName::main(), Some(&id));
        store.commit(transaction).unwrap();
    }
}

fn text(message: &Message) -> &str {
    let Message::User(user) = message else {
        panic!("{message:?}")
    };
    let UserContent::Text { text } = &user.content[0] else {
        panic!("{message:?}")
    };
    text
}

async fn again(scratch: TempDir, launcher: Arc<FakeLauncher>, via: Via) -> World {
    World::again(scratch, launcher, via, |_| ()).await.unwrap()
}

over_both! {
    async fn records_survive_a_restart_and_every_session_is_closed_then(world: World) {
        let (via, client) = (world.via, world.client().await);
        let project = world.project("p");
        let first = client.create(&project).await.session_id;
        client.create(&world.project("q")).await;
        client.until_status(&first, SessionStatus::Idle).await;
        let model = "local::large".parse().unwrap();
        let worker = world.launcher.worker(&first);
        worker.record().switch_model(&cx(), model, bezel_session_types::ThinkingLevel::Low).await.unwrap();
        client.management.rename(&cx(), first.clone(), "Kept".into()).await.unwrap();
        let mut before = client.list().await;
        client.link.stop().await;
        let (scratch, launcher) = world.stop().await;

        let world = again(scratch, launcher, via).await;
        let client = world.client().await;
        for session in &mut before {
            session.status = SessionStatus::Closed;
        }
        assert_eq!(client.list().await, before);
        client.attach(&first).await;
        let start = world.launcher.starts().pop().unwrap();
        assert_eq!((start.title.as_str(), start.directory), ("Kept", project.canonicalize().unwrap()));
        assert_eq!(start.thinking_level, Some(bezel_session_types::ThinkingLevel::Low));
    }

    async fn workspace_ids_are_the_same_in_every_life_of_the_server(world: World) {
        let via = world.via;
        let client = world.client().await;
        let (p, q) = (world.project("p"), world.project("q"));
        let (in_p, in_q) = (client.create(&p).await.workspace_id, client.create(&q).await.workspace_id);
        assert_ne!(in_p, in_q);
        client.link.stop().await;
        let (scratch, launcher) = world.stop().await;
        let world = again(scratch, launcher, via).await;
        let client = world.client().await;
        assert_eq!(client.create(&p).await.workspace_id, in_p);
        assert_eq!(client.create(&q).await.workspace_id, in_q);
    }

    async fn messages_are_read_without_a_worker_and_a_record_without_a_file_is_empty(world: World) {
        let client = world.client().await;
        let id = client.create(&world.project("p")).await.session_id;
        assert_eq!(client.directory.messages(&cx(), id.clone(), 10).await.unwrap(), []);
        let texts: Vec<String> = (0..40).map(|number| format!("message {number}")).collect();
        write_database(&world.launcher.starts()[0].database, &texts);
        world.launcher.worker(&id).exit();
        client.until_status(&id, SessionStatus::Closed).await;
        let messages = client.directory.messages(&cx(), id.clone(), 3).await.unwrap();
        let newest: Vec<&str> = messages.iter().map(text).collect();
        assert_eq!(newest, ["message 37", "message 38", "message 39"]);
        assert_eq!(client.directory.messages(&cx(), id.clone(), 500).await.unwrap().len(), 40);
        for limit in [0, 501] {
            let refusal = refused(client.directory.messages(&cx(), id.clone(), limit).await);
            assert!(refusal.to_string().contains("within 1 to 500"), "{refusal}");
        }
        client.until_status(&id, SessionStatus::Closed).await;
    }
}

#[tokio::test]
async fn a_session_file_without_a_record_is_adopted_where_it_belonged() {
    let world = World::start(Via::Loopback).await;
    let client = world.client().await;
    let project = world.project("p");
    let id = client.create(&project).await.session_id;
    write_database(
        &world.launcher.starts()[0].database,
        &["Fix the parser\nplease".into()],
    );
    let (scratch, launcher) = world.stop().await;
    for name in ["server.db", "server.db-wal", "server.db-shm"] {
        std::fs::remove_file(scratch.path().join(name))
            .or_else(gone_is_fine)
            .unwrap();
    }
    // One that another machine made: nobody knows where it belongs.
    let foreign = scratch.path().join("sessions/foreign/session.db");
    write_database(&foreign, &["Hello".into()]);
    let broken = scratch.path().join("sessions/broken/session.db");
    std::fs::create_dir_all(broken.parent().unwrap()).unwrap();
    std::fs::write(&broken, "not a database").unwrap();

    let world = again(scratch, launcher, Via::Loopback).await;
    let client = world.client().await;
    let sessions = client.list().await;
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    let adopted = sessions
        .iter()
        .find(|session| session.session_id == id)
        .unwrap();
    assert_eq!(
        (adopted.title.as_str(), adopted.workspace_name.as_str()),
        ("Fix the parser", "p")
    );
    client.attach(&id).await;
    assert_eq!(
        world.launcher.starts().last().unwrap().directory,
        project.canonicalize().unwrap()
    );
    let foreign_id = SessionId::new("foreign");
    assert_eq!(
        text(
            &client
                .directory
                .messages(&cx(), foreign_id.clone(), 5)
                .await
                .unwrap()[0]
        ),
        "Hello"
    );
    client.attach(&foreign_id).await;
    assert_eq!(std::fs::read(&broken).unwrap(), b"not a database");
}

fn gone_is_fine(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound {
        Ok(())
    } else {
        Err(error)
    }
}

#[tokio::test]
async fn a_second_server_over_the_same_records_is_refused_and_told_of_the_first() {
    let world = World::start(Via::Loopback).await;
    let second = options(world.scratch.path(), &world.launcher, Via::Loopback);
    let refusal = ServerHost::start(second).await.unwrap_err();
    assert!(matches!(refusal, ServerStartError::Lock(_)), "{refusal:?}");
    let text = refusal.to_string();
    assert!(
        text.contains("bezel server stop") && text.contains(&std::process::id().to_string()),
        "{text}"
    );
}

#[tokio::test]
async fn a_foreign_or_damaged_record_file_is_named_and_left_as_it_was() {
    for contents in [
        b"certainly not a database, but long enough".to_vec(),
        foreign_database(),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("server.db");
        std::fs::write(&path, &contents).unwrap();
        let refusal =
            ServerHost::start(options(scratch.path(), &Arc::default(), Via::Loopback)).await;
        let text = refusal.unwrap_err().to_string();
        assert!(
            text.contains("server.db") && text.contains("move it away"),
            "{text}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), contents);
    }
}

fn foreign_database() -> Vec<u8> {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("foreign.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch("CREATE TABLE things (id INTEGER); PRAGMA user_version = 1;")
        .unwrap();
    drop(connection);
    std::fs::read(&path).unwrap()
}

#[tokio::test]
async fn a_record_file_of_a_later_version_asks_for_an_update() {
    let world = World::start(Via::Loopback).await;
    world.client().await.create(&world.project("p")).await;
    let (scratch, launcher) = world.stop().await;
    let connection = rusqlite::Connection::open(scratch.path().join("server.db")).unwrap();
    connection
        .execute_batch("PRAGMA user_version = 99")
        .unwrap();
    drop(connection);
    let refusal = World::again(scratch, launcher, Via::Loopback, |_| ())
        .await
        .err()
        .unwrap();
    assert!(refusal.to_string().contains("update Bezel"), "{refusal}");
}

#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn neither_environment_nor_credentials_are_written_or_logged() {
    let log = Log::default();
    let written = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || written.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let world = World::start(Via::Socket).await;
    let client = world.client().await;
    world.launcher.plan([crate::launcher::Behaviour::Survives]);
    let mut create = begin_in(&world.project("p"));
    let variables = [(
        "VERY_SPECIAL_NAME".to_owned(),
        "very-special-value".to_owned(),
    )];
    create.environment = Some(LaunchEnvironment(variables.into()));
    let id = client
        .management
        .create(&cx(), create)
        .await
        .unwrap()
        .session_id;
    client.attach(&id).await;
    let report = CommitReport {
        seq: 1,
        running: true,
        waiting: false,
        title: Some("A title".into()),
    };
    world
        .launcher
        .worker(&id)
        .record()
        .committed(&cx(), report)
        .await
        .unwrap();
    world.launcher.worker(&id).crash();
    client.until_status(&id, SessionStatus::Unreachable).await;
    let credential = world.launcher.starts()[0].credential.reveal().to_owned();
    let (scratch, _) = world.stop().await;

    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains(id.as_str()), "the log works");
    let mut files = vec![scratch.path().to_owned()];
    let mut kept = log.into_bytes();
    while let Some(path) = files.pop() {
        match std::fs::read_dir(&path) {
            Ok(entries) => files.extend(entries.map(|entry| entry.unwrap().path())),
            Err(_) => kept.extend(std::fs::read(&path).unwrap_or_default()),
        }
    }
    let kept = String::from_utf8_lossy(&kept);
    assert!(kept.contains("A title"), "the record file was read");
    for secret in [
        "VERY_SPECIAL_NAME",
        "very-special-value",
        credential.as_str(),
        crate::world::TOKEN,
    ] {
        assert!(!kept.contains(secret), "{secret}");
    }
}
