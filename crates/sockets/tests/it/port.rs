//! Where a listener listens, to whom it answers, and TLS.

use std::net::Ipv4Addr;

use bezel_context::Context;
use bezel_rpc::ConnectError;
use bezel_sockets::{
    Endpoint, ListenError, Trust, WebSocketListener, WebSocketOptions, dial_websocket,
};

use crate::stage::{certificate, endpoint, frame, listener, recv, request, tls, within};

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[tokio::test]
async fn other_machines_are_not_listened_to_without_tls_unless_that_is_meant() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = WebSocketListener::bind(address, WebSocketOptions::default()).await;
        let error = refused.unwrap_err();
        assert!(matches!(error, ListenError::Insecure { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("--tls-cert") && text.contains("--allow-insecure"),
            "{text}"
        );
    }
    let meant = WebSocketOptions {
        allow_insecure: true,
        ..WebSocketOptions::default()
    };
    let listener = WebSocketListener::bind("0.0.0.0:0", meant).await.unwrap();
    assert_ne!(listener.address().port(), 0);
    // Where nothing leads outward it is the word for it.
    let port = format!(":{}", listener.address().port());
    let shown = listener.url().strip_suffix(&port).unwrap();
    let host = shown.strip_prefix("http://").unwrap();
    assert!(
        host == "HOST"
            || host
                .parse::<Ipv4Addr>()
                .is_ok_and(|ip| !ip.is_unspecified()),
        "{shown}"
    );
    for address in ["localhost", "127.0.0.1:port", ""] {
        let refused = WebSocketListener::bind(address, WebSocketOptions::default()).await;
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("HOST:PORT"), "{text}");
    }
    let (address, meant) = (
        listener.address().to_string(),
        WebSocketOptions {
            allow_insecure: true,
            ..WebSocketOptions::default()
        },
    );
    let taken = WebSocketListener::bind(&address, meant).await;
    assert!(matches!(taken, Err(ListenError::Io { .. })));
}

#[tokio::test]
async fn requests_under_a_foreign_name_or_from_a_foreign_page_get_403_and_no_connection() {
    let listener = listener().await;
    for (host, origin, status) in [
        ("evil.example", "", "403"),
        ("localhost", "Origin: http://evil.example\r\n", "403"),
        ("localhost", "Origin: null\r\n", "403"),
    ] {
        let text = format!("GET /connect HTTP/1.1\r\nHost: {host}\r\n{origin}{UPGRADE}\r\n");
        let answer = request(&listener, &text).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{host} {origin}: {answer}"
        );
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let failure: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(failure["code"], "not_authorized", "{answer}");
        assert!(failure["message"].is_string(), "{answer}");
    }
    let plain = request(&listener, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(
        plain.starts_with("HTTP/1.1 426") && plain.contains("bezel attach"),
        "{plain}"
    );
    let post = request(
        &listener,
        &format!("POST /connect HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}Content-Length: 0\r\n\r\n"),
    )
    .await;
    assert!(post.starts_with("HTTP/1.1 426"), "{post}");
    let hostless = request(&listener, "GET / HTTP/1.0\r\n\r\n").await;
    assert!(hostless.starts_with("HTTP/1.0 400"), "{hostless}");
}

#[tokio::test]
async fn a_dialler_that_is_refused_says_why_and_a_foreign_server_is_recognised() {
    let cx = Context::background();
    let plain = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", plain.local_addr().unwrap());
    let dial = dial_websocket(url.parse().unwrap(), None).unwrap();
    let serve = async {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        for answer in [
            "HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nnginx",
            "HTTP/1.1 403 Forbidden\r\ncontent-length: 16\r\n\r\n{\"message\":\"no\"}",
        ] {
            let (mut stream, _) = plain.accept().await.unwrap();
            let mut asked = [0; 4096];
            let read = stream.read(&mut asked).await.unwrap();
            assert!(asked[..read].starts_with(b"GET /connect HTTP/1.1"));
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    };
    let ask = async {
        (
            dial.connect(&cx).await.err().unwrap(),
            dial.connect(&cx).await.err().unwrap(),
        )
    };
    let ((foreign, refused), ()) = within(async { futures::join!(ask, serve) }).await;
    assert!(
        foreign.to_string().contains("no Bezel server (status 404)"),
        "{foreign}"
    );
    assert!(
        matches!(refused, ConnectError::Refused(ref refusal) if refusal.is_final() && refusal.message == "no"),
        "{refused}"
    );
    drop(plain);
    let gone = dial.connect(&cx).await.err().unwrap();
    assert!(gone.to_string().contains(&url), "{gone}");
}

#[tokio::test]
async fn tls_needs_a_certificate_that_the_client_believes_and_then_hides_everything() {
    let files = certificate();
    let options = WebSocketOptions {
        tls: Some(tls(&files)),
        ..WebSocketOptions::default()
    };
    let mut listener = WebSocketListener::bind("localhost:0", options)
        .await
        .unwrap();
    assert!(
        listener.url().starts_with("https://localhost:"),
        "{}",
        listener.url()
    );
    let cx = Context::background();
    let trust = Trust::system(Some(&files.path().join("cert.pem"))).unwrap();
    let dial = dial_websocket(endpoint(&listener), Some(trust.clone())).unwrap();
    let (dialled, accepted) =
        within(async { futures::join!(dial.connect(&cx), listener.accept()) }).await;
    let (client, mut server) = (dialled.unwrap(), accepted.unwrap().0);
    client.outgoing.send(frame("{\"k\":\"ping\"}", "")).unwrap();
    let got = futures::join!(crate::stage::finish(client), recv(&mut server)).1;
    assert_eq!(got.unwrap().unwrap(), frame("{\"k\":\"ping\"}", ""));
    // A name that the certificate does not have, a certificate that nobody vouches for, and no TLS at all.
    let other: Endpoint = format!("https://127.0.0.1:{}", listener.address().port())
        .parse()
        .unwrap();
    let wrong_name = dial_websocket(other, Some(trust))
        .unwrap()
        .connect(&cx)
        .await;
    let error = wrong_name.err().unwrap().to_string();
    assert!(error.contains("another name than 127.0.0.1"), "{error}");
    let files = certificate();
    let strangers = Trust::system(Some(&files.path().join("cert.pem"))).unwrap();
    let unknown = dial_websocket(endpoint(&listener), Some(strangers))
        .unwrap()
        .connect(&cx)
        .await;
    let error = unknown.err().unwrap().to_string();
    assert!(
        error.contains("vouches for its certificate") && error.contains("--ca"),
        "{error}"
    );
    let plain: Endpoint = format!("http://localhost:{}", listener.address().port())
        .parse()
        .unwrap();
    let plain = within(dial_websocket(plain, None).unwrap().connect(&cx)).await;
    assert!(matches!(plain, Err(ConnectError::Unreachable { .. })));
}

#[tokio::test]
async fn files_that_hold_no_certificate_or_no_key_are_named() {
    let files = certificate();
    let file = |name: &str| files.path().join(name);
    let swapped = bezel_sockets::ServerTls::read(&file("key.pem"), &file("cert.pem"));
    let text = swapped.unwrap_err().to_string();
    assert!(text.contains("key.pem") && text.contains("PEM"), "{text}");
    let other = certificate();
    let mixed = bezel_sockets::ServerTls::read(&file("cert.pem"), &other.path().join("key.pem"));
    let text = mixed.unwrap_err().to_string();
    assert!(
        text.contains("cert.pem") && text.contains("key.pem"),
        "{text}"
    );
    let missing = Trust::system(Some(&file("missing.pem")))
        .unwrap_err()
        .to_string();
    assert!(missing.contains("missing.pem"), "{missing}");
}
