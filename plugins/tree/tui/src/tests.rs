//! The tree in a terminal, before a session that the test plays.

use std::sync::Arc;

use bezel_api_tui::{Binding, Command, Facet, Placement, RenderContext, Slot, TuiContext, segment};
use bezel_chat_contract::{
    Chat, ChatClient, ChatError, ChatState, Outcome, OutcomeStatus, PromptReply, PromptRequest,
};
use bezel_context::Context;
use bezel_host_tui::{HarnessOptions, TuiHarness};
use bezel_presentation::StyledLine;
use bezel_presentation::text::Role;
use bezel_rpc::{State, StateCell};
use bezel_session_types::{EntryId, OperationId};
use bezel_testkit::{FakeServer, FakeWorker};
use bezel_tree_contract::{
    Destination, NavigateRequest, Node, NodeKind, Outline, Tree, TreeClient, TreeError, TreeState,
};
use tokio::sync::watch;

use crate::facet;

#[derive(Default)]
struct Played {
    navigated: watch::Sender<Vec<NavigateRequest>>,
    labelled: watch::Sender<Vec<(EntryId, Option<String>)>>,
    written: watch::Sender<Vec<String>>,
    forked: watch::Sender<Vec<String>>,
}

struct FakeTree(Arc<Played>, StateCell<TreeState>);

impl Tree for FakeTree {
    fn state(&self) -> State<TreeState> {
        self.1.state()
    }

    async fn outline(
        &self,
        _cx: &Context,
        _before: Option<u64>,
        _limit: u32,
    ) -> Result<Outline, TreeError> {
        let node = |id: &str, parent: Option<&str>, kind, text: &str, label: Option<&str>| Node {
            id: EntryId::new(id),
            parent: parent.map(EntryId::new),
            seq: 0,
            at: String::new(),
            kind,
            text: text.into(),
            label: label.map(str::to_owned),
        };
        use NodeKind::{Assistant, User};
        Ok(Outline {
            nodes: vec![
                node("u1", None, User, "fix the parser", None),
                node("a1", Some("u1"), Assistant, "which one?", None),
                node("u2", Some("a1"), User, "the old one", None),
                node("a2", Some("u2"), Assistant, "done", Some("old way")),
                node("u3", Some("a1"), User, "the new one", None),
                node("a3", Some("u3"), Assistant, "working on it", None),
            ],
            has_older: false,
        })
    }

    async fn text(&self, _cx: &Context, entry: EntryId) -> Result<String, TreeError> {
        Ok(format!("all of {entry}"))
    }

    async fn navigate(
        &self,
        _cx: &Context,
        request: NavigateRequest,
    ) -> Result<OperationId, TreeError> {
        self.0.navigated.send_modify(|all| all.push(request));
        Ok(OperationId::new("go"))
    }

    async fn label(
        &self,
        _cx: &Context,
        entry: EntryId,
        label: Option<String>,
    ) -> Result<(), TreeError> {
        self.0.labelled.send_modify(|all| all.push((entry, label)));
        Ok(())
    }
}

struct FakeChat(StateCell<ChatState>);

impl Chat for FakeChat {
    fn state(&self) -> State<ChatState> {
        self.0.state()
    }

    async fn prompt(&self, _cx: &Context, _request: PromptRequest) -> PromptReply {
        refused()
    }

    async fn request_abort(&self, _cx: &Context, _id: OperationId) -> Result<bool, ChatError> {
        Ok(false)
    }

    async fn compact(&self, _cx: &Context, _instructions: Option<String>) -> PromptReply {
        refused()
    }

    async fn resume(&self, _cx: &Context) -> Result<bool, ChatError> {
        Ok(false)
    }

    async fn interrupt(&self, _cx: &Context) -> Result<Option<OperationId>, ChatError> {
        Ok(None)
    }

    async fn edit(&self, _cx: &Context, _id: EntryId, _text: String) -> Result<bool, ChatError> {
        Ok(false)
    }

    async fn promote(&self, _cx: &Context, _id: EntryId) -> Result<bool, ChatError> {
        Ok(false)
    }

    async fn withdraw(&self, _cx: &Context, _id: EntryId) -> Result<bool, ChatError> {
        Ok(false)
    }

    async fn wait(&self, _cx: &Context, operation_id: OperationId) -> Result<Outcome, ChatError> {
        Ok(Outcome {
            operation_id,
            status: OutcomeStatus::Done,
            error: None,
        })
    }

    async fn wait_idle(&self, _cx: &Context) -> Result<(), ChatError> {
        Ok(())
    }

    async fn next_request(
        &self,
        _cx: &Context,
    ) -> Result<bezel_session_types::NextRequest, ChatError> {
        unreachable!("nobody asks what the model would be sent")
    }
}

fn refused() -> PromptReply {
    PromptReply {
        accepted: false,
        operation_id: None,
        message_id: None,
        error: None,
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
        let played = Arc::new(Played::default());
        let server = FakeServer::new();
        let kept = Arc::clone(&played);
        let extra = Facet::new("extra", move |cx: TuiContext| {
            let (written, forked) = (Arc::clone(&kept), Arc::clone(&kept));
            async move {
                cx.keybindings.add(Binding::new("f2", "tree.open")?);
                let (attachment, ui) = (cx.session.attachment(), cx.ui.clone());
                cx.own(attachment.subscribe(move |_, _| ui.redraw()));
                let shown = move |_: &RenderContext<'_>| {
                    let attached = attachment.get().is_attached();
                    attached.then(|| StyledLine::new("[attached]", Role::Status))
                };
                cx.slots
                    .add(Slot::StatusRight, Placement::default(), segment(shown));
                cx.commands.add(
                    Command::new("chat.write", "Write").run(move |_, arguments| {
                        written.written.send_modify(|all| all.push(arguments.text));
                        async { Ok(()) }
                    }),
                );
                cx.commands.add(
                    Command::new("sessions.fork", "Fork").run(move |_, arguments| {
                        let value = arguments.value.to_string();
                        forked.forked.send_modify(|all| all.push(value));
                        async { Ok(()) }
                    }),
                );
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
        let state = StateCell::new(TreeState {
            tip: Some(EntryId::new("a3")),
            revision: 1,
        });
        let tree = FakeTree(Arc::clone(&played), state);
        worker.provide(&TreeClient::new(tree)).unwrap();
        let chat = FakeChat(StateCell::new(ChatState::default()));
        worker.provide(&ChatClient::new(chat)).unwrap();
        worker.activate();
        server.attach("one").await.unwrap();
        Stage {
            tui,
            played,
            _server: server,
            _worker: worker,
        }
    }

    async fn open(&self) {
        self.tui.wait_for_text("[attached]").await;
        self.tui.press("f2").await;
        self.tui.wait_for_text("the old one").await;
    }
}

async fn first<T: Clone>(sender: &watch::Sender<Vec<T>>) -> T {
    let mut receiver = sender.subscribe();
    let all = receiver.wait_for(|all| !all.is_empty()).await.unwrap();
    all[0].clone()
}

#[tokio::test]
async fn the_tree_shows_its_branches_and_labels_and_where_the_conversation_stands() {
    let stage = Stage::new().await;
    stage.open().await;
    let screen = stage.tui.wait_for_text("[old way]").await;
    insta::assert_snapshot!(screen.text());
    stage.tui.press("ctrl+o").await;
    stage.tui.wait_for_text("which one?").await;
}

#[tokio::test]
async fn an_earlier_message_is_gone_before_and_written_again() {
    let stage = Stage::new().await;
    stage.open().await;
    stage.tui.type_text("old one").await;
    stage
        .tui
        .wait_for(|screen| !screen.contains("the new one"))
        .await;
    stage.tui.press("enter").await;
    let request = first(&stage.played.navigated).await;
    let entry = EntryId::new("u2");
    assert_eq!(request.to, Destination::Before { entry });
    assert_eq!(request.summary, None);
    assert_eq!(first(&stage.played.written).await, "all of u2");
}

#[tokio::test]
async fn anything_else_is_gone_to_with_a_summary_where_that_is_asked_for() {
    let stage = Stage::new().await;
    stage.open().await;
    stage.tui.type_text("done").await;
    stage
        .tui
        .wait_for(|screen| !screen.contains("the new one"))
        .await;
    stage.tui.press("ctrl+s").await;
    stage.tui.wait_for_text("What should the summary").await;
    stage.tui.type_text("the tests").await;
    stage.tui.press("enter").await;
    let request = first(&stage.played.navigated).await;
    let entry = EntryId::new("a2");
    assert_eq!(request.to, Destination::At { entry });
    assert_eq!(request.summary.as_deref(), Some("the tests"));
    assert!(stage.played.written.borrow().is_empty());
}

#[tokio::test]
async fn a_place_is_labelled_and_forked_from() {
    let stage = Stage::new().await;
    stage.open().await;
    stage.tui.press("ctrl+l").await;
    stage.tui.wait_for_text("Label this place").await;
    stage.tui.type_text("start").await;
    stage.tui.press("enter").await;
    let (entry, label) = first(&stage.played.labelled).await;
    assert_eq!(
        (entry, label.as_deref()),
        (EntryId::new("a3"), Some("start"))
    );
    stage.tui.wait_for_text("the old one").await;
    stage.tui.press("ctrl+f").await;
    assert_eq!(first(&stage.played.forked).await, r#"{"entry":"a3"}"#);
}
