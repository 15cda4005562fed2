//! The example from outside: every kind of member, over loopback and over a Unix socket.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::sync::Arc;

use bezel_context::{ClientId, Principal, Scopes, TaskScope, Workspaces};
use bezel_example_contract::{
    ExcerptError, Place, ScanRefused, ScanReport, TodoEvent, TodosClient,
};
use bezel_rpc::{
    AcceptedRole, Acceptor, Authenticate, Authenticated, CallError, Context, Credential, Delivery,
    ErrorCode, Hello, JobError, Limits, Link, PeerIdentity, Refusal, Remote, Role, Router,
    ServiceTable, service,
};
use bezel_sockets::{UnixListener, dial_unix};
use bezel_testkit::{FakeSession, FakeSessionOptions};
use futures::future::BoxFuture;

/// A project with three files, of which one has nothing and one is ignored.
fn project() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| std::fs::write(directory.path().join(path), text).unwrap();
    write("a.rs", "fn a() {}\n// TODO: one\nfn b() {}\n");
    write("b.py", "# FIXME two\n");
    write("c.txt", "nothing\n");
    write("ignored.rs", "// TODO never\n");
    write(".ignore", "ignored.rs\n");
    directory
}

async fn session(directory: &Path) -> FakeSession {
    let options = FakeSessionOptions::default();
    FakeSession::start(vec![bezel_example_session::facet()], directory, options)
        .await
        .unwrap()
}

/// Serves a session's table on a socket, and a link to it.
struct Socket {
    link: Link,
    _acceptor: Acceptor,
    _tasks: TaskScope,
}

impl Socket {
    fn open(table: &ServiceTable, path: &Path) -> Self {
        let tasks = TaskScope::new();
        let acceptor = Acceptor::new(
            table.clone(),
            Arc::new(Everyone),
            Router::new(),
            Limits::default(),
        );
        let (listener, accepting) = (UnixListener::bind(path).unwrap(), acceptor.clone());
        tasks.spawn("listener", async move {
            while let Ok((transport, peer)) = listener.accept().await {
                accepting.spawn(transport, peer);
            }
        });
        let hello = Hello {
            role: Role::Presentation,
            product_version: "test".into(),
            credential: Credential::none(),
        };
        let link = Link::start(
            &tasks.spawner(),
            dial_unix(path),
            hello,
            ServiceTable::new(),
        );
        Socket {
            link,
            _acceptor: acceptor,
            _tasks: tasks,
        }
    }
}

struct Everyone;

impl Authenticate for Everyone {
    fn authenticate<'a>(
        &'a self,
        _hello: &'a Hello,
        _peer: &'a PeerIdentity,
    ) -> BoxFuture<'a, Result<Authenticated, Refusal>> {
        Box::pin(async {
            Ok(Authenticated {
                principal: Principal {
                    client: ClientId::new("named by the acceptor"),
                    owner: "owner".into(),
                    workspaces: Workspaces::All,
                    scopes: Scopes::all(),
                    credential: None,
                },
                role: AcceptedRole::Presentation,
                issued: None,
            })
        })
    }
}

fn place(path: &str, line: u32) -> Place {
    Place {
        path: path.into(),
        line,
    }
}

/// A presentation's whole use of the example.
async fn use_every_member(remote: &Remote) {
    let cx = Context::background();
    let todos: TodosClient = remote.use_service();
    let (found, mut events) = (todos.found(), todos.events().subscribe());
    assert!(found.ready(&cx).await.unwrap().todos.is_empty());

    let refused = todos.scan(&cx, Some(vec!["//".into()])).await.unwrap_err();
    let word = "//".to_owned();
    assert_eq!(refused, CallError::Service(ScanRefused::NoWord { word }));
    assert!(todos.newest(&cx).await.unwrap().is_none());

    let scan = todos.scan(&cx, None).await.unwrap();
    assert_eq!(scan.wait(&cx).await, Ok(ScanReport { files: 3, found: 2 }));
    let progress = scan.progress();
    let done = progress.wait_for(&cx, |progress| progress.read == 3);
    assert_eq!(done.await.unwrap().found, 2);

    let list = found.wait_for(&cx, |list| list.files == 3).await.unwrap();
    let all: Vec<_> = list
        .todos
        .iter()
        .map(|todo| (todo.place.clone(), &*todo.word, &*todo.text))
        .collect();
    let expected = [
        (place("a.rs", 2), "TODO", "one"),
        (place("b.py", 1), "FIXME", "two"),
    ];
    assert_eq!(all, expected);
    for todo in &list.todos {
        let Some(Delivery::Event { value, .. }) = events.next().await else {
            panic!("nothing was lost");
        };
        assert_eq!(*value, TodoEvent::Found { todo: todo.clone() });
    }
    let Some(Delivery::Event { value, .. }) = events.next().await else {
        panic!("nothing was lost");
    };
    assert_eq!(*value, TodoEvent::Complete { found: 2 });

    let excerpt = todos.excerpt(&cx, place("a.rs", 2), Some(1)).await.unwrap();
    assert_eq!((excerpt.first, excerpt.lines.len()), (1, 3));
    let elsewhere = place("c.txt", 1);
    let refused = todos
        .excerpt(&cx, elsewhere.clone(), None)
        .await
        .unwrap_err();
    let unknown = ExcerptError::UnknownPlace { place: elsewhere };
    assert_eq!(refused, CallError::Service(unknown));

    let again = todos.newest(&cx).await.unwrap().unwrap();
    again.cancel(&cx).await.unwrap();
    let report = again.wait(&cx).await;
    assert_eq!(
        report,
        Ok(ScanReport { files: 3, found: 2 }),
        "it had ended before"
    );
}

#[tokio::test]
async fn every_kind_of_member_works_over_loopback() {
    let project = project();
    let session = session(project.path()).await;
    use_every_member(&session.remote()).await;
    assert!(session.stop().await.is_empty());
}

#[tokio::test]
async fn every_kind_of_member_works_over_a_unix_socket() {
    let (project, place) = (project(), tempfile::tempdir().unwrap());
    let session = session(project.path()).await;
    let socket = Socket::open(&session.table, &place.path().join("socket"));
    socket.link.settled(&Context::background()).await.unwrap();
    use_every_member(&socket.link.server()).await;
    socket.link.stop().await;
    assert!(session.stop().await.is_empty());
}

#[tokio::test]
async fn a_new_scan_ends_the_one_that_runs_and_each_client_sees_both() {
    let (project, place) = (project(), tempfile::tempdir().unwrap());
    let session = session(project.path()).await;
    let socket = Socket::open(&session.table, &place.path().join("socket"));
    let cx = Context::background();
    socket.link.settled(&cx).await.unwrap();
    let (one, other): (TodosClient, TodosClient) = (
        session.remote().use_service(),
        socket.link.server().use_service(),
    );
    one.found().ready(&cx).await.unwrap();
    let first = one.scan(&cx, None).await.unwrap();
    let same = other.newest(&cx).await.unwrap().unwrap();
    let second = other.scan(&cx, None).await.unwrap();
    let ended = first.wait(&cx).await;
    assert_eq!(ended, same.wait(&cx).await, "both handles lead to one scan");
    let cancelled = Err(CallError::Service(JobError::JobCancelled));
    let complete = Ok(ScanReport { files: 3, found: 2 });
    assert!(ended == cancelled || ended == complete, "{ended:?}");
    assert_eq!(second.wait(&cx).await, complete);
    socket.link.stop().await;
    assert!(session.stop().await.is_empty());
}

#[tokio::test]
async fn the_local_service_does_not_exist_for_a_peer() {
    /// What a peer could make up.
    #[service("project-tree", version = "1.0")]
    trait Tree {
        async fn text(&self, cx: &Context, path: String) -> String;
    }
    let project = project();
    let session = session(project.path()).await;
    let cx = Context::background();
    let todos: TodosClient = session.remote().use_service();
    todos.found().ready(&cx).await.unwrap();
    let tree: TreeClient = session.remote().use_service();
    let refused = tree.text(&cx, "c.txt".into()).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::UnknownService));
    todos
        .scan(&cx, None)
        .await
        .unwrap()
        .wait(&cx)
        .await
        .unwrap();
    let shown = format!("{:?}", todos.found().get());
    assert!(
        !shown.contains(&*project.path().to_string_lossy()),
        "{shown}"
    );
    assert!(session.stop().await.is_empty());
}

#[tokio::test]
async fn a_scan_that_runs_ends_with_the_plugin() {
    let project = project();
    let mut session = session(project.path()).await;
    let cx = Context::background();
    let todos: TodosClient = session.remote().use_service();
    todos.found().ready(&cx).await.unwrap();
    let scan = todos.scan(&cx, None).await.unwrap();
    assert!(session.remove("example").await.is_empty());
    let refused = scan.wait(&cx).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::StaleReference));
    let refused = todos.scan(&cx, None).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::UnknownService));
    assert!(session.stop().await.is_empty());
}
