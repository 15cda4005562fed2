//! Many clients in one process, each with its own connection and its own replicas.

use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use bezel_context::{Context, TaskScope};
use bezel_rpc::State;

use super::client::Client;
use super::contract::{Book, LibraryClient, Page, SheetClient};
use crate::process::answer_questions;
use crate::raw::evented::runtime;
use crate::samples::{Answer, answer, microseconds};

/// How many connect at once.
const AT_ONCE: usize = 50;

struct Fleet {
    clients: Vec<Client>,
    pages: Vec<State<Page>>,
    books: Vec<State<Book>>,
}

/// `count` clients that follow the page; with questions to make the worker write, and to stop reading.
pub fn replicas(socket: &str, count: usize) -> Result<()> {
    let runtime = runtime()?;
    let scope = TaskScope::new();
    let mut fleet = runtime.block_on(Fleet::connect(&scope, socket, count))?;
    answer_questions(|question| {
        runtime.block_on(async {
            let words: Vec<&str> = question.split_whitespace().collect();
            match words.as_slice() {
                ["write", times] => fleet.write(times.parse()?).await,
                ["rewrite", times] => fleet.rewrite(times.parse()?).await,
                ["stall"] => Ok(fleet.stall(true)),
                ["held"] => fleet.held().await,
                ["rename", length] => fleet.rename(length.parse()?).await,
                _ => bail!("there is no such question"),
            }
        })
    })
}

impl Fleet {
    async fn connect(scope: &TaskScope, socket: &str, count: usize) -> Result<Self> {
        let cx = Context::background();
        let mut clients = Vec::with_capacity(count);
        while clients.len() < count {
            let some = AT_ONCE.min(count - clients.len());
            let connecting = (0..some).map(|_| async {
                let client = Client::metered(scope, socket).await?;
                client.attach(&Context::background(), "one").await?;
                anyhow::Ok(client)
            });
            clients.extend(futures::future::try_join_all(connecting).await?);
        }
        let pages = clients.iter().map(|client| sheet(client).page()).collect();
        let fleet = Fleet {
            clients,
            pages,
            books: Vec::new(),
        };
        for page in &fleet.pages {
            page.ready(&cx).await?;
        }
        Ok(fleet)
    }

    fn first(&self) -> Result<&Client> {
        self.clients.first().context("there is a client")
    }

    fn bytes(&self) -> u64 {
        self.clients.iter().map(|client| client.meter.bytes()).sum()
    }

    fn updates(&self) -> (u64, u64) {
        self.clients.iter().fold((0, 0), |(frames, bytes), client| {
            let meter = &client.meter;
            (frames + meter.updates(), bytes + meter.update_bytes())
        })
    }

    /// Lets the worker write, until the last version is everywhere here.
    async fn write(&self, times: u64) -> Result<Answer> {
        let cx = Context::background();
        let before = self.updates();
        let started = Instant::now();
        let last = sheet(self.first()?).write(&cx, times).await?;
        let written = microseconds(started);
        for page in &self.pages {
            page.wait_for(&cx, |page| page.version >= last).await?;
        }
        let everywhere = microseconds(started);
        let after = self.updates();
        let count = self.clients.len() as f64;
        Ok(answer([
            ("everywhere", everywhere),
            ("written", written),
            ("frames", (after.0 - before.0) as f64 / count),
            ("bytes", (after.1 - before.1) as f64 / count),
        ]))
    }

    /// Lets the worker write what is there already; answers the bytes of state that came of it.
    async fn rewrite(&self, times: u64) -> Result<Answer> {
        let cx = Context::background();
        // What others had the worker write is not counted.
        self.write(1).await?;
        let before = self.updates();
        let sheet = sheet(self.first()?);
        sheet.rewrite(&cx, times).await?;
        // A change that were held back would come before the next one.
        let last = sheet.write(&cx, 1).await?;
        for page in &self.pages {
            page.wait_for(&cx, |page| page.version >= last).await?;
        }
        let after = self.updates();
        let one_each = self.clients.len() as u64;
        Ok(answer([(
            "unchanged",
            (after.0 - before.0 - one_each) as f64,
        )]))
    }

    fn stall(&self, stalled: bool) -> Answer {
        for client in &self.clients {
            client.meter.stall(stalled);
        }
        answer([])
    }

    /// Reads again; answers how many bytes waited for these clients outside of the kernel's buffers.
    async fn held(&self) -> Result<Answer> {
        let in_kernel = unread()?;
        let before = self.bytes();
        self.stall(false);
        // Written after all that waits, so that it comes after it.
        let cx = Context::background();
        let last = sheet(self.first()?).write(&cx, 1).await?;
        for page in &self.pages {
            page.wait_for(&cx, |page| page.version >= last).await?;
        }
        let came = self.bytes() - before;
        Ok(answer([
            ("held", came.saturating_sub(in_kernel) as f64),
            ("in kernel", in_kernel as f64),
        ]))
    }

    /// Gives one entry of the book another title; answers the bytes that came, and who encoded how often.
    async fn rename(&mut self, length: usize) -> Result<Answer> {
        let cx = Context::background();
        let library = |client: &Client| client.attached.use_service::<LibraryClient>();
        if self.books.is_empty() {
            for client in &self.clients {
                let book = library(client).book();
                book.ready(&cx).await?;
                self.books.push(book);
            }
        }
        let control = &self.first()?.control;
        let (before, encoded) = (self.updates(), control.encodings(&cx).await?);
        let version = self.books.first().map_or(0, |book| book.get().version);
        let title = format!("{version:>length$}");
        let started = Instant::now();
        let last = library(self.first()?)
            .rename(&cx, 2_000, title.clone())
            .await?;
        for book in &self.books {
            book.wait_for(&cx, |book| book.version >= last).await?;
        }
        let everywhere = microseconds(started);
        let after = self.updates();
        let count = self.clients.len() as f64;
        Ok(answer([
            ("everywhere", everywhere),
            ("bytes", (after.1 - before.1) as f64 / count),
            (
                "encodings",
                (control.encodings(&cx).await? - encoded) as f64,
            ),
        ]))
    }
}

fn sheet(client: &Client) -> SheetClient {
    client.attached.use_service()
}

/// Bytes that have arrived at this process's sockets and were not read.
fn unread() -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let path = entry?.path();
        let is_socket = std::fs::read_link(&path)
            .is_ok_and(|target| target.to_string_lossy().starts_with("socket:"));
        let number = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        if let Some(number) = number.filter(|_| is_socket) {
            // SAFETY: the descriptor is a socket of this process that its clients keep open meanwhile: the
            // process has one thread, and it does nothing else until this returns.
            let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
            sum += rustix::io::ioctl_fionread(socket).unwrap_or_default();
        }
    }
    Ok(sum)
}
