//! A server that the test plays, and the sessions facet on it.

use std::sync::{Arc, Mutex};

use bezel_api_tui::{Binding, CommandArguments, Facet, Launch, LaunchSession, TuiContext};
use bezel_context::{Context, WorkspaceId};
use bezel_host_tui::{HarnessOptions, Screen, TuiHarness};
use bezel_plugin::ManifestEntry;
use bezel_presentation::clock::Clock;
use bezel_rpc::{EventSource, Events, State, StateCell};
use bezel_session_types::{
    Entry, EntryId, HistoryPage, HistoryRange, JournalPage, Message, ModelRef, ModelView,
    SessionId, ThinkingLevel,
};
use bezel_sessions_contract::{
    Archived, CreateSession, DirectoryEvent, DirectoryState, ForkError, ForkRequest,
    LaunchEnvironment, ListSessions, RenewError, RenewRequest, Renewal, SessionDirectory,
    SessionDirectoryClient, SessionError, SessionFork, SessionForkClient, SessionManagement,
    SessionManagementClient, SessionPage, SessionProcess, SessionProcessClient, SessionStatus,
    SessionSummary, WorkspaceSummary,
};
use bezel_testkit::{FakeServer, FakeWorker};
use serde_json::json;
use tokio::sync::watch;

use crate::facet_at;

pub(super) const NOW: &str = "2026-03-01T12:00:00Z";

/// What the server was asked, and what it holds.
pub(super) struct Played {
    pub(super) state: StateCell<DirectoryState>,
    /// Calls in order, in words.
    pub(super) calls: watch::Sender<Vec<String>>,
    pub(super) created: watch::Sender<Vec<CreateSession>>,
    pub(super) messages: Mutex<Vec<Message>>,
    /// Sessions that were put away.
    pub(super) archived: Mutex<Vec<SessionSummary>>,
    pub(super) server: Mutex<Option<Arc<FakeServer>>>,
    pub(super) refuse: Mutex<Option<SessionError>>,
    /// What workers answer to whoever wants another one in their place.
    pub(super) renewal: Mutex<Result<Renewal, RenewError>>,
}

impl Played {
    fn note(&self, call: impl Into<String>) {
        self.calls.send_modify(|calls| calls.push(call.into()));
    }

    fn refused(&self) -> Result<(), SessionError> {
        self.refuse.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut DirectoryState)) {
        self.state.update(&Context::background(), |state| {
            state.revision += 1;
            change(state);
        });
    }

    fn find(&self, session: &SessionId) -> Result<SessionSummary, SessionError> {
        let state = self.state.get();
        let found = state
            .sessions
            .iter()
            .find(|known| known.session_id == *session)
            .cloned();
        found.ok_or(SessionError::NotAuthorized {
            session_id: session.clone(),
        })
    }
}

struct Fake(Arc<Played>);

impl SessionDirectory for Fake {
    fn state(&self) -> State<DirectoryState> {
        self.0.state.state()
    }

    fn events(&self) -> Events<DirectoryEvent> {
        EventSource::new().events()
    }

    async fn messages(
        &self,
        _cx: &Context,
        _session: SessionId,
        limit: u32,
    ) -> Result<Vec<Message>, SessionError> {
        self.0.note("messages");
        Ok(self
            .0
            .messages
            .lock()
            .unwrap()
            .iter()
            .take(limit as usize)
            .cloned()
            .collect())
    }

    async fn get(
        &self,
        _cx: &Context,
        session_id: SessionId,
    ) -> Result<SessionSummary, SessionError> {
        self.0.find(&session_id)
    }

    async fn list(&self, _cx: &Context, query: ListSessions) -> Result<SessionPage, SessionError> {
        let archived = self.0.archived.lock().unwrap().clone();
        let listed = self.0.state.get().sessions.clone();
        let sessions = match query.archived {
            Archived::Only => archived,
            Archived::Exclude => listed,
            Archived::Include => {
                // One a page: who wants all goes through them.
                let mut all = listed.into_iter().chain(archived);
                let place = query.after.map_or(0, |after| after.parse().unwrap());
                let page = SessionPage {
                    sessions: all.by_ref().skip(place).take(1).collect(),
                    next: all.next().map(|_| (place + 1).to_string()),
                };
                return Ok(page);
            }
        };
        Ok(SessionPage {
            sessions,
            next: None,
        })
    }

    async fn message(
        &self,
        _cx: &Context,
        session_id: SessionId,
        entry_id: EntryId,
    ) -> Result<Entry, SessionError> {
        Err(SessionError::UnknownEntry {
            session_id,
            entry_id,
        })
    }

    async fn context(
        &self,
        _cx: &Context,
        _session_id: SessionId,
    ) -> Result<ModelView, SessionError> {
        Ok(ModelView::default())
    }

    async fn history(
        &self,
        _cx: &Context,
        _session_id: SessionId,
        _range: HistoryRange,
        _limit: u32,
    ) -> Result<HistoryPage, SessionError> {
        Ok(HistoryPage::default())
    }

    async fn journal(
        &self,
        _cx: &Context,
        _session_id: SessionId,
        _after: u64,
        _limit: u32,
    ) -> Result<JournalPage, SessionError> {
        Ok(JournalPage::default())
    }

    async fn follow(
        &self,
        _cx: &Context,
        _session_id: SessionId,
        _after: Option<String>,
        _limit: u32,
    ) -> Result<bezel_sessions_contract::SessionNews, SessionError> {
        unreachable!("nobody follows a session")
    }

    async fn workspace(
        &self,
        _cx: &Context,
        _directory: String,
    ) -> Result<Option<WorkspaceSummary>, SessionError> {
        Ok(None)
    }

    async fn newest_in(
        &self,
        _cx: &Context,
        directory: String,
    ) -> Result<Option<SessionSummary>, SessionError> {
        self.0.note(format!("newest in {directory}"));
        Ok(self.0.state.get().sessions.first().cloned())
    }
}

impl SessionManagement for Fake {
    async fn create(
        &self,
        _cx: &Context,
        options: CreateSession,
    ) -> Result<SessionSummary, SessionError> {
        self.0.refused()?;
        if !options.directory.starts_with('/') {
            return Err(SessionError::Directory {
                directory: options.directory,
                reason: "it is not one of the server's machine".into(),
            });
        }
        self.0.created.send_modify(|created| created.push(options));
        let session = session("fresh", "", "parser", "2026-03-01T12:00:00Z");
        self.0
            .change(|state| state.sessions.insert(0, session.clone()));
        self.0.note("create");
        Ok(session)
    }

    async fn remove(&self, _cx: &Context, session_id: SessionId) -> Result<(), SessionError> {
        self.0.find(&session_id)?;
        self.0.change(|state| {
            state
                .sessions
                .retain(|known| known.session_id != session_id)
        });
        self.0.note(format!("remove {session_id}"));
        Ok(())
    }

    async fn rename(
        &self,
        _cx: &Context,
        session_id: SessionId,
        title: String,
    ) -> Result<SessionSummary, SessionError> {
        self.0.note(format!("rename {session_id} {title}"));
        self.0.change(|state| {
            for known in state
                .sessions
                .iter_mut()
                .filter(|known| known.session_id == session_id)
            {
                known.title.clone_from(&title);
            }
        });
        self.0.find(&session_id)
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
        archived: bool,
    ) -> Result<SessionSummary, SessionError> {
        self.0.refused()?;
        self.0.note(format!("archive {session_id} {archived}"));
        let session = match archived {
            true => self.0.find(&session_id)?,
            false => {
                let away = self.0.archived.lock().unwrap();
                let found = away.iter().find(|known| known.session_id == session_id);
                found.cloned().expect("it was put away")
            }
        };
        if archived {
            self.0.archived.lock().unwrap().push(session.clone());
        } else {
            self.0
                .archived
                .lock()
                .unwrap()
                .retain(|known| known.session_id != session_id);
        }
        self.0.change(|state| {
            state
                .sessions
                .retain(|known| known.session_id != session_id);
            if !archived {
                state.sessions.push(session.clone());
            }
        });
        Ok(session)
    }

    async fn attach(
        &self,
        _cx: &Context,
        session_id: SessionId,
        environment: Option<LaunchEnvironment>,
    ) -> Result<(), SessionError> {
        let variables = environment.map_or(0, |environment| environment.0.len());
        self.0.note(format!("attach {session_id} with {variables}"));
        self.0.refused()?;
        self.0.find(&session_id)?;
        let server = self.0.server.lock().unwrap().clone();
        if let Some(server) = server {
            server.attach(session_id.as_str()).await.expect("a client");
        }
        Ok(())
    }

    async fn detach(&self, _cx: &Context) -> Result<(), SessionError> {
        Ok(())
    }
}

struct FakeProcess(Arc<Played>);

impl SessionProcess for FakeProcess {
    async fn renew(&self, _cx: &Context, request: RenewRequest) -> Result<Renewal, RenewError> {
        let variables = request
            .environment
            .map_or(0, |environment| environment.0.len());
        let wish = if request.always {
            "always"
        } else {
            "if it differs"
        };
        self.0.note(format!("renew {wish} with {variables}"));
        self.0.renewal.lock().unwrap().clone()
    }
}

struct FakeFork(Arc<Played>);

impl SessionFork for FakeFork {
    async fn fork(&self, _cx: &Context, request: ForkRequest) -> Result<SessionSummary, ForkError> {
        if self.0.refused().is_err() {
            let message = "there is nothing to copy yet".to_owned();
            return Err(ForkError::Refused { message });
        }
        let what = if request.whole_tree { "all" } else { "path" };
        self.0.note(format!("fork {what}"));
        let copy = session("fresh", "A copy", "parser", NOW);
        self.0
            .change(|state| state.sessions.insert(0, copy.clone()));
        Ok(copy)
    }
}

pub(super) fn session(id: &str, title: &str, workspace: &str, updated_at: &str) -> SessionSummary {
    SessionSummary {
        session_id: SessionId::new(id),
        title: title.into(),
        workspace_id: WorkspaceId::new(format!("w-{workspace}")),
        workspace_name: workspace.into(),
        status: SessionStatus::Idle,
        parent_id: None,
        agent: None,
        model: None,
        created_at: updated_at.into(),
        updated_at: updated_at.into(),
        archived_at: None,
    }
}

pub(super) fn sessions() -> Vec<SessionSummary> {
    vec![
        session("a1", "Fix the parser", "parser", "2026-03-01T11:55:00Z"),
        SessionSummary {
            status: SessionStatus::Active,
            ..session("a2", "Write the docs", "parser", "2026-03-01T09:00:00Z")
        },
        SessionSummary {
            status: SessionStatus::Unreachable,
            ..session("b1", "Try a new lexer", "lexer", "2026-02-20T09:00:00Z")
        },
    ]
}

pub(super) struct Stage {
    pub(super) tui: TuiHarness,
    pub(super) server: Arc<FakeServer>,
    pub(super) played: Arc<Played>,
    pub(super) workers: Vec<FakeWorker>,
}

impl Stage {
    pub(super) async fn launched(
        session: LaunchSession,
        known: Vec<SessionSummary>,
        config: serde_json::Value,
    ) -> Self {
        Self::launched_in("/code/parser", session, known, config).await
    }

    pub(super) async fn launched_in(
        directory: &str,
        session: LaunchSession,
        known: Vec<SessionSummary>,
        config: serde_json::Value,
    ) -> Self {
        let server = Arc::new(FakeServer::new());
        let played = Arc::new(Played {
            state: StateCell::new(DirectoryState {
                revision: 1,
                sessions: known,
            }),
            calls: watch::Sender::default(),
            created: watch::Sender::default(),
            messages: Mutex::default(),
            archived: Mutex::default(),
            server: Mutex::new(Some(Arc::clone(&server))),
            refuse: Mutex::default(),
            renewal: Mutex::new(Ok(Renewal::Current)),
        });
        server
            .provide(&SessionDirectoryClient::new(Fake(Arc::clone(&played))))
            .unwrap();
        server
            .provide(&SessionManagementClient::new(Fake(Arc::clone(&played))))
            .unwrap();
        let mut workers = Vec::new();
        for id in ["fresh", "a1", "a2", "b1"] {
            let worker = server.worker(id);
            worker
                .provide(&SessionProcessClient::new(FakeProcess(Arc::clone(&played))))
                .unwrap();
            worker
                .provide(&SessionForkClient::new(FakeFork(Arc::clone(&played))))
                .unwrap();
            worker.activate();
            workers.push(worker);
        }
        let now = NOW.parse().unwrap();
        let extra = Facet::new("extra", |cx: TuiContext| async move {
            let keys = [
                ("f3", "sessions.new"),
                ("f4", "sessions.rename"),
                ("f5", "sessions.delete"),
                ("f6", "sessions.restart"),
                ("f8", "sessions.fork"),
            ];
            for (key, command) in keys {
                cx.keybindings.add(Binding::new(key, command)?);
            }
            let title = CommandArguments::text("Another title");
            cx.keybindings
                .add(Binding::new("f7", "sessions.rename")?.arguments(title));
            Ok(())
        });
        let mut entry = ManifestEntry::required("sessions", "0.0.0");
        entry.config = config;
        let environment = [
            ("A".to_owned(), "1".to_owned()),
            ("B".to_owned(), "2".to_owned()),
        ]
        .into();
        let options = HarnessOptions {
            facets: vec![facet_at(Clock::new(move || now)), extra],
            entries: vec![entry],
            connect: Some(server.connect()),
            launch: Launch {
                directory: directory.into(),
                session,
                environment,
                ..Launch::default()
            },
            ..HarnessOptions::default()
        };
        let tui = TuiHarness::start(options).await.unwrap();
        Stage {
            tui,
            server,
            played,
            workers,
        }
    }

    pub(super) async fn open(session: &str) -> Self {
        let stage =
            Stage::launched(LaunchSession::Id(session.into()), sessions(), json!(null)).await;
        stage.tui.wait_for_text("●").await;
        stage
            .called(|calls| calls.contains(&"renew if it differs with 2".into()))
            .await;
        stage
    }

    pub(super) async fn called(&self, fits: impl Fn(&[String]) -> bool) -> Vec<String> {
        let mut calls = self.played.calls.subscribe();
        let found = tokio::time::timeout(
            std::time::Duration::from_secs(20),
            calls.wait_for(|calls| fits(calls)),
        )
        .await;
        match found {
            Ok(found) => found.expect("the fake lives").clone(),
            Err(_) => panic!(
                "it was only asked {:?}\n{}",
                *self.played.calls.borrow(),
                self.tui.screen().text()
            ),
        }
    }

    pub(super) fn worker(&mut self, id: &str) -> FakeWorker {
        let at = ["fresh", "a1", "a2", "b1"]
            .iter()
            .position(|known| *known == id)
            .expect("a known one");
        self.workers.remove(at)
    }
}

pub(super) fn still(screen: &Screen) -> String {
    screen.still_text()
}
