//! Peers that break the rules: each is told what it did, and nobody else notices.

use bezel_rpc::{Transport, TransportError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::stage::{finish, frame, listener, pair, recv, request, upgraded, within, ws_frame};

const TEXT: u8 = 0x81;

/// What the server says of `bytes`, and the close code that the peer gets.
async fn fault(bytes: Vec<u8>) -> (TransportError, u16) {
    let mut listener = listener().await;
    let (mut stream, mut server) = upgraded(&mut listener).await;
    let write = async {
        // The server may close before it has read everything.
        drop(stream.write_all(&bytes).await);
        let mut answer = Vec::new();
        within(stream.read_to_end(&mut answer)).await.unwrap();
        answer
    };
    let serve = async {
        let error = loop {
            match recv(&mut server).await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended in order"),
                Err(error) => break error,
            }
        };
        finish(server).await;
        error
    };
    let (answer, error) = futures::join!(write, serve);
    assert_eq!(answer[0], 0x88, "a close frame: {answer:?}");
    (error, u16::from_be_bytes([answer[2], answer[3]]))
}

#[tokio::test]
async fn a_binary_message_is_refused() {
    let (error, code) = fault(ws_frame(0x82, b"{}\n{}")).await;
    assert!(error.to_string().contains("binary"), "{error}");
    assert_eq!(code, 1003);
}

#[tokio::test]
async fn a_message_without_a_header_is_refused() {
    for payload in [&b"{\"k\":\"ping\"}"[..], b"", b"\n{}", &[b'h'; 9000]] {
        let (error, code) = fault(ws_frame(TEXT, payload)).await;
        assert!(
            matches!(error, TransportError::HeaderTooLarge { .. }),
            "{error}"
        );
        assert_eq!(code, 1002);
    }
}

#[tokio::test]
async fn text_that_is_not_utf8_is_refused() {
    let (error, code) = fault(ws_frame(TEXT, b"{}\n\xff\xfe")).await;
    assert!(error.to_string().contains("UTF-8"), "{error}");
    assert_eq!(code, 1007);
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_refused_from_its_announced_size() {
    let mut head = vec![TEXT, 0x80 | 127];
    head.extend((17u64 << 20).to_be_bytes());
    head.extend([0; 4]);
    let (error, code) = fault(head).await;
    assert!(
        matches!(error, TransportError::FrameTooLarge { .. }),
        "{error}"
    );
    assert_eq!(code, 1009);
}

#[tokio::test]
async fn a_message_beyond_the_limit_in_fragments_is_refused() {
    let mut bytes = ws_frame(0x01, &vec![b'x'; 9 << 20]);
    bytes.extend(ws_frame(0x80, &vec![b'x'; 9 << 20]));
    let (error, code) = fault(bytes).await;
    assert!(
        matches!(error, TransportError::FrameTooLarge { .. }),
        "{error}"
    );
    assert_eq!(code, 1009);
}

#[tokio::test]
async fn parts_that_announce_too_much_are_refused() {
    let (error, code) = fault(ws_frame(
        TEXT,
        b"{\"k\":\"part\",\"i\":1,\"z\":99999999999}\nx",
    ))
    .await;
    assert!(
        matches!(error, TransportError::FrameTooLarge { .. }),
        "{error}"
    );
    assert_eq!(code, 1009);
}

#[tokio::test]
async fn unmasked_frames_reserved_bits_and_garbage_are_refused() {
    for bytes in [
        vec![TEXT, 0x05, b'{', b'}', b'\n', b'{', b'}'],
        vec![0xf1, 0x80, 0, 0, 0, 0],
        vec![0xff; 64],
    ] {
        let (error, code) = fault(bytes).await;
        assert!(error.to_string().contains("WebSocket protocol"), "{error}");
        assert_eq!(code, 1002);
    }
}

#[tokio::test]
async fn a_peer_that_vanishes_ends_its_connection_in_order() {
    let mut listener = listener().await;
    let (stream, mut server) = upgraded(&mut listener).await;
    drop(stream);
    assert!(recv(&mut server).await.unwrap().is_none());
}

#[tokio::test]
async fn a_ping_is_answered() {
    let mut listener = listener().await;
    let (mut stream, mut server) = upgraded(&mut listener).await;
    stream.write_all(&ws_frame(0x89, b"hi")).await.unwrap();
    let read = async {
        let mut pong = [0; 4];
        within(stream.read_exact(&mut pong)).await.unwrap();
        drop(stream);
        pong
    };
    let (pong, ended) = futures::join!(read, recv(&mut server));
    assert_eq!(pong, [0x8a, 2, b'h', b'i']);
    assert!(ended.unwrap().is_none());
}

/// Whether a well-behaved client still gets through.
async fn still_serves(listener: &mut bezel_sockets::WebSocketListener) {
    let (client, mut server): (Transport, Transport) = pair(listener).await;
    client.outgoing.send(frame("{\"k\":\"ping\"}", "")).unwrap();
    let got = futures::join!(finish(client), recv(&mut server)).1;
    assert_eq!(got.unwrap().unwrap(), frame("{\"k\":\"ping\"}", ""));
}

#[tokio::test]
async fn garbage_large_heads_and_silence_never_take_the_port_down() {
    let mut listener = listener().await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(listener.address()).await.unwrap());
    }
    for bytes in [
        "\u{0}\u{1}\u{2}garbage\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(100_000)),
        "GET /".into(),
    ] {
        let mut stream = TcpStream::connect(listener.address()).await.unwrap();
        drop(stream.write_all(bytes.as_bytes()).await);
        silent.push(stream);
    }
    still_serves(&mut listener).await;
}

#[tokio::test]
async fn one_address_cannot_hold_more_than_its_share_of_half_open_connections() {
    let mut listener = listener().await;
    let mut half_open = Vec::new();
    for _ in 0..200 {
        half_open.push(TcpStream::connect(listener.address()).await.unwrap());
    }
    // Those beyond the share are closed, without a byte.
    let mut closed = 0;
    for stream in &mut half_open {
        let mut byte = [0];
        let read =
            tokio::time::timeout(std::time::Duration::from_millis(50), stream.read(&mut byte));
        closed += usize::from(matches!(read.await, Ok(Ok(0) | Err(_))));
    }
    assert!((160..200).contains(&closed), "{closed}");
    drop(half_open);
    within(async {
        loop {
            let answer = tokio::time::timeout(
                std::time::Duration::from_secs(1),
                request(&listener, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            );
            match answer.await {
                Ok(answer) if answer.contains("426") => break,
                _ => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    still_serves(&mut listener).await;
}

#[tokio::test(start_paused = true)]
async fn a_head_that_never_ends_is_not_waited_for() {
    let listener = listener().await;
    for beginning in [
        "",
        "GET /connect HTTP/1.1\r\n",
        "GET /connect HTTP/1.1\r\nHost: localhost\r\nX",
    ] {
        let mut stream = TcpStream::connect(listener.address()).await.unwrap();
        stream.write_all(beginning.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // On a clock that the test's own waiting turns: the deadline is passed, not slept through.
        within(stream.read_to_end(&mut answer)).await.unwrap();
        assert!(!answer.starts_with(b"HTTP/1.1 101"));
    }
}
