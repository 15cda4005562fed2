//! A peer that speaks in bytes over a Unix socket.

use std::path::Path;
use std::time::Duration;

use bezel_session_types::SessionId;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::world::TOKEN;

pub struct Raw(UnixStream);

pub fn frame(header: &str, payload: &str) -> Vec<u8> {
    let size = u32::try_from(header.len() + 1 + payload.len()).unwrap();
    [
        &size.to_be_bytes(),
        header.as_bytes(),
        b"\n",
        payload.as_bytes(),
    ]
    .concat()
}

pub fn hello(credential: &str) -> Vec<u8> {
    let payload = json!({
        "protocol": { "major": 1, "minor": 0 }, "role": "presentation",
        "product_version": "0.1.0", "credential": credential,
        // Nobody is asked who they are.
        "client": "c1", "owner": "root", "scopes": ["admin"], "principal": { "client": "c1" },
    });
    frame(r#"{"k":"hello"}"#, &payload.to_string())
}

impl Raw {
    pub async fn connect(path: &Path) -> Self {
        Raw(UnixStream::connect(path).await.unwrap())
    }

    /// Connected and let in; the id that it was given.
    pub async fn welcomed(path: &Path) -> (Self, String) {
        let mut raw = Raw::connect(path).await;
        raw.write(&hello(TOKEN)).await;
        let (header, payload) = raw.next().await.unwrap();
        assert_eq!(header["k"], "welcome", "{payload}");
        (raw, payload["client"].as_str().unwrap().to_owned())
    }

    /// Attaches to a session by a call with the id 1; the attachment's incarnation.
    pub async fn attach(&mut self, session: &SessionId) -> u64 {
        self.send(
            r#"{"k":"call","i":1,"s":"session-management","m":"attach"}"#,
            &json!({ "session_id": session }).to_string(),
        )
        .await;
        let (header, _) = self.next_of(&["attachment"]).await;
        self.next_of(&["ok"]).await;
        header["n"].as_u64().unwrap()
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// Whether the server took it.
    pub async fn try_write(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).await.is_ok()
    }

    pub async fn send(&mut self, header: &str, payload: &str) {
        self.write(&frame(header, payload)).await;
    }

    /// The next frame; `None` when the server closed the connection.
    pub async fn next(&mut self) -> Option<(Value, Value)> {
        let read = async {
            let size = self.0.read_u32().await.ok()?;
            let mut frame = vec![0; size as usize];
            self.0.read_exact(&mut frame).await.ok()?;
            let text = String::from_utf8(frame).unwrap();
            let (header, payload) = text.split_once('\n').unwrap();
            let payload = match payload {
                "" => Value::Null,
                payload => serde_json::from_str(payload).unwrap(),
            };
            Some((serde_json::from_str(header).unwrap(), payload))
        };
        tokio::time::timeout(Duration::from_secs(30), read)
            .await
            .unwrap()
    }

    /// The next frame of one of these kinds.
    pub async fn next_of(&mut self, kinds: &[&str]) -> (Value, Value) {
        loop {
            let (header, payload) = self.next().await.unwrap();
            if kinds.contains(&header["k"].as_str().unwrap()) {
                return (header, payload);
            }
        }
    }

    /// The code that the server answers with before it closes the connection, if it says one.
    pub async fn dismissed(&mut self) -> Option<String> {
        let mut code = None;
        while let Some((header, payload)) = self.next().await {
            if matches!(header["k"].as_str(), Some("goaway" | "refuse")) {
                code = payload["code"].as_str().map(str::to_owned);
            }
        }
        code
    }

    /// The code of the error that answers a frame.
    pub async fn code(&mut self, header: &str, payload: &str) -> String {
        self.send(header, payload).await;
        let (_, payload) = self.next_of(&["err", "closed"]).await;
        payload["code"].as_str().unwrap().to_owned()
    }
}
