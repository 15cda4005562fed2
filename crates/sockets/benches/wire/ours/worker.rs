//! The worker: serves one target.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use bezel_context::{Context, Task, TaskScope};
use bezel_rpc::{Link, Role, ServiceClient as _, ServiceTable, State, StateCell};
use bezel_sockets::dial_unix;
use tokio::time::MissedTickBehavior;

use super::client::{WORKER, hello};
use super::contract::{
    Board, BoardClient, Book, CELL_NAMES, Entry, Library, LibraryClient, Page, Sheet, SheetClient,
    Text, TextClient, cells_of_board,
};
use crate::process::ready;
use crate::raw::evented::runtime;

/// How many cells the board has.
pub const CELLS: usize = CELL_NAMES.len();
/// Updates after which a writer lets others have the thread.
const REST: u64 = 16;
/// What the board's writer changes a millisecond.
const CHURN: usize = 10;

pub fn worker(socket: &str, target: &str) -> Result<()> {
    runtime()?.block_on(async {
        let scope = TaskScope::new();
        let table = ServiceTable::new();
        table.provide(TextClient::new(Texts).exposed())?;
        table.provide(SheetClient::new(Sheets::new(target)).exposed())?;
        table.provide(LibraryClient::new(Books::new()).exposed())?;
        table.provide(BoardClient::new(Cells::new(target, &scope)).exposed())?;
        table.activate();
        let hello = hello(Role::Worker, &format!("{WORKER}{target}"));
        let link = Link::start(&scope.spawner(), dial_unix(socket), hello, table);
        let state = link.settled(&Context::background()).await?;
        ensure!(state.is_connected(), "not connected: {state:?}");
        ready()?;
        std::future::pending().await
    })
}

struct Texts;

impl Text for Texts {
    async fn echo(&self, _cx: &Context, text: String) -> String {
        text
    }

    async fn output(&self, _cx: &Context, size: usize) -> String {
        "x".repeat(size)
    }
}

struct Sheets {
    page: StateCell<Page>,
}

impl Sheets {
    fn new(target: &str) -> Self {
        Sheets {
            page: StateCell::new(Page::filled(target)),
        }
    }
}

impl Sheet for Sheets {
    fn page(&self) -> State<Page> {
        self.page.state()
    }

    async fn write(&self, cx: &Context, times: u64) -> u64 {
        let mut page = Page::clone(&self.page.get());
        for count in 1..=times {
            page.advance();
            self.page.set(cx, page.clone());
            if count % REST == 0 {
                tokio::task::yield_now().await;
            }
        }
        page.version
    }

    async fn rewrite(&self, cx: &Context, times: u64) {
        for count in 1..=times {
            self.page.set(cx, Page::clone(&self.page.get()));
            if count % REST == 0 {
                tokio::task::yield_now().await;
            }
        }
    }
}

struct Books {
    book: StateCell<Book>,
}

impl Books {
    fn new() -> Self {
        let entry = |index: usize| Entry {
            title: format!("entry {index}"),
            text: "what it says, ".repeat(16),
        };
        Books {
            book: StateCell::new(Book {
                version: 0,
                entries: (0..4096).map(entry).collect(),
            }),
        }
    }
}

impl Library for Books {
    fn book(&self) -> State<Book> {
        self.book.state()
    }

    async fn rename(&self, cx: &Context, index: usize, title: String) -> u64 {
        self.book.update(cx, |book| {
            book.version += 1;
            if let Some(entry) = book.entries.get_mut(index) {
                entry.title = title;
            }
            book.version
        })
    }
}

struct Cells {
    cells: Arc<Vec<StateCell<Page>>>,
    spawner: bezel_context::Spawner,
    writer: Mutex<Option<Task<()>>>,
}

impl Cells {
    fn new(target: &str, scope: &TaskScope) -> Self {
        let cells = CELL_NAMES
            .iter()
            .map(|_| StateCell::new(Page::filled(target)))
            .collect();
        Cells {
            cells: Arc::new(cells),
            spawner: scope.spawner(),
            writer: Mutex::default(),
        }
    }

    fn named(&self, name: &str) -> State<Page> {
        let index = CELL_NAMES.iter().position(|cell| *cell == name);
        self.cells[index.expect("the contract's own name")].state()
    }
}

impl Board for Cells {
    cells_of_board!(named);

    async fn churn(&self, _cx: &Context, on: bool) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = writer.take() {
            running.abort();
        }
        if on {
            let cells = Arc::clone(&self.cells);
            *writer = Some(self.spawner.spawn("writer", churn(cells)));
        }
    }
}

/// Changes ten cells a millisecond, one after another.
async fn churn(cells: Arc<Vec<StateCell<Page>>>) {
    let cx = Context::background();
    let mut pages: Vec<Page> = cells.iter().map(|cell| Page::clone(&cell.get())).collect();
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut next = 0;
    loop {
        ticks.tick().await;
        for _ in 0..CHURN {
            pages[next].advance();
            cells[next].set(&cx, pages[next].clone());
            next = (next + 1) % cells.len();
        }
    }
}
