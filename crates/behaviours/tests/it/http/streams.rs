//! Streams of states and events: nothing missed, nothing twice, and nobody waits for a slow reader.

use bezel_context::Context;
use bezel_rpc::path;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Http, Sent, Stream, getting};
use crate::probe::ProbeState;

/// What a reader knows of a state: what its stream says, as the document describes it.
#[derive(Default)]
struct Reader {
    revision: Option<u64>,
    value: Value,
}

impl Reader {
    fn take(&mut self, sent: &Sent) {
        let id = sent.id.expect("a revision");
        assert!(
            self.revision.is_none_or(|before| before < id),
            "{sent:?} came twice or late"
        );
        match sent.name.as_str() {
            "value" => self.value = sent.data.clone(),
            "patch" => {
                assert_eq!(
                    sent.data["base"].as_u64(),
                    self.revision,
                    "a change is missing"
                );
                for operation in sent.data["operations"].as_array().unwrap() {
                    apply(&mut self.value, operation);
                }
            }
            other => panic!("{other} is no event of a state"),
        }
        self.revision = Some(id);
    }
}

/// One operation of a patch, by the words of the document.
fn apply(value: &mut Value, operation: &Value) {
    let steps = operation[1].as_array().unwrap();
    let pointer: String = steps
        .iter()
        .map(|step| match step {
            Value::String(key) => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            index => format!("/{index}"),
        })
        .collect();
    match operation[0].as_str().unwrap() {
        "s" => match value.pointer_mut(&pointer) {
            Some(place) => *place = operation[2].clone(),
            None => panic!("{operation} adds a member, which this state never does"),
        },
        "a" => {
            let place = value.pointer_mut(&pointer).unwrap();
            *place = json!(format!(
                "{}{}",
                place.as_str().unwrap(),
                operation[2].as_str().unwrap()
            ));
        }
        other => panic!("{other} is no operation on this state"),
    }
}

#[derive(Debug, Clone)]
enum Step {
    Append(String),
    Count,
    Replace(String),
    /// Reads so many events that have come.
    Read(usize),
    /// Begins anew.
    Again,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => "[a-zé☃]{0,40}".prop_map(Step::Append),
        2 => Just(Step::Count),
        1 => "[a-z]{0,3000}".prop_map(Step::Replace),
        4 => (1..4_usize).prop_map(Step::Read),
        1 => Just(Step::Again),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_reader_ends_equal_to_the_owner_and_saw_only_what_the_owner_had(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(follow(steps));
    }
}

async fn follow(steps: Vec<Step>) {
    let http = Http::start().await;
    let session = http.session().await;
    let path = format!("/v1/sessions/{session}/probe/state");
    let cell = http.world.worker(&session).object.state.clone();
    let cx = Context::background();
    let mut had = vec![serde_json::to_value(&*cell.state().get()).unwrap()];
    let mut stream = http.stream("operator", &path).await;
    let mut reader = Reader::default();
    for step in steps {
        match step {
            Step::Append(text) => {
                cell.append(&cx, path!["text"], &text).unwrap();
            }
            Step::Count => cell.update(&cx, |state| state.count += 1),
            Step::Replace(text) => cell.update(&cx, |state| state.text = text),
            Step::Read(count) => {
                for _ in 0..count {
                    if reader.value == *had.last().unwrap() {
                        break;
                    }
                    reader.take(&stream.next().await.unwrap());
                    assert!(
                        had.contains(&reader.value),
                        "{} was never there",
                        reader.value
                    );
                }
            }
            Step::Again => {
                stream = http.stream("operator", &path).await;
                reader = Reader::default();
            }
        }
        had.push(serde_json::to_value(&*cell.state().get()).unwrap());
    }
    while reader.value != *had.last().unwrap() {
        reader.take(&stream.next().await.unwrap());
        assert!(
            had.contains(&reader.value),
            "{} was never there",
            reader.value
        );
    }
    let now = http.get("operator", &path).await;
    assert_eq!(now.body, reader.value);
}

#[tokio::test]
async fn opencode_37_a_slow_reader_of_a_state_gets_the_latest_value_and_costs_no_more_than_its_window()
 {
    let http = Http::start().await;
    let session = http.session().await;
    let path = format!("/v1/sessions/{session}/probe/state");
    let cell = http.world.worker(&session).object.state.clone();
    let cx = Context::background();
    let mut slow = http.stream("operator", &path).await;
    let mut quick = http.stream("another operator", &path).await;
    for count in 1..=200_u64 {
        // 20 MB in all.
        let text = count.to_string().repeat(40_000);
        cell.set(
            &cx,
            ProbeState {
                session: String::new(),
                count,
                text,
            },
        );
        let mut seen = 0;
        while seen < count {
            let sent = quick.next().await.unwrap();
            seen = match sent.name.as_str() {
                "value" => sent.data["count"].as_u64().unwrap(),
                _ => count,
            };
        }
    }
    let (mut events, mut bytes) = (0, 0);
    let mut reader = Reader::default();
    while reader.value["count"] != 200 {
        let sent = slow.next().await.unwrap();
        events += 1;
        bytes += sent.data.to_string().len();
        reader.take(&sent);
    }
    assert!(
        events < 20 && bytes < 2_000_000,
        "{events} events of {bytes} bytes"
    );
}

#[tokio::test]
async fn every_event_comes_once_and_in_order_or_is_counted_as_lost_in_its_place() {
    let http = Http::start().await;
    let session = http.session().await;
    let path = format!("/v1/sessions/{session}/probe/events");
    let source = http.world.worker(&session).object.events.clone();
    let cx = Context::background();
    let mut stream = http.stream("operator", &path).await;
    assert_eq!(stream.next().await.unwrap().name, "open");
    for number in 0..100_u64 {
        source.emit(&cx, number);
    }
    for number in 0..100_u64 {
        let sent = stream.next().await.unwrap();
        assert_eq!(
            (sent.name.as_str(), sent.id, sent.data),
            ("event", Some(number + 1), json!(number))
        );
    }
    // Nobody reads while these come.
    const MANY: u64 = 200_000;
    for number in 0..MANY {
        source.emit(&cx, number);
    }
    let (mut expected, mut lost) = (0, 0);
    while expected < MANY {
        let sent = stream.next().await.unwrap();
        match sent.name.as_str() {
            "event" => {
                assert_eq!(sent.data, json!(expected));
                expected += 1;
            }
            "lost" => {
                let count = sent.data["count"].as_u64().unwrap();
                expected += count;
                lost += count;
            }
            other => panic!("{other}: {sent:?}"),
        }
    }
    assert!(lost > 0 && expected == MANY, "{lost} of {MANY} were lost");
}

#[tokio::test]
async fn a_stream_of_events_that_is_asked_for_again_says_that_some_may_be_missing() {
    let http = Http::start().await;
    let path = "/v1/server/session-directory/events";
    let request = getting("operator", path).header("last-event-id", "7");
    let (response, _) = http
        .request(request.body(axum::body::Body::empty()).unwrap())
        .await;
    let mut stream = Stream::of(response);
    assert_eq!(stream.next().await.unwrap().name, "open");
    let lost = stream.next().await.unwrap();
    assert_eq!(
        (lost.name.as_str(), lost.data),
        ("lost", json!({ "count": null }))
    );
    let session = http.session().await;
    let created = stream.next().await.unwrap();
    assert_eq!(created.data["type"], "created");
    assert_eq!(created.data["session"]["session_id"], session.as_str());
}

#[tokio::test]
async fn a_stream_ends_with_its_reason_when_the_worker_dies_and_the_next_one_finds_another() {
    let http = Http::start().await;
    let session = http.session().await;
    let path = format!("/v1/sessions/{session}/probe/state");
    let mut stream = http.stream("operator", &path).await;
    assert_eq!(
        stream.next().await.unwrap().data["session"],
        session.as_str()
    );
    http.world.worker(&session).kill();
    let closed = stream.next().await.unwrap();
    assert_eq!(
        (closed.name.as_str(), &closed.data["code"]),
        ("closed", &json!("session_unavailable"))
    );
    assert_eq!(stream.next().await, None);
    let mut stream = http.stream("operator", &path).await;
    assert_eq!(stream.next().await.unwrap().name, "value");
}

#[tokio::test]
async fn a_token_has_no_more_streams_than_any_client_has_subscriptions() {
    let http = Http::start().await;
    let session = http.session().await;
    let path = format!("/v1/sessions/{session}/probe/state");
    let mut streams = Vec::new();
    for _ in 0..1024 {
        streams.push(http.stream("operator", &path).await);
    }
    let beyond = http.get("operator", &path).await;
    assert_eq!((beyond.status, beyond.code()), (429, "resource_exhausted"));
    assert_eq!(http.get("another operator", &path).await.status, 200);
    streams.pop();
    let mut free = false;
    for _ in 0..100 {
        free = http.get("operator", &path).await.status == 200;
        if free {
            break;
        }
    }
    assert!(free);
}
