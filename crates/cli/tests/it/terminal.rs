//! The interface in a real terminal: opened, typed into, resized, left.

use std::io::{Read as _, Write};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use bezel_testkit::{FakeModelServer, Script, Turn, WireFormat};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use serde_json::json;

use crate::home::{Home, eventually};
use crate::remote::{ANYWHERE, Serving};
use crate::runs::{chat, home_with};
use crate::subagents::{is_child, result};

/// A terminal with a program in it.
struct Terminal {
    screen: vt100::Parser,
    output: Receiver<Vec<u8>>,
    input: Box<dyn Write + Send>,
    master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize {
        rows,
        cols,
        pixel_width: 0,
        pixel_height: 0,
    }
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).unwrap()
}

impl Terminal {
    fn open(home: &Home, arguments: &[&str]) -> Self {
        let pty = native_pty_system().openpty(size(24, 80)).unwrap();
        let template = home.command(arguments);
        let mut command = CommandBuilder::new(template.get_program());
        command.args(template.get_args());
        command.cwd(home.project());
        command.env_clear();
        for (name, value) in template
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)))
        {
            command.env(name, value);
        }
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        let child = pty.slave.spawn_command(command).unwrap();
        let mut reader = pty.master.try_clone_reader().unwrap();
        let input = pty.master.take_writer().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal {
            screen: vt100::Parser::new(cells(24), cells(80), 0),
            output,
            input,
            master: pty.master,
            child,
        }
    }

    fn type_in(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    fn resize(&mut self, rows: u16, cols: u16) {
        self.screen.screen_mut().set_size(cells(rows), cells(cols));
        self.master.resize(size(rows, cols)).unwrap();
    }

    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        self.wait(text, true);
    }

    #[track_caller]
    fn wait_until_gone(&mut self, text: &str) {
        self.wait(text, false);
    }

    #[track_caller]
    fn wait(&mut self, text: &str, there: bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.screen.screen().contents().contains(text) != there {
            match self
                .output
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(bytes) => self.screen.process(&bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let is = if there { "is not" } else { "is still" };
                    panic!("{text:?} {is} on\n{}", self.screen.screen().contents())
                }
            }
        }
    }

    /// Leaves, and tells the exit status.
    fn leave(mut self) -> u32 {
        self.type_in("\x04");
        let status = self.child.wait().unwrap();
        status.exit_code()
    }
}

async fn home() -> (FakeModelServer, Home) {
    let server = FakeModelServer::start(Script::repeating(Turn::text("A short answer.")))
        .await
        .unwrap();
    let home = Home::new().variable("LOCAL_KEY", "k");
    home.configure(&format!(
        "model = \"local::m\"\n[providers.local]\nkind = \"openai\"\nbase_url = \"{}\"\napi_key_env = \"LOCAL_KEY\"\n\
         [[providers.local.models]]\nid = \"m\"\n[keys]\n\"f9\" = \"screen.quit\"\n",
        server.base_url(WireFormat::OpenAiChat)
    ));
    (server, home)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_asks_reads_the_answer_resizes_leaves_and_comes_back() {
    let (_server, home) = home().await;
    let mut terminal = Terminal::open(&home, &[]);
    terminal.wait_for("Ask for a change");
    terminal.type_in("say something\r");
    terminal.wait_for("A short answer.");
    terminal.resize(40, 120);
    terminal.type_in("and more");
    terminal.wait_for("and more");
    terminal.type_in("\x15");
    terminal.wait_for("Ask for a change");
    assert_eq!(terminal.leave(), 0);
    assert!(home.server().is_some());
    let mut again = Terminal::open(&home, &["--continue"]);
    again.wait_for("say something");
    again.wait_for("A short answer.");
    assert_eq!(again.leave(), 0);
}

/// Waits until there is one session, and says which agent it runs.
fn agent_of_the_session(home: &Home) -> serde_json::Value {
    eventually("the session", || {
        let listed = home.run(&["session", "list", "--json"]);
        let listed: serde_json::Value = serde_json::from_str(&listed.succeeded().stdout).unwrap();
        let session = listed.as_array().unwrap().first()?;
        Some(session["agent"].clone())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_that_is_named_when_the_interface_opens_is_the_new_sessions_here_and_elsewhere() {
    let (_server, home) = home().await;
    let mut here = Terminal::open(&home, &["--agent", "plan"]);
    here.wait_for("Ask for a change");
    assert_eq!(agent_of_the_session(&home), "plan");
    // It has the session that it made, and takes it along: nothing was said in it.
    here.wait_for("m plan");
    assert_eq!(here.leave(), 0);
    home.run(&["server", "stop"]).succeeded();
    let (serving, away) = (Serving::start(&home, ANYWHERE), Home::new());
    let directory = home.project().display().to_string();
    let attach = ["attach", &serving.url, "--code", &serving.code, "--agent"];
    away.run(&[&attach[..], &["plan", "--continue"]].concat())
        .failed(2, "belongs to a new session");
    let more = ["plan", "--cwd", &directory];
    let mut elsewhere = Terminal::open(&away, &[&attach[..], &more].concat());
    elsewhere.wait_for("no sessions yet");
    elsewhere.type_in("\x1b");
    elsewhere.wait_for("Ask for a change");
    assert_eq!(agent_of_the_session(&home), "plan");
    assert_eq!(elsewhere.leave(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_is_enough() {
    let (_server, home) = home().await;
    let mut terminal = Terminal::open(&home, &["--standalone"]);
    terminal.wait_for("Ask for a change");
    terminal.type_in("say something\r");
    terminal.wait_for("A short answer.");
    assert_eq!(terminal.leave(), 0);
    assert_eq!(home.server(), None);
}

#[test]
fn the_tour_is_shown_where_there_is_a_terminal_and_nothing_else_could_answer() {
    let home = Home::new();
    for arguments in [&["tour"][..], &[], &["--standalone"]] {
        let mut terminal = Terminal::open(&home, arguments);
        terminal.wait_for("Show me what you can do.");
        terminal.wait_for("Ask me what next");
        assert_eq!(terminal.leave(), 0);
    }
    assert_eq!(home.server(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_standalone_bezel_is_open_other_commands_say_so() {
    let (_server, home) = home().await;
    let mut terminal = Terminal::open(&home, &["--standalone"]);
    terminal.wait_for("Ask for a change");
    let process = format!("process {}", terminal.child.process_id().unwrap());
    for command in [
        &["session", "list"][..],
        &["run", "hi"],
        &["run", "--standalone", "hi"],
        &["server", "stop"],
        &["server", "run"],
    ] {
        let done = home.run(command);
        done.failed(1, "leave it first");
        assert!(done.stderr.contains(&process), "{done:#?}");
    }
    let status = home.run(&["server", "status"]);
    assert!(
        status.status == Some(1) && status.stdout.contains(&process),
        "{status:#?}"
    );
    let status: serde_json::Value =
        serde_json::from_str(&home.run(&["server", "status", "--json"]).stdout).unwrap();
    assert_eq!(status["status"], "standalone");
    let doctor = home.run(&["doctor"]);
    assert!(doctor.succeeded().stdout.contains(&process), "{doctor:#?}");
    let mut second = Terminal::open(&home, &[]);
    second.wait_for("leave it first");
    assert_eq!(second.child.wait().unwrap().exit_code(), 1);
    assert_eq!(terminal.leave(), 0);
    home.run(&["session", "list"]).succeeded();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_of_an_open_session_can_be_started_again() {
    let (_server, home) = home().await;
    let mut terminal = Terminal::open(&home, &[]);
    terminal.wait_for("Ask for a change");
    terminal.type_in("say something\r");
    terminal.wait_for("A short answer.");
    let worker = home.workers();
    terminal.type_in("/restart\r");
    eventually("the process was not replaced", || {
        let now = home.workers();
        (now.len() == 1 && now != worker).then_some(())
    });
    terminal.wait_for("Ask for a change");
    assert_eq!(terminal.leave(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_agent_is_chosen_with_a_key_while_a_turn_runs_and_is_kept() {
    let waits = serde_json::json!({ "command": "until [ -e go ]; do sleep 0.02; done" });
    let (server, home) = chat([
        Turn::tool_calls([("bash", waits)]),
        Turn::text("It went on."),
        Turn::text("Once more."),
    ])
    .await;
    let mut terminal = Terminal::open(&home, &["--permission-mode", "full"]);
    terminal.wait_for("Ask for a change");
    terminal.type_in("begin\r");
    terminal.wait_for("until [ -e go ]");
    terminal.type_in("\t");
    terminal.wait_for("Looks and plans");
    std::fs::write(home.project().join("go"), "").unwrap();
    terminal.wait_for("It went on.");
    let calls = server.calls();
    assert!(!calls[0].system.contains("planning agent"));
    assert!(calls[1].system.contains("planning agent"));
    assert!(calls[1].system.contains("You are in plan mode"));
    assert_eq!(terminal.leave(), 0);
    home.run(&["server", "stop"]).succeeded();
    home.run(&["run", "--continue", "and now"]).succeeded();
    assert!(server.calls()[2].system.contains("planning agent"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_configuration_starts_its_command() {
    let (_server, home) = home().await;
    let mut terminal = Terminal::open(&home, &[]);
    terminal.wait_for("Ask for a change");
    // F9.
    terminal.type_in("\x1b[20~");
    assert_eq!(terminal.child.wait().unwrap().exit_code(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_looks_into_a_subagent_answers_it_there_and_goes_back() {
    let question = json!({ "question": "Which language?", "options": [{ "label": "Rust" }, { "label": "C" }] });
    let begins = json!({ "description": "survey the sources", "prompt": "CHILD: survey" });
    let script = Script::respond(move |call| match (is_child(call), result(call)) {
        (true, None) => Turn::tool_calls([("question", question.clone())]),
        (true, Some(_)) => Turn::text("It is all Rust."),
        (false, None) => Turn::tool_calls([("subagent", begins.clone())]),
        (false, Some(_)) => Turn::text("The survey is done."),
    });
    let server = FakeModelServer::start(script).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    let mut terminal = Terminal::open(&home, &[]);
    terminal.wait_for("Ask for a change");
    terminal.type_in("survey it\r");
    terminal.wait_for("Question of");
    // The question of the child is shown to who has its root open; it is put aside here.
    terminal.type_in("\x1b");
    terminal.wait_until_gone("Question of");
    terminal.wait_for("1 answer wanted");
    terminal.type_in("\x18c");
    terminal.wait_for("search by what they do");
    terminal.wait_for("survey the sources");
    terminal.type_in("\r");
    terminal.wait_for("subagent of survey it");
    terminal.wait_for("CHILD: survey");
    terminal.type_in("\x18a");
    terminal.wait_for("Write something else");
    terminal.type_in("1");
    terminal.wait_for("It is all Rust.");
    terminal.type_in("\x18p");
    terminal.wait_for("The survey is done.");
    assert_eq!(terminal.leave(), 0);
}
