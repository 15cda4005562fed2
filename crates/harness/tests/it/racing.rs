//! Answers that come together: one commit, and each accepted or not by itself.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bezel_context::Context;
use bezel_harness::{ChannelId, RequestChannel, SubmitError, ToolSet};
use bezel_session_types::{InvocationId, Message, SubmitOutcome};
use bezel_store::CommitError;
use futures::future::join_all;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::requests::{asking, channel};
use crate::support::{Model, Place, Session, call, calls, registration, says};

/// Asks so many things at once, every second one on the other channel.
fn asks_at_once(count: usize) -> Arc<Model> {
    Model::new(move |request, _| {
        let is_result = |message: &&Arc<Message>| matches!(***message, Message::ToolResult(_));
        match request.messages.iter().filter(is_result).count() {
            0 => calls((0..count).map(|number| {
                let tool = ["ask", "beg"][number % 2];
                call(&format!("c{number}"), tool, json!({ "q": number }))
            })),
            _ => says("Done."),
        }
    })
}

/// A session whose tools ask on two channels.
fn open(place: &Place, count: usize) -> (Session, [RequestChannel; 2]) {
    let session = place.open(&asks_at_once(count), vec![]);
    let others = session.harness.requests(
        ChannelId::new("begging", "others"),
        &json!(true),
        &json!(true),
    );
    let channels = [channel(&session), others.unwrap()];
    let [asks, begs] = channels.clone();
    let runs = Default::default();
    let tools = vec![
        registration("ask", asking(asks, &runs)),
        registration("beg", asking(begs, &runs)),
    ];
    session.harness.set_tools(Arc::new(ToolSet::new(tools)));
    (session, channels)
}

/// All that is asked, by its number, once there is as much.
async fn all_asked(channels: &[RequestChannel; 2], count: usize) -> Vec<InvocationId> {
    let mut asked = BTreeMap::new();
    for (offset, channel) in channels.iter().enumerate() {
        let wanted = (count + 1 - offset) / 2;
        let mut pending = channel.pending();
        let waiting = pending.wait_for(|waiting| waiting.len() == wanted).await;
        for waiting in waiting.unwrap().iter() {
            asked.insert(waiting.request["q"].as_u64().unwrap(), waiting.id.clone());
        }
    }
    asked.into_values().collect()
}

async fn submit(
    channel: &RequestChannel,
    id: &InvocationId,
    answer: &str,
) -> Result<SubmitOutcome, SubmitError> {
    let answer = json!({ "answer": answer });
    channel.submit(&Context::background(), id, answer).await
}

/// What each call was answered, by its number.
fn answered(session: &Session) -> BTreeMap<String, String> {
    let results = session.results().into_iter().map(|result| {
        let text = crate::support::text_of(&result.content);
        (result.call_id, text.trim_matches('"').to_owned())
    });
    results.collect()
}

/// The calls whose answers the journal tells of, in its order.
fn journal(session: &Session) -> Vec<String> {
    let rows = session.store.read(|queries| queries.journal(0, 10_000));
    let told = rows.unwrap().into_iter().filter_map(|row| {
        let of_answer = row.kind == "request_answered";
        of_answer.then(|| row.body["invocation"].as_str().unwrap().to_owned())
    });
    told.collect()
}

#[tokio::test]
async fn answers_that_come_together_are_one_commit_and_one_sync() {
    let place = Place::new();
    let (session, channels) = open(&place, 64);
    session.prompt("ask").await;
    let ids = all_asked(&channels, 64).await;
    let (commits, syncs) = (session.store.commits(), session.store.syncs());
    let answers = ids
        .iter()
        .enumerate()
        .map(|(number, id)| submit(&channels[number % 2], id, "yes"));
    for outcome in join_all(answers).await {
        assert_eq!(outcome.unwrap(), SubmitOutcome::Accepted);
    }
    // What the calls do next comes after all have heard.
    assert_eq!(session.store.commits() - commits, 1);
    assert_eq!(session.store.syncs() - syncs, 1);
    let in_order: Vec<String> = ids.iter().map(ToString::to_string).collect();
    assert_eq!(journal(&session), in_order);
    session.idle().await;
    assert_eq!(answered(&session).len(), 64);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_on_the_disk_fails_alone() {
    let place = Place::new();
    let (session, channels) = open(&place, 6);
    session.prompt("ask").await;
    let ids = all_asked(&channels, 6).await;
    session.store.limit_growth(100).unwrap();
    let long = "x".repeat(1 << 20);
    let words = ["one", long.as_str(), "three", "four"];
    // The long one comes first to its call: the short one after it is accepted, because it is not.
    let mut answers: Vec<_> = words
        .iter()
        .enumerate()
        .map(|(number, words)| (number, *words))
        .collect();
    answers.push((1, "short"));
    let submits = answers
        .iter()
        .map(|(number, words)| submit(&channels[number % 2], &ids[*number], words));
    let outcomes = join_all(submits).await;
    for ((number, words), outcome) in answers.iter().zip(&outcomes) {
        match words.len() > 100 {
            true => assert!(
                matches!(outcome, Err(SubmitError::Storage(CommitError::Full { .. }))),
                "{number}: {outcome:?}"
            ),
            false => assert!(
                matches!(outcome, Ok(SubmitOutcome::Accepted)),
                "{number}: {outcome:?}"
            ),
        }
    }
    for number in [4, 5] {
        let outcome = submit(&channels[number % 2], &ids[number], "later").await;
        assert_eq!(outcome.unwrap(), SubmitOutcome::Accepted);
    }
    session.idle().await;
    let expected = ["one", "short", "three", "four", "later", "later"];
    let answered: Vec<String> = answered(&session).into_values().collect();
    assert_eq!(answered, expected);
}

const REQUESTS: usize = 6;

/// An answer to the request with this number, on the channel with that.
type Said = (usize, usize);

#[derive(Debug, Clone)]
enum Deed {
    /// All at once.
    Answer(Vec<Said>),
    /// The process ends and another takes the session up.
    Die,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    // The last number is of no request.
    let said = (0..=REQUESTS, 0..2_usize);
    let deed = prop_oneof![
        5 => prop::collection::vec(said, 1..12).prop_map(Deed::Answer),
        1 => Just(Deed::Die),
    ];
    prop::collection::vec(deed, 1..6)
}

async fn as_if_one_after_another(deeds: Vec<Deed>) {
    let place = Place::new();
    let (mut session, mut channels) = open(&place, REQUESTS);
    session.prompt("ask").await;
    let mut ids = all_asked(&channels, REQUESTS).await;
    ids.push(InvocationId::new("of no call"));
    // The first answer to each on its own channel.
    let mut first: BTreeMap<usize, String> = BTreeMap::new();
    let mut in_order = Vec::new();
    let mut said = 0;
    let last: Vec<Said> = (0..REQUESTS).map(|number| (number, number % 2)).collect();
    for deed in deeds.into_iter().chain([Deed::Answer(last)]) {
        let Deed::Answer(batch) = deed else {
            session.harness.close().await;
            session.kill().await;
            // Nothing runs: who answers now answers before the replay.
            (session, channels) = open(&place, REQUESTS);
            continue;
        };
        let mut expected = Vec::new();
        let mut submits = Vec::new();
        for (number, channel) in batch {
            said += 1;
            let words = format!("answer {said}");
            let waits = number < REQUESTS && channel == number % 2 && !first.contains_key(&number);
            expected.push(match waits {
                true => SubmitOutcome::Accepted,
                false => SubmitOutcome::NotPending,
            });
            if waits {
                in_order.push(ids[number].to_string());
                first.insert(number, words.clone());
            }
            let (channel, id) = (&channels[channel], &ids[number]);
            submits.push(async move { submit(channel, id, &words).await.unwrap() });
        }
        assert_eq!(join_all(submits).await, expected);
    }
    session.lane.resume(&session.cx).await.unwrap();
    session.idle().await;
    assert_eq!(journal(&session), in_order);
    let expected = first
        .into_iter()
        .map(|(number, words)| (format!("c{number}"), words));
    assert_eq!(answered(&session), expected.collect());
    let left = session.store.read(|queries| queries.keys("memo/"));
    assert_eq!(left.unwrap(), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn answers_that_come_together_end_as_if_they_had_come_one_after_another(deeds in deeds()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(as_if_one_after_another(deeds));
    }
}

#[tokio::test]
async fn whatever_commit_is_the_last_an_answer_that_was_accepted_is_there_and_is_the_answer() {
    const COUNT: usize = 8;
    let whole = {
        let place = Place::new();
        let (session, channels) = open(&place, COUNT);
        session.prompt("ask").await;
        let ids = all_asked(&channels, COUNT).await;
        let before = session.store.commits();
        answer_all(&channels, &ids, "first").await;
        session.idle().await;
        session.store.commits() - before
    };
    assert!(whole > COUNT as u64, "{whole} commits");
    for stop in 0..=whole {
        let place = Place::new();
        let (session, channels) = open(&place, COUNT);
        session.prompt("ask").await;
        let ids = all_asked(&channels, COUNT).await;
        session.store.stop_after(stop);
        let outcomes = answer_all(&channels, &ids, "first").await;
        // All in one commit: all of them are there, or none.
        let accepted = outcomes.iter().filter(|accepted| **accepted).count();
        assert_eq!(accepted, if stop == 0 { 0 } else { COUNT }, "after {stop}");
        session.harness.close().await;
        session.kill().await;
        let (session, channels) = open(&place, COUNT);
        let again = answer_all(&channels, &ids, "second").await;
        session.lane.resume(&session.cx).await.unwrap();
        session.idle().await;
        for (number, (_, words)) in answered(&session).iter().enumerate() {
            let expected = if outcomes[number] { "first" } else { "second" };
            assert_eq!(words, expected, "{number} after {stop}");
            assert_ne!(outcomes[number], again[number], "{number} after {stop}");
        }
        assert_eq!(session.results().len(), COUNT, "after {stop}");
    }
}

/// Answers all at once; which were accepted.
async fn answer_all(
    channels: &[RequestChannel; 2],
    ids: &[InvocationId],
    words: &str,
) -> Vec<bool> {
    let submits = ids
        .iter()
        .enumerate()
        .map(|(number, id)| submit(&channels[number % 2], id, words));
    let outcomes = join_all(submits).await;
    let accepted = |outcome| matches!(outcome, Ok(SubmitOutcome::Accepted));
    outcomes.into_iter().map(accepted).collect()
}

const ROLE: &str = "BEZEL_HARNESS_TEST_RACE";
const RACERS: usize = 24;

/// In a process of its own: asks, answers all in a few batches, and says which answers were accepted.
#[tokio::test]
async fn a_process_that_is_answered_until_it_is_killed() {
    let Some(directory) = std::env::var_os(ROLE).map(PathBuf::from) else {
        return;
    };
    let (session, channels) = {
        let place = Place {
            directory: tempfile::TempDir::with_prefix_in("race", &directory).unwrap(),
        };
        println!("in {}", place.directory.path().display());
        let opened = open(&place, RACERS);
        // It stays for whoever looks at it.
        std::mem::forget(place);
        opened
    };
    session.prompt("ask").await;
    let ids = all_asked(&channels, RACERS).await;
    println!("ready");
    let answers = ids.iter().enumerate().map(|(number, id)| {
        let channel = &channels[number % 2];
        async move {
            for _ in 0..number / 8 {
                tokio::task::yield_now().await;
            }
            let words = format!("answer {number}");
            let outcome = submit(channel, id, &words).await.unwrap();
            assert_eq!(outcome, SubmitOutcome::Accepted);
            println!("accepted {id} {words}");
        }
    });
    join_all(answers).await;
    session.idle().await;
    println!("finished");
}

#[test]
fn an_answer_that_was_accepted_before_a_kill_is_there_after_it() {
    let place = Place::new();
    let (mut cut, mut found) = (0, 0);
    for round in 0_u64..24 {
        let name = "racing::a_process_that_is_answered_until_it_is_killed";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture", "--test-threads=1"])
            .env(ROLE, place.directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let mut lines = std::io::BufReader::new(output)
            .lines()
            .map_while(Result::ok);
        let directory = lines
            .find_map(|line| line.split_once("in /").map(|(_, path)| format!("/{path}")))
            .unwrap();
        assert!(lines.any(|line| line.contains("ready")));
        let patience = Duration::from_micros((round * 997) % 12_000);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(patience);
            // It may have finished by itself.
            drop(child.kill());
            child.wait().unwrap();
        });
        let told: Vec<String> = lines.collect();
        killer.join().unwrap();
        cut += u32::from(!told.iter().any(|line| line.contains("finished")));
        let database = PathBuf::from(directory).join("session.db");
        let reader = bezel_store::Reader::open(database).unwrap();
        let kept = reader.read(|queries| {
            let noted: Vec<(String, Value)> = queries.values("memo/")?;
            let entries = queries.entries_after(0, 10_000)?;
            Ok(format!("{noted:?} {entries:?}"))
        });
        let kept = kept.unwrap();
        for line in &told {
            let Some((_, accepted)) = line.split_once("accepted ") else {
                continue;
            };
            let (_, words) = accepted.split_once(' ').unwrap();
            assert!(kept.contains(words), "round {round}: {accepted} is lost");
            found += 1;
        }
    }
    assert!(cut >= 5, "only {cut} were killed at work");
    assert!(found >= 5, "only {found} answers were accepted");
}
