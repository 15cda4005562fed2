//! A client that shows every byte.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer: its status, and everything after its head.
pub struct Answered {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answered {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The names of a streamed answer's events, or the `type` of those that have none.
    pub fn events(&self) -> Vec<&str> {
        self.body
            .lines()
            .filter_map(|line| line.strip_prefix("event: "))
            .collect()
    }
}

pub fn head(method: &str, target: &str, headers: &[(&str, &str)], length: usize) -> String {
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!("{method} {target} HTTP/1.1\r\nhost: fake\r\n{headers}content-length: {length}\r\n\r\n")
}

/// Sends one request and reads until the server closes or the answer ends.
pub async fn send(
    server: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Answered {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let mut stream = TcpStream::connect(server).await.unwrap();
    let request = head(method, target, headers, body.len()) + &body;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let ended = stream.read_buf(&mut bytes).await.unwrap() == 0;
        let text = if ended {
            text
        } else {
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert!(!ended, "closed before an answer");
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let complete = match length {
            Some(length) => body.len() == length.parse::<usize>().unwrap(),
            None => body.ends_with("0\r\n\r\n"),
        };
        if complete || ended {
            let status = head.split(' ').nth(1).unwrap().parse().unwrap();
            return Answered {
                status,
                head: head.into(),
                body: body.into(),
            };
        }
    }
}

pub async fn post(server: SocketAddr, target: &str, body: &Value) -> Answered {
    send(server, "POST", target, &[], body).await
}
