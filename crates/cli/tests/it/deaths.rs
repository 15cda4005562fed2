//! Any one process may be killed at any time: nothing is lost, nothing is done twice, nothing is left.

use std::process::Child;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bezel_testkit::{FakeModelServer, ModelCall, Script, SeenPart, Step, Turn, WireFormat};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::home::{Done, Home, eventually, finish, processes, read, signal};
use crate::runs::home_with;

/// How long a run may take after somebody was killed under it.
const BOUND: Duration = Duration::from_secs(60);

async fn playing(script: Script) -> (FakeModelServer, Home) {
    let server = FakeModelServer::start(script).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    (server, home)
}

/// Kills, where the process is still there.
fn kill(pid: u32) {
    let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
    nix::sys::signal::kill(pid, Signal::SIGKILL).ok();
}

/// The processes of this home whose name begins so.
fn named(home: &Home, name: &str) -> Vec<u32> {
    processes()
        .filter(|pid| read(*pid, "cmdline").starts_with(name) && home.has(*pid))
        .collect()
}

/// The processes of commands with these words.
fn commands(words: &str) -> Vec<u32> {
    let words = words.replace(' ', "\0");
    processes()
        .filter(|pid| read(*pid, "cmdline").contains(&words))
        .collect()
}

fn finish_within(mut child: Child, bound: Duration, what: &str) -> Done {
    let deadline = Instant::now() + bound;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{what} does not end: {:#?}", finish(child));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    finish(child)
}

/// A command that takes its time, once for each prompt; then a word.
fn once_for_each_prompt(call: &ModelCall) -> Turn {
    let prompt = call.last_user_text().to_owned();
    let asked = call.parts().any(|part| {
        matches!(part, SeenPart::ToolCall { arguments, .. } if arguments.to_string().contains(&prompt))
    });
    match asked {
        true => Turn::text(&format!("done {prompt}")),
        false => Turn::tool_calls([(
            "bash",
            json!({ "command": format!("echo {prompt} >> effects; sleep 0.1") }),
        )]),
    }
}

/// xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What the environment says, where it says something: of a longer hunt than a test run's.
fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|error| panic!("{name} takes a number, not `{text}`: {error}")))
}

/// Kills of a session before the next home with a session of its own is taken.
const KILLS_OF_A_HOME: u64 = 100;

#[tokio::test(flavor = "multi_thread")]
async fn random_kills_lose_no_prompt_double_no_effect_and_leave_no_command() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = u64::try_from(now.as_nanos()).unwrap();
    let seed = from_environment("BEZEL_TEST_SEED").unwrap_or(now) | 1;
    let mut left = from_environment("BEZEL_TEST_KILLS").unwrap_or(40);
    let mut random = Random(seed);
    while left > 0 {
        let kills = left.min(KILLS_OF_A_HOME);
        left -= kills;
        eprintln!("seed {seed}, {kills} kills, {left} after them");
        kill_at_random(&mut random, seed, kills).await;
    }
}

async fn kill_at_random(random: &mut Random, seed: u64, kills: u64) {
    let (_server, home) = playing(Script::respond(once_for_each_prompt)).await;
    let run = |prompt: &str| {
        home.command(&["run", "--continue", prompt])
            .spawn()
            .unwrap()
    };
    home.run(&["run", "prompt-first"]).succeeded();
    let mut ended = vec!["prompt-first".to_owned()];
    for number in 0..kills {
        let prompt = format!("prompt-{number:03}.");
        let child = run(&prompt);
        let wait = Duration::from_millis(random.below(350));
        std::thread::sleep(wait);
        let who = ["bezel-worker", "bezel-server", "run"][random.below(3) as usize];
        let what = format!("seed {seed}, {prompt} {who} killed after {wait:?}");
        match who {
            "run" => kill(child.id()),
            name => named(&home, name).into_iter().for_each(kill),
        }
        let done = finish_within(child, BOUND, &what);
        match done.status {
            Some(0) => {
                assert!(
                    done.stdout.contains(&format!("done {prompt}")),
                    "{what}: {done:#?}"
                );
                ended.push(prompt);
            }
            Some(1) => assert!(done.stderr.contains("error: "), "{what}: {done:#?}"),
            None => assert_eq!(who, "run", "{what}: {done:#?}"),
            Some(_) => panic!("{what}: {done:#?}"),
        }
    }
    let prompt = "prompt-last";
    let done = finish_within(run(prompt), BOUND, &format!("seed {seed}, the last run"));
    assert!(
        done.succeeded().stdout.contains("done prompt-last"),
        "seed {seed}: {done:#?}"
    );
    ended.push(prompt.to_owned());
    let listed = home.run(&["session", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.succeeded().stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "seed {seed}: {listed}");
    let id = listed[0]["session_id"].as_str().unwrap();
    let shown = home.run(&["session", "show", "--json", "--limit", "500", id]);
    let shown: serde_json::Value = serde_json::from_str(&shown.succeeded().stdout).unwrap();
    let said = |prompt: &str| {
        let messages = shown["messages"].as_array().unwrap().iter();
        let own = |message: &&serde_json::Value| {
            message["role"] == "user" && message.to_string().contains(prompt)
        };
        messages.filter(own).count()
    };
    for prompt in &ended {
        assert_eq!(said(prompt), 1, "seed {seed}: {prompt} in {shown:#}");
    }
    let effects = std::fs::read_to_string(home.project().join("effects")).unwrap();
    for effect in effects.lines() {
        let times = effects.lines().filter(|other| *other == effect).count();
        assert_eq!((times, said(effect)), (1, 1), "seed {seed}: {effect}");
    }
    assert!(effects.contains("prompt-last"), "seed {seed}");
    home.run(&["server", "stop"]).succeeded();
    let mark = format!("BEZEL_SESSION_ID={id}");
    let left: Vec<String> = processes()
        .filter(|pid| read(*pid, "environ").split('\0').any(|entry| entry == mark))
        .map(|pid| read(pid, "cmdline"))
        .collect();
    assert!(left.is_empty(), "seed {seed}: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_a_killed_worker_end_with_it() {
    let sleep = format!("sleep 7{}", std::process::id());
    let call = json!({ "command": sleep, "background": true });
    let turns = [Turn::tool_calls([("bash", call)]), Turn::text("It runs.")];
    let (_server, home) = playing(Script::new(turns)).await;
    home.run(&["run", "go"]).succeeded();
    assert_eq!(commands(&sleep).len(), 1);
    let worker = eventually("there is no worker", || home.workers().first().copied());
    signal(worker, Signal::SIGKILL);
    eventually("the command lives on", || {
        commands(&sleep).is_empty().then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_a_worker_that_died_with_the_server_end_with_the_next_server() {
    let sleep = format!("sleep 8{}", std::process::id());
    let call = json!({ "command": sleep });
    let (_server, home) = playing(Script::new([Turn::tool_calls([("bash", call)])])).await;
    let mut run = home.command(&["run", "go"]).spawn().unwrap();
    eventually("the command does not run", || {
        (!commands(&sleep).is_empty()).then_some(())
    });
    run.kill().unwrap();
    finish(run);
    for name in ["bezel-server", "bezel-worker"] {
        named(&home, name).into_iter().for_each(kill);
    }
    home.run(&["session", "list"]).succeeded();
    eventually("the command lives on", || {
        commands(&sleep).is_empty().then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_a_killed_standalone_bezel_end_with_the_next_one() {
    let sleep = format!("sleep 9{}", std::process::id());
    let call = json!({ "command": sleep });
    let turns = ["Interrupted, then.", "Seen."].map(Turn::text);
    let turns = [Turn::tool_calls([("bash", call)])]
        .into_iter()
        .chain(turns);
    let (_server, home) = playing(Script::new(turns)).await;
    let scratch = home.project().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let home = home.variable("TMPDIR", scratch.to_str().unwrap());
    let scratches = || std::fs::read_dir(&scratch).unwrap().count();
    let mut run = home
        .command(&["run", "--standalone", "go"])
        .spawn()
        .unwrap();
    eventually("the command does not run", || {
        (!commands(&sleep).is_empty()).then_some(())
    });
    run.kill().unwrap();
    finish(run);
    assert_eq!((commands(&sleep).len(), scratches()), (1, 1));
    let next = home.run(&["run", "--standalone", "--continue", "go on"]);
    assert!(next.succeeded().stdout.contains("Seen."), "{next:#?}");
    assert_eq!((commands(&sleep).len(), scratches()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_before_the_prompt_is_taken_is_no_end_and_leaves_no_second_session() {
    let answer = Turn::steps([Step::Text("Hello.".into())]);
    let (_server, home) = playing(Script::repeating(answer)).await;
    for number in 0..8 {
        let run = home.command(&["run", "hi"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20 + 25 * number));
        for name in ["bezel-server", "bezel-worker"] {
            named(&home, name).into_iter().for_each(kill);
        }
        let done = finish_within(run, BOUND, &format!("run {number}"));
        assert_eq!(done.succeeded().stdout, "Hello.\n", "{number}");
    }
    let listed = home.run(&["session", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.succeeded().stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 8, "{listed:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_a_killed_server_end_when_the_server_is_told_to_stop() {
    let (_server, home) = playing(Script::repeating(Turn::text("Hello."))).await;
    home.run(&["run", "go"]).succeeded();
    let worker = eventually("there is no worker", || home.workers().first().copied());
    named(&home, "bezel-server").into_iter().for_each(kill);
    eventually("the server is still there", || {
        home.server().is_none().then_some(())
    });
    let stopped = home.run(&["server", "stop"]);
    assert_eq!(
        stopped.succeeded().stdout,
        "The server does not run\nThe process of 1 session that it had left has ended\n"
    );
    assert!(!home.workers().contains(&worker));
    home.run(&["run", "--continue", "go on"]).succeeded();
}

/// What a command of the session list says of the only session.
fn shown(home: &Home) -> String {
    let listed = home.run(&["session", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.succeeded().stdout).unwrap();
    let id = listed[0]["session_id"].as_str().unwrap();
    home.run(&["session", "show", id, "--json"]).stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ran_when_its_worker_was_killed_goes_on_at_once_with_no_client_where_the_person_says_so()
 {
    let script = Script::respond(|call| {
        let answered = |part: &SeenPart| matches!(part, SeenPart::ToolResult { .. });
        match call.parts().any(answered) {
            true => Turn::text("Gone on."),
            false => Turn::tool_calls([(
                "bash",
                json!({ "command": "echo x >> effects; sleep 1000" }),
            )]),
        }
    });
    let (_server, home) = playing(script).await;
    // Nobody's shell is there then: the key comes from a file that the person names.
    let key = home.project().join("key");
    std::fs::write(&key, "sk-very-secret").unwrap();
    let config = std::fs::read_to_string(home.bezel().join("config.toml")).unwrap();
    let command = format!("api_key_command = \"cat {}\"", key.display());
    let config = config.replace("api_key_env = \"LOCAL_KEY\"", &command);
    home.configure(&format!("{config}[session]\nresume = \"at-once\"\n"));
    let mut run = home.command(&["run", "go"]).spawn().unwrap();
    let effects = home.project().join("effects");
    eventually("the command does not run", || {
        effects.exists().then_some(())
    });
    run.kill().unwrap();
    run.wait().unwrap();
    let workers = home.workers();
    assert_eq!(workers.len(), 1);
    kill(workers[0]);
    // Only the server is asked, which opens nothing.
    let said = eventually("nothing goes on", || {
        let shown = shown(&home);
        shown.contains("Gone on.").then_some(shown)
    });
    assert!(
        said.contains("the session ended while this call ran"),
        "{said}"
    );
    assert_eq!(
        std::fs::read_to_string(&effects).unwrap(),
        "x\n",
        "the command ran again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_38_a_session_that_kills_each_of_its_workers_is_left_and_the_reason_is_written() {
    // Every answer makes the worker kill itself, so that each next one begins with another such call.
    let script = Script::respond(|_| {
        Turn::tool_calls([("bash", json!({ "command": "kill -9 $PPID; sleep 1000" }))])
    });
    let (_server, home) = playing(script).await;
    let key = home.project().join("key");
    std::fs::write(&key, "sk-very-secret").unwrap();
    let config = std::fs::read_to_string(home.bezel().join("config.toml")).unwrap();
    let command = format!("api_key_command = \"cat {}\"", key.display());
    let config = config.replace("api_key_env = \"LOCAL_KEY\"", &command);
    home.configure(&format!("{config}[session]\nresume = \"at-once\"\n"));
    let mut run = home.command(&["run", "go"]).spawn().unwrap();
    eventually("no worker dies", || {
        home.server_log()
            .contains("what ran when its worker died goes on")
            .then_some(())
    });
    run.kill().unwrap();
    run.wait().unwrap();
    eventually("it is never left", || {
        home.server_log()
            .contains("it waits until somebody opens it")
            .then_some(())
    });
    eventually("a worker is still there", || {
        home.workers().is_empty().then_some(())
    });
}
