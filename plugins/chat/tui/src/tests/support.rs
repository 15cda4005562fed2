//! A server with one session that the test plays, and the chat facet on it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bezel_api_tui::{Facet, Launch, Placement, RenderContext, Slot, TuiContext, segment};
use bezel_blobs_contract::BlobsClient;
use bezel_blobs_session::{BlobStore, StoreLimits};
use bezel_chat_contract::{
    Activity, Chat, ChatClient, ChatError, ChatState, Outcome, OutcomeStatus, Phase, PromptPart,
    PromptReply, PromptRequest, QueuedMessage,
};
use bezel_context::Context;
use bezel_files_contract::{FileMatch, Files, FilesClient};
use bezel_host_tui::{HarnessOptions, Screen, TuiHarness};
use bezel_presentation::StyledLine;
use bezel_presentation::clock::Clock;
use bezel_presentation::text::Role;
use bezel_rpc::{AttachmentState, State, StateCell};
use bezel_session_types::{
    EntryId, ModelRef, OperationId, SessionId, ThinkingLevel, ToolResultMessage,
};
use bezel_sessions_contract::{
    CreateSession, LaunchEnvironment, SessionError, SessionManagement, SessionManagementClient,
    SessionSummary,
};
use bezel_testkit::{FakeServer, FakeWorker};
use bezel_transcript_contract::{
    Item, ItemBody, Transcript, TranscriptClient, TranscriptContinuation, TranscriptError,
    TranscriptPage, TranscriptState,
};
use bezel_usage_contract::{Usage, UsageClient, UsageState};
use tokio::sync::{Semaphore, watch};

use super::blobs::FakeBlobs;

pub(super) const NOW: &str = "2026-03-01T12:00:00Z";
pub(super) const SESSION: &str = "one";

/// What the session was asked, and how it answers.
pub(super) struct Played {
    pub(super) chat: StateCell<ChatState>,
    pub(super) transcript: StateCell<TranscriptState>,
    pub(super) usage: StateCell<UsageState>,
    pub(super) prompts: watch::Sender<Vec<PromptRequest>>,
    pub(super) aborted: watch::Sender<Vec<OperationId>>,
    pub(super) withdrawn: watch::Sender<Vec<EntryId>>,
    pub(super) compacted: watch::Sender<Vec<Option<String>>>,
    pub(super) attached: watch::Sender<Vec<SessionId>>,
    pub(super) searched: watch::Sender<Vec<String>>,
    /// Replies to the next prompts; accepted where there is none.
    pub(super) replies: Mutex<VecDeque<PromptReply>>,
    /// Prompts wait for a permit before they are answered.
    pub(super) gate: Semaphore,
    /// Where uploads are kept, and each chunk that came, by its offset.
    pub(super) blobs: BlobStore,
    pub(super) chunks: watch::Sender<Vec<u64>>,
    /// Chunks wait for a permit before they are taken in.
    pub(super) chunk_gate: Semaphore,
    _uploads: tempfile::TempDir,
    files: Vec<&'static str>,
}

impl Played {
    fn new() -> Arc<Self> {
        let uploads = tempfile::tempdir().unwrap();
        Arc::new(Played {
            blobs: BlobStore::new(uploads.path(), StoreLimits::default()),
            chunks: watch::Sender::default(),
            chunk_gate: Semaphore::new(Semaphore::MAX_PERMITS),
            _uploads: uploads,
            chat: StateCell::new(ChatState::default()),
            transcript: StateCell::new(TranscriptState::default()),
            usage: StateCell::new(UsageState::default()),
            prompts: watch::Sender::default(),
            aborted: watch::Sender::default(),
            withdrawn: watch::Sender::default(),
            compacted: watch::Sender::default(),
            attached: watch::Sender::default(),
            searched: watch::Sender::default(),
            replies: Mutex::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            files: vec!["src/main.rs", "src/lib.rs", "docs/my notes.md", "src/"],
        })
    }

    pub(super) fn set(&self, change: impl FnOnce(&mut ChatState)) {
        self.chat.update(&Context::background(), change);
    }

    pub(super) fn run(&self, phase: Phase) {
        self.set(|state| {
            state.activity = Activity::Running {
                operation_id: OperationId::new("op"),
                since: "2026-03-01T11:59:48Z".into(),
                phase,
                cancelling: false,
            };
        });
    }

    /// Ends what runs.
    pub(super) fn end(&self, status: OutcomeStatus) {
        self.set(|state| {
            state.activity = Activity::Idle;
            state.last = Some(Outcome {
                operation_id: OperationId::new("op"),
                status,
                error: None,
            });
        });
    }

    /// The newest answer tells why it failed.
    pub(super) fn fail_answer(&self, error: &str) {
        let item = Item {
            id: "answer".into(),
            at: NOW.into(),
            body: ItemBody::Assistant {
                model: "local::m".parse().expect("a model"),
                parts: Vec::new(),
                done: true,
                error: Some(error.into()),
                usage: None,
            },
        };
        self.transcript.set(
            &Context::background(),
            TranscriptState {
                items: vec![item],
                ..TranscriptState::default()
            },
        );
    }

    pub(super) fn say(&self, texts: &[&str]) {
        let item = |(place, text): (usize, &&str)| Item {
            id: format!("said-{place}"),
            at: NOW.into(),
            body: ItemBody::User {
                text: (*text).into(),
                images: 0,
                synthetic: false,
            },
        };
        let items = texts.iter().enumerate().map(item).collect();
        self.transcript.set(
            &Context::background(),
            TranscriptState {
                items,
                ..TranscriptState::default()
            },
        );
    }

    pub(super) fn refuse(&self, error: &str) {
        let reply = PromptReply {
            accepted: false,
            operation_id: None,
            message_id: None,
            error: Some(error.into()),
        };
        self.replies.lock().unwrap().push_back(reply);
    }

    /// Waits until so many prompts have come.
    pub(super) async fn prompted(&self, count: usize) -> Vec<PromptRequest> {
        waited(&self.prompts, |prompts| prompts.len() >= count).await
    }
}

/// Waits until what was noted is as wished.
pub(super) async fn waited<T: Clone>(noted: &watch::Sender<T>, fits: impl FnMut(&T) -> bool) -> T {
    let mut noted = noted.subscribe();
    let found =
        tokio::time::timeout(std::time::Duration::from_secs(20), noted.wait_for(fits)).await;
    found
        .expect("it never came")
        .expect("the fake lives")
        .clone()
}

pub(super) fn text(request: &PromptRequest) -> String {
    let parts = request.content.iter().map(|part| match part {
        PromptPart::Text { text } => text.clone(),
        PromptPart::Image(image) => format!("<{}>", image.media_type),
        PromptPart::UploadedImage(image) => format!("<{} {}>", image.media_type, image.blob),
    });
    parts.collect()
}

struct Fake(Arc<Played>);

impl Chat for Fake {
    fn state(&self) -> State<ChatState> {
        self.0.chat.state()
    }

    async fn prompt(&self, _cx: &Context, request: PromptRequest) -> PromptReply {
        self.0.prompts.send_modify(|prompts| prompts.push(request));
        self.0
            .gate
            .acquire()
            .await
            .expect("the gate is never closed")
            .forget();
        let reply = self.0.replies.lock().unwrap().pop_front();
        reply.unwrap_or(PromptReply {
            accepted: true,
            operation_id: Some(OperationId::new("op")),
            message_id: None,
            error: None,
        })
    }

    async fn request_abort(
        &self,
        _cx: &Context,
        operation_id: OperationId,
    ) -> Result<bool, ChatError> {
        self.0
            .aborted
            .send_modify(|aborted| aborted.push(operation_id));
        self.0.set(|state| {
            if let Activity::Running { cancelling, .. } = &mut state.activity {
                *cancelling = true;
            }
        });
        Ok(true)
    }

    async fn compact(&self, _cx: &Context, instructions: Option<String>) -> PromptReply {
        self.0
            .compacted
            .send_modify(|compacted| compacted.push(instructions));
        let reply = self.0.replies.lock().unwrap().pop_front();
        reply.unwrap_or(PromptReply {
            accepted: true,
            operation_id: None,
            message_id: None,
            error: None,
        })
    }

    async fn resume(&self, _cx: &Context) -> Result<bool, ChatError> {
        Ok(false)
    }

    async fn interrupt(&self, _cx: &Context) -> Result<Option<OperationId>, ChatError> {
        Ok(None)
    }

    async fn edit(&self, _cx: &Context, id: EntryId, text: String) -> Result<bool, ChatError> {
        let mut found = false;
        self.0.set(|state| {
            for message in state.queue.iter_mut().filter(|message| message.id == id) {
                message.text.clone_from(&text);
                found = true;
            }
        });
        Ok(found)
    }

    async fn promote(&self, _cx: &Context, id: EntryId) -> Result<bool, ChatError> {
        let mut found = false;
        self.0.set(|state| {
            for message in state.queue.iter_mut().filter(|message| message.id == id) {
                message.delivery = bezel_chat_contract::Delivery::Steer;
                found = true;
            }
        });
        Ok(found)
    }

    async fn wait_idle(&self, cx: &Context) -> Result<(), ChatError> {
        cx.cancelled().await;
        Ok(())
    }

    async fn next_request(
        &self,
        _cx: &Context,
    ) -> Result<bezel_session_types::NextRequest, ChatError> {
        unreachable!("nobody asks what the model would be sent")
    }

    async fn withdraw(&self, _cx: &Context, id: EntryId) -> Result<bool, ChatError> {
        let mut taken = false;
        self.0.set(|state| {
            let before = state.queue.len();
            state.queue.retain(|message| message.id != id);
            taken = state.queue.len() < before;
        });
        self.0.withdrawn.send_modify(|withdrawn| withdrawn.push(id));
        Ok(taken)
    }

    async fn wait(&self, cx: &Context, operation_id: OperationId) -> Result<Outcome, ChatError> {
        cx.cancelled().await;
        Err(ChatError::UnknownOperation { operation_id })
    }
}

struct FakeFiles(Arc<Played>);

impl Files for FakeFiles {
    async fn search(&self, _cx: &Context, query: String, limit: u32) -> Vec<FileMatch> {
        self.0
            .searched
            .send_modify(|searched| searched.push(query.clone()));
        let fits = self.0.files.iter().filter(|path| path.contains(&query));
        let found = fits.map(|path| FileMatch {
            path: path.trim_end_matches('/').into(),
            is_directory: path.ends_with('/'),
            indices: (0..query.len())
                .filter_map(|at| u32::try_from(path.find(&query)? + at).ok())
                .collect(),
        });
        found.take(limit as usize).collect()
    }
}

struct FakeTranscript(Arc<Played>);

impl Transcript for FakeTranscript {
    fn state(&self) -> State<TranscriptState> {
        self.0.transcript.state()
    }

    async fn page_after(
        &self,
        _cx: &Context,
        after: String,
        _limit: u32,
    ) -> Result<TranscriptContinuation, TranscriptError> {
        // What is played here is only paged back.
        Err(TranscriptError::UnknownItem { item: after })
    }

    async fn page(
        &self,
        _cx: &Context,
        _before: String,
        _limit: u32,
    ) -> Result<TranscriptPage, TranscriptError> {
        Ok(TranscriptPage::default())
    }

    async fn result(
        &self,
        _cx: &Context,
        item: String,
    ) -> Result<ToolResultMessage, TranscriptError> {
        Err(TranscriptError::UnknownItem { item })
    }
}

struct FakeUsage(Arc<Played>);

impl Usage for FakeUsage {
    fn state(&self) -> State<UsageState> {
        self.0.usage.state()
    }
}

struct FakeManagement(Arc<Played>);

impl SessionManagement for FakeManagement {
    async fn create(
        &self,
        _cx: &Context,
        _options: CreateSession,
    ) -> Result<SessionSummary, SessionError> {
        Err(SessionError::Invalid {
            message: "the test creates none".into(),
        })
    }

    async fn remove(&self, _cx: &Context, _session_id: SessionId) -> Result<(), SessionError> {
        Ok(())
    }

    async fn rename(
        &self,
        _cx: &Context,
        _session_id: SessionId,
        _title: String,
    ) -> Result<SessionSummary, SessionError> {
        Err(SessionError::Invalid {
            message: "the test renames none".into(),
        })
    }

    async fn switch_agent(
        &self,
        _cx: &Context,
        session_id: SessionId,
        _agent: Option<String>,
    ) -> Result<SessionSummary, SessionError> {
        Err(SessionError::NotAuthorized { session_id })
    }

    async fn switch_model(
        &self,
        _cx: &Context,
        session_id: SessionId,
        _model: ModelRef,
        _thinking_level: ThinkingLevel,
    ) -> Result<SessionSummary, SessionError> {
        Err(SessionError::NotAuthorized { session_id })
    }

    async fn archive(
        &self,
        _cx: &Context,
        session_id: SessionId,
        _archived: bool,
    ) -> Result<SessionSummary, SessionError> {
        Err(SessionError::NotAuthorized { session_id })
    }

    async fn attach(
        &self,
        _cx: &Context,
        session_id: SessionId,
        _environment: Option<LaunchEnvironment>,
    ) -> Result<(), SessionError> {
        self.0
            .attached
            .send_modify(|attached| attached.push(session_id));
        Ok(())
    }

    async fn detach(&self, _cx: &Context) -> Result<(), SessionError> {
        Ok(())
    }
}

/// The chat facet before a server.
pub(super) struct Stage {
    pub(super) tui: TuiHarness,
    pub(super) server: FakeServer,
    pub(super) played: Arc<Played>,
    pub(super) worker: Option<FakeWorker>,
}

impl Stage {
    /// Connected, with no session yet.
    pub(super) async fn detached(launch: Launch) -> Self {
        let played = Played::new();
        let server = FakeServer::new();
        server
            .provide(&SessionManagementClient::new(FakeManagement(Arc::clone(
                &played,
            ))))
            .unwrap();
        let now = NOW.parse().unwrap();
        let extra = Facet::new("extra", |cx: TuiContext| async move {
            let command = bezel_api_tui::Command::new("extra.greet", "Greet somebody")
                .slash("greet")
                .argument_hint("<name>");
            let (attachment, ui) = (cx.session.attachment(), cx.ui.clone());
            cx.own(attachment.subscribe(move |_, _| ui.redraw()));
            // Shows when what the server did has arrived.
            let shown = move |_: &RenderContext<'_>| match &*attachment.get() {
                AttachmentState::Attached { target } => {
                    Some(StyledLine::new(format!("[{target}]"), Role::Status))
                }
                _ => Some(StyledLine::new("[none]", Role::Status)),
            };
            cx.slots
                .add(Slot::StatusRight, Placement::default(), segment(shown));
            let ui = cx.ui.clone();
            let tree = bezel_api_tui::Command::new("tree.open", "Look back");
            cx.commands.add(tree.run(move |_, _| {
                ui.toast("the tree is open");
                async { Ok(()) }
            }));
            let ui = cx.ui.clone();
            cx.commands.add(command.run(move |_, arguments| {
                ui.toast(format!("hello {}", arguments.text));
                async { Ok(()) }
            }));
            Ok(())
        });
        let options = HarnessOptions {
            facets: vec![crate::facet_at(Clock::new(move || now)), extra],
            connect: Some(server.connect()),
            launch,
            ..HarnessOptions::default()
        };
        let tui = TuiHarness::start(options).await.unwrap();
        Stage {
            tui,
            server,
            played,
            worker: None,
        }
    }

    /// With an attached session.
    pub(super) async fn attached() -> Self {
        let mut stage = Stage::detached(Launch::default()).await;
        stage.attach(SESSION).await;
        stage
    }

    /// Starts a worker for the session and attaches it.
    pub(super) async fn attach(&mut self, session: &str) {
        let worker = self.server.worker(session);
        worker
            .provide(&ChatClient::new(Fake(Arc::clone(&self.played))))
            .unwrap();
        worker
            .provide(&BlobsClient::new(FakeBlobs(Arc::clone(&self.played))))
            .unwrap();
        worker
            .provide(&FilesClient::new(FakeFiles(Arc::clone(&self.played))))
            .unwrap();
        worker
            .provide(&TranscriptClient::new(FakeTranscript(Arc::clone(
                &self.played,
            ))))
            .unwrap();
        worker
            .provide(&UsageClient::new(FakeUsage(Arc::clone(&self.played))))
            .unwrap();
        worker.activate();
        self.worker = Some(worker);
        self.bind(session).await;
    }

    /// Selects a session whose worker is there.
    pub(super) async fn bind(&self, session: &str) {
        self.server.attach(session).await.unwrap();
        self.tui.wait_for_text(&format!("[{session}]")).await;
    }

    /// Ends the session's worker.
    pub(super) async fn stop_worker(&mut self) {
        self.worker.take().expect("a worker").stop().await;
        self.tui.wait_for_text("[none]").await;
    }

    /// What is written in the composer.
    pub(super) fn written(screen: &Screen) -> String {
        let rows: Vec<String> = screen.text().lines().map(str::to_owned).collect();
        let top = rows
            .iter()
            .rposition(|row| row.starts_with('›'))
            .expect("a composer");
        let bottom = rows
            .iter()
            .rposition(|row| row.starts_with('─'))
            .expect("its lower edge");
        rows[top..bottom]
            .iter()
            .map(|row| row.chars().skip(2).collect::<String>())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

pub(super) fn queued(
    id: &str,
    text: &str,
    delivery: bezel_chat_contract::Delivery,
) -> QueuedMessage {
    QueuedMessage {
        id: EntryId::new(id),
        text: text.into(),
        delivery,
    }
}
