//! One listener, its own client, and peers written by hand.

use std::time::Duration;

use bezel_context::Context;
use bezel_rpc::{Frame, Transport, TransportError};
use bezel_sockets::{Endpoint, ServerTls, WebSocketListener, WebSocketOptions, dial_websocket};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Fails a test that would otherwise wait for ever.
pub async fn within<F: Future>(future: F) -> F::Output {
    let waited = tokio::time::timeout(Duration::from_secs(20), future).await;
    waited.expect("it takes far too long")
}

pub async fn listener() -> WebSocketListener {
    let options = WebSocketOptions::default();
    WebSocketListener::bind("127.0.0.1:0", options)
        .await
        .unwrap()
}

pub fn endpoint(listener: &WebSocketListener) -> Endpoint {
    listener.url().parse().unwrap()
}

/// Both ends of a connection over `listener`.
pub async fn pair(listener: &mut WebSocketListener) -> (Transport, Transport) {
    let dial = dial_websocket(endpoint(listener), None).unwrap();
    let cx = Context::background();
    let (dialled, accepted) =
        within(async { futures::join!(dial.connect(&cx), listener.accept()) }).await;
    (dialled.unwrap(), accepted.unwrap().0)
}

pub fn frame(header: &str, payload: impl Into<bytes::Bytes>) -> Frame {
    Frame {
        header: header.to_owned().into(),
        payload: payload.into(),
    }
}

/// Runs both halves of a transport until something is received.
pub async fn recv(transport: &mut Transport) -> Result<Option<Frame>, TransportError> {
    let outbox = transport.outgoing.clone();
    let sink = transport.sink.as_mut().unwrap();
    within(std::future::poll_fn(|poller| {
        let received = transport.incoming.poll_recv(poller);
        if received.is_ready() {
            return received;
        }
        drop(sink.poll_drain(&outbox, poller));
        std::task::Poll::Pending
    }))
    .await
}

/// Writes all that waits, and says goodbye.
pub async fn finish(mut transport: Transport) {
    transport.outgoing.close();
    let (outbox, sink) = (transport.outgoing.clone(), transport.sink.as_mut().unwrap());
    let closing = std::future::poll_fn(|poller| sink.poll_drain(&outbox, poller));
    let ended = tokio::time::timeout(Duration::from_secs(1), closing).await;
    drop(ended);
}

/// An HTTP request as it is, and all that comes back until the server closes.
pub async fn request(listener: &WebSocketListener, text: &str) -> String {
    let mut stream = TcpStream::connect(listener.address()).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

/// A connection after its upgrade, in bytes.
pub async fn upgraded(listener: &mut WebSocketListener) -> (TcpStream, Transport) {
    let mut stream = TcpStream::connect(listener.address()).await.unwrap();
    let ask = "GET /connect HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
               Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(ask.as_bytes()).await.unwrap();
    let (transport, _) = within(listener.accept()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(within(stream.read_u8()).await.unwrap());
    }
    assert!(
        head.starts_with(b"HTTP/1.1 101"),
        "{}",
        String::from_utf8_lossy(&head)
    );
    (stream, transport)
}

/// A client's WebSocket frame: opcode and fin bit in the first byte, masked with zeros.
pub fn ws_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        short @ 0..=125 => bytes.push(0x80 | short as u8),
        middle @ 126..=0xffff => {
            bytes.push(0x80 | 126);
            bytes.extend((middle as u16).to_be_bytes());
        }
        long => {
            bytes.push(0x80 | 127);
            bytes.extend((long as u64).to_be_bytes());
        }
    }
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes
}

/// A certificate for localhost and its key, as files.
pub fn certificate() -> tempfile::TempDir {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(
        directory.path().join("key.pem"),
        made.signing_key.serialize_pem(),
    )
    .unwrap();
    directory
}

pub fn tls(certificate: &tempfile::TempDir) -> ServerTls {
    let file = |name| certificate.path().join(name);
    ServerTls::read(&file("cert.pem"), &file("key.pem")).unwrap()
}
