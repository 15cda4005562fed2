//! A peer that speaks in bytes over a real socket: slow, torn, hostile.

use std::sync::Arc;

use bezel_context::TaskScope;
use bezel_rpc::{Acceptor, Limits, Router, ServiceClient, ServiceTable};
use bezel_sockets::UnixListener;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::contract::ModelsClient;
use crate::provider::Catalogue;
use crate::stage::{Doorman, wait_until, within};

struct Socket {
    stream: UnixStream,
    router: Router,
    _scope: TaskScope,
    _directory: tempfile::TempDir,
}

impl Socket {
    async fn connect() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("server.sock");
        let (table, router) = (ServiceTable::new(), Router::new());
        table
            .provide(ModelsClient::new(Catalogue::new()).exposed())
            .expect("it is the first");
        table.activate();
        let acceptor = Acceptor::new(table, Arc::new(Doorman), router.clone(), Limits::default());
        let listener = UnixListener::bind(&path).expect("it binds");
        let scope = TaskScope::new();
        scope.spawn("listener", async move {
            loop {
                let (transport, peer) = listener.accept().await.expect("it accepts");
                acceptor.spawn(transport, peer);
            }
        });
        let stream = UnixStream::connect(&path).await.expect("it connects");
        Socket {
            stream,
            router,
            _scope: scope,
            _directory: directory,
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stream
            .write_all(bytes)
            .await
            .expect("the server reads");
    }

    async fn read(&mut self) -> String {
        let length = within(self.stream.read_u32()).await.expect("a length");
        let mut frame = vec![0; length as usize];
        within(self.stream.read_exact(&mut frame))
            .await
            .expect("a frame");
        String::from_utf8(frame).expect("text")
    }

    async fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        within(self.stream.read_to_end(&mut rest)).await.is_ok()
    }
}

fn frame(header: &str, payload: &str) -> Vec<u8> {
    let text = format!("{header}\n{payload}");
    let mut bytes = u32::try_from(text.len())
        .expect("small")
        .to_be_bytes()
        .to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

fn hello() -> Vec<u8> {
    let payload = json!({ "protocol": { "major": 1, "minor": 0 }, "role": "presentation", "product_version": "1", "credential": "ann" });
    frame(r#"{"k":"hello"}"#, &payload.to_string())
}

const ECHO: &str = r#"{"k":"call","i":1,"s":"models","m":"echo"}"#;

#[tokio::test]
async fn frames_that_arrive_byte_by_byte_or_all_at_once_are_the_same_frames() {
    let mut torn = Socket::connect().await;
    let bytes = [hello(), frame(ECHO, r#"{"text":"x"}"#)].concat();
    for byte in &bytes {
        torn.write(&[*byte]).await;
        tokio::task::yield_now().await;
    }
    let mut whole = Socket::connect().await;
    whole.write(&bytes).await;
    for socket in [&mut torn, &mut whole] {
        assert!(socket.read().await.starts_with(r#"{"k":"welcome"}"#));
        assert_eq!(socket.read().await, "{\"k\":\"ok\",\"i\":1}\n\"x\"");
    }
}

#[tokio::test]
async fn bytes_that_are_no_frames_end_the_connection_and_only_that() {
    let huge = u32::MAX.to_be_bytes().to_vec();
    let no_header = [9_000u32.to_be_bytes().to_vec(), vec![b'x'; 9_000]].concat();
    let empty = 0u32.to_be_bytes().to_vec();
    let noise: Vec<u8> = [0, 0, 0, 200].into_iter().chain(0..200).collect();
    for hostile in [huge, no_header, empty, noise] {
        let mut before = Socket::connect().await;
        before.write(&hostile).await;
        assert!(before.is_closed().await);
        let mut after = Socket::connect().await;
        after.write(&hello()).await;
        after.read().await;
        after.write(&hostile).await;
        assert!(after.is_closed().await);
        wait_until("the server let it go", || after.router.client_count() == 0).await;
    }
}

#[tokio::test]
async fn a_peer_that_dies_inside_a_frame_is_gone() {
    let mut socket = Socket::connect().await;
    socket.write(&hello()).await;
    socket.read().await;
    socket.write(&frame(ECHO, r#"{"text":"x"}"#)[..20]).await;
    assert_eq!(socket.router.client_count(), 1);
    let Socket {
        stream,
        router,
        _scope,
        _directory,
    } = socket;
    drop(stream);
    wait_until("the server noticed", || router.client_count() == 0).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_its_socket_is_dropped_alone() {
    let mut socket = Socket::connect().await;
    socket.write(&hello()).await;
    socket.read().await;
    let call = frame(ECHO, &json!({ "text": "x".repeat(1 << 20) }).to_string());
    let mut written = 0;
    while within(socket.stream.write_all(&call)).await.is_ok() {
        written += 1;
        assert!(written < 200, "nothing bounds what waits for it");
    }
    wait_until("the server let it go", || socket.router.client_count() == 0).await;
}
