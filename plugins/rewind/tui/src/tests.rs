//! The list, the preview and the banner in a terminal, before a session that the test plays.

use std::sync::Arc;

use bezel_api_tui::{Binding, Command, Facet, Placement, RenderContext, Slot, TuiContext, segment};
use bezel_context::Context;
use bezel_host_tui::{HarnessOptions, TuiHarness};
use bezel_presentation::StyledLine;
use bezel_presentation::text::Role;
use bezel_rewind_contract::{
    ChangeKind, FileChange, LeftAlone, Origin, Point, Preview, Restored, Rewind, RewindClient,
    RewindError, RewindState, StageRequest, Staged,
};
use bezel_rpc::{State, StateCell};
use bezel_session_types::EntryId;
use bezel_testkit::{FakeServer, FakeWorker};
use tokio::sync::watch;

use crate::facet;

struct Played {
    state: StateCell<RewindState>,
    calls: watch::Sender<Vec<String>>,
}

struct Fake(Arc<Played>);

impl Fake {
    fn note(&self, call: impl Into<String>) {
        self.0.calls.send_modify(|calls| calls.push(call.into()));
    }
}

fn changed() -> FileChange {
    FileChange {
        path: "src/parser.rs".into(),
        kind: ChangeKind::Changed,
        origin: Origin::Command,
        added: 1,
        removed: 1,
        patch: "--- src/parser.rs\n+++ src/parser.rs\n@@ -1 +1 @@\n-fn new() {}\n+fn old() {}\n"
            .into(),
    }
}

fn left_alone() -> Vec<LeftAlone> {
    vec![LeftAlone {
        path: "notes.md".into(),
        reason: "it was edited after the agent's last change".into(),
    }]
}

impl Rewind for Fake {
    fn state(&self) -> State<RewindState> {
        self.0.state.state()
    }

    async fn refresh(&self, _cx: &Context) -> Result<RewindState, RewindError> {
        Ok(RewindState::clone(&self.0.state.get()))
    }

    async fn preview(&self, _cx: &Context, message: EntryId) -> Result<Preview, RewindError> {
        self.note(format!("preview {message}"));
        Ok(Preview {
            total: 1,
            files: vec![changed()],
            left_alone: left_alone(),
            gaps: Vec::new(),
        })
    }

    async fn stage(&self, cx: &Context, request: StageRequest) -> Result<Staged, RewindError> {
        let StageRequest {
            message,
            reach,
            force,
        } = request;
        self.note(format!("stage {message} {reach:?} {force}"));
        let staged = Staged {
            message,
            text: "add a parser".into(),
            said: "add a parser\nand its tests".into(),
            reach,
            total: 1,
            files: vec![changed()],
            left_alone: left_alone(),
            set_aside: Vec::new(),
            gaps: Vec::new(),
        };
        self.0
            .state
            .update(cx, |state| state.staged = Some(staged.clone()));
        Ok(staged)
    }

    async fn clear(&self, cx: &Context, force: bool) -> Result<Restored, RewindError> {
        self.note(format!("clear {force}"));
        if !force {
            return Err(RewindError::Edited {
                paths: vec!["src/parser.rs".into()],
            });
        }
        self.0.state.update(cx, |state| state.staged = None);
        Ok(Restored {
            files: 1,
            conversation: false,
            left_alone: Vec::new(),
            set_aside: Vec::new(),
        })
    }

    async fn commit(&self, cx: &Context) -> Result<Restored, RewindError> {
        self.note("commit");
        self.0.state.update(cx, |state| state.staged = None);
        Ok(Restored {
            files: 1,
            conversation: false,
            left_alone: Vec::new(),
            set_aside: Vec::new(),
        })
    }
}

fn screen_has_keys(screen: &bezel_host_tui::Screen) -> bool {
    screen.contains("ctrl+x u undo · ctrl+x k keep")
}

fn point(id: &str, text: &str, files: u32, files_since: u32) -> Point {
    Point {
        message: EntryId::new(id),
        text: text.into(),
        at: 0,
        files,
        files_since,
        problem: None,
    }
}

struct Stage {
    tui: TuiHarness,
    played: Arc<Played>,
    _server: FakeServer,
    _worker: FakeWorker,
}

impl Stage {
    async fn new() -> Self {
        let state = RewindState {
            loaded: true,
            points: vec![
                point("m1", "add a parser", 2, 3),
                point("m2", "why is that so", 0, 1),
                point("m3", "now the tests", 1, 1),
            ],
            ..RewindState::default()
        };
        let played = Arc::new(Played {
            state: StateCell::new(state),
            calls: watch::Sender::default(),
        });
        let server = FakeServer::new();
        let calls = played.calls.clone();
        let extra = Facet::new("extra", move |cx: TuiContext| {
            let calls = calls.clone();
            async move {
                cx.commands.add(
                    Command::new("chat.write", "Write").run(move |_, arguments| {
                        let written = format!("composer {}", arguments.text);
                        calls.send_modify(|calls| calls.push(written));
                        async { Ok(()) }
                    }),
                );
                cx.keybindings.add(Binding::new("f2", "rewind.last")?);
                let rewind: RewindClient = cx.session.use_service();
                let (state, ui) = (rewind.state(), cx.ui.clone());
                cx.own(state.subscribe(move |_, _| ui.redraw()));
                let shown = move |_: &RenderContext<'_>| {
                    state
                        .is_ready()
                        .then(|| StyledLine::new("[ready]", Role::Status))
                };
                cx.slots
                    .add(Slot::StatusRight, Placement::default(), segment(shown));
                Ok(())
            }
        });
        let options = HarnessOptions {
            facets: vec![facet(), extra],
            connect: Some(server.connect()),
            ..HarnessOptions::default()
        };
        let tui = TuiHarness::start(options).await.unwrap();
        let worker = server.worker("one");
        worker
            .provide(&RewindClient::new(Fake(Arc::clone(&played))))
            .unwrap();
        worker.activate();
        server.attach("one").await.unwrap();
        tui.wait_for_text("[ready]").await;
        Stage {
            tui,
            played,
            _server: server,
            _worker: worker,
        }
    }

    async fn called(&self, call: &str) {
        let mut calls = self.played.calls.subscribe();
        let has = |calls: &Vec<String>| calls.iter().any(|made| made == call);
        calls.wait_for(has).await.unwrap();
    }

    /// Opens the list.
    async fn open(&self) {
        self.tui.press("ctrl+x").await;
        self.tui.press("r").await;
        self.tui.wait_for_text("Go back to before a message").await;
        self.tui.wait_for_text("add a parser").await;
    }
}

#[tokio::test]
async fn a_message_is_chosen_its_difference_read_and_its_files_put_back() {
    let stage = Stage::new().await;
    stage.open().await;
    let screen = stage
        .tui
        .wait_for_text("3 files since · 2 by its turn")
        .await;
    assert!(
        screen.contains("1 file since · 0 by its turn"),
        "{}",
        screen.text()
    );
    stage.tui.type_text("parser").await;
    stage.tui.press("enter").await;
    let screen = stage.tui.wait_for_text("1 file and the conversation").await;
    for shown in [
        "1 file; the conversation stays",
        "Both, and the 1 file edited since",
        "src/parser.rs",
        "changes +1 −1 · by a command",
        "Left alone",
    ] {
        assert!(
            screen.contains(shown),
            "{shown} is not in\n{}",
            screen.text()
        );
    }
    stage.tui.press("enter").await;
    stage.called("stage m1 FilesAndConversation false").await;
    let banner = "1 file as before “add a parser”, the conversation with what you send next";
    stage.tui.wait_for_text(banner).await;
    assert!(screen_has_keys(&stage.tui.screen()));
    // With little room the text is cut, and the keys are not.
    let narrow = stage.tui.resize(60, 24).await;
    assert!(
        narrow.contains("1 file as before") && screen_has_keys(&narrow),
        "{}",
        narrow.text()
    );
    stage.tui.resize(100, 24).await;
    stage.called("composer add a parser\nand its tests").await;
    stage.tui.press("ctrl+x").await;
    stage.tui.press("k").await;
    stage.called("commit").await;
    stage.tui.wait_for(|screen| !screen.contains(banner)).await;
}

#[tokio::test]
async fn what_can_be_chosen_is_whole_beside_the_preview() {
    let stage = Stage::new().await;
    stage.tui.resize(110, 30).await;
    stage.open().await;
    stage.tui.press("enter").await;
    let screen = stage.tui.wait_for_text("can be undone").await;
    for choice in [
        "1 file and the conversation",
        "1 file; the conversation stays",
        "Both, and the 1 file edited since",
        "Files, and the 1 file edited since",
    ] {
        assert!(
            screen.contains(choice),
            "{choice} is not in\n{}",
            screen.text()
        );
    }
}

#[tokio::test]
async fn undoing_over_a_persons_edits_asks_first() {
    let stage = Stage::new().await;
    stage.open().await;
    stage.tui.press("enter").await;
    stage.tui.wait_for_text("1 file and").await;
    stage.tui.press("down").await;
    stage.tui.press("enter").await;
    stage.called("stage m3 Files false").await;
    let screen = stage.tui.wait_for_text("ctrl+x u undo").await;
    assert!(!screen.contains("with what you send"), "{}", screen.text());
    stage.tui.press("ctrl+x").await;
    stage.tui.press("u").await;
    stage.tui.wait_for_text("overwrites these edits").await;
    stage.tui.press("left").await;
    stage.tui.press("enter").await;
    stage.called("clear true").await;
    stage
        .tui
        .wait_for(|screen| !screen.contains("ctrl+x u undo"))
        .await;
}

#[tokio::test]
async fn the_last_turn_that_changed_something_is_taken_back_with_one_key() {
    let stage = Stage::new().await;
    stage.open().await;
    stage.tui.press("esc").await;
    stage.tui.press("f2").await;
    stage.called("preview m3").await;
}

#[tokio::test]
async fn a_checkpoint_that_failed_is_told() {
    let stage = Stage::new().await;
    stage.played.state.update(&Context::background(), |state| {
        state.problem = Some("disk full".into());
    });
    stage.tui.wait_for_text("disk full").await;
}
