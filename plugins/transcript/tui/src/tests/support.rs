//! A session that the test plays, and the transcript facet on it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::Rect;
use bezel_api_tui::{
    Facet, Launch, Placement, RenderContext, Slot, ToolCard, ToolRenderContext, ToolRenderer,
    TuiContext, View, segment,
};
use bezel_blobs_contract::{BlobError, BlobStat, Blobs, BlobsClient, Chunk, Piece, ReadSource};
use bezel_context::Context;
use bezel_host_tui::{HarnessOptions, Screen, TuiHarness};
use bezel_models_contract::{
    Catalog, Configuration, Models, ModelsClient, ModelsState, RefreshStatus, SelectError,
};
use bezel_presentation::StyledLine;
use bezel_presentation::clock::Clock;
use bezel_presentation::text::Role;
use bezel_rpc::{AttachmentState, Path, State, StateCell};
use bezel_session_types::{
    BlobId, InvocationId, ModelRef, ModelSpec, ResultContent, ThinkingLevel, ToolResultMessage,
};
use bezel_testkit::{FakeServer, FakeWorker};
use bezel_transcript_contract::{
    Item, Transcript, TranscriptClient, TranscriptContinuation, TranscriptError, TranscriptPage,
    TranscriptState,
};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

/// The session as the test plays it.
pub(super) struct Played {
    pub(super) state: StateCell<TranscriptState>,
    /// Older items, oldest first; pages come from its end.
    pub(super) older: Mutex<Vec<Item>>,
    pub(super) pages: watch::Sender<Vec<String>>,
    pub(super) results: watch::Sender<Vec<String>>,
    pub(super) whole: Mutex<String>,
    /// Pages and results fail while it is set.
    pub(super) broken: AtomicBool,
    /// Pages and results wait for a permit.
    pub(super) gate: Semaphore,
}

impl Played {
    fn new() -> Arc<Self> {
        Arc::new(Played {
            state: StateCell::new(TranscriptState::default()),
            older: Mutex::default(),
            pages: watch::Sender::default(),
            results: watch::Sender::default(),
            whole: Mutex::default(),
            broken: AtomicBool::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
        })
    }

    pub(super) fn show(&self, items: Vec<Item>) {
        let has_older = !self.older.lock().unwrap().is_empty();
        self.state.set(
            &Context::background(),
            TranscriptState {
                items,
                has_older,
                ..TranscriptState::default()
            },
        );
    }

    pub(super) fn push(&self, item: Item) {
        self.state
            .update(&Context::background(), |state| state.items.push(item));
    }

    /// Text grows at the end of the last item's last part.
    pub(super) fn append(&self, text: &str) {
        let items = self.state.get().items.len();
        let path = Path::root()
            .join("items")
            .join(items - 1)
            .join("parts")
            .join(0)
            .join("text");
        self.state
            .append(&Context::background(), path, text)
            .unwrap();
    }

    async fn pass(&self) -> Result<(), TranscriptError> {
        self.gate
            .acquire()
            .await
            .expect("the gate is never closed")
            .forget();
        if self.broken.load(Ordering::SeqCst) {
            return Err(TranscriptError::Storage {
                message: "the disk is gone".into(),
            });
        }
        Ok(())
    }
}

struct Fake(Arc<Played>);

impl Transcript for Fake {
    fn state(&self) -> State<TranscriptState> {
        self.0.state.state()
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
        before: String,
        limit: u32,
    ) -> Result<TranscriptPage, TranscriptError> {
        self.0.pages.send_modify(|pages| pages.push(before.clone()));
        self.0.pass().await?;
        let older = self.0.older.lock().unwrap();
        let end = older
            .iter()
            .position(|item| item.id == before)
            .unwrap_or(older.len());
        let start = end.saturating_sub(limit as usize);
        Ok(TranscriptPage {
            items: older[start..end].to_vec(),
            has_older: start > 0,
        })
    }

    async fn result(
        &self,
        _cx: &Context,
        item: String,
    ) -> Result<ToolResultMessage, TranscriptError> {
        self.0
            .results
            .send_modify(|results| results.push(item.clone()));
        self.0.pass().await?;
        Ok(ToolResultMessage {
            call_id: "c".into(),
            invocation_id: InvocationId::new(item),
            tool: "bash".into(),
            content: vec![ResultContent::text(self.0.whole.lock().unwrap().clone())],
            structured: None,
            details: Value::Null,
            is_error: false,
        })
    }
}

struct FakeBlobs(Arc<Played>);

impl Blobs for FakeBlobs {
    async fn stat(&self, _cx: &Context, _ids: Vec<BlobId>) -> Result<Vec<BlobStat>, BlobError> {
        Ok(Vec::new())
    }

    async fn put(
        &self,
        _cx: &Context,
        id: BlobId,
        _size: u64,
        _offset: u64,
        _chunk: Chunk,
    ) -> Result<BlobStat, BlobError> {
        Err(BlobError::Mismatch { id })
    }

    async fn read(
        &self,
        _cx: &Context,
        source: ReadSource,
        offset: u64,
        length: u32,
    ) -> Result<Piece, BlobError> {
        match source {
            ReadSource::Output { result } if self.0.broken.load(Ordering::Relaxed) => {
                Err(BlobError::UnknownResult { result })
            }
            _ => {
                let whole = self.0.whole.lock().unwrap();
                Ok(Piece::of(whole.as_bytes(), offset, length))
            }
        }
    }
}

struct FakeModels(StateCell<ModelsState>);

impl Models for FakeModels {
    fn state(&self) -> State<ModelsState> {
        self.0.state()
    }

    async fn select(&self, _cx: &Context, _model: ModelRef) -> Result<(), SelectError> {
        Ok(())
    }

    async fn check(&self, _cx: &Context, _model: ModelRef) -> Result<(), SelectError> {
        Ok(())
    }

    async fn cycle_thinking(&self, _cx: &Context) -> Result<ThinkingLevel, SelectError> {
        Ok(ThinkingLevel::Off)
    }

    async fn refresh(&self, _cx: &Context) {}
}

fn models() -> ModelsState {
    let model = ModelRef {
        provider: "test".into(),
        model_id: "m-1".into(),
    };
    let spec = ModelSpec {
        model: model.clone(),
        name: "Model One".into(),
        reasoning: true,
        images: false,
        context: 1000,
        max_output: 0,
        prices: None,
    };
    ModelsState {
        catalog: Catalog {
            revision: 1,
            available_models: vec![spec],
        },
        configuration: Configuration {
            model: Some(model),
            thinking_level: ThinkingLevel::Off,
        },
        refresh: RefreshStatus::Idle,
    }
}

/// Takes letters, so that the composer has the focus.
struct Writer(String);

impl View for Writer {
    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let mark = if cx.is_focused() { '>' } else { '-' };
        cx.paint().draw_line(
            buffer,
            area,
            &StyledLine::new(format!("{mark} {}", self.0), Role::Text),
        );
    }

    fn handle(
        &mut self,
        event: &bezel_api_tui::InputEvent,
        _cx: &mut bezel_api_tui::EventContext,
    ) -> bezel_api_tui::Handled {
        if let bezel_api_tui::InputEvent::Key(key) = event
            && let Some(letter) = bezel_api_tui::KeyStroke::from(key).typed()
        {
            self.0.push(letter);
            return bezel_api_tui::Handled::Yes;
        }
        bezel_api_tui::Handled::No
    }
}

/// The transcript facet before a server.
pub(super) struct Stage {
    pub(super) tui: TuiHarness,
    pub(super) server: FakeServer,
    pub(super) played: Arc<Played>,
    pub(super) worker: Option<FakeWorker>,
}

/// Draws calls that come to nothing good.
struct Doomed;

impl ToolRenderer for Doomed {
    fn title(&self, card: &ToolCard<'_>, _cx: &ToolRenderContext<'_>) -> StyledLine {
        StyledLine::new(card.name.to_owned(), Role::Text)
    }

    fn body(&self, _card: &ToolCard<'_>, _cx: &ToolRenderContext<'_>) -> Vec<StyledLine> {
        Vec::new()
    }

    fn took(&self, card: &ToolCard<'_>) -> Option<Duration> {
        card.outcome.map(|_| Duration::from_secs(7))
    }

    fn came_to_failure(&self, card: &ToolCard<'_>) -> bool {
        card.outcome.is_some()
    }
}

impl Stage {
    /// On a screen of this size, with no session.
    pub(super) async fn detached(size: (u16, u16)) -> Self {
        let server = FakeServer::new();
        let now = "2026-03-01T12:00:42Z".parse().unwrap();
        let extra = Facet::new("extra", |cx: TuiContext| async move {
            let attachment = cx.session.attachment();
            let ui = cx.ui.clone();
            cx.own(attachment.subscribe(move |_, _| ui.redraw()));
            let shown = move |_: &RenderContext<'_>| match &*attachment.get() {
                AttachmentState::Attached { target } => {
                    Some(StyledLine::new(format!("[{target}]"), Role::Status))
                }
                _ => Some(StyledLine::new("[none]", Role::Status)),
            };
            cx.slots
                .add(Slot::StatusRight, Placement::default(), segment(shown));
            cx.slots
                .add(Slot::Composer, Placement::default(), Writer(String::new()));
            cx.tool_renderers.add("doomed", Doomed);
            Ok(())
        });
        let environment = [("HOME".to_owned(), "/home/me".to_owned())].into();
        let options = HarnessOptions {
            facets: vec![crate::facet_at(Clock::new(move || now)), extra],
            connect: Some(server.connect()),
            size,
            launch: Launch {
                directory: "/home/me/code/parser".into(),
                environment,
                ..Launch::default()
            },
            ..HarnessOptions::default()
        };
        let tui = TuiHarness::start(options).await.unwrap();
        Stage {
            tui,
            server,
            played: Played::new(),
            worker: None,
        }
    }

    /// On a screen of this size, with a session that has these items.
    pub(super) async fn sized(size: (u16, u16), items: Vec<Item>) -> Self {
        let mut stage = Stage::detached(size).await;
        stage.played.show(items);
        stage.attach("one").await;
        stage
    }

    /// On 60 columns and 20 rows, 17 of them for the conversation.
    pub(super) async fn with(items: Vec<Item>) -> Self {
        Stage::sized((60, 20), items).await
    }

    pub(super) async fn attach(&mut self, session: &str) {
        let worker = self.server.worker(session);
        worker
            .provide(&BlobsClient::new(FakeBlobs(Arc::clone(&self.played))))
            .unwrap();
        worker
            .provide(&TranscriptClient::new(Fake(Arc::clone(&self.played))))
            .unwrap();
        worker
            .provide(&ModelsClient::new(FakeModels(StateCell::new(models()))))
            .unwrap();
        worker.activate();
        self.worker = Some(worker);
        self.server.attach(session).await.unwrap();
        self.tui.wait_for_text(&format!("[{session}]")).await;
    }

    /// Begins another session in place of the played one.
    pub(super) async fn switch(&mut self, session: &str, items: Vec<Item>) {
        self.played = Played::new();
        self.played.show(items);
        self.attach(session).await;
    }
}

/// The screen with spinners standing still.
pub(super) fn still(screen: &Screen) -> String {
    screen.still_text()
}

/// Rows of the conversation that begin with a number: which ones are in sight.
pub(super) fn numbers(screen: &Screen) -> Vec<u32> {
    screen
        .text()
        .lines()
        .filter_map(|row| {
            row.trim_start_matches(['▌', ' '])
                .split(' ')
                .next()?
                .parse()
                .ok()
        })
        .collect()
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
