//! Permissions as a person meets them, before a session that the test plays.

use std::sync::{Arc, Mutex};

use bezel_api_tui::{Facet, Placement, Slot, TuiContext, segment};
use bezel_context::{Context, WorkspaceId};
use bezel_host_tui::{HarnessOptions, TuiHarness};
use bezel_permissions_contract::{
    Ask, Asked, Effect, PendingAsk, PermissionMode, Permissions, PermissionsClient,
    PermissionsError, PermissionsState, Reply, ReplyError, Rule,
};
use bezel_presentation::StyledLine;
use bezel_presentation::text::Role;
use bezel_rpc::{State, StateCell, service};
use bezel_session_types::{InvocationId, SessionId, SubmitOutcome};
use bezel_sessions_contract::{DirectoryState, SessionStatus, SessionSummary};
use bezel_testkit::{FakeServer, FakeWorker};
use serde_json::{Value, json};

use crate::facet;

#[derive(Clone)]
struct Played {
    state: StateCell<PermissionsState>,
    asks: StateCell<Vec<PendingAsk>>,
    replies: Arc<Mutex<Vec<(String, Reply)>>>,
}

impl Permissions for Played {
    fn state(&self) -> State<PermissionsState> {
        self.state.state()
    }

    fn asks(&self) -> State<Vec<PendingAsk>> {
        self.asks.state()
    }

    async fn set_mode(&self, cx: &Context, mode: PermissionMode) -> Result<(), PermissionsError> {
        self.state.update(cx, |state| state.mode = mode);
        Ok(())
    }

    async fn reply(
        &self,
        cx: &Context,
        id: InvocationId,
        reply: Reply,
    ) -> Result<SubmitOutcome, ReplyError> {
        self.replies.lock().unwrap().push((id.to_string(), reply));
        self.asks
            .update(cx, |asks| asks.retain(|pending| pending.id != id));
        Ok(SubmitOutcome::Accepted)
    }

    async fn revoke(&self, cx: &Context, rule: Rule) -> Result<bool, PermissionsError> {
        self.state
            .update(cx, |state| state.project.retain(|other| *other != rule));
        Ok(true)
    }
}

fn ask(id: &str, tool: &str, arguments: Value, action: &str, resource: &str) -> PendingAsk {
    let covers = |resource: &str| Rule {
        action: action.into(),
        resource: resource.into(),
        effect: Effect::Allow,
    };
    PendingAsk {
        id: InvocationId::new(id),
        asker: None,
        request: Ask {
            tool: tool.into(),
            arguments,
            asked: vec![Asked {
                action: action.into(),
                resource: resource.into(),
                reason: "it is not known what it changes".into(),
            }],
            covers: vec![covers("git push *")],
        },
    }
}

/// As much of the server's directory as dialogs look at: the one session that began another.
#[service("session-directory", version = "1.3")]
trait Listed {
    fn state(&self) -> State<DirectoryState>;
}

struct OneChild;

impl Listed for OneChild {
    fn state(&self) -> State<DirectoryState> {
        let child = SessionSummary {
            session_id: SessionId::new("child"),
            title: "Find the tests".into(),
            workspace_id: WorkspaceId::new("w"),
            workspace_name: "w".into(),
            status: SessionStatus::Active,
            parent_id: Some(SessionId::new("one")),
            agent: None,
            model: None,
            created_at: String::new(),
            updated_at: String::new(),
            archived_at: None,
        };
        State::constant(DirectoryState {
            revision: 1,
            sessions: vec![child],
        })
    }
}

struct Stage {
    tui: TuiHarness,
    played: Played,
    _server: FakeServer,
    _worker: FakeWorker,
}

async fn stage(asks: Vec<PendingAsk>, size: (u16, u16)) -> Stage {
    let played = Played {
        state: StateCell::new(PermissionsState::default()),
        asks: StateCell::new(asks),
        replies: Arc::default(),
    };
    let server = FakeServer::new();
    server.provide(&ListedClient::new(OneChild)).unwrap();
    let extra = Facet::new("extra", |cx: TuiContext| async move {
        let composer = segment(|_| Some(StyledLine::new("> ", Role::Text)));
        cx.slots.add(Slot::Composer, Placement::default(), composer);
        Ok(())
    });
    let tui = TuiHarness::start(HarnessOptions {
        facets: vec![facet(), extra],
        connect: Some(server.connect()),
        size,
        ..HarnessOptions::default()
    });
    let tui = tui.await.unwrap();
    let worker = server.worker("one");
    worker
        .provide(&PermissionsClient::new(played.clone()))
        .unwrap();
    worker.activate();
    server.attach("one").await.unwrap();
    Stage {
        tui,
        played,
        _server: server,
        _worker: worker,
    }
}

fn push() -> PendingAsk {
    let line = "cargo test && git push origin main";
    ask(
        "one",
        "bash",
        json!({ "command": line }),
        "shell",
        "git push origin main",
    )
}

// Not on a clock that goes on when nothing is ready: the list of sessions is waited for.
#[tokio::test]
async fn a_call_of_a_subagent_says_of_which() {
    for (asker, title) in [
        ("child", "May `bash` of the subagent “Find the tests” run?"),
        ("gone", "May `bash` of a subagent run?"),
    ] {
        let asked = PendingAsk {
            asker: Some(SessionId::new(asker)),
            ..push()
        };
        stage(vec![asked], (80, 24))
            .await
            .tui
            .wait_for_text(title)
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_is_shown_with_what_is_asked_and_answered_by_a_key() {
    let stage = stage(vec![push()], (80, 24)).await;
    let screen = stage.tui.wait_for_text("Always in this project").await;
    insta::assert_snapshot!(screen.text());
    // A dialog that comes by itself takes no key at first.
    tokio::time::advance(std::time::Duration::from_millis(1_300)).await;
    stage.tui.press("a").await;
    stage
        .tui
        .wait_for(|screen| !screen.contains("Always in this project"))
        .await;
    let replies = stage.played.replies.lock().unwrap().clone();
    assert_eq!(replies, [("one".to_owned(), Reply::Always)]);
}

#[tokio::test(start_paused = true)]
async fn a_command_hides_nothing_and_what_lasts_is_answered_after_it_was_read() {
    let line = format!(
        "echo start; true{}; touch EVIL{}touch EVIL2{}",
        " ".repeat(3_000),
        "\n".repeat(61),
        "\necho more".repeat(20)
    );
    let asked = ask("one", "bash", json!({ "command": line }), "shell", &line);
    let stage = stage(vec![asked], (80, 24)).await;
    let screen = stage.tui.wait_for_text("Always in this project").await;
    insta::assert_snapshot!(screen.text());
    tokio::time::advance(std::time::Duration::from_millis(1_300)).await;
    // There is more to see: it is shown, and nothing is answered.
    let screen = stage.tui.press("a").await;
    assert!(
        screen.contains("Always in this project"),
        "{}",
        screen.text()
    );
    assert!(stage.played.replies.lock().unwrap().is_empty());
    for _ in 0..20 {
        stage.tui.press("a").await;
    }
    stage
        .tui
        .wait_for(|screen| !screen.contains("Always in this project"))
        .await;
    let replies = stage.played.replies.lock().unwrap().clone();
    assert_eq!(replies, [("one".to_owned(), Reply::Always)]);
}

#[tokio::test]
async fn an_edit_is_shown_as_its_difference() {
    let arguments = json!({
        "path": "src/main.rs",
        "edits": [{ "old_text": "let x = 1;", "new_text": "let x = 2;" }],
    });
    let edit = ask("one", "edit", arguments, "edit", "src/main.rs");
    let stage = stage(vec![edit], (80, 24)).await;
    let screen = stage.tui.wait_for_text("let x = 2;").await;
    insta::assert_snapshot!(screen.text());
}

#[tokio::test]
async fn the_mode_is_in_the_status_line_and_a_key_goes_through_the_modes() {
    let stage = stage(Vec::new(), (80, 24)).await;
    stage.tui.wait_for_text("ask").await;
    stage.tui.press("shift+tab").await;
    stage.tui.wait_for_text("accept-edits").await;
    assert_eq!(stage.played.state.get().mode, PermissionMode::AcceptEdits);
}

#[test]
fn a_key_never_leads_to_full() {
    let mut mode = PermissionMode::Full;
    for _ in 0..8 {
        mode = crate::mode::next(mode);
        assert_ne!(mode, PermissionMode::Full);
    }
}
