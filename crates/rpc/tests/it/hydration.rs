//! Hydration and deltas under every interleaving: whatever the owners do while a client stalls, loses its
//! connection, switches or follows anew, each replica sees only its owner's values, once and in order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_context::TaskScope;
use bezel_rpc::{
    AttachmentState, Context, Delivery, ServiceClient, ServiceTable, State, Subscription, path,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::provider::Catalogue;
use crate::simulation::ledger::{Entered, LedgerClient, Lines, Note, Owner, Page};
use crate::stage::{Client, Medium, Stage, Worker, wait_until, within};

const TARGETS: [&str; 2] = ["S0", "S1"];

#[derive(Debug, Clone)]
enum Step {
    Change(usize, Change),
    Attach(usize),
    Detach,
    Refollow,
    Stall(bool),
    StallWorker(usize, bool),
    Cut,
    CutWorker(usize),
    Wait(u64),
    Yield(usize),
}

#[derive(Debug, Clone)]
enum Change {
    Append(String),
    Rewrite(String),
    Count(u64),
    Splice(usize, usize, Vec<u64>),
    Emit,
}

fn change() -> impl Strategy<Value = Change> {
    let text = "[a-zß€\"\\\\]{0,12}";
    let long = (1usize..40_000).prop_map(|length| "x".repeat(length));
    prop_oneof![
        6 => text.prop_map(Change::Append),
        1 => long.prop_map(Change::Append),
        2 => text.prop_map(Change::Rewrite),
        2 => (0u64..5).prop_map(Change::Count),
        4 => (0usize..9, 0usize..3, prop::collection::vec(0u64..99, 0..4))
            .prop_map(|(at, delete, items)| Change::Splice(at, delete, items)),
        3 => Just(Change::Emit),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        14 => (0usize..2, change()).prop_map(|(owner, change)| Step::Change(owner, change)),
        3 => (0usize..2).prop_map(Step::Attach),
        1 => Just(Step::Detach),
        1 => Just(Step::Refollow),
        1 => any::<bool>().prop_map(Step::Stall),
        1 => (0usize..2, any::<bool>()).prop_map(|(which, stall)| Step::StallWorker(which, stall)),
        1 => Just(Step::Cut),
        1 => (0usize..2).prop_map(Step::CutWorker),
        4 => (0u64..30).prop_map(Step::Wait),
        6 => (1usize..6).prop_map(Step::Yield),
    ]
}

/// A client that follows what it is attached to, and all that it saw.
struct Follower {
    client: Client,
    seen: Arc<Seen>,
    following: Option<Following>,
}

struct Following {
    page: State<Page>,
    lines: State<Lines>,
    _listeners: [Subscription; 2],
    _notes: TaskScope,
}

#[derive(Default)]
struct Seen {
    pages: Mutex<Vec<Page>>,
    lines: Mutex<Vec<Lines>>,
    notes: Mutex<Vec<Note>>,
    misplaced: Mutex<Vec<(String, AttachmentState)>>,
}

impl Follower {
    fn follow(&mut self) {
        self.following = None;
        let ledger: LedgerClient = self.client.link.attached().use_service();
        let (page, lines, mut stream) = (ledger.page(), ledger.lines(), ledger.notes().subscribe());
        let place = |seen: &Arc<Seen>, state: State<AttachmentState>| {
            let seen = Arc::clone(seen);
            move |owner: &str, stale: bool| {
                let at = state.get();
                if !owner.is_empty() && !stale && at.target() != Some(owner) {
                    let misplaced = (owner.to_owned(), (*at).clone());
                    seen.misplaced.lock().expect("lock").push(misplaced);
                }
            }
        };
        let check = place(&self.seen, self.client.link.attached().attachment());
        let (record, state) = (Arc::clone(&self.seen), page.clone());
        let first = page.subscribe(move |page, _| {
            record.pages.lock().expect("lock").push((**page).clone());
            check(&page.owner, state.is_stale());
        });
        let check = place(&self.seen, self.client.link.attached().attachment());
        let (record, state) = (Arc::clone(&self.seen), lines.clone());
        let second = lines.subscribe(move |lines, _| {
            record.lines.lock().expect("lock").push((**lines).clone());
            check(&lines.owner, state.is_stale());
        });
        let (notes, record) = (TaskScope::new(), Arc::clone(&self.seen));
        notes.spawn("notes", async move {
            while let Some(delivery) = stream.next().await {
                if let Delivery::Event { value, .. } = delivery {
                    record.notes.lock().expect("lock").push((*value).clone());
                }
            }
        });
        self.following = Some(Following {
            page,
            lines,
            _listeners: [first, second],
            _notes: notes,
        });
    }
}

fn apply(owner: &Owner, change: Change) {
    let cx = Context::background();
    match change {
        Change::Append(text) => owner.page.append(&cx, path!["text"], text).expect("a text"),
        Change::Rewrite(text) => owner.page.update(&cx, |page| page.text = text),
        Change::Count(count) => owner
            .page
            .put(&cx, path!["count"], count)
            .expect("a member"),
        Change::Splice(at, delete, items) => {
            let length = owner.lines.get().lines.len();
            let at = at.min(length);
            let delete = delete.min(length - at);
            let spliced = owner.lines.splice(&cx, path!["lines"], at, delete, items);
            spliced.expect("within its length");
        }
        Change::Emit => owner.emit(&cx),
    }
    owner.remember();
}

fn worker(stage: &Stage, owner: &Owner) -> Worker {
    let table = ServiceTable::new();
    let client = LedgerClient::new(owner.clone());
    table.provide(client.exposed()).expect("it is the first");
    table.activate();
    stage.worker_with(&owner.name, Catalogue::new(), table)
}

async fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let stage = Stage::new(Medium::Loopback);
    let entered = Entered::default();
    let owners = TARGETS.map(|name| Owner::new(name, &entered));
    let workers = owners.each_ref().map(|owner| worker(&stage, owner));
    let mut follower = Follower {
        client: stage.client("ann").await,
        seen: Arc::default(),
        following: None,
    };
    follower.follow();
    for step in steps {
        match step {
            Step::Change(owner, change) => apply(&owners[owner], change),
            Step::Attach(target) => {
                if let Some(id) = follower.client.link.client_id() {
                    // The server may have noticed a cut already that the client has not.
                    drop(stage.router.bind(&id, TARGETS[target]));
                }
            }
            Step::Detach => {
                if let Some(id) = follower.client.link.client_id() {
                    drop(stage.router.unbind(&id));
                }
            }
            Step::Refollow => follower.follow(),
            Step::Stall(stall) => follower.client.tap.stall(stall),
            Step::StallWorker(which, stall) => workers[which].tap.stall(stall),
            Step::Cut => follower.client.tap.cut(),
            Step::CutWorker(which) => workers[which].tap.cut(),
            Step::Wait(time) => tokio::time::sleep(Duration::from_millis(time)).await,
            Step::Yield(times) => {
                for _ in 0..times {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
    follower.client.tap.stall(false);
    for worker in &workers {
        worker.tap.stall(false);
    }
    // Whatever was cut is noticed, and comes back.
    tokio::time::sleep(Duration::from_secs(1)).await;
    follower.client.connected().await;
    let attached = follower.client.attach(&stage, TARGETS[0]);
    drop(within(attached).await);
    // Where it was attached there already, that is another attachment all the same.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let following = follower.following.as_ref().expect("it follows");
    wait_until("the replicas are current", || {
        let stale = following.page.is_stale() || following.lines.is_stale();
        !stale
            && following.page.get() == owners[0].page.get()
            && following.lines.get() == owners[0].lines.get()
    })
    .await;
    owners[0].emit(&Context::background());
    let last = owners[0].emitted();
    wait_until("the last event came", || {
        let notes = follower.seen.notes.lock().expect("lock");
        notes.last().is_some_and(|note| note.number == last)
    })
    .await;

    let seen = &follower.seen;
    prop_assert_eq!(&*seen.misplaced.lock().expect("lock"), &Vec::new());
    for owner in &owners {
        let pages = seen.pages.lock().expect("lock");
        let mine = pages.iter().filter(|page| page.owner == owner.name);
        in_order(&owner.pages.lock().expect("lock"), mine)?;
        let lines = seen.lines.lock().expect("lock");
        let mine = lines.iter().filter(|lines| lines.owner == owner.name);
        in_order(&owner.listed.lock().expect("lock"), mine)?;
        let notes = seen.notes.lock().expect("lock");
        let mine = notes.iter().filter(|note| note.owner == owner.name);
        let numbers: Vec<u64> = mine.map(|note| note.number).collect();
        prop_assert!(
            numbers.is_sorted_by(|before, after| before < after),
            "{:?}",
            numbers
        );
    }
    contiguous(&follower.client.tap.received())
}

fn in_order<'s, T: PartialEq + std::fmt::Debug + 's>(
    history: &[T],
    seen: impl Iterator<Item = &'s T>,
) -> Result<(), TestCaseError> {
    let mut at = 0;
    for value in seen {
        let found = history[at..].iter().position(|had| had == value);
        prop_assert!(found.is_some(), "never had {:?} after number {}", value, at);
        at += found.unwrap_or_default();
    }
    Ok(())
}

/// Per subscription: a snapshot first, once, and every change from where the one before it ended.
fn contiguous(received: &[(String, String)]) -> Result<(), TestCaseError> {
    let mut revisions: HashMap<u64, HashMap<String, u64>> = HashMap::new();
    for (text, payload) in received {
        let header: Value = serde_json::from_str(text).expect("a header");
        let id = header["i"].as_u64().unwrap_or_default();
        match header["k"].as_str().expect("a kind") {
            // Another connection: ids begin anew.
            "welcome" => revisions.clear(),
            "snapshot" => {
                let payload: Value = serde_json::from_str(payload).expect("a snapshot");
                let cells = payload["cells"].as_object().expect("cells");
                prop_assert_eq!(cells.len(), 2, "all cells come at once");
                let cells = cells
                    .iter()
                    .map(|(name, cell)| (name.clone(), cell[0].as_u64().expect("a revision")));
                let twice = revisions.insert(id, cells.collect());
                prop_assert!(twice.is_none(), "a second snapshot: {}", text);
            }
            "state" => {
                let cells = revisions.get_mut(&id);
                prop_assert!(cells.is_some(), "before its snapshot: {}", text);
                let name = header["m"].as_str().expect("a member");
                let revision = cells.expect("just checked").get_mut(name).expect("a cell");
                let next = header["r"].as_u64().expect("a revision");
                prop_assert!(next > *revision, "{} after revision {}", text, revision);
                if let Some(base) = header["b"].as_u64() {
                    prop_assert_eq!(base, *revision, "a gap or a repetition: {}", text);
                }
                *revision = next;
            }
            "event" => prop_assert!(
                revisions.contains_key(&id),
                "an event before its subscription is active: {}",
                text
            ),
            _ => {}
        }
    }
    Ok(())
}

fn on_paused_clock(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(run(steps))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn replicas_follow_their_owners_through_stalls_cuts_and_switches(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        on_paused_clock(steps)?;
    }
}

#[test]
fn a_change_at_any_moment_of_a_hydration_arrives_once_and_after_the_snapshot() {
    // From before the subscription is sent to long after the snapshot came.
    for moment in 0..24 {
        let change = |items| Step::Change(0, Change::Splice(0, 0, items));
        let steps = vec![
            change(vec![1]),
            Step::Attach(0),
            Step::Yield(moment),
            change(vec![2]),
            change(vec![3]),
            Step::Change(0, Change::Emit),
            Step::Yield(1),
            change(vec![4]),
            Step::Wait(20),
        ];
        on_paused_clock(steps).unwrap_or_else(|error| panic!("at moment {moment}: {error}"));
    }
}
