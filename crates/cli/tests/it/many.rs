//! Many sessions at once over real processes: each has a worker of its own, and none sees anything of another.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bezel_chat_contract::{
    Activity, ChatClient, ChatState, OutcomeStatus, PromptPart, PromptRequest,
};
use bezel_context::{Context, TaskScope};
use bezel_rpc::{Credential, Hello, Link, Role, ServiceTable};
use bezel_session_types::{
    CommandId, Delivery, HistoryRange, OperationId, PermissionMode, SessionId,
};
use bezel_sessions_contract::{
    CreateSession, LaunchEnvironment, ListSessions, SessionDirectoryClient,
    SessionManagementClient, SessionStatus, SessionSummary,
};
use bezel_sockets::dial_unix;
use bezel_testkit::{FakeModelServer, ModelCall, Script, SeenPart, Step, Turn, WireFormat};
use serde_json::json;

use crate::home::{Home, eventually, processes, read};
use crate::runs::home_with;

const SESSIONS: usize = 40;
/// The latest moment of an interrupt after its prompt was admitted, in milliseconds.
const LATEST: u64 = 2_500;
/// How many of them start at once, on machines with few processors.
const STARTING: usize = 8;

/// What stands in every message of a session and in none of another's.
fn mark(number: usize) -> String {
    format!("S{number:02}")
}

/// The marks in a text.
fn marks(text: &str) -> BTreeSet<String> {
    let is_mark = |word: &&str| {
        word.len() == 3
            && word.starts_with('S')
            && word[1..].bytes().all(|byte| byte.is_ascii_digit())
    };
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.filter(is_mark).map(str::to_owned).collect()
}

/// Answers by what the conversation holds, for a request that an interrupt cut off is made again.
fn answer(call: &ModelCall) -> Turn {
    let text = call.last_user_text();
    let mark = marks(text).pop_first().unwrap_or_default();
    let is_child = call
        .parts()
        .any(|part| matches!(part, SeenPart::Text(text) if text.starts_with("CHILD")));
    // The result of an interrupted call may stand before what was said next.
    let done = matches!(call.parts().last(), Some(SeenPart::ToolResult { .. }));
    let slowly = [
        Step::Text(format!("{mark} goes on")),
        Step::delay(Duration::from_millis(150)),
    ];
    let command = |file: &str| {
        let command = format!("echo {mark} >> {file}-{mark}; sleep 0.2");
        Turn::steps(slowly.clone()).then([Step::call("bash", json!({ "command": command }))])
    };
    match (is_child, done) {
        (true, false) => command("child"),
        (true, true) => Turn::text(&format!("{mark} child is done")),
        (false, true) => {
            Turn::steps(slowly.clone()).then([Step::Text(format!(", {mark} is done"))])
        }
        (false, false) if text.contains("delegate") => {
            let prompt = format!("CHILD of {mark}: work");
            let arguments = json!({ "description": mark, "prompt": prompt });
            Turn::steps(slowly.clone()).then([Step::call("subagent", arguments)])
        }
        (false, false) if text.contains("queued") => command("queued"),
        (false, false) => command("effect"),
    }
}

/// Moments that differ from run to run, from a seed that is printed.
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_millis(self.0 % LATEST)
    }
}

/// A client of the server of a home.
struct Client {
    link: Link,
    directory: SessionDirectoryClient,
    management: SessionManagementClient,
    environment: LaunchEnvironment,
    _tasks: TaskScope,
}

impl Client {
    async fn of(home: &Home) -> Self {
        let run = home.bezel().join("run");
        let token = std::fs::read_to_string(run.join("token")).unwrap();
        let hello = Hello {
            role: Role::Presentation,
            product_version: env!("CARGO_PKG_VERSION").into(),
            credential: Credential::token(token.trim()),
        };
        let tasks = TaskScope::new();
        let connect = dial_unix(run.join("server.sock"));
        let link = Link::start(&tasks.spawner(), connect, hello, ServiceTable::new());
        assert!(link.settled(&cx()).await.unwrap().is_connected());
        let variables = [
            ("PATH", std::env::var("PATH").unwrap()),
            ("BEZEL_HOME", home.bezel().display().to_string()),
            ("LOCAL_KEY", "sk-very-secret".into()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        Client {
            directory: link.server().use_service(),
            management: link.server().use_service(),
            link,
            environment: LaunchEnvironment(variables.into()),
            _tasks: tasks,
        }
    }

    /// A new session, attached.
    async fn begin(&self, directory: &Path) -> (SessionId, ChatClient) {
        let environment = Some(self.environment.clone());
        let options = CreateSession {
            directory: directory.to_str().unwrap().into(),
            environment: environment.clone(),
            permission_mode: PermissionMode::Full,
            ..CreateSession::default()
        };
        let cx = cx();
        let created = self.management.create(&cx, options).await.unwrap();
        let id = created.session_id;
        let attached = self.management.attach(&cx, id.clone(), environment);
        attached.await.unwrap();
        let chat: ChatClient = self.link.attached().use_service();
        chat.state().ready(&cx).await.unwrap();
        (id, chat)
    }

    async fn sessions(&self) -> Vec<SessionSummary> {
        let query = ListSessions {
            children: true,
            limit: Some(500),
            ..ListSessions::default()
        };
        self.directory.list(&cx(), query).await.unwrap().sessions
    }

    /// All that was said in a session, as one text.
    async fn said(&self, session: &SessionId) -> String {
        let (cx, all) = (cx(), HistoryRange::default());
        let history = self.directory.history(&cx, session.clone(), all, 500);
        serde_json::to_string(&history.await.unwrap().entries).unwrap()
    }
}

/// A context that the test does not outlive.
fn cx() -> Context {
    Context::background().with_timeout(Duration::from_secs(60))
}

async fn say(chat: &ChatClient, text: &str, delivery: Delivery, resume: bool) -> OperationId {
    let request = PromptRequest {
        command_id: CommandId::new(text),
        content: vec![PromptPart::Text { text: text.into() }],
        delivery,
        resume,
    };
    let reply = chat.prompt(&cx(), request).await.unwrap();
    assert!(reply.accepted, "{reply:?}");
    reply.operation_id.unwrap_or_else(|| OperationId::new(""))
}

fn queued(state: &ChatState) -> Vec<&str> {
    state.queue.iter().map(|waiting| &*waiting.text).collect()
}

/// One session's turn and what is left of it: a second message waits in every one, and is neither lost nor
/// delivered twice, whenever the interrupt comes.
async fn take_a_turn(
    client: &Client,
    directory: &Path,
    number: usize,
    interrupt: Option<Duration>,
    starting: &tokio::sync::Semaphore,
) -> SessionId {
    let started = starting.acquire().await.unwrap();
    let (session, chat) = client.begin(directory).await;
    drop(started);
    let mark = mark(number);
    let does = if delegates(number) {
        "delegate"
    } else {
        "work"
    };
    let operation = say(&chat, &format!("{mark} {does}"), Delivery::Steer, true).await;
    let waiting = format!("{mark} queued");
    say(&chat, &waiting, Delivery::Queue, false).await;
    let (cx_of_wait, cx_of_rest) = (cx(), cx());
    let first = chat.wait(&cx_of_wait, operation.clone());
    let (first, interrupted) = futures::join!(first, async {
        tokio::time::sleep(interrupt?).await;
        chat.interrupt(&cx_of_rest).await.unwrap()
    });
    let expected = match interrupted == Some(operation) {
        true => OutcomeStatus::Interrupted,
        false => OutcomeStatus::Done,
    };
    assert_eq!(first.unwrap().status, expected, "{mark}");
    let mut held = true;
    if let Some(interrupted) = &interrupted {
        let ended = |state: &ChatState| {
            let last = state.last.as_ref().map(|last| &last.operation_id);
            state.activity == Activity::Idle && last == Some(interrupted)
        };
        let state = chat.state().wait_for(&cx(), ended).await.unwrap();
        let status = state.last.as_ref().map(|last| last.status);
        assert_eq!(status, Some(OutcomeStatus::Interrupted), "{mark}");
        let said = client.said(&session).await;
        let delivered = said.matches(&format!("\"{waiting}\"")).count();
        assert_eq!(queued(&state).len() + delivered, 1, "{state:?} {said}");
        held = delivered == 0;
    }
    // What waits for the next run gets one, where the turn did not take it.
    chat.wait_idle(&cx()).await.unwrap();
    chat.resume(&cx()).await.unwrap();
    chat.wait_idle(&cx()).await.unwrap();
    // A state comes some time after what it tells: not the one from before the last run.
    let over = |state: &ChatState| {
        let last = state.last.as_ref().map(|last| &last.operation_id);
        let newer = !held || last != interrupted.as_ref();
        state.activity == Activity::Idle && state.queue.is_empty() && newer
    };
    let state = chat.state().wait_for(&cx(), over).await.unwrap();
    let status = state.last.as_ref().map(|last| last.status);
    if held {
        // What an interrupt kept, or what none came to, has run.
        assert_eq!(status, Some(OutcomeStatus::Done), "{mark}");
        assert!(directory.join(format!("queued-{mark}")).exists(), "{mark}");
    }
    let said = client.said(&session).await;
    assert_eq!(said.matches(&format!("\"{waiting}\"")).count(), 1, "{said}");
    assert_eq!(marks(&said), BTreeSet::from([mark]), "{said}");
    session
}

fn delegates(number: usize) -> bool {
    number % 4 == 1
}

/// The lines of each file with a mark in a directory.
fn effects(directory: &Path) -> Vec<(String, String)> {
    let files = std::fs::read_dir(directory).unwrap().map(|file| {
        let file = file.unwrap();
        let lines = std::fs::read_to_string(file.path()).unwrap();
        (file.file_name().into_string().unwrap(), lines)
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn two_locations_and_forty_sessions_work_at_once_and_every_third_is_interrupted_at_any_moment()
 {
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64
        | 1;
    eprintln!("seed {seed}");
    let mut moments = Moments(seed);
    let model = FakeModelServer::start(Script::respond(answer))
        .await
        .unwrap();
    let home = home_with(&model, WireFormat::OpenAiChat, "openai");
    let directories: [PathBuf; 2] = [home.project(), home.project().with_file_name("other")];
    std::fs::create_dir(&directories[1]).unwrap();
    home.run(&["session", "list"]).succeeded();

    let starting = tokio::sync::Semaphore::new(STARTING);
    let turns = (0..SESSIONS).map(|number| {
        let interrupt = (number % 3 == 0).then(|| moments.next());
        let (home, directory, starting) = (&home, &directories[number % 2], &starting);
        async move {
            let client = Client::of(home).await;
            take_a_turn(&client, directory, number, interrupt, starting).await
        }
    });
    let sessions: BTreeSet<SessionId> =
        futures::future::join_all(turns).await.into_iter().collect();
    assert_eq!(sessions.len(), SESSIONS);

    // Every effect is in its session's directory, and none came twice.
    for (number, directory) in directories.iter().enumerate() {
        for (file, lines) in effects(directory) {
            let (kind, mark) = file.split_once('-').unwrap();
            let session: usize = mark[1..].parse().unwrap();
            assert_eq!(session % 2, number, "{file} in {}", directory.display());
            assert_eq!(lines, format!("{mark}\n"), "{file}");
            assert_eq!(
                kind == "child",
                kind != "queued" && delegates(session),
                "{file}"
            );
        }
        for session in (0..SESSIONS).filter(|session| session % 2 == number) {
            let mark = mark(session);
            let first = if delegates(session) {
                "child"
            } else {
                "effect"
            };
            let first = directory.join(format!("{first}-{mark}"));
            assert!(session % 3 == 0 || first.exists(), "{mark}");
        }
    }
    // The model was never shown two sessions in one request.
    for call in model.calls() {
        let parts = call.parts().filter_map(|part| match part {
            SeenPart::Text(text) | SeenPart::ToolResult { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let seen = marks(&parts.collect::<Vec<_>>().join("\n"));
        assert_eq!(seen.len(), 1, "{call:#?}");
    }
    // Nothing runs: neither a session of these nor a child, nor a command of theirs.
    let client = Client::of(&home).await;
    let all = client.sessions().await;
    let children = all.iter().filter(|session| session.parent_id.is_some());
    for child in children {
        let parent = child.parent_id.as_ref().unwrap();
        assert!(sessions.contains(parent), "{child:?}");
        // One that was interrupted at once has said nothing; its title tells whose it is.
        let said = client.said(&child.session_id).await;
        let seen = marks(&format!("{} {said}", child.title));
        assert_eq!(seen.len(), 1, "{child:?} {said}");
    }
    eventually("something is active", || {
        let busy = processes().filter(|pid| home.has(*pid) && read(*pid, "comm").trim() == "sleep");
        (busy.count() == 0).then_some(())
    });
    for session in client.sessions().await {
        assert_ne!(session.status, SessionStatus::Active, "{session:?}");
    }
    client.link.stop().await;
    home.run(&["server", "stop"]).succeeded();
    eventually("a process is left", || {
        let left = processes().filter(|pid| home.has(*pid));
        (left.count() == 0).then_some(())
    });
}
