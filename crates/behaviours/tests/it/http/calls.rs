//! Requests that are calls: what they answer, what they are refused, how they end.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use bezel_context::Context;
use serde_json::{Value, json};

use super::{Http, getting, posting};
use crate::world::wait_until;

#[tokio::test]
async fn a_call_reaches_the_session_that_its_path_names_and_starts_its_worker() {
    let http = Http::start().await;
    let session = http.session().await;
    let path = format!("/v1/sessions/{session}/probe/echo");
    let answer = http.post("operator", &path, json!({ "text": "hi" })).await;
    let expected = json!(format!("{session}: hi"));
    assert_eq!((answer.status, answer.body), (200, expected));
    // Its worker dies, and another is there for whoever asks next.
    let first = http.world.worker(&session);
    first.kill();
    let mut restarted = false;
    for _ in 0..200 {
        let answer = http
            .post("operator", &path, json!({ "text": "again" }))
            .await;
        match answer.status {
            200 => {
                restarted = true;
                break;
            }
            // Asked before the server knew of the death.
            503 => {}
            _ => panic!("{answer:?}"),
        }
    }
    assert!(restarted);
    let second = http.world.worker(&session);
    assert!(!std::sync::Arc::ptr_eq(&first, &second));
    assert_eq!(
        first
            .object
            .called
            .load(std::sync::atomic::Ordering::SeqCst),
        1
    );
}

#[tokio::test]
async fn what_fails_has_the_status_of_its_code_and_the_body_of_the_wire() {
    let http = Http::start().await;
    let session = http.session().await;
    let probe = |member: &str| format!("/v1/sessions/{session}/probe/{member}");
    let management = |member: &str| format!("/v1/server/session-management/{member}");
    let deep = (0..80).fold(Value::Null, |inner, _| json!([inner]));
    for (path, arguments, status, code) in [
        (probe("echo"), json!({}), 400, "invalid_arguments"),
        (
            probe("echo"),
            json!({ "text": 1 }),
            400,
            "invalid_arguments",
        ),
        (probe("echo"), json!(["hi"]), 400, "invalid_arguments"),
        (
            probe("echo"),
            json!({ "text": "hi", "more": deep }),
            400,
            "invalid_arguments",
        ),
        (probe("explode"), json!({}), 500, "internal"),
        (probe("nothing"), json!({}), 404, "unknown_member"),
        // It answers with an object, which has no place here.
        (probe("work"), json!({}), 404, "unknown_member"),
        (probe("state"), json!({}), 405, "unknown_member"),
        (
            format!("/v1/sessions/{session}/nothing/at_all"),
            json!({}),
            404,
            "unknown_service",
        ),
        (
            format!("/v1/sessions/{session}/server/stop"),
            json!({}),
            404,
            "unknown_service",
        ),
        (management("attach"), json!({}), 404, "unknown_member"),
        (
            management("create"),
            json!({ "options": { "directory": "/nowhere" } }),
            422,
            "directory",
        ),
        (
            management("rename"),
            json!({ "session_id": "nobody", "title": "t" }),
            403,
            "not_authorized",
        ),
        (
            "/v1/sessions/nobody/probe/echo".into(),
            json!({ "text": "" }),
            403,
            "not_authorized",
        ),
        (
            "/v1/sessions/%2e%2e/probe/echo".into(),
            json!({ "text": "" }),
            403,
            "not_authorized",
        ),
        (
            "/v1/server/server/stop".into(),
            json!({}),
            403,
            "not_authorized",
        ),
        ("/v1".into(), json!({}), 404, "unknown_service"),
    ] {
        let answer = http.post("operator", &path, arguments).await;
        assert_eq!(
            (answer.status, answer.code()),
            (status, code),
            "{path}: {answer:?}"
        );
        assert!(answer.body["message"].is_string(), "{path}");
        assert_eq!(
            answer.headers.contains_key("allow"),
            status == 405,
            "{path}"
        );
    }
    let nowhere = json!({ "options": { "directory": "/nowhere" } });
    let refused = http.post("operator", &management("create"), nowhere).await;
    assert_eq!(refused.body["data"]["directory"], "/nowhere");
    let internal = http.post("operator", &probe("explode"), json!({})).await;
    assert!(!internal.body.to_string().contains("recipe"));
}

#[tokio::test]
async fn a_body_is_one_strict_json_object_and_says_so() {
    let http = Http::start().await;
    let session = http.session().await;
    let path = format!("/v1/sessions/{session}/probe/echo");
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(16 * 1024 * 1024));
    for (media_type, body, status, code) in [
        (
            "application/json",
            "{\"text\":\"a\",\"text\":\"b\"}",
            400,
            "invalid_arguments",
        ),
        (
            "application/json",
            "{\"text\":\"a\"} {}",
            400,
            "invalid_arguments",
        ),
        (
            "application/json",
            "{\"text\":\"a\",\"n\":9007199254740993}",
            400,
            "invalid_arguments",
        ),
        (
            "application/json",
            "{\"text\":NaN}",
            400,
            "invalid_arguments",
        ),
        ("application/json", "{", 400, "invalid_arguments"),
        ("application/json", &large, 413, "frame_too_large"),
        ("text/plain", "{\"text\":\"a\"}", 415, "invalid_arguments"),
        (
            "application/x-www-form-urlencoded",
            "text=a",
            415,
            "invalid_arguments",
        ),
        ("application/json", " {\n \"text\": \"a\"\n} ", 200, ""),
    ] {
        let request = getting("operator", &path)
            .method("POST")
            .header("content-type", media_type)
            .body(Body::from(body.to_owned()));
        let answer = http.send(request.unwrap()).await;
        let shown: String = body.chars().take(40).collect();
        assert_eq!((answer.status, answer.code()), (status, code), "{shown}");
    }
    // Nothing at all is no arguments.
    let request = getting("operator", &format!("/v1/sessions/{session}/probe/whoami"));
    let answer = http.send(request.method("POST").body(Body::empty()).unwrap());
    assert_eq!(answer.await.status, 200);
}

#[tokio::test]
async fn nobody_without_a_good_token_is_let_in_and_what_a_token_may_not_do_is_told_apart() {
    let http = Http::start().await;
    let session = http.session().await;
    let echo = format!("/v1/sessions/{session}/probe/echo");
    let directory = "/v1/server/session-directory/state";
    for authorization in [
        None,
        Some("Bearer wrong"),
        Some("Basic b3BlcmF0b3I6"),
        Some("operator"),
    ] {
        let mut request = Request::builder()
            .uri(directory)
            .header("cookie", "token=operator");
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        let (response, entered) = http.request(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), 401, "{authorization:?}");
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        assert!(!entered, "{authorization:?}");
    }
    // Who may only read sees the directory, and changes and enters nothing.
    let listed = http.get("reader", directory).await;
    assert_eq!(listed.status, 200);
    assert_eq!(listed.body["sessions"][0]["session_id"], session.as_str());
    for path in [&echo, "/v1/server/session-management/rename"] {
        let answer = http.post("reader", path, json!({})).await;
        assert_eq!(
            (answer.status, answer.code()),
            (403, "not_authorized"),
            "{path}"
        );
        assert!(!answer.headers.contains_key("www-authenticate"));
    }
    let state = http.get("operator", "/v1/server/access/state").await;
    assert_eq!((state.status, state.code()), (403, "not_authorized"));
}

#[tokio::test]
async fn a_token_that_is_bound_to_a_workspace_sees_nothing_of_another() {
    let http = Http::start().await;
    let local = http.world.client().await;
    let outside = local.create(&http.world.project("outside")).await;
    let inside = local.create(&http.world.project("inside")).await;
    let listed = local.directory.state();
    let both = listed
        .wait_for(&Context::background(), |state| state.sessions.len() == 2)
        .await
        .unwrap();
    let bound = both
        .sessions
        .iter()
        .find(|session| session.session_id == inside)
        .map(|session| session.workspace_id.clone());
    *http.world.workspace.lock().unwrap() = bound;
    let directory = http
        .get("paired", "/v1/server/session-directory/state")
        .await;
    let sessions = directory.body["sessions"].as_array().unwrap().clone();
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0]["session_id"], inside.as_str());
    let echo = |session: &str| format!("/v1/sessions/{session}/probe/echo");
    let text = json!({ "text": "hi" });
    let own = http
        .post("paired", &echo(inside.as_str()), text.clone())
        .await;
    assert_eq!(own.status, 200, "{own:?}");
    // One that is there and one that is not get the same answer.
    let mut answers = Vec::new();
    for session in [outside.as_str(), "00000000000000000000000000000000"] {
        let answer = http.post("paired", &echo(session), text.clone()).await;
        let body = answer.body.to_string().replace(session, "…");
        answers.push((answer.status, body));
    }
    assert_eq!(answers[0].0, 403);
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test]
async fn a_request_that_is_given_up_cancels_its_call_and_no_other() {
    let http = Http::start().await;
    let session = http.session().await;
    let path = format!("/v1/sessions/{session}/probe/hang");
    let mut given_up = Box::pin(http.post("operator", &path, json!({})));
    let mut kept = Box::pin(http.post("operator", &path, json!({})));
    let both = async {
        tokio::select! {
            _ = &mut given_up => panic!("it answered"),
            _ = &mut kept => panic!("it answered"),
            () = wait_until("both hang", || {
                http.world.worker(&session).object.hanging() == 2
            }) => {}
        }
    };
    both.await;
    drop(given_up);
    let object = &http.world.worker(&session).object;
    wait_until("one is cancelled", || object.hanging() == 1).await;
    drop(kept);
    wait_until("the other is, too", || object.hanging() == 0).await;
}

#[tokio::test]
async fn a_request_takes_no_longer_than_its_timeout_and_a_timeout_that_is_none_is_refused() {
    let http = Http::start().await;
    let session = http.session().await;
    let path = format!("/v1/sessions/{session}/probe/hang");
    let timed = |timeout: &str| {
        let mut request = posting("operator", &path, json!({}));
        let timeout = timeout.parse().unwrap();
        request.headers_mut().insert("bezel-timeout", timeout);
        request
    };
    let answer = http.send(timed("50")).await;
    assert_eq!((answer.status, answer.code()), (504, "deadline_exceeded"));
    let object = &http.world.worker(&session).object;
    wait_until("the call has ended", || object.hanging() == 0).await;
    let answer = http.send(timed("soon")).await;
    assert_eq!((answer.status, answer.code()), (400, "protocol"));
}

#[tokio::test]
async fn requests_with_one_token_are_one_client_and_keep_their_own_traces() {
    let http = Http::start().await;
    let session = http.session().await;
    let path = format!("/v1/sessions/{session}/probe/whoami");
    let mut clients = Vec::new();
    for (token, trace) in [
        ("operator", "0af7651916cd43dd8448eb211c80319c"),
        ("operator", "1af7651916cd43dd8448eb211c80319c"),
        ("another operator", "2af7651916cd43dd8448eb211c80319c"),
    ] {
        let mut request = posting(token, &path, json!({}));
        let parent = format!("00-{trace}-b7ad6b7169203331-01");
        request
            .headers_mut()
            .insert("traceparent", parent.parse().unwrap());
        let answer = http.send(request).await;
        assert_eq!(answer.body[2], trace);
        clients.push(answer.body[0].clone());
    }
    assert_eq!(clients[0], clients[1]);
    assert_ne!(clients[1], clients[2]);
}

#[tokio::test]
async fn a_code_is_traded_for_a_token_once_and_is_none_itself() {
    let http = Http::start().await;
    let directory = "/v1/server/session-directory/state";
    let pair = |code: String| {
        let body = json!({ "code": code }).to_string();
        let request = Request::builder().method("POST").uri("/v1/pair");
        let request = request.header("content-type", "application/json");
        http.send(request.body(Body::from(body)).unwrap())
    };
    let code = http.code().await;
    let paired = pair(code.clone()).await;
    assert_eq!(paired.status, 200, "{paired:?}");
    let token = paired.body["token"].as_str().unwrap().to_owned();
    assert_eq!(http.get(&token, directory).await.status, 200);
    let again = pair(code).await;
    assert_eq!((again.status, again.code()), (401, "not_authorized"));
    assert!(again.body.to_string().contains("used already"), "{again:?}");
    let code = http.code().await;
    let shown = http.get(&code, directory).await;
    assert_eq!(shown.status, 401);
    assert!(shown.body.to_string().contains("/v1/pair"), "{shown:?}");
    for (body, status) in [
        ("", 400),
        ("{}", 400),
        ("[\"x\"]", 400),
        ("{\"code\":1}", 400),
    ] {
        let request = Request::builder().method("POST").uri("/v1/pair");
        let request = request.header("content-type", "application/json");
        let answer = http.send(request.body(Body::from(body)).unwrap()).await;
        assert_eq!(answer.status, status, "{body}");
    }
}

#[tokio::test]
async fn a_client_whose_access_is_taken_back_is_out_at_once() {
    let http = Http::start().await;
    let code = http.code().await;
    let body = json!({ "code": code }).to_string();
    let request = Request::builder().method("POST").uri("/v1/pair");
    let request = request.header("content-type", "application/json");
    let paired = http.send(request.body(Body::from(body)).unwrap()).await;
    let token = paired.body["token"].as_str().unwrap().to_owned();
    let mut stream = http
        .stream(&token, "/v1/server/session-directory/events")
        .await;
    assert_eq!(stream.next().await.unwrap().name, "open");
    let local = http.world.client().await;
    let access: bezel_access_contract::AccessClient = local.link.server().use_service();
    let state = access.state();
    let listed = state
        .wait_for(&Context::background(), |state| !state.clients.is_empty())
        .await
        .unwrap();
    let id = listed.clients[0].id.clone();
    access.revoke(&Context::background(), id).await.unwrap();
    let closed = stream.next().await.unwrap();
    assert_eq!(
        (closed.name.as_str(), stream.next().await),
        ("closed", None)
    );
    let answer = http.get(&token, "/v1/server/session-directory/state").await;
    assert_eq!(answer.status, 401, "{answer:?}");
}

#[tokio::test]
async fn a_client_goes_a_while_after_its_last_request_and_not_while_it_reads_a_stream() {
    let http = Http::start().await;
    let directory = "/v1/server/session-directory/state";
    assert_eq!(http.get("operator", directory).await.status, 200);
    let stream = http.stream("another operator", directory).await;
    wait_until("both are there", || http.world.server.status().clients == 2).await;
    let clients = async |expected: u32| {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(61)).await;
        tokio::time::advance(Duration::from_secs(16)).await;
        tokio::time::resume();
        wait_until("some have gone", || {
            http.world.server.status().clients == expected
        })
        .await;
    };
    clients(1).await;
    drop(stream);
    clients(0).await;
    // Who comes again is let in again.
    assert_eq!(http.get("operator", directory).await.status, 200);
}
