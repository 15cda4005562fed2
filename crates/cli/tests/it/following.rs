//! A session that is followed from outside: over HTTP, through the life and death of its process.

use bezel_testkit::{FakeModelServer, Script, Turn, WireFormat};
use serde_json::{Value, json};

use crate::home::{Home, eventually, read, signal};
use crate::http::{ANYWHERE, Asking, token};
use crate::remote::Serving;
use crate::runs::home_with;

/// A fake model that any process of the home may ask: its key is no matter of the shell.
pub async fn asked(script: Script) -> (FakeModelServer, Home) {
    let server = FakeModelServer::start(script).await.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    let config = home.bezel().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let key = "api_key_env = \"LOCAL_KEY\"";
    assert!(text.contains(key));
    home.configure(&text.replace(key, "api_key_command = \"printf sk-very-secret\""));
    (server, home)
}

/// A new session over HTTP.
pub fn begin(asking: &mut Asking, home: &Home) -> String {
    let options = json!({ "options": { "directory": home.project(), "permission_mode": "full" } });
    let created = asking.post("/v1/server/session-management/create", &options);
    assert_eq!(created.status, 200, "{}", created.body);
    created.body["session_id"].as_str().unwrap().to_owned()
}

/// Says something in a session and waits for the end of the run.
fn turn(asking: &mut Asking, session: &str, words: &str) {
    let request = json!({ "request": {
        "command_id": words,
        "content": [{ "type": "text", "text": words }],
    } });
    let prompted = asking.post(&format!("/v1/sessions/{session}/chat/prompt"), &request);
    assert_eq!(prompted.body["accepted"], true, "{}", prompted.body);
    let operation = json!({ "operation_id": prompted.body["operation_id"] });
    let waited = asking.post(&format!("/v1/sessions/{session}/chat/wait"), &operation);
    assert_eq!(waited.body["status"], "done", "{}", waited.body);
}

/// The facts of a stream up to one of this kind, each with its id.
fn facts_until(stream: &mut Asking, kind: &str) -> Vec<(String, Value)> {
    let mut facts = Vec::new();
    loop {
        let (name, id, data) = stream.event();
        match &*name {
            "fact" => facts.push((id, data)),
            "session" | "synced" => {}
            other => panic!("{other}: {data}"),
        }
        if facts.last().is_some_and(|(_, fact)| fact["kind"] == kind) {
            return facts;
        }
    }
}

fn kinds(facts: &[(String, Value)]) -> Vec<String> {
    let kind = |(_, fact): &(String, Value)| match fact["body"]["role"].as_str() {
        Some(role) => format!("{} {role}", fact["kind"].as_str().unwrap()),
        None => fact["kind"].as_str().unwrap().to_owned(),
    };
    facts.iter().map(kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_followed_through_the_death_of_its_process_and_of_the_server() {
    let script = Script::new([
        Turn::tool_calls([("write", json!({ "path": "a.txt", "content": "a" }))]),
        Turn::text("Written."),
        Turn::text("Again."),
    ]);
    let (_model, home) = asked(script).await;
    let server = Serving::start(&home, ANYWHERE);
    let token = token(&server, &server.code);
    let mut asking = Asking::of(&server, &token);
    let session = begin(&mut asking, &home);
    let path = format!("/v1/sessions/{session}/events");
    let mut stream = Asking::of(&server, &token);
    stream.follow(&path);
    assert_eq!(stream.event().0, "open");
    let (name, _, snapshot) = stream.event();
    assert_eq!((&*name, &snapshot["seq"]), ("snapshot", &json!(0)));
    assert_eq!(stream.event().0, "synced");

    turn(&mut asking, &session, "write a file");
    let first = facts_until(&mut stream, "run_ended");
    assert_eq!(
        kinds(&first),
        [
            "prompt_admitted",
            "entry_added user",
            "run_started",
            "entry_added assistant",
            "tool_started",
            "entry_added tool_result",
            "tool_ended",
            "entry_added assistant",
            "run_ended"
        ]
    );
    // A fact names its entry, which is read by that name.
    let result = &first[5].1["body"];
    let entry = json!({ "session_id": session, "entry_id": result["entry"] });
    let read_entry = asking.post("/v1/server/session-directory/message", &entry);
    assert_eq!(
        read_entry.body["parent"], result["parent"],
        "{}",
        read_entry.body
    );
    assert_eq!(first[4].1["body"]["invocation"], result["entry"]);

    // Without its process: all of it again, and on from any place of it.
    for pid in home.workers() {
        signal(pid, nix::sys::signal::Signal::SIGKILL);
        eventually("the worker is gone", || {
            read(pid, "cmdline").is_empty().then_some(())
        });
    }
    let mut again = Asking::of(&server, &token);
    again.follow(&format!("{path}?after=0"));
    assert_eq!(again.event().0, "open");
    let all = facts_until(&mut again, "run_ended");
    let facts = |facts: &[(String, Value)]| -> Vec<Value> {
        facts.iter().map(|(_, fact)| fact.clone()).collect()
    };
    assert_eq!(facts(&all), facts(&first));
    let mut rest = Asking::of(&server, &token);
    rest.resume(&path, &first[6].0);
    assert_eq!(rest.event().0, "open");
    assert_eq!(
        facts(&facts_until(&mut rest, "run_ended")),
        facts(&first[7..])
    );
    assert_eq!(home.workers(), Vec::<u32>::new(), "reading starts nothing");

    // The server ends; what happens under the next one follows on the same cursor.
    let last = first.last().unwrap().0.clone();
    server.interrupt().succeeded();
    let server = Serving::start(&home, ANYWHERE);
    let mut stream = Asking::of(&server, &token);
    stream.resume(&path, &last);
    assert_eq!(stream.event().0, "open");
    let mut asking = Asking::of(&server, &token);
    turn(&mut asking, &session, "once more");
    let second = facts_until(&mut stream, "run_ended");
    assert_eq!(
        kinds(&second),
        [
            "prompt_admitted",
            "entry_added user",
            "run_started",
            "entry_added assistant",
            "run_ended"
        ]
    );
    let gone = asking.post(
        "/v1/server/session-management/remove",
        &json!({ "session_id": session }),
    );
    assert_eq!(gone.status, 200, "{}", gone.body);
    let mut name = String::new();
    while name != "deleted" {
        name = stream.event().0;
        assert!(matches!(&*name, "session" | "deleted" | "gap"), "{name}");
    }
}
