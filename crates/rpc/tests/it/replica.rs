//! Whatever the owner does, and wherever the connection stalls or breaks: the replica sees only
//! values that the owner had, in their order, and ends equal.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_rpc::{Context, path};
use proptest::prelude::*;

use crate::contract::{ModelRef, ModelsState};
use crate::stage::{Medium, Stage, wait_until, within};

#[derive(Debug, Clone)]
enum Step {
    Append(String),
    Update {
        notes: String,
        selected: Option<u8>,
    },
    Splice {
        index: usize,
        delete: usize,
        items: Vec<u8>,
    },
    Put(u8),
    Stall(bool),
    Cut,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let text = "[a-zß€\"\\\\]{0,12}";
    let long = (1usize..60_000).prop_map(|length| "x".repeat(length));
    prop_oneof![
        6 => text.prop_map(Step::Append),
        1 => long.prop_map(Step::Append),
        3 => (text, prop::option::of(0u8..4)).prop_map(|(notes, selected)| Step::Update { notes, selected }),
        4 => (0usize..6, 0usize..3, prop::collection::vec(0u8..9, 0..4))
            .prop_map(|(index, delete, items)| Step::Splice { index, delete, items }),
        2 => (0u8..9).prop_map(Step::Put),
        1 => any::<bool>().prop_map(Step::Stall),
        1 => Just(Step::Cut),
        4 => (0u64..30).prop_map(Step::Wait),
    ]
}

fn model(number: u8) -> ModelRef {
    ModelRef::new("p", &number.to_string())
}

async fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let stage = Stage::new(Medium::Loopback);
    let client = stage.client("ann").await;
    let cx = Context::background();
    let cell = stage.catalogue.state.clone();
    let history = Mutex::new(vec![ModelsState::default(), (*cell.get()).clone()]);
    let seen: Arc<Mutex<Vec<ModelsState>>> = Arc::default();
    let record = Arc::clone(&seen);
    let state = client.models.state();
    let _subscription =
        state.subscribe(move |value, _| record.lock().expect("lock").push((**value).clone()));
    for step in steps {
        match step {
            Step::Append(text) => cell.append(&cx, path!["notes"], text).expect("a text"),
            Step::Update { notes, selected } => cell.update(&cx, |value| {
                value.notes = notes;
                value.selected = selected.map(model);
            }),
            Step::Splice {
                index,
                delete,
                items,
            } => {
                let length = cell.get().available.len();
                let index = index.min(length);
                let delete = delete.min(length - index);
                let items = items.into_iter().map(model);
                cell.splice(&cx, path!["available"], index, delete, items)
                    .expect("within its length");
            }
            Step::Put(number) => cell
                .put(&cx, path!["selected"], model(number))
                .expect("a member"),
            Step::Stall(stalled) => client.tap.stall(stalled),
            Step::Cut => client.tap.cut(),
            Step::Wait(time) => tokio::time::sleep(Duration::from_millis(time)).await,
        }
        history.lock().expect("lock").push((*cell.get()).clone());
    }
    client.tap.stall(false);
    let last = cell.get();
    within(state.wait_for(&cx, |value| *value == *last))
        .await
        .expect("no deadline");
    wait_until("it is current", || state.is_ready() && !state.is_stale()).await;
    let history = history.into_inner().expect("lock");
    let mut at = 0;
    for value in &*seen.lock().expect("lock") {
        let found = history[at..].iter().position(|had| had == value);
        prop_assert!(
            found.is_some(),
            "the owner never had {:?} after number {}",
            value,
            at
        );
        at += found.unwrap_or_default();
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_replica_sees_only_values_of_its_owner_and_ends_equal(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
        runtime.block_on(run(steps))?;
    }
}
