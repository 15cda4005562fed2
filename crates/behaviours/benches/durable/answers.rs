//! An answer over all hops, on the disk before it is acknowledged; and 64 that race.

use std::collections::HashSet;
use std::time::Instant;

use bezel_question_contract::{PendingQuestion, QuestionResponse, QuestionsClient};
use bezel_rpc::State;
use bezel_session_types::{InvocationId, PendingRequest, SubmitOutcome};
use serde_json::{Value, json};

use crate::bare::Bare;
use crate::contract::AskingClient;
use crate::process::{Client, Server, cx, runtime, scratch};
use crate::{Result, figure};

/// Questions of a round that are answered one after another.
const QUESTIONS: u32 = 150;
/// Answers that race, and how often in a round.
const RACERS: u32 = 64;
const RACES: usize = 12;

const ANSWER: QuestionResponse = QuestionResponse::Selected { index: 1 };

#[derive(Default)]
struct Samples {
    answer: Vec<f64>,
    echo: Vec<f64>,
    commit: Vec<f64>,
    race: Vec<f64>,
    batch: Vec<f64>,
    echoes: Vec<f64>,
}

pub fn run(rounds: usize) -> Result<Vec<Value>> {
    let folder = scratch()?;
    let server = Server::start(folder.path())?;
    let mut bare = Bare::open(&folder.path().join("bare.db"))?;
    let mut rows: [Vec<f64>; 6] = Default::default();
    runtime()?.block_on(async {
        let client = Client::connect(&server).await?;
        client.session_in(folder.path()).await?;
        for round in 0..=rounds {
            let mut samples = Samples::default();
            one_by_one(&client, &mut bare, &mut samples).await?;
            for _ in 0..RACES {
                race(&client, &mut bare, &mut samples).await?;
            }
            // The first warms everything up. Every answer and every race counts by itself, beside what it is compared
            // with and was measured just before: syncs are short or long by turns, and middles of each alone tell
            // which of the two were more.
            if round > 0 {
                let Samples {
                    answer,
                    echo,
                    commit,
                    race,
                    batch,
                    echoes,
                } = samples;
                let all = [answer, echo, commit, race, batch, echoes];
                for (row, samples) in rows.iter_mut().zip(all) {
                    row.extend(samples);
                }
            }
        }
        Ok::<(), crate::Error>(())
    })?;
    let microseconds = |index: usize| rows[index].iter().map(|s| s * 1e6).collect::<Vec<f64>>();
    let [answer, echo, commit] = [0, 1, 2].map(microseconds);
    let limit: Vec<f64> = commit.iter().zip(&echo).map(|(c, e)| c + e).collect();
    let rate = |index: usize| {
        let per_second = |s: &f64| f64::from(RACERS) / s;
        rows[index].iter().map(per_second).collect::<Vec<f64>>()
    };
    Ok(vec![
        figure(
            "an answer over all hops, on the disk, p50",
            "µs",
            &answer,
            Some((
                "a bare synced commit of its rows and an echo over the same hops",
                &limit,
            )),
            json!({ "at_most_times": 1.2 }),
        ),
        figure(
            "of that the bare synced commit",
            "µs",
            &commit,
            None,
            json!("shown"),
        ),
        figure("of that the echo", "µs", &echo, None, json!("shown")),
        figure(
            "64 racing answers, over all hops",
            "answers/s",
            &rate(3),
            Some(("the rows of 64 answers in one synced commit", &rate(4))),
            json!({ "at_least_times": 0.5 }),
        ),
        figure(
            "64 echoes at once, over the same hops",
            "echoes/s",
            &rate(5),
            None,
            json!("shown"),
        ),
    ])
}

/// The first request that is not among those that were answered.
async fn next(
    pending: &State<Vec<PendingQuestion>>,
    answered: &HashSet<InvocationId>,
) -> Result<InvocationId> {
    let fresh =
        |waiting: &Vec<PendingQuestion>| waiting.iter().any(|asked| !answered.contains(&asked.id));
    let waiting = pending.wait_for(&cx(), fresh).await?;
    let found = waiting.iter().find(|asked| !answered.contains(&asked.id));
    Ok(found.ok_or("it was there")?.id.clone())
}

async fn one_by_one(client: &Client, bare: &mut Bare, samples: &mut Samples) -> Result<()> {
    let asking: AskingClient = client.link.attached().use_service();
    let questions: QuestionsClient = client.link.attached().use_service();
    let pending = questions.pending();
    let mut answered = HashSet::new();
    let answer = serde_json::to_string(&ANSWER)?;
    asking.begin(&cx(), QUESTIONS, false).await?;
    for _ in 0..QUESTIONS {
        let id = next(&pending, &answered).await?;
        let cx = cx();
        let started = Instant::now();
        asking.echo(&cx, id.clone(), ANSWER).await?;
        samples.echo.push(started.elapsed().as_secs_f64());
        let fact = fact(&id);
        let started = Instant::now();
        bare.answers(1, &answer, &fact)?;
        samples.commit.push(started.elapsed().as_secs_f64());
        let started = Instant::now();
        let outcome = questions.submit_answer(&cx, id.clone(), ANSWER).await?;
        samples.answer.push(started.elapsed().as_secs_f64());
        accepted(outcome)?;
        answered.insert(id);
    }
    asking.settled(&cx()).await?;
    Ok(())
}

async fn race(client: &Client, bare: &mut Bare, samples: &mut Samples) -> Result<()> {
    let asking: AskingClient = client.link.attached().use_service();
    asking.begin(&cx(), RACERS, true).await?;
    let all = |waiting: &Vec<PendingRequest<String>>| waiting.len() == RACERS as usize;
    let waiting = asking.pending().wait_for(&cx(), all).await?;
    let answer = serde_json::to_string(&ANSWER)?;
    let fact = waiting
        .first()
        .map_or_else(String::new, |asked| fact(&asked.id));
    let started = Instant::now();
    bare.answers(RACERS as usize, &answer, &fact)?;
    samples.batch.push(started.elapsed().as_secs_f64());
    let cx = cx();
    let started = Instant::now();
    let echoes = waiting
        .iter()
        .map(|asked| asking.echo(&cx, asked.id.clone(), ANSWER));
    let echoed = futures::future::join_all(echoes).await;
    samples.echoes.push(started.elapsed().as_secs_f64());
    for echoed in echoed {
        echoed?;
    }
    let started = Instant::now();
    let submits = waiting
        .iter()
        .map(|asked| asking.answer(&cx, asked.id.clone(), ANSWER));
    let outcomes = futures::future::join_all(submits).await;
    samples.race.push(started.elapsed().as_secs_f64());
    for outcome in outcomes {
        accepted(outcome?)?;
    }
    asking.settled(&cx).await?;
    Ok(())
}

/// What a journal is told of an answer.
fn fact(id: &InvocationId) -> String {
    json!({ "lane": "main", "operation": "01928374650192837465", "invocation": id,
            "channel": "question/questions" })
    .to_string()
}

fn accepted(outcome: SubmitOutcome) -> Result<()> {
    match outcome {
        SubmitOutcome::Accepted => Ok(()),
        other => Err(format!("an answer came to {other:?}").into()),
    }
}
