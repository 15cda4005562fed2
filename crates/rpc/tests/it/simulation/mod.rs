//! A whole world on a network that delays, cuts and loses: clients, a server, workers, all at once.
//!
//! The seed of a failure is printed; `BEZEL_SIMULATION=17` runs that one alone, `BEZEL_SIMULATION=0..5000`
//! a range. A seed fixes the network and what everybody does; retry jitter and map order are the product's own.

mod actor;
mod frames;
pub mod ledger;
mod network;
mod random;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bezel_context::TaskScope;
use bezel_rpc::{Acceptor, Context, Limits, Link, Role, Router, ServiceClient, ServiceTable};
use futures::future::join_all;

use crate::stage::{Doorman, hello};
use actor::Actor;
use frames::Frames;
use ledger::{Entered, LedgerClient, Owner};
use network::Network;
use random::Random;

const CLIENTS: usize = 3;
const TARGETS: [&str; 2] = ["S0", "S1"];
const SEEDS: Range<u64> = 0..150;

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("BEZEL_SIMULATION") else {
        return SEEDS;
    };
    let number = |text: &str| text.trim().parse::<u64>().expect("a seed is a number");
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&text)..number(&text) + 1,
    }
}

#[test]
fn whatever_the_network_does_calls_run_once_and_replicas_converge_and_nothing_is_left() {
    let mut sum = actor::Tally::default();
    for seed in seeds() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let world = AssertUnwindSafe(|| runtime.block_on(run(seed)));
        match catch_unwind(world) {
            Ok(tally) => sum += tally,
            Err(panic) => {
                eprintln!("the simulation failed with BEZEL_SIMULATION={seed}");
                resume_unwind(panic);
            }
        }
    }
    // Over a range of seeds everything that can happen did.
    if seeds().end - seeds().start >= 100 {
        assert!(
            sum.answered > 100 && sum.failed > 100 && sum.abandoned > 100,
            "{sum:?}"
        );
        assert!(sum.observed > 1000 && sum.noted > 100, "{sum:?}");
    }
}

/// Waits in simulated time.
async fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what}: it did not come true");
}

async fn run(seed: u64) -> actor::Tally {
    let tasks = tokio::runtime::Handle::current().metrics();
    let random = Random::new(seed);
    let frames = Frames::default();
    let network = Network::new(random.fork(), frames.watch());
    let entered = Entered::default();
    let scope = TaskScope::new();
    let router = Router::new();

    let server = Owner::new("server", &entered);
    let table = table_of(&server);
    let acceptor = Acceptor::new(
        table.clone(),
        Arc::new(Doorman),
        router.clone(),
        Limits {
            // Small, so that windows close and calls run out.
            calls: 6,
            window: 4000,
            ..Limits::default()
        },
    );
    let connect = network.dial(&acceptor);
    let targets: Vec<Owner> = TARGETS
        .iter()
        .map(|name| Owner::new(name, &entered))
        .collect();
    let workers: Vec<Link> = targets
        .iter()
        .map(|owner| {
            let hello = hello(Role::Worker, &format!("worker:{}", owner.name));
            Link::start(
                &scope.spawner(),
                Arc::clone(&connect),
                hello,
                table_of(owner),
            )
        })
        .collect();
    let actors: Vec<Actor> = (0..CLIENTS)
        .map(|number| {
            let link = Link::start(
                &scope.spawner(),
                Arc::clone(&connect),
                hello(Role::Presentation, "ann"),
                ServiceTable::new(),
            );
            Actor::new(number, link, router.clone(), random.fork(), &entered)
        })
        .collect();

    let owners: Vec<&Owner> = targets.iter().chain([&server]).collect();
    let acting = join_all(actors.iter().map(Actor::act));
    let changing = async {
        for _ in 0..40 + random.below(60) {
            owners[random.below(owners.len() as u64) as usize].change(&random);
            tokio::time::sleep(random.milliseconds(25)).await;
        }
    };
    let disturbing = async {
        let random = random.fork();
        for _ in 0..random.below(12) {
            tokio::time::sleep(random.milliseconds(300)).await;
            network.disturb();
        }
    };
    let all = futures::future::join3(acting, changing, disturbing);
    tokio::time::timeout(Duration::from_secs(3600), all)
        .await
        .expect("nobody waits for ever");
    network.heal();

    for actor in &actors {
        actor.converge(&owners).await;
    }
    for owner in &owners {
        let running = || owner.running.load(Ordering::SeqCst) == 0;
        eventually("every invocation has ended", running).await;
    }
    let mut sum = actor::Tally::default();
    for actor in &actors {
        sum += actor.check(&owners);
    }

    assert_eq!(frames.violations(), Vec::<String>::new());

    // Nobody follows any more, so nothing is sent.
    for actor in &actors {
        actor.unfollow();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    frames.forget();
    for owner in &owners {
        for _ in 0..6 {
            owner.change(&random);
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(frames.pushed(), 0, "a subscription outlived its subscriber");

    for actor in &actors {
        actor.link.stop().await;
    }
    eventually("the server sees the clients go", || {
        router.client_count() == 0
    })
    .await;
    for worker in &workers {
        worker.stop().await;
    }
    eventually("the server sees the workers go", || {
        router.workers().is_empty()
    })
    .await;
    acceptor.shutdown(Duration::from_secs(60)).await;
    drop((actors, workers, acceptor, connect));
    let overran = scope.shutdown(Duration::from_secs(60)).await;
    assert!(overran.is_empty(), "{overran:?}");
    eventually("every task has ended", || tasks.num_alive_tasks() == 0).await;
    assert!(Arc::strong_count(&network) == 1, "something still dials");
    sum
}

fn table_of(owner: &Owner) -> ServiceTable {
    let table = ServiceTable::new();
    table
        .provide(LedgerClient::new(owner.clone()).exposed())
        .expect("it is the first");
    table.activate();
    table
}

/// A context of an operation that may be given up at any time.
fn hurried(random: &Random) -> Context {
    match random.below(3) {
        0 => Context::background().with_timeout(random.milliseconds(60)),
        _ => Context::background(),
    }
}
