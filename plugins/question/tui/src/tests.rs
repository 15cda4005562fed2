//! Questions as a person meets them, before a session that the test plays.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_api_tui::{
    Facet, Placement, Slot, ToolCard, ToolOutcome, ToolRenderContext, ToolRenderer, ToolStatus,
    TuiContext, segment,
};
use bezel_context::{Context, WorkspaceId};
use bezel_host_tui::{HarnessOptions, Screen, TuiHarness};
use bezel_presentation::StyledLine;
use bezel_presentation::highlight::Highlighter;
use bezel_presentation::text::Role;
use bezel_question_contract::{
    AnswerError, PendingQuestion, QuestionOption, QuestionRequest, QuestionResponse, Questions,
    QuestionsClient,
};
use bezel_rpc::{State, StateCell, service};
use bezel_session_types::{InvocationId, SessionId, SubmitOutcome};
use bezel_sessions_contract::{DirectoryState, SessionStatus, SessionSummary};
use bezel_testkit::{FakeServer, FakeWorker};
use serde_json::{Value, json};

use crate::card::QuestionCard;
use crate::facet;

#[derive(Clone)]
struct Played {
    pending: StateCell<Vec<PendingQuestion>>,
    answers: Arc<Mutex<Vec<(String, QuestionResponse)>>>,
    /// The next answers are refused so.
    refusals: Arc<Mutex<Vec<AnswerError>>>,
}

impl Questions for Played {
    fn pending(&self) -> State<Vec<PendingQuestion>> {
        self.pending.state()
    }

    async fn submit_answer(
        &self,
        cx: &Context,
        id: InvocationId,
        response: QuestionResponse,
    ) -> Result<SubmitOutcome, AnswerError> {
        if let Some(refusal) = self.refusals.lock().unwrap().pop() {
            return Err(refusal);
        }
        self.answers
            .lock()
            .unwrap()
            .push((id.to_string(), response));
        self.pending
            .update(cx, |pending| pending.retain(|question| question.id != id));
        Ok(SubmitOutcome::Accepted)
    }
}

impl Played {
    fn new(pending: Vec<PendingQuestion>) -> Self {
        Played {
            pending: StateCell::new(pending),
            answers: Arc::default(),
            refusals: Arc::default(),
        }
    }

    fn answers(&self) -> Vec<(String, QuestionResponse)> {
        self.answers.lock().unwrap().clone()
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

fn question(id: &str, text: &str) -> PendingQuestion {
    let option = |label: &str, description: Option<&str>| QuestionOption {
        label: label.into(),
        description: description.map(Into::into),
    };
    PendingQuestion {
        id: InvocationId::new(id),
        asker: None,
        request: QuestionRequest {
            question: text.into(),
            options: vec![
                option(
                    "SQLite",
                    Some("One file, no server. Enough for one machine."),
                ),
                option(
                    "PostgreSQL",
                    Some("For several machines; somebody has to run it."),
                ),
                option("Keep the text files", None),
            ],
        },
    }
}

fn database() -> PendingQuestion {
    question(
        "one",
        "The cache grows too large for **text files**. Where should it go?",
    )
}

struct Stage {
    tui: TuiHarness,
    played: Played,
    server: FakeServer,
    _workers: Vec<FakeWorker>,
}

impl Stage {
    async fn new(pending: Vec<PendingQuestion>) -> Self {
        let played = Played::new(pending);
        let server = FakeServer::new();
        server.provide(&ListedClient::new(OneChild)).unwrap();
        let extra = Facet::new("extra", |cx: TuiContext| async move {
            let (attachment, ui) = (cx.session.attachment(), cx.ui.clone());
            cx.own(attachment.subscribe(move |_, _| ui.redraw()));
            let shown = move |_: &bezel_api_tui::RenderContext<'_>| {
                let attached = attachment.get().is_attached();
                attached.then(|| StyledLine::new("[attached]", Role::Status))
            };
            cx.slots
                .add(Slot::StatusRight, Placement::default(), segment(shown));
            let composer = segment(|_| Some(StyledLine::new("> ", Role::Text)));
            cx.slots.add(Slot::Composer, Placement::default(), composer);
            Ok(())
        });
        let options = HarnessOptions {
            facets: vec![facet(), extra],
            connect: Some(server.connect()),
            ..HarnessOptions::default()
        };
        let tui = TuiHarness::start(options).await.unwrap();
        let mut stage = Stage {
            tui,
            played: played.clone(),
            server,
            _workers: Vec::new(),
        };
        stage.work("one", played).await;
        stage.tui.wait_for_text("[attached]").await;
        stage
    }

    async fn work(&mut self, session: &str, played: Played) {
        let worker = self.server.worker(session);
        worker.provide(&QuestionsClient::new(played)).unwrap();
        worker.activate();
        self._workers.push(worker);
        self.server.attach(session).await.unwrap();
    }

    /// The dialog, once it takes keys.
    async fn asked(&self, text: &str) -> Screen {
        let screen = self.tui.wait_for_text(text).await;
        tokio::time::advance(Duration::from_millis(1_300)).await;
        screen
    }

    async fn gone(&self, text: &str) -> Screen {
        self.tui.wait_for(|screen| !screen.contains(text)).await
    }
}

// Not on a clock that goes on when nothing is ready: the list of sessions is waited for.
#[tokio::test]
async fn a_question_of_a_subagent_says_of_which() {
    for (asker, title) in [
        ("child", "Question of the subagent “Find the tests”"),
        ("gone", "Question of a subagent"),
    ] {
        let asked = PendingQuestion {
            asker: Some(SessionId::new(asker)),
            ..database()
        };
        let stage = Stage::new(vec![asked]).await;
        stage.tui.wait_for_text(title).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_shows_its_options_and_what_follows_from_them() {
    let stage = Stage::new(vec![database()]).await;
    let screen = stage.asked("PostgreSQL").await;
    insta::assert_snapshot!(screen.text());
    stage.tui.press("down").await;
    stage.tui.press("enter").await;
    stage.gone("PostgreSQL").await;
    let selected = QuestionResponse::Selected { index: 1 };
    assert_eq!(stage.played.answers(), [("one".to_owned(), selected)]);
}

#[tokio::test(start_paused = true)]
async fn a_number_answers_and_so_does_a_text_and_a_refusal_to_answer() {
    let written = QuestionResponse::Custom {
        answer: "a queue".into(),
    };
    let lines = QuestionResponse::Custom {
        answer: "a\nb\nc".into(),
    };
    let cases: [(&[&str], QuestionResponse); 4] = [
        (&["3"], QuestionResponse::Selected { index: 2 }),
        (&["a", "space", "q", "u", "e", "u", "e", "enter"], written),
        (&["a", "shift+enter", "b", "alt+enter", "c", "enter"], lines),
        (&["up", "enter"], QuestionResponse::Cancelled),
    ];
    for (keys, response) in cases {
        let stage = Stage::new(vec![database()]).await;
        stage.asked("PostgreSQL").await;
        for key in keys {
            stage.tui.press(key).await;
        }
        stage.gone("PostgreSQL").await;
        assert_eq!(stage.played.answers(), [("one".to_owned(), response)]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_typed_when_a_question_comes_answers_nothing() {
    let stage = Stage::new(vec![]).await;
    stage
        .played
        .pending
        .set(&Context::background(), vec![database()]);
    stage.tui.wait_for_text("PostgreSQL").await;
    stage.tui.press("1").await;
    stage.tui.press("enter").await;
    assert_eq!(stage.played.answers(), []);
    // It made way for what is typed, and comes again.
    stage.tui.wait_for_text("PostgreSQL").await;
    assert_eq!(stage.played.answers(), []);
}

#[tokio::test(start_paused = true)]
async fn a_question_is_put_aside_and_found_again_with_what_was_written() {
    let second = question("two", "And the second?");
    let stage = Stage::new(vec![database(), second]).await;
    let screen = stage.asked("PostgreSQL").await;
    assert!(screen.contains("2 answers wanted"), "{}", screen.text());
    stage.tui.type_text("half an ans").await;
    let screen = stage.tui.press("esc").await;
    assert!(!screen.contains("PostgreSQL"), "{}", screen.text());
    assert!(
        screen.contains("2 answers wanted ctrl+x a"),
        "{}",
        screen.text()
    );
    stage.tui.press("ctrl+x").await;
    stage.tui.press("a").await;
    let screen = stage.tui.wait_for_text("half an ans").await;
    insta::assert_snapshot!(screen.text());
    // Brought back, it takes keys at once; the next one follows by itself.
    stage.tui.press("enter").await;
    let screen = stage.asked("And the second?").await;
    assert!(screen.contains("1 answer wanted"), "{}", screen.text());
    let written = QuestionResponse::Custom {
        answer: "half an ans".into(),
    };
    assert_eq!(stage.played.answers(), [("one".to_owned(), written)]);
}

#[tokio::test(start_paused = true)]
async fn b32_a_question_that_is_answered_elsewhere_closes_shown_or_put_aside() {
    let stage = Stage::new(vec![database()]).await;
    stage.asked("PostgreSQL").await;
    stage.played.pending.set(&Context::background(), vec![]);
    let screen = stage.gone("PostgreSQL").await;
    assert!(!screen.contains("answer wanted"), "{}", screen.text());

    let stage = Stage::new(vec![database()]).await;
    stage.asked("PostgreSQL").await;
    stage.tui.press("esc").await;
    stage.tui.wait_for_text("1 answer wanted").await;
    stage.played.pending.set(&Context::background(), vec![]);
    stage.gone("answer wanted").await;
    assert_eq!(stage.played.answers(), []);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_refused_is_asked_for_again() {
    let stage = Stage::new(vec![database()]).await;
    let message = "the disk is full".to_owned();
    stage
        .played
        .refusals
        .lock()
        .unwrap()
        .push(AnswerError::Storage { message });
    stage.asked("PostgreSQL").await;
    stage.tui.press("1").await;
    stage.tui.wait_for_text("the disk is full").await;
    stage.asked("PostgreSQL").await;
    stage.tui.press("1").await;
    stage.gone("PostgreSQL").await;
    assert_eq!(stage.played.answers().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_switch_of_sessions_closes_the_question_of_one_and_opens_that_of_the_other() {
    let mut stage = Stage::new(vec![database()]).await;
    stage.asked("PostgreSQL").await;
    let other = Played::new(vec![question("two", "In the other session?")]);
    stage.work("two", other.clone()).await;
    let screen = stage.asked("In the other session?").await;
    assert!(screen.contains("1 answer wanted"), "{}", screen.text());
    stage.tui.press("2").await;
    stage.gone("In the other session?").await;
    assert_eq!(other.answers().len(), 1);
    assert_eq!(stage.played.answers(), []);
    // Back where it still waits.
    stage.server.attach("one").await.unwrap();
    stage.asked("PostgreSQL").await;
}

fn drawn(outcome: Option<(&str, Value)>, expanded: bool) -> Vec<String> {
    let arguments = json!({
        "question": "Where should it go?",
        "options": [
            { "label": "SQLite", "description": "One file." },
            { "label": "PostgreSQL" },
        ],
    });
    let outcome = outcome.as_ref().map(|(text, details)| ToolOutcome {
        text,
        details,
        is_error: false,
    });
    let card = ToolCard {
        name: "question",
        arguments: &arguments,
        status: ToolStatus::Succeeded,
        output: "",
        progress: &Value::Null,
        outcome,
        elapsed: None,
    };
    let highlighter = Highlighter::plain();
    let cx = ToolRenderContext {
        width: 40,
        expanded,
        highlighter: &highlighter,
    };
    let title = QuestionCard.title(&card, &cx);
    let body = QuestionCard.body(&card, &cx);
    [title]
        .iter()
        .chain(&body)
        .map(StyledLine::to_text)
        .collect()
}

#[test]
fn the_card_says_what_was_asked_and_what_was_answered() {
    let title = "Question  Where should it go?";
    let details = |answer: Option<&str>, custom| {
        json!({
            "question": "Where should it go?",
            "options": ["SQLite", "PostgreSQL"],
            "answer": answer,
            "wasCustom": custom,
        })
    };
    assert_eq!(drawn(None, false), [title]);
    let selected = Some((
        "User selected: 2. PostgreSQL",
        details(Some("PostgreSQL"), false),
    ));
    assert_eq!(drawn(selected.clone(), false), [title, "❯ PostgreSQL"]);
    assert_eq!(
        drawn(selected, true),
        [
            title,
            "Where should it go?",
            "  SQLite  One file.",
            "❯ PostgreSQL"
        ]
    );
    let written = Some(("User wrote: A queue", details(Some("A queue"), true)));
    assert_eq!(drawn(written, false), [title, "✎ A queue"]);
    let lines = Some(("User wrote: A\nqueue", details(Some("A\nqueue"), true)));
    assert_eq!(drawn(lines, false), [title, "✎ A", "  queue"]);
    let cancelled = Some(("User cancelled the question", details(None, false)));
    assert_eq!(drawn(cancelled, false), [title, "⊘ not answered"]);
}
