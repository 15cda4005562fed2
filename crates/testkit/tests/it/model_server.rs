//! The fake model server, byte by byte.

use bezel_testkit::{FakeModelServer, Script, SeenPart, Step, Turn, WireFormat};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{head, post, send};

/// A path and the smallest request of each format that asks for text and has said "hello".
fn requests(stream: bool) -> [(WireFormat, &'static str, Value); 4] {
    let said = json!([{ "role": "user", "content": "hello" }]);
    let chat = json!({ "model": "m", "stream": stream, "messages": said });
    let responses = json!({ "model": "m", "stream": stream, "input": said });
    let method = if stream {
        "/v1beta/models/m:streamGenerateContent?alt=sse"
    } else {
        "/v1beta/models/m:generateContent"
    };
    let gemini = json!({ "contents": [{ "role": "user", "parts": [{ "text": "hello" }] }] });
    [
        (WireFormat::OpenAiChat, "/v1/chat/completions", chat.clone()),
        (WireFormat::OpenAiResponses, "/v1/responses", responses),
        (WireFormat::Anthropic, "/v1/messages", chat),
        (WireFormat::Gemini, method, gemini),
    ]
}

#[tokio::test]
async fn each_format_is_understood_and_answered_in_its_own_words() {
    for (stream, (format, path, body)) in [true, false]
        .into_iter()
        .flat_map(|stream| requests(stream).map(|request| (stream, request)))
    {
        let turn = Turn::text("hi there").then([Step::call("read", json!({ "path": "a" }))]);
        let server = FakeModelServer::start(turn).await.unwrap();
        let answered = post(server.address(), path, &body).await;
        assert_eq!(answered.status, 200);
        for part in ["there", "read", "path"] {
            assert!(
                answered.body.contains(part),
                "{format:?} {stream}: {part} in {}",
                answered.body
            );
        }
        assert_eq!(
            answered.head.contains("text/event-stream"),
            stream,
            "{format:?}"
        );
        let call = server.last_call();
        assert_eq!(
            (call.format, call.model.as_str(), call.stream),
            (Some(format), "m", stream)
        );
        assert_eq!(call.last_user_text(), "hello", "{format:?}");
        let record = &server.requests()[0];
        assert!(
            record.answered.is_some() && !record.closed_early,
            "{format:?}"
        );
    }
}

#[tokio::test]
async fn responses_are_streamed_with_their_full_sequence_of_events() {
    let steps = [
        Step::thinking("hm", Some("sig")),
        Step::Text("so".into()),
        Step::call("ls", json!({})),
    ];
    let server = FakeModelServer::start(Turn::steps(steps)).await.unwrap();
    let (_, path, body) = requests(true)[1].clone();
    let answered = post(server.address(), path, &body).await;
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(answered.events(), expected);
}

#[tokio::test]
async fn keys_and_models_are_checked_where_the_script_says_so() {
    for (format, path, body) in requests(true) {
        let script = Script::repeating(Turn::text("ok"))
            .with_key("k")
            .with_models(["other"]);
        let server = FakeModelServer::start(script).await.unwrap();
        let wrong = post(server.address(), path, &body).await;
        let refused = if format == WireFormat::Gemini {
            400
        } else {
            401
        };
        assert_eq!(wrong.status, refused, "{format:?}");
        let unknown = send(server.address(), "POST", path, &[("x-api-key", "k")], &body).await;
        assert_eq!(unknown.status, 404, "{format:?} {}", unknown.body);
        assert!(
            unknown.json()["error"]["message"]
                .as_str()
                .unwrap()
                .contains('m')
        );
    }
}

#[tokio::test]
async fn a_request_too_many_says_that_the_script_is_at_its_end() {
    for (format, path, body) in requests(true) {
        let server = FakeModelServer::start(Script::new([])).await.unwrap();
        let answered = post(server.address(), path, &body).await;
        assert_eq!(answered.status, 400);
        assert!(
            answered.body.contains("no more turns"),
            "{format:?} {}",
            answered.body
        );
        server.push(Turn::text("now"));
        assert_eq!(post(server.address(), path, &body).await.status, 200);
    }
}

#[tokio::test]
async fn a_script_can_answer_by_what_was_asked() {
    let script = Script::respond(|call| match call.last_results().as_slice() {
        [SeenPart::ToolResult { text, .. }] => Turn::text(&format!("it said {text}")),
        _ => Turn::tool_calls([("ls", json!({}))]),
    });
    let server = FakeModelServer::start(script).await.unwrap();
    let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "go" }] });
    let first = post(server.address(), "/v1/chat/completions", &body)
        .await
        .json();
    let call = first["choices"][0]["message"].clone();
    let id = call["tool_calls"][0]["id"].clone();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(call);
    messages.push(json!({ "role": "tool", "tool_call_id": id, "content": "a b" }));
    let second = post(server.address(), "/v1/chat/completions", &body)
        .await
        .json();
    assert_eq!(second["choices"][0]["message"]["content"], "it said a b");
}

#[tokio::test]
async fn a_cut_leaves_the_answer_without_its_end() {
    let server = FakeModelServer::start(Turn::steps([Step::Text("half".into()), Step::Cut]))
        .await
        .unwrap();
    let (_, path, body) = requests(true)[0].clone();
    let answered = post(server.address(), path, &body).await;
    assert!(answered.body.contains("half") && !answered.body.ends_with("0\r\n\r\n"));
    assert!(server.requests()[0].answered.is_none());
}

#[tokio::test]
async fn a_client_that_hangs_up_early_is_noticed() {
    let server = FakeModelServer::start(Turn::steps([Step::Text("first".into()), Step::Stall]))
        .await
        .unwrap();
    let (_, path, body) = requests(true)[0].clone();
    let body = body.to_string();
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream
        .write_all((head("POST", path, &[], body.len()) + &body).as_bytes())
        .await
        .unwrap();
    stream.read_u8().await.unwrap();
    assert!(!server.requests()[0].closed_early);
    drop(stream);
    assert!(server.wait_for_early_close(0).await.unwrap().closed_early);
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_is_told_to_go_on() {
    let server = FakeModelServer::start(Turn::text("ok")).await.unwrap();
    let (_, path, body) = requests(false)[0].clone();
    let body = body.to_string();
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let head = head("POST", path, &[("expect", "100-continue")], body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut told = [0; 25];
    stream.read_exact(&mut told).await.unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).await.unwrap();
    server.wait_for_requests(1).await.unwrap();
}

#[tokio::test]
async fn what_was_waited_for_in_vain_is_named_with_what_came() {
    let server = FakeModelServer::start(Turn::text("ok")).await.unwrap();
    let (_, path, body) = requests(false)[0].clone();
    post(server.address(), path, &body).await;
    tokio::time::pause();
    let error = server.wait_for_requests(2).await.unwrap_err().to_string();
    assert!(
        error.contains("2 requests") && error.contains("POST /v1/chat/completions"),
        "{error}"
    );
}
