//! A client of the simulation: it calls, gives up, switches, follows, and keeps account of all it saw.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_context::TaskScope;
use bezel_rpc::{AttachmentState, Delivery, Link, Router, State, StateValue, Subscription};

use super::ledger::{Entered, LedgerClient, Lines, Note, Owner, Page};
use super::random::Random;
use super::{TARGETS, hurried};

pub struct Actor {
    number: u64,
    pub link: Link,
    router: Router,
    random: Random,
    entered: Entered,
    attachment: State<AttachmentState>,
    following: Mutex<Option<Following>>,
    seen: Arc<Seen>,
    calls: Mutex<Vec<Call>>,
}

/// What the client follows for now. Dropping it ends the subscriptions.
struct Following {
    pages: [State<Page>; 2],
    lines: [State<Lines>; 2],
    _listeners: Vec<Subscription>,
    _notes: TaskScope,
}

#[derive(Default)]
struct Seen {
    pages: Mutex<Vec<Page>>,
    lines: Mutex<Vec<Lines>>,
    notes: Mutex<Vec<Note>>,
    /// Values that came while another target was attached: whose, and which target was.
    misplaced: Mutex<Vec<(String, Option<String>)>>,
}

struct Call {
    key: u64,
    /// There was no connection when it began.
    hopeless: bool,
    outcome: Outcome,
}

#[derive(PartialEq)]
enum Outcome {
    Answered,
    Failed,
    Abandoned,
}

/// How often what happened.
#[derive(Default, Debug)]
pub struct Tally {
    pub answered: usize,
    pub failed: usize,
    pub abandoned: usize,
    pub observed: usize,
    pub noted: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.abandoned += other.abandoned;
        self.observed += other.observed;
        self.noted += other.noted;
    }
}

impl Actor {
    pub fn new(
        number: usize,
        link: Link,
        router: Router,
        random: Random,
        entered: &Entered,
    ) -> Self {
        Actor {
            number: number as u64,
            attachment: link.attached().attachment(),
            link,
            router,
            random,
            entered: Arc::clone(entered),
            following: Mutex::default(),
            seen: Arc::default(),
            calls: Mutex::default(),
        }
    }

    /// Does one thing after another, several calls at a time.
    pub async fn act(&self) {
        self.follow();
        for step in 0..15 + self.random.below(15) {
            let first = self.number * 1_000_000 + step * 100;
            match self.random.below(9) {
                0..=4 => {
                    let calls = (0..1 + self.random.below(4)).map(|which| self.call(first + which));
                    futures::future::join_all(calls).await;
                }
                5 | 6 => self.attach(TARGETS[self.random.below(2) as usize]),
                7 if self.random.one_in(3) => self.detach(),
                7 => {
                    self.unfollow();
                    tokio::time::sleep(self.random.milliseconds(20)).await;
                    self.follow();
                }
                _ => tokio::time::sleep(self.random.milliseconds(80)).await,
            }
        }
    }

    async fn call(&self, key: u64) {
        let random = &self.random;
        let cx = hurried(random);
        let padding = match random.below(40) {
            0 => 60_000 + random.below(60_000),
            1..=10 => random.below(2000),
            _ => 0,
        };
        let (delay, of_server) = (random.below(3) * random.below(40), random.one_in(3));
        let patience = match random.one_in(4) {
            true => random.milliseconds(50),
            false => Duration::from_secs(3000),
        };
        tokio::time::sleep(random.milliseconds(10)).await;
        let hopeless = !self.link.connection().get().is_connected();
        let (ledger, target) = match of_server {
            true => (self.server(), Some("server".to_owned())),
            false => (
                self.attached(),
                self.attachment.get().target().map(str::to_owned),
            ),
        };
        let call = ledger.enter(&cx, key, delay, "p".repeat(padding as usize));
        let outcome = match tokio::time::timeout(patience, call).await {
            Ok(Ok(receipt)) => {
                assert_eq!((receipt.key, receipt.padding as u64), (key, padding));
                assert_eq!(Some(receipt.owner), target, "another target answered");
                Outcome::Answered
            }
            Ok(Err(_)) => Outcome::Failed,
            Err(_) => Outcome::Abandoned,
        };
        self.calls.lock().expect("lock").push(Call {
            key,
            hopeless,
            outcome,
        });
    }

    /// A handle of its own, for whoever holds one follows.
    fn server(&self) -> LedgerClient {
        self.link.server().use_service()
    }

    fn attached(&self) -> LedgerClient {
        self.link.attached().use_service()
    }

    fn attach(&self, target: &str) {
        // Without a connection there is nobody to attach, which the router says too.
        if let Some(id) = self.link.client_id()
            && let Ok(attachment) = self.router.bind(&id, target)
        {
            assert_eq!(attachment.target, target);
        }
    }

    fn detach(&self) {
        if let Some(id) = self.link.client_id()
            && self.router.unbind(&id).is_ok()
        {
            assert_eq!(self.router.target_of(&id), None);
        }
    }

    fn follow(&self) {
        let ledgers = [self.attached(), self.server()];
        let pages = ledgers.clone().map(|ledger| ledger.page());
        let lines = ledgers.clone().map(|ledger| ledger.lines());
        let notes = TaskScope::new();
        let mut listeners = Vec::new();
        for index in 0..2 {
            let target = (index == 0).then(|| self.attachment.clone());
            let record = |seen: &Seen, page: &Page| {
                seen.pages.lock().expect("lock").push(page.clone());
                page.owner.clone()
            };
            listeners.push(self.watch(&pages[index], target.clone(), record));
            let record = |seen: &Seen, lines: &Lines| {
                seen.lines.lock().expect("lock").push(lines.clone());
                lines.owner.clone()
            };
            listeners.push(self.watch(&lines[index], target, record));
        }
        for ledger in &ledgers {
            let (mut stream, seen) = (ledger.notes().subscribe(), Arc::clone(&self.seen));
            notes.spawn("notes", async move {
                while let Some(delivery) = stream.next().await {
                    if let Delivery::Event { value, .. } = delivery {
                        seen.notes.lock().expect("lock").push((*value).clone());
                    }
                }
            });
        }
        *self.following.lock().expect("lock") = Some(Following {
            pages,
            lines,
            _listeners: listeners,
            _notes: notes,
        });
    }

    /// Listens; what comes while it is current belongs to the target that is attached at that moment.
    fn watch<T: StateValue>(
        &self,
        state: &State<T>,
        target: Option<State<AttachmentState>>,
        record: fn(&Seen, &T) -> String,
    ) -> Subscription {
        let (staleness, initial) = (state.clone(), AtomicBool::new(true));
        let seen = Arc::clone(&self.seen);
        state.subscribe(move |value, _| {
            let owner = record(&seen, value);
            let expected = match &target {
                None => Some("server".to_owned()),
                Some(attachment) => attachment.get().target().map(str::to_owned),
            };
            let initial = initial.swap(false, Ordering::SeqCst);
            let current = !initial && !staleness.is_stale() && !owner.is_empty();
            if current && Some(&owner) != expected.as_ref() {
                seen.misplaced.lock().expect("lock").push((owner, expected));
            }
        })
    }

    pub fn unfollow(&self) {
        drop(self.following.lock().expect("lock").take());
    }

    /// Attaches for the last time, and waits until every replica is what its owner has.
    pub async fn converge(&self, owners: &[&Owner]) {
        let owner_of = |name: &str| {
            owners
                .iter()
                .find(|owner| owner.name == name)
                .expect("known")
        };
        let target = TARGETS[self.random.below(2) as usize];
        let (attached, server) = (owner_of(target), owner_of("server"));
        let is_current = || {
            let following = self.following.lock().expect("lock");
            let following = following.as_ref().expect("it follows");
            let current = |index: usize, owner: &Owner| {
                let (page, lines) = (&following.pages[index], &following.lines[index]);
                page.is_ready()
                    && !page.is_stale()
                    && !lines.is_stale()
                    && page.get() == owner.page.get()
                    && lines.get() == owner.lines.get()
            };
            current(0, attached) && current(1, server)
        };
        for _ in 0..2000 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let bound = self
                .link
                .client_id()
                .and_then(|id| self.router.target_of(&id));
            if bound.as_deref() != Some(target) {
                self.attach(target);
            } else if is_current() {
                return;
            }
        }
        panic!(
            "the replicas never became current: {:?} {:?}",
            self.attachment.get(),
            self.link.connection().get()
        );
    }

    /// Compares what was seen with what the owners had and did.
    pub fn check(&self, owners: &[&Owner]) -> Tally {
        let mut tally = Tally::default();
        let entered = self.entered.lock().expect("lock");
        for call in &*self.calls.lock().expect("lock") {
            let times = entered.get(&call.key).copied().unwrap_or_default();
            match call.outcome {
                Outcome::Answered => tally.answered += 1,
                Outcome::Failed => tally.failed += 1,
                Outcome::Abandoned => tally.abandoned += 1,
            }
            assert!(times <= 1, "call {} ran {times} times", call.key);
            assert!(
                times == 1 || call.outcome != Outcome::Answered,
                "call {} was answered and never ran",
                call.key
            );
            assert!(
                times == 0 || !call.hopeless,
                "call {} was kept for a later connection",
                call.key
            );
        }
        let (pages, lines) = (
            self.seen.pages.lock().expect("lock"),
            self.seen.lines.lock().expect("lock"),
        );
        let notes = self.seen.notes.lock().expect("lock");
        assert_eq!(*self.seen.misplaced.lock().expect("lock"), Vec::new());
        for owner in owners {
            let mine: Vec<_> = pages
                .iter()
                .filter(|page| page.owner == owner.name)
                .collect();
            in_order(&owner.pages.lock().expect("lock"), &mine);
            tally.observed += mine.len();
            let mine: Vec<_> = lines
                .iter()
                .filter(|lines| lines.owner == owner.name)
                .collect();
            in_order(&owner.listed.lock().expect("lock"), &mine);
            tally.observed += mine.len();
            let mine: Vec<u64> = notes
                .iter()
                .filter(|note| note.owner == owner.name)
                .map(|note| note.number)
                .collect();
            assert!(
                mine.is_sorted_by(|before, after| before < after),
                "events came twice or out of order: {mine:?}"
            );
            tally.noted += mine.len();
        }
        tally
    }
}

/// Every value that came is one that the owner had, in the owner's order.
fn in_order<T: PartialEq + std::fmt::Debug>(history: &[T], seen: &[&T]) {
    let mut at = 0;
    for value in seen {
        let found = history[at..].iter().position(|had| had == *value);
        at += found.unwrap_or_else(|| panic!("the owner never had {value:?} after number {at}"));
    }
}
