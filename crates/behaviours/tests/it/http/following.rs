//! Following a session over HTTP: resumed where it was, an explicit gap where that cannot be, and an end.

use axum::body::Body;
use serde_json::{Value, json};

use super::{Http, Sent, Stream, getting};

/// The next event by its name.
async fn expect(stream: &mut Stream, name: &str) -> Sent {
    let sent = stream.next().await.expect("an event");
    assert_eq!(sent.name, name, "{sent:?}");
    sent
}

impl Http {
    async fn change(&self, member: &str, arguments: Value) {
        let path = format!("/v1/server/session-management/{member}");
        let answer = self.post("operator", &path, arguments).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    async fn resumed(&self, path: &str, cursor: &str) -> Stream {
        let request = getting("operator", path).header("last-event-id", cursor);
        let (response, _) = self.request(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), 200);
        Stream::of(response)
    }
}

#[tokio::test]
async fn a_session_is_followed_from_a_snapshot_on_and_resumed_at_a_cursor_until_it_is_deleted() {
    let http = Http::start().await;
    let session = http.session().await;
    let path = format!("/v1/sessions/{session}/events");
    let mut stream = http.stream("operator", &path).await;
    expect(&mut stream, "open").await;
    let snapshot = expect(&mut stream, "snapshot").await;
    assert_eq!(snapshot.data["session"]["session_id"], session.as_str());
    expect(&mut stream, "synced").await;
    let title = |title: &str| json!({ "session_id": session, "title": title });
    http.change("rename", title("One")).await;
    let one = expect(&mut stream, "session").await;
    assert_eq!(one.data["title"], "One");
    drop(stream);

    // What changed meanwhile is told to whoever comes back, the latest once.
    http.change("rename", title("Two")).await;
    http.change("rename", title("Three")).await;
    let mut stream = http.resumed(&path, one.cursor.as_deref().unwrap()).await;
    expect(&mut stream, "open").await;
    let three = expect(&mut stream, "session").await;
    assert_eq!(three.data["title"], "Three");
    expect(&mut stream, "synced").await;
    let mut again = http.resumed(&path, three.cursor.as_deref().unwrap()).await;
    expect(&mut again, "open").await;

    // A place that this session never came to.
    for unknown in ["977.0", "another%20one"] {
        let mut lost = http
            .stream("operator", &format!("{path}?after={unknown}"))
            .await;
        expect(&mut lost, "open").await;
        let gap = expect(&mut lost, "gap").await;
        assert_eq!(gap.data["session"]["title"], "Three");
    }
    http.change("remove", json!({ "session_id": session }))
        .await;
    for mut stream in [stream, again] {
        expect(&mut stream, "deleted").await;
        assert_eq!(stream.next().await, None);
    }
    let gone = http.get("operator", &path).await;
    assert_eq!((gone.status, gone.code()), (403, "not_authorized"));
}

#[tokio::test]
async fn a_filter_takes_its_own_fields_alone_and_says_which_they_are() {
    let http = Http::start().await;
    let path = "/v1/server/session-directory/list";
    let named = json!({ "query": { "text": "x", "limit": 3 } });
    assert_eq!(http.post("operator", path, named).await.status, 200);
    let wrong = json!({ "query": { "title": "x" } });
    let refused = http.post("operator", path, wrong).await;
    assert_eq!((refused.status, refused.code()), (400, "invalid_arguments"));
    let message = refused.body["message"].as_str().unwrap();
    for part in [
        "`query`",
        "`title`",
        "archived, children, directory",
        "text",
    ] {
        assert!(message.contains(part), "{message}");
    }
}
