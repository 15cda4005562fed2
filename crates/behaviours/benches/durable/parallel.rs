//! Forty sessions of one server that stream at once, against one: the product's own processes.

use std::collections::HashMap;
use std::time::Duration;

use bezel_chat_contract::ChatClient;
use bezel_testkit::{FakeModelServer, Script, Step, Turn};
use bezel_transcript_contract::{TranscriptClient, TranscriptState};
use futures::future::{join_all, try_join_all};
use serde_json::{Value, json};

use crate::home::{Home, say};
use crate::process::{Client, cx, runtime};
use crate::{Product, Result, figure};

const SESSIONS: usize = 40;
/// Words of an answer and the pause after each, as a model speaks.
const WORDS: usize = 300;
const PAUSE: Duration = Duration::from_millis(5);

pub fn run(rounds: usize, product: &Product<'_>) -> Result<Vec<Value>> {
    let (mut together, mut alone) = (Vec::new(), Vec::new());
    runtime()?.block_on(async {
        let words = (0..WORDS).flat_map(|_| [Step::Text("word ".into()), Step::delay(PAUSE)]);
        let model = FakeModelServer::start(Script::repeating(Turn::steps(words))).await?;
        let home = Home::start(product, &model.address().port().to_string())?;
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            let client = home.client().await?;
            client.session_in(&home.project()?).await?;
            sessions.push(Watching::new(client));
        }
        for round in 0..=rounds {
            let one = turn(&home, &sessions[..1], round * 2).await?;
            let all = turn(&home, &sessions, round * 2 + 1).await?;
            // The first warms everything up.
            if round > 0 {
                together.push(all * 1e3);
                alone.push(one * 1e3 * SESSIONS as f64);
            }
        }
        join_all(sessions.iter().map(|session| session.client.link.stop())).await;
        Ok::<(), crate::Error>(())
    })?;
    Ok(vec![figure(
        "40 sessions stream at once, processor time of server and workers",
        "ms",
        &together,
        Some(("40 times one of them alone", &alone)),
        json!({ "at_most_times": 1.2 }),
    )])
}

/// A session whose transcript somebody has open.
struct Watching {
    client: Client,
    chat: ChatClient,
    transcript: bezel_rpc::State<TranscriptState>,
}

impl Watching {
    fn new(client: Client) -> Self {
        let transcript: TranscriptClient = client.link.attached().use_service();
        Watching {
            chat: client.link.attached().use_service(),
            transcript: transcript.state(),
            client,
        }
    }
}

/// Processor seconds of all processes of the home while these sessions take a turn at once.
async fn turn(home: &Home, sessions: &[Watching], number: usize) -> Result<f64> {
    try_join_all(sessions.iter().map(async |session| {
        session.transcript.ready(&cx()).await?;
        Ok::<(), crate::Error>(())
    }))
    .await?;
    let before = processor(home)?;
    try_join_all(sessions.iter().map(async |session| {
        say(&session.chat, &format!("turn-{number}")).await?;
        session.chat.wait_idle(&cx()).await?;
        Ok::<(), crate::Error>(())
    }))
    .await?;
    let after = processor(home)?;
    let spent = after
        .iter()
        .map(|(thread, time)| time - before.get(thread).copied().unwrap_or_default());
    Ok(spent.sum::<u64>() as f64 / 1e9)
}

/// What each thread of the home's processes has spent on a processor, in nanoseconds.
fn processor(home: &Home) -> Result<HashMap<String, u64>> {
    let mut spent = HashMap::new();
    for process in home.processes()? {
        for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
            let path = thread?.path().join("schedstat");
            // One that ends meanwhile has none.
            let told = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some(time) = told.split(' ').next().and_then(|time| time.parse().ok()) {
                spent.insert(path.to_string_lossy().into_owned(), time);
            }
        }
    }
    Ok(spent)
}
