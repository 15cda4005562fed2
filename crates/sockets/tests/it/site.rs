//! A port that answers requests beside connections: who may stay, and who is cut off.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bezel_sockets::{Site, Visitor, WebSocketListener, WebSocketOptions};
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Lets in whoever shows `good`, and waits for ever under `/v1/wait`.
#[derive(Clone, Default)]
struct Rooms {
    asked: Arc<AtomicUsize>,
    waiting: Arc<AtomicUsize>,
}

struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Site for Rooms {
    fn answer(&self, request: Request, visitor: Visitor) -> BoxFuture<'static, Response> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let waiting = Arc::clone(&self.waiting);
        Box::pin(async move {
            if request.headers().contains_key("good") {
                visitor.let_in();
            }
            if request.uri().path() == "/v1/wait" {
                waiting.fetch_add(1, Ordering::SeqCst);
                let _waiting = Waiting(waiting);
                std::future::pending::<()>().await;
            }
            let from = visitor.peer().address.unwrap();
            Response::new(Body::from(from.to_string()))
        })
    }
}

async fn open() -> (Rooms, WebSocketListener) {
    let rooms = Rooms::default();
    let options = WebSocketOptions {
        site: Some(Arc::new(rooms.clone())),
        ..WebSocketOptions::default()
    };
    let listener = WebSocketListener::bind("127.0.0.1:0", options).await;
    (rooms, listener.unwrap())
}

async fn ask(stream: &mut TcpStream, path: &str, headers: &str) {
    let text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// What comes until the body that is expected, or the end.
async fn read(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    let mut piece = [0; 1024];
    while !text.ends_with(end) {
        match stream.read(&mut piece).await.unwrap() {
            0 => break,
            read => text.push_str(std::str::from_utf8(&piece[..read]).unwrap()),
        }
    }
    text
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 16]).await, Ok(0) | Err(_))
}

async fn dial(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

#[tokio::test]
async fn a_connection_stays_once_a_request_on_it_was_let_in_and_ends_otherwise() {
    let (_, listener) = open().await;
    let mut stays = dial(listener.address()).await;
    for _ in 0..3 {
        ask(&mut stays, "/v1/x", "good: 1\r\n").await;
        let answer = read(&mut stays, "127.0.0.1").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(!answer.contains("connection: close"), "{answer}");
    }
    let mut ends = dial(listener.address()).await;
    ask(&mut ends, "/v1/x", "").await;
    let answer = read(&mut ends, "\0").await;
    assert!(
        answer.contains("connection: close") && answer.ends_with("127.0.0.1"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_request_for_another_host_or_from_a_foreign_page_never_reaches_it() {
    let (rooms, listener) = open().await;
    for headers in ["Host: evil.example\r\n", "Origin: http://evil.example\r\n"] {
        let mut stream = dial(listener.address()).await;
        let host = if headers.starts_with("Host") {
            ""
        } else {
            "Host: localhost\r\n"
        };
        let text = format!("GET /v1/x HTTP/1.1\r\n{host}{headers}good: 1\r\n\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        let answer = read(&mut stream, "\0").await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(
            !answer.to_lowercase().contains("access-control"),
            "{answer}"
        );
    }
    assert_eq!(rooms.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn who_hangs_up_while_it_is_answered_gives_the_request_up() {
    let (rooms, listener) = open().await;
    let mut stream = dial(listener.address()).await;
    ask(&mut stream, "/v1/wait", "good: 1\r\n").await;
    until(|| rooms.waiting.load(Ordering::SeqCst) == 1).await;
    drop(stream);
    until(|| rooms.waiting.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn strangers_fill_no_more_than_their_places_and_guests_none() {
    let (rooms, listener) = open().await;
    let mut guests = Vec::new();
    for number in 1..=40 {
        let mut stream = dial(listener.address()).await;
        ask(&mut stream, "/v1/wait", "good: 1\r\n").await;
        until(|| rooms.waiting.load(Ordering::SeqCst) == number).await;
        guests.push(stream);
    }
    let mut strangers = Vec::new();
    for number in 1..=32 {
        let mut stream = dial(listener.address()).await;
        ask(&mut stream, "/v1/wait", "").await;
        until(|| rooms.waiting.load(Ordering::SeqCst) == 40 + number).await;
        strangers.push(stream);
    }
    let mut beyond = dial(listener.address()).await;
    assert!(is_closed(&mut beyond).await);
    // One of them goes, and there is a place again.
    strangers.pop();
    until(|| rooms.waiting.load(Ordering::SeqCst) == 71).await;
    let mut again = dial(listener.address()).await;
    ask(&mut again, "/v1/x", "").await;
    assert!(read(&mut again, "\0").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_stranger_has_ten_seconds_and_a_guest_as_long_as_it_asks() {
    let (rooms, listener) = open().await;
    let mut stranger = dial(listener.address()).await;
    ask(&mut stranger, "/v1/wait", "").await;
    let mut guest = dial(listener.address()).await;
    ask(&mut guest, "/v1/wait", "good: 1\r\n").await;
    let mut idle = dial(listener.address()).await;
    ask(&mut idle, "/v1/x", "good: 1\r\n").await;
    assert!(
        read(&mut idle, "127.0.0.1")
            .await
            .starts_with("HTTP/1.1 200 ")
    );
    until(|| rooms.waiting.load(Ordering::SeqCst) == 2).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    assert!(is_closed(&mut stranger).await);
    assert!(is_closed(&mut idle).await);
    until(|| rooms.waiting.load(Ordering::SeqCst) == 1).await;
    drop(guest);
    until(|| rooms.waiting.load(Ordering::SeqCst) == 0).await;
}
