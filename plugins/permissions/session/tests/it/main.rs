//! Permissions over a played session: what is asked, who answers, what is remembered.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bezel_api_session::ApproveTool;
use bezel_context::{Context, Task, TaskScope};
use bezel_permissions_contract::{
    PendingAsk, PermissionMode, PermissionsClient, Reply, ReplyError, Rule,
};
use bezel_rpc::{CallError, ServiceClient, ServiceTable, State};
use bezel_session_types::{Access, InvocationId, ModelRef, SubmitOutcome, ThinkingLevel};
use bezel_sessions_contract::{
    CommitReport, SessionError, SessionRecord, SessionRecordClient, WorkerRecord,
};
use bezel_testkit::{FakeSession, FakeSessionOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The server's side of a session: which modes were recorded.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Vec<PermissionMode>>>);

impl SessionRecord for Record {
    fn state(&self) -> State<WorkerRecord> {
        State::constant(WorkerRecord::default())
    }

    async fn current(&self, _cx: &Context) -> Result<WorkerRecord, SessionError> {
        Ok(WorkerRecord::default())
    }

    async fn committed(&self, _cx: &Context, _report: CommitReport) -> Result<(), SessionError> {
        Ok(())
    }

    async fn switch_model(
        &self,
        _cx: &Context,
        _model: ModelRef,
        _thinking_level: ThinkingLevel,
    ) -> Result<(), SessionError> {
        Ok(())
    }

    async fn switch_agent(
        &self,
        _cx: &Context,
        _agent: Option<String>,
    ) -> Result<(), SessionError> {
        Ok(())
    }

    async fn switch_permission_mode(
        &self,
        _cx: &Context,
        mode: PermissionMode,
    ) -> Result<(), SessionError> {
        self.0.lock().unwrap().push(mode);
        Ok(())
    }
}

struct Fixture {
    session: Arc<FakeSession>,
    permissions: PermissionsClient,
    record: Record,
    project: PathBuf,
    home: TempDir,
    tasks: TaskScope,
}

async fn start(home: TempDir, config: Value) -> Fixture {
    let project = home.path().canonicalize().unwrap().join("project");
    std::fs::create_dir_all(project.join("src")).unwrap();
    let mut whole = json!({ "approvals": home.path().join("data/approvals.json") });
    for (key, value) in config.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let (record, server) = (Record::default(), ServiceTable::new());
    server
        .provide(SessionRecordClient::new(record.clone()).exposed())
        .unwrap();
    let options = FakeSessionOptions {
        config: BTreeMap::from([("permissions", whole)]),
        server,
        ..FakeSessionOptions::default()
    };
    let facets = vec![bezel_permissions_session::facet()];
    let session = FakeSession::start(facets, &project, options).await.unwrap();
    session.connected().await;
    let permissions: PermissionsClient = session.remote().use_service();
    let cx = Context::background();
    permissions.asks().ready(&cx).await.unwrap();
    permissions.state().ready(&cx).await.unwrap();
    Fixture {
        session: Arc::new(session),
        permissions,
        record,
        project,
        home,
        tasks: TaskScope::new(),
    }
}

async fn fixture(config: Value) -> Fixture {
    start(tempfile::tempdir().unwrap(), config).await
}

impl Fixture {
    /// A call of `bash`, judged while the test goes on.
    fn call(&self, id: &str, line: &str) -> Task<ApproveTool> {
        let (session, id) = (Arc::clone(&self.session), InvocationId::new(id));
        let (line, project) = (line.to_owned(), self.project.clone());
        self.tasks.spawn("call", async move {
            let accesses = Some(vec![Access::shell(line.as_str(), project)]);
            let arguments = json!({ "command": line });
            let cx = Context::background();
            session
                .agent
                .approve_tool(&cx, &id, "bash", arguments, accesses)
                .await
        })
    }

    /// What waits once it is exactly these calls.
    async fn asks(&self, ids: &[&str]) -> Vec<PendingAsk> {
        let asks = self.permissions.asks();
        let mut watched = asks.watch();
        loop {
            let waiting = asks.get();
            let mut waits: Vec<&str> = waiting.iter().map(|ask| ask.id.as_str()).collect();
            waits.sort_unstable();
            if waits == ids {
                return waiting.to_vec();
            }
            watched.changed().await;
        }
    }

    /// What is approved for the project once that is `count` rules.
    async fn project_rules(&self, count: usize) -> Vec<Rule> {
        let state = self.permissions.state();
        let mut watched = state.watch();
        while state.get().project.len() != count {
            watched.changed().await;
        }
        state.get().project.clone()
    }

    async fn reply(&self, id: &str, reply: Reply) -> SubmitOutcome {
        let cx = Context::background();
        let replied = self.permissions.reply(&cx, InvocationId::new(id), reply);
        replied.await.unwrap()
    }
}

fn rejected(message: Option<&str>) -> Reply {
    Reply::Reject {
        message: message.map(Into::into),
    }
}

#[tokio::test]
async fn a_call_waits_for_its_reply_and_shows_what_it_would_run() {
    let fixture = fixture(json!({})).await;
    let call = fixture.call("one", "cargo test -p x");
    let asks = fixture.asks(&["one"]).await;
    assert_eq!(asks[0].request.tool, "bash");
    assert_eq!(asks[0].request.asked[0].resource, "cargo test -p x");
    assert_eq!(asks[0].request.covers[0].resource, "cargo test *");
    assert_eq!(
        asks[0].request.arguments,
        json!({ "command": "cargo test -p x" })
    );
    assert_eq!(
        fixture.reply("one", Reply::Once).await,
        SubmitOutcome::Accepted
    );
    assert_eq!(call.await.unwrap().unwrap(), ApproveTool::Allow);
    // Once is once.
    let again = fixture.call("two", "cargo test -p x");
    fixture.asks(&["two"]).await;
    fixture.reply("two", rejected(None)).await;
    assert!(matches!(again.await.unwrap().unwrap(), ApproveTool::End(_)));
}

#[tokio::test]
async fn a_rejection_ends_the_turn_and_one_with_a_message_tells_the_model() {
    let fixture = fixture(json!({})).await;
    let call = fixture.call("one", "cargo test");
    fixture.asks(&["one"]).await;
    fixture.reply("one", rejected(Some("use nextest"))).await;
    assert_eq!(
        call.await.unwrap().unwrap(),
        ApproveTool::Deny("Not run: the person declined `bash` and says: use nextest".into())
    );
    // A plain rejection rejects everything that waits.
    let (first, second) = (fixture.call("two", "a"), fixture.call("three", "b"));
    fixture.asks(&["three", "two"]).await;
    fixture.reply("two", rejected(None)).await;
    assert!(matches!(first.await.unwrap().unwrap(), ApproveTool::End(_)));
    assert!(matches!(
        second.await.unwrap().unwrap(),
        ApproveTool::End(_)
    ));
}

#[tokio::test]
async fn always_is_remembered_for_the_project_and_lets_run_what_it_covers() {
    let fixture = fixture(json!({})).await;
    let calls = [
        fixture.call("one", "cargo test -p a"),
        fixture.call("two", "cargo test -p b"),
        fixture.call("three", "cargo publish"),
    ];
    fixture.asks(&["one", "three", "two"]).await;
    fixture.reply("one", Reply::Always).await;
    let left = fixture.asks(&["three"]).await;
    assert_eq!(left[0].id, InvocationId::new("three"));
    let [one, two, three] = calls;
    assert_eq!(one.await.unwrap().unwrap(), ApproveTool::Allow);
    assert_eq!(two.await.unwrap().unwrap(), ApproveTool::Allow);
    fixture.reply("three", rejected(None)).await;
    three.await.unwrap().unwrap();
    // Nothing of it is in the project.
    assert_eq!(std::fs::read_dir(&fixture.project).unwrap().count(), 1);

    // A session that starts later knows it; taken back, it is asked for again.
    let Fixture { home, session, .. } = fixture;
    drop(session);
    let later = start(home, json!({})).await;
    assert_eq!(
        later.call("four", "cargo test").await.unwrap().unwrap(),
        ApproveTool::Allow
    );
    let rule = later.project_rules(1).await[0].clone();
    let cx = Context::background();
    assert!(later.permissions.revoke(&cx, rule.clone()).await.unwrap());
    assert!(!later.permissions.revoke(&cx, rule).await.unwrap());
    let call = later.call("five", "cargo test");
    later.asks(&["five"]).await;
    later.reply("five", Reply::Session).await;
    assert_eq!(call.await.unwrap().unwrap(), ApproveTool::Allow);
    assert_eq!(
        later.call("six", "cargo test").await.unwrap().unwrap(),
        ApproveTool::Allow
    );
    later.project_rules(0).await;
}

#[tokio::test]
async fn what_another_session_of_the_project_was_told_counts_here() {
    let fixture = fixture(json!({})).await;
    let file = fixture.home.path().join("data/approvals.json");
    let project = fixture.project.display().to_string();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let contents = json!({
        "version": 1,
        "projects": { project: [{ "action": "shell", "resource": "deploy now", "effect": "allow" }] },
    });
    std::fs::write(&file, contents.to_string()).unwrap();
    assert_eq!(
        fixture.call("one", "deploy now").await.unwrap().unwrap(),
        ApproveTool::Allow
    );
}

#[tokio::test]
async fn of_two_racing_replies_one_counts() {
    let fixture = fixture(json!({})).await;
    let call = fixture.call("one", "cargo test");
    fixture.asks(&["one"]).await;
    let (yes, no) = tokio::join!(
        fixture.reply("one", Reply::Once),
        fixture.reply("one", rejected(Some("no"))),
    );
    let outcome = call.await.unwrap().unwrap();
    match (yes, no) {
        (SubmitOutcome::Accepted, SubmitOutcome::NotPending) => {
            assert_eq!(outcome, ApproveTool::Allow);
        }
        (SubmitOutcome::NotPending, SubmitOutcome::Accepted) => {
            assert!(matches!(outcome, ApproveTool::Deny(_)));
        }
        both => panic!("{both:?}"),
    }
}

#[tokio::test]
async fn more_than_once_is_refused_where_its_like_could_be_anything() {
    let fixture = fixture(json!({})).await;
    let call = fixture.call("one", "rm -rf *");
    assert!(fixture.asks(&["one"]).await[0].request.covers.is_empty());
    let cx = Context::background();
    let refused = fixture
        .permissions
        .reply(&cx, InvocationId::new("one"), Reply::Always)
        .await;
    assert!(
        matches!(refused, Err(CallError::Service(ReplyError::OnlyOnce))),
        "{refused:?}"
    );
    fixture.reply("one", Reply::Once).await;
    assert_eq!(call.await.unwrap().unwrap(), ApproveTool::Allow);
}

#[tokio::test]
async fn the_mode_is_recorded_told_to_the_model_and_counts_for_what_waits() {
    let fixture = fixture(json!({ "mode": "plan" })).await;
    let cx = Context::background();
    assert!(fixture.session.prompt.current().text.contains("plan mode"));
    let denied = fixture.call("one", "cargo test").await.unwrap().unwrap();
    assert!(
        matches!(&denied, ApproveTool::Deny(reason) if reason.contains("plan mode")),
        "{denied:?}"
    );
    fixture
        .permissions
        .set_mode(&cx, PermissionMode::Ask)
        .await
        .unwrap();
    assert_eq!(fixture.session.prompt.current().text, "");
    let waiting = fixture.call("two", "cargo test");
    fixture.asks(&["two"]).await;
    fixture
        .permissions
        .set_mode(&cx, PermissionMode::Auto)
        .await
        .unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), ApproveTool::Allow);
    let recorded = fixture.record.0.lock().unwrap().clone();
    assert_eq!(recorded, [PermissionMode::Ask, PermissionMode::Auto]);
}

#[tokio::test]
async fn a_configured_denial_is_final_over_what_was_approved() {
    let rules = json!([{ "action": "shell", "resource": "git push *", "effect": "deny" }]);
    let fixture = fixture(json!({ "mode": "full", "rules": rules })).await;
    let denied = fixture
        .call("one", "ls && git push -f")
        .await
        .unwrap()
        .unwrap();
    assert!(
        matches!(&denied, ApproveTool::Deny(reason) if reason.contains("git push")),
        "{denied:?}"
    );
    assert_eq!(
        fixture.call("two", "rm -rf /").await.unwrap().unwrap(),
        ApproveTool::Allow
    );
}

#[tokio::test]
async fn an_ask_that_a_crash_cut_off_is_found_again_under_its_call() {
    let fixture = fixture(json!({})).await;
    let call = fixture.call("one", "cargo test");
    let asked = fixture.asks(&["one"]).await;
    // The process that waited is gone; what was asked stays asked, and is asked once.
    call.abort();
    assert!(call.await.unwrap().unwrap_err().is_cancelled());
    let again = fixture.call("one", "cargo test");
    assert_eq!(fixture.asks(&["one"]).await, asked);
    fixture.reply("one", Reply::Once).await;
    assert_eq!(again.await.unwrap().unwrap(), ApproveTool::Allow);
}

#[tokio::test]
async fn a_damaged_file_of_approvals_is_told_and_approves_nothing() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("data")).unwrap();
    std::fs::write(home.path().join("data/approvals.json"), "{").unwrap();
    let fixture = start(home, json!({})).await;
    let problem = fixture.permissions.state().get().problem.clone().unwrap();
    assert!(problem.contains("approvals.json"), "{problem}");
    let call = fixture.call("one", "cargo test");
    fixture.asks(&["one"]).await;
    // The person's answer holds here all the same.
    fixture.reply("one", Reply::Always).await;
    assert_eq!(call.await.unwrap().unwrap(), ApproveTool::Allow);
    let rules = fixture.project_rules(1).await;
    assert_eq!(rules[0].resource, "cargo test *");
}

#[tokio::test]
async fn an_answer_does_not_count_for_another_thing_than_what_was_shown() {
    use std::os::unix::fs::symlink;
    let fixture = fixture(json!({})).await;
    let outside = fixture.home.path().canonicalize().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("one"), "").unwrap();
    std::fs::write(outside.join("two"), "").unwrap();
    let project = &fixture.project;
    std::fs::write(project.join("other.txt"), "").unwrap();
    symlink(outside.join("one"), project.join("ext")).unwrap();
    std::fs::create_dir(project.join("nd")).unwrap();
    let link = |name: &str, to: PathBuf| {
        let path = project.join(name);
        if path.is_dir() && !path.is_symlink() {
            std::fs::remove_dir(&path).unwrap();
        } else if path.symlink_metadata().is_ok() {
            std::fs::remove_file(&path).unwrap();
        }
        symlink(to, path).unwrap();
    };
    for (id, line, name, to) in [
        (
            "outside",
            "echo x > out.txt",
            "out.txt",
            outside.join("one"),
        ),
        (
            "inside",
            "echo x > out2.txt",
            "out2.txt",
            project.join("other.txt"),
        ),
        ("elsewhere", "cat ext", "ext", outside.join("two")),
        ("folder", "echo x > nd/f", "nd", outside.clone()),
        (
            "unknown",
            "sed -i s/a/b/ in.txt",
            "in.txt",
            outside.join("two"),
        ),
    ] {
        if id == "unknown" {
            std::fs::write(project.join(name), "").unwrap();
        }
        let call = fixture.call(id, line);
        fixture.asks(&[id]).await;
        link(name, to);
        let reply = if id == "folder" {
            Reply::Session
        } else {
            Reply::Once
        };
        fixture.reply(id, reply).await;
        let outcome = call.await.unwrap().unwrap();
        assert!(
            matches!(&outcome, ApproveTool::Deny(reason) if reason.contains("has changed")),
            "{line}: {outcome:?}"
        );
    }
    assert_eq!(fixture.permissions.state().get().session[..], []);
    // What is the same is the same.
    let call = fixture.call("same", "cat ext");
    fixture.asks(&["same"]).await;
    fixture.reply("same", Reply::Once).await;
    assert_eq!(call.await.unwrap().unwrap(), ApproveTool::Allow);
}
