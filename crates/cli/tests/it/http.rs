//! A served Bezel as a program without Bezel sees it: one connection, HTTP, JSON.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::task::Poll;
use std::time::Duration;

use bezel_rpc::{Context, Frame, Transport};
use bezel_sockets::dial_websocket;
use serde_json::{Value, json};

use crate::home::{Home, eventually};
use crate::remote::Serving;

/// One connection to a server.
pub struct Asking {
    stream: BufReader<TcpStream>,
    token: String,
}

/// What came back; a stream's body is still to be read.
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Asking {
    pub fn of(server: &Serving, token: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Asking {
            stream: BufReader::new(stream),
            token: token.into(),
        }
    }

    fn write(&mut self, method: &str, path: &str, headers: &str, body: &str) {
        let (token, length) = (&self.token, body.len());
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{headers}\
             Content-Length: {length}\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Status and length of the body; none for a stream.
    fn head(&mut self) -> (u16, Option<usize>) {
        let (mut status, mut length) = (0, None);
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().unwrap();
            } else if let Some(rest) = line.strip_prefix("content-length: ") {
                length = Some(rest.parse().unwrap());
            } else if line.is_empty() {
                return (status, length);
            }
        }
    }

    fn answer(&mut self) -> Answer {
        let (status, length) = self.head();
        let mut body = vec![0; length.unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        Answer {
            status,
            body: serde_json::from_slice(&body).unwrap(),
        }
    }

    pub fn post(&mut self, path: &str, arguments: &Value) -> Answer {
        let json = "Content-Type: application/json\r\n";
        self.write("POST", path, json, &arguments.to_string());
        self.answer()
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.write("GET", path, "", "");
        self.answer()
    }

    /// Begins a stream; its lines are read with [`Asking::data`].
    pub fn follow(&mut self, path: &str) {
        self.write("GET", path, "Accept: text/event-stream\r\n", "");
        assert_eq!(self.head(), (200, None));
    }

    /// A stream that goes on after an event of an earlier one.
    pub fn resume(&mut self, path: &str, id: &str) {
        let headers = format!("Accept: text/event-stream\r\nLast-Event-ID: {id}\r\n");
        self.write("GET", path, &headers, "");
        assert_eq!(self.head(), (200, None));
    }

    /// The next event of a stream: its name, its id and its data.
    pub fn event(&mut self) -> (String, String, Value) {
        let (mut name, mut id) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            assert_ne!(
                self.stream.read_line(&mut line).unwrap(),
                0,
                "the stream has ended"
            );
            let line = line.trim_end();
            match line.split_once(": ") {
                Some(("event", rest)) => name = rest.to_owned(),
                Some(("id", rest)) => id = rest.to_owned(),
                Some(("data", rest)) => return (name, id, serde_json::from_str(rest).unwrap()),
                _ => {}
            }
        }
    }

    /// The data of the next event of a stream, whatever the lengths of its pieces between.
    fn data(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.stream.read_line(&mut line).unwrap(),
                0,
                "the stream has ended"
            );
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

pub fn token(server: &Serving, code: &str) -> String {
    let mut stranger = Asking::of(server, "");
    let paired = stranger.post("/v1/pair", &json!({ "code": code }));
    assert_eq!(paired.status, 200, "{}", paired.body);
    paired.body["token"].as_str().unwrap().to_owned()
}

/// What the server and one session say that they provide, as the document names it: by hand, for no handle
/// shows what it does not know. The record is for the session's own worker.
async fn announced(url: &str, token: &str, session: &str) -> BTreeSet<String> {
    let cx = Context::background();
    let connect = dial_websocket(url.parse().unwrap(), None).unwrap();
    let transport = connect.connect(&cx).await.unwrap();
    let Transport {
        mut incoming,
        outgoing,
        sink,
        ..
    } = transport;
    let mut sink = sink.unwrap();
    let send = |header: &'static str, payload: Value| {
        let payload = payload.to_string().into();
        let header = header.as_bytes().into();
        outgoing.send(Frame { header, payload }).unwrap();
    };
    let hello = json!({
        "protocol": { "major": bezel_rpc::PROTOCOL.major, "minor": 0 },
        "role": "presentation",
        "product_version": env!("CARGO_PKG_VERSION"),
        "credential": token,
    });
    send(r#"{"k":"hello"}"#, hello);
    let mut names = BTreeSet::new();
    loop {
        let received = std::future::poll_fn(|poller| {
            if let Poll::Ready(Err(error)) = sink.poll_drain(&outgoing, poller) {
                panic!("{error}");
            }
            incoming.poll_recv(poller)
        });
        let frame = received.await.unwrap().unwrap();
        let header: Value = serde_json::from_slice(&frame.header).unwrap();
        let payload: Value = serde_json::from_slice(&frame.payload).unwrap_or_default();
        let services = payload["services"].as_array().cloned().unwrap_or_default();
        let ids = services
            .iter()
            .map(|service| service["id"].as_str().unwrap());
        match header["k"].as_str().unwrap() {
            "welcome" => {
                // For workers alone.
                let ours = ids.filter(|id| !["session-copies", "session-record"].contains(id));
                names.extend(ours.map(str::to_owned));
                let attach = r#"{"k":"call","i":1,"s":"session-management","m":"attach"}"#;
                send(attach, json!({ "session_id": session }));
            }
            "attachment" if payload["status"] == "attached" => {
                names.extend(ids.map(|id| format!("s {id}")));
                return names;
            }
            "refuse" | "err" => panic!("{payload}"),
            _ => {}
        }
    }
}

/// The ids of a transcript's items.
fn ids(transcript: &Value) -> Vec<&str> {
    let items = transcript["items"].as_array().unwrap().iter();
    items.map(|item| item["id"].as_str().unwrap()).collect()
}

pub const ANYWHERE: &[&str] = &["--listen", "127.0.0.1:0"];

#[test]
fn a_program_pairs_begins_a_session_prompts_follows_and_reads_over_one_connection() {
    let home = Home::new();
    home.configure("model = \"scripted::tour\"\n");
    let server = Serving::start(&home, ANYWHERE);
    let token = token(&server, &server.code);
    let mut asking = Asking::of(&server, &token);
    let options = json!({ "options": { "directory": home.project(), "permission_mode": "full" } });
    let created = asking.post("/v1/server/session-management/create", &options);
    assert_eq!(created.status, 200, "{}", created.body);
    let session = created.body["session_id"].as_str().unwrap().to_owned();
    let at = |member: &str| format!("/v1/sessions/{session}/{member}");
    let mut following = Asking::of(&server, &token);
    following.follow(&at("transcript/state"));
    assert_eq!(following.data()["items"], json!([]));
    let request = json!({ "request": {
        "command_id": "c1",
        "content": [{ "type": "text", "text": "hello" }],
    } });
    let prompted = asking.post(&at("chat/prompt"), &request);
    assert_eq!(prompted.body["accepted"], true, "{}", prompted.body);
    // The same command once more is the same message.
    let again = asking.post(&at("chat/prompt"), &request);
    assert_eq!(again.body["message_id"], prompted.body["message_id"]);
    let operation = &prompted.body["operation_id"];
    let waited = asking.post(&at("chat/wait"), &json!({ "operation_id": operation }));
    assert_eq!(waited.body["status"], "done", "{}", waited.body);
    let mut text = String::new();
    while !text.contains("I am the **tour**") {
        text.push_str(&following.data().to_string());
    }
    // The worker's end is not the session's.
    let state = asking.get(&at("transcript/state"));
    let renewed = asking.post(
        &at("session-process/renew"),
        &json!({ "request": { "always": true } }),
    );
    assert_eq!((renewed.status, renewed.body), (200, json!("ending")));
    eventually("another worker answers", || {
        let mut asking = Asking::of(&server, &token);
        let again = asking.get(&at("transcript/state"));
        assert!(matches!(again.status, 200 | 503), "{}", again.body);
        (again.status == 200).then(|| assert_eq!(ids(&again.body), ids(&state.body)))
    });
}

#[test]
fn opencode_5_what_a_server_and_its_sessions_announce_is_what_the_document_lists() {
    let home = Home::new();
    let server = Serving::start(&home, ANYWHERE);
    let mut anybody = Asking::of(&server, "");
    let document = anybody.get("/v1/openapi.json").body;
    assert_eq!(document["openapi"], "3.1.0");
    let committed = include_str!("../../../../docs/openapi.json");
    assert_eq!(document, serde_json::from_str::<Value>(committed).unwrap());
    let listed: BTreeSet<String> = document["paths"]
        .as_object()
        .unwrap()
        .keys()
        .map(|path| {
            path.replace("/v1/server/", "")
                .replace("/v1/sessions/{session_id}/", "s ")
        })
        .filter(|path| !path.starts_with('/'))
        // One that is no member's leads to no service.
        .filter_map(|path| Some(path.split_once('/')?.0.to_owned()))
        .collect();
    let token = token(&server, &server.code);
    let mut asking = Asking::of(&server, &token);
    let options = json!({ "options": { "directory": home.project() } });
    let created = asking.post("/v1/server/session-management/create", &options);
    let session = created.body["session_id"].as_str().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let announced = runtime.block_on(announced(&server.url, &token, &session));
    assert_eq!(listed, announced);
}

#[test]
fn access_that_is_taken_back_ends_what_is_open_and_lets_nobody_in() {
    let home = Home::new();
    let server = Serving::start(&home, ANYWHERE);
    let token = token(&server, &server.code);
    let mut asking = Asking::of(&server, &token);
    assert_eq!(asking.get("/v1/server/server/status").status, 200);
    let mut following = Asking::of(&server, &token);
    following.follow("/v1/server/session-directory/state");
    following.data();
    let clients = home.run(&["access", "list", "--json"]);
    let clients: Value = serde_json::from_str(&clients.succeeded().stdout).unwrap();
    home.run(&["access", "revoke", clients[0]["id"].as_str().unwrap()])
        .succeeded();
    assert_eq!(following.data()["code"], "disconnected");
    let refused = asking.get("/v1/server/server/status");
    assert_eq!(refused.status, 401, "{}", refused.body);
    let logs = home.bezel().join("logs");
    for entry in std::fs::read_dir(logs).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains(&token));
    }
}
