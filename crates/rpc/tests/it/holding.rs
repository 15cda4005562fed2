//! Whatever clients do with references, and wherever the connection breaks: the owner keeps exactly
//! what somebody holds.

use std::collections::BTreeSet;

use bezel_rpc::{Context, ErrorCode, ServiceClient, State};
use proptest::prelude::*;

use crate::jobs::{Depot, PenClient, ScannerClient};
use crate::stage::{Client, Medium, Stage, wait_until, within};

const CLIENTS: usize = 2;

#[derive(Debug, Clone)]
enum Step {
    Take,
    /// Copies a handle that is held.
    Clone(usize),
    /// Takes a state from a handle and drops the handle.
    Narrow(usize),
    /// Asks an object for another.
    Further(usize),
    Drop(usize),
    /// Gives a call up before its answer is read.
    GiveUp,
    Cut,
    Switch,
}

/// A handle, or a state taken from one.
#[derive(Clone)]
enum Handle {
    Pen(PenClient),
    Ink { _state: State<u32> },
}

/// What a client holds.
#[derive(Clone)]
struct Held {
    /// Equal for handles that lead to one object.
    object: usize,
    /// The attachment that it came over.
    attachment: usize,
    handle: Handle,
}

struct Player {
    client: Client,
    scanner: ScannerClient,
    attachment: usize,
    held: Vec<Held>,
}

impl Player {
    /// The objects that the owner has to keep for this client.
    fn objects(&self) -> usize {
        let current = self
            .held
            .iter()
            .filter(|held| held.attachment == self.attachment);
        current
            .map(|held| held.object)
            .collect::<BTreeSet<_>>()
            .len()
    }
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let step = prop_oneof![
        6 => Just(Step::Take),
        3 => any::<usize>().prop_map(Step::Clone),
        2 => any::<usize>().prop_map(Step::Narrow),
        3 => any::<usize>().prop_map(Step::Further),
        5 => any::<usize>().prop_map(Step::Drop),
        2 => Just(Step::GiveUp),
        1 => Just(Step::Cut),
        1 => Just(Step::Switch),
    ];
    (0..CLIENTS, step)
}

async fn attached(stage: &Stage, client: &Client) -> ScannerClient {
    client.connected().await;
    client.attach(stage, "S0").await;
    let attached = client.link.attached();
    wait_until("the scanner is known", || {
        attached.check::<ScannerClient>().is_ok()
    })
    .await;
    attached.use_service()
}

async fn run(steps: Vec<(usize, Step)>) -> Result<(), TestCaseError> {
    let stage = Stage::new(Medium::Loopback);
    let depot = Depot::new();
    let worker = stage.worker("S0").await;
    worker
        .table
        .provide(ScannerClient::new(depot.clone()).exposed())
        .expect("it is the first");
    let _other = stage.worker("S1").await;
    let cx = Context::background();
    let mut players = Vec::new();
    for _ in 0..CLIENTS {
        let client = stage.client("ann").await;
        players.push(Player {
            scanner: attached(&stage, &client).await,
            client,
            attachment: 0,
            held: Vec::new(),
        });
    }
    let mut objects = 0;
    for (who, step) in steps {
        let player = &mut players[who];
        let pick = |number: usize| (!player.held.is_empty()).then(|| number % player.held.len());
        match step {
            Step::Take => {
                objects += 1;
                let pen = within(player.scanner.pen(&cx)).await.expect("a pen");
                player.held.push(Held {
                    object: objects,
                    attachment: player.attachment,
                    handle: Handle::Pen(pen),
                });
            }
            Step::Clone(number) => {
                if let Some(at) = pick(number) {
                    let clone = player.held[at].clone();
                    player.held.push(clone);
                }
            }
            Step::Narrow(number) => {
                if let Some(held) = pick(number).map(|at| &mut player.held[at])
                    && let Handle::Pen(pen) = &held.handle
                {
                    held.handle = Handle::Ink { _state: pen.ink() };
                }
            }
            Step::Further(number) => {
                if let Some(held) = pick(number).map(|at| player.held[at].clone())
                    && let Handle::Pen(pen) = &held.handle
                {
                    match within(pen.copy(&cx)).await {
                        Ok(copy) => {
                            prop_assert_eq!(held.attachment, player.attachment);
                            objects += 1;
                            let handle = Handle::Pen(copy);
                            player.held.push(Held {
                                object: objects,
                                handle,
                                ..held
                            });
                        }
                        Err(error) => {
                            prop_assert_ne!(held.attachment, player.attachment);
                            prop_assert_eq!(error.code(), Some(ErrorCode::StaleReference));
                        }
                    }
                }
            }
            Step::Drop(number) => {
                if let Some(at) = pick(number) {
                    player.held.swap_remove(at);
                }
            }
            Step::GiveUp => {
                let mut call = Box::pin(player.scanner.pen(&cx));
                prop_assert!(futures::poll!(&mut call).is_pending());
            }
            Step::Cut => {
                player.client.tap.cut();
                let connection = player.client.link.connection();
                within(connection.wait_for(&cx, |state| !state.is_connected()))
                    .await
                    .expect("no deadline");
                player.attachment += 1;
                player.scanner = attached(&stage, &player.client).await;
            }
            Step::Switch => {
                player.client.attach(&stage, "S1").await;
                player.attachment += 1;
                player.scanner = attached(&stage, &player.client).await;
            }
        }
        let kept: usize = players.iter().map(Player::objects).sum();
        wait_until("the owner keeps what is held", || depot.pens() == kept).await;
    }
    for player in &players {
        for held in &player.held {
            let Handle::Pen(pen) = &held.handle else {
                continue;
            };
            let written = within(pen.write(&cx, "x".into())).await;
            if held.attachment == player.attachment {
                prop_assert_eq!(written, Ok(1));
            } else {
                let refused = written.expect_err("stale").code();
                prop_assert_eq!(refused, Some(ErrorCode::StaleReference));
            }
        }
    }
    for player in &mut players {
        player.held.clear();
    }
    wait_until("the owner keeps nothing", || depot.pens() == 0).await;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_owner_keeps_exactly_the_objects_that_somebody_holds(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
        runtime.block_on(run(steps))?;
    }
}
