//! The service of the simulation: it remembers what it executed, and says with every value whose it is.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_rpc::{Context, EventSource, Events, State, StateCell, path, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::random::Random;

#[service("ledger", version = "1.0")]
pub trait Ledger {
    fn page(&self) -> State<Page>;
    fn lines(&self) -> State<Lines>;
    fn notes(&self) -> Events<Note>;
    /// Enters `key` and answers after `delay` milliseconds.
    async fn enter(&self, cx: &Context, key: u64, delay: u64, padding: String) -> Receipt;
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Page {
    pub owner: String,
    pub count: u64,
    pub text: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lines {
    pub owner: String,
    pub lines: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    pub owner: String,
    pub number: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    pub owner: String,
    pub key: u64,
    pub padding: usize,
}

/// How often each key was entered, over all owners.
pub type Entered = Arc<Mutex<HashMap<u64, usize>>>;

#[derive(Clone)]
pub struct Owner {
    pub name: String,
    pub page: StateCell<Page>,
    pub lines: StateCell<Lines>,
    pub notes: EventSource<Note>,
    /// Every value that the cells had, in order.
    pub pages: Arc<Mutex<Vec<Page>>>,
    pub listed: Arc<Mutex<Vec<Lines>>>,
    pub running: Arc<AtomicUsize>,
    emitted: Arc<Mutex<u64>>,
    entered: Entered,
}

impl Owner {
    pub fn new(name: &str, entered: &Entered) -> Self {
        let page = Page {
            owner: name.into(),
            ..Page::default()
        };
        let lines = Lines {
            owner: name.into(),
            ..Lines::default()
        };
        Owner {
            name: name.into(),
            page: StateCell::new(page.clone()),
            lines: StateCell::new(lines.clone()),
            notes: EventSource::new(),
            pages: Arc::new(Mutex::new(vec![page])),
            listed: Arc::new(Mutex::new(vec![lines])),
            running: Arc::default(),
            emitted: Arc::default(),
            entered: Arc::clone(entered),
        }
    }

    /// One change of one kind.
    pub fn change(&self, random: &Random) {
        let cx = Context::background();
        match random.below(5) {
            0 => self
                .page
                .append(&cx, path!["text"], "ab€".repeat(random.below(40) as usize))
                .expect("a text"),
            1 => self.page.update(&cx, |page| page.count += 1),
            2 => self.page.update(&cx, |page| {
                page.text.truncate(0);
                page.count += 1;
            }),
            3 => {
                let length = self.lines.get().lines.len();
                let at = random.below(length as u64 + 1) as usize;
                let delete = (random.below(3) as usize).min(length - at);
                let fresh: Vec<u64> = (0..random.below(4)).map(|_| random.below(1000)).collect();
                self.lines
                    .splice(&cx, path!["lines"], at, delete, fresh)
                    .expect("within its length");
            }
            _ => self.emit(&cx),
        }
        self.remember();
    }

    /// Emits the next event.
    pub fn emit(&self, cx: &Context) {
        let mut emitted = self.emitted.lock().expect("lock");
        *emitted += 1;
        let (owner, number) = (self.name.clone(), *emitted);
        self.notes.emit(cx, Note { owner, number });
    }

    /// The number of the newest event.
    pub fn emitted(&self) -> u64 {
        *self.emitted.lock().expect("lock")
    }

    /// Enters the cells' values into their history.
    pub fn remember(&self) {
        self.pages
            .lock()
            .expect("lock")
            .push((*self.page.get()).clone());
        self.listed
            .lock()
            .expect("lock")
            .push((*self.lines.get()).clone());
    }
}

struct Running<'o>(&'o AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Ledger for Owner {
    fn page(&self) -> State<Page> {
        self.page.state()
    }

    fn lines(&self) -> State<Lines> {
        self.lines.state()
    }

    fn notes(&self) -> Events<Note> {
        self.notes.events()
    }

    async fn enter(&self, _cx: &Context, key: u64, delay: u64, padding: String) -> Receipt {
        *self.entered.lock().expect("lock").entry(key).or_default() += 1;
        self.running.fetch_add(1, Ordering::SeqCst);
        let _running = Running(&self.running);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        Receipt {
            owner: self.name.clone(),
            key,
            padding: padding.len(),
        }
    }
}
