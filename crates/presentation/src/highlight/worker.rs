//! The thread that highlights, and what it needs for that.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use syntect::parsing::{ParseState, ScopeStack, SyntaxSet};

use super::scopes::Roles;
use super::{Lines, lock};
use crate::text::{Role, StyledLine, StyledSpan, sanitize};

/// How long the thread keeps the syntaxes while it has nothing to do.
const IDLE: Duration = Duration::from_secs(10);

/// Longer lines are shown plain: minified code costs more than it is worth.
const LINE_LIMIT: usize = 4096;

/// A piece of code to highlight.
pub(super) struct Job {
    pub(super) language: Arc<str>,
    pub(super) piece: String,
    pub(super) state: Weak<Mutex<Lines>>,
}

/// The thread's mailbox. The thread starts with the first job and ends when idle or when nobody is left.
pub(super) struct Worker {
    progress: Arc<dyn Fn() + Send + Sync>,
    mailbox: Arc<Mailbox>,
    /// How many pieces were finished.
    finished: Arc<AtomicU64>,
}

#[derive(Default)]
struct Mailbox {
    // A plain mutex: held to push or pop, never while highlighting.
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: bool,
    closed: bool,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; `None` when the thread is to end.
    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            let (back, waited) = self
                .wake
                .wait_timeout(queue, IDLE)
                .unwrap_or_else(PoisonError::into_inner);
            queue = back;
            if waited.timed_out() && queue.jobs.is_empty() {
                queue.running = false;
                return None;
            }
        }
    }
}

impl Worker {
    pub(super) fn new(progress: Box<dyn Fn() + Send + Sync>) -> Self {
        Worker {
            progress: progress.into(),
            mailbox: Arc::default(),
            finished: Arc::default(),
        }
    }

    pub(super) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }

    pub(super) fn submit(&self, job: Job) {
        let mut queue = self.mailbox.lock();
        queue.jobs.push_back(job);
        if queue.running {
            self.mailbox.wake.notify_one();
            return;
        }
        let (mailbox, progress) = (Arc::clone(&self.mailbox), Arc::clone(&self.progress));
        let finished = Arc::clone(&self.finished);
        let thread = std::thread::Builder::new().name("highlight".into());
        match thread.spawn(move || work(&mailbox, &finished, &*progress)) {
            Ok(_detached) => queue.running = true,
            Err(error) => {
                tracing::warn!(%error, "could not start the highlighter; code stays plain");
                queue.jobs.clear();
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.mailbox.lock().closed = true;
        self.mailbox.wake.notify_one();
    }
}

fn work(mailbox: &Mailbox, finished: &AtomicU64, progress: &(dyn Fn() + Send + Sync)) {
    let syntaxes = Syntaxes::load();
    while let Some(job) = mailbox.next() {
        let Some(state) = job.state.upgrade() else {
            continue;
        };
        let mut parser = std::mem::take(&mut lock(&state).parser);
        let lines = parser.parse(&syntaxes, &job.language, &job.piece);
        let mut shared = lock(&state);
        shared.parser = parser;
        shared.ready.extend(lines);
        drop(shared);
        finished.fetch_add(1, Ordering::AcqRel);
        progress();
    }
    drop(syntaxes);
    give_memory_back();
}

/// Grammars take tens of megabytes, which the allocator would keep for this process.
fn give_memory_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> i32;
        }
        // SAFETY: `malloc_trim` is glibc's, has this signature, takes no pointer, may be called from any
        // thread at any time, and releases only pages that hold no allocation.
        unsafe { malloc_trim(0) };
    }
}

/// All syntaxes, and the roles of their scopes.
pub(super) struct Syntaxes {
    set: SyntaxSet,
    roles: Roles,
}

impl Syntaxes {
    pub(super) fn load() -> Self {
        Syntaxes {
            set: two_face::syntax::extra_newlines(),
            roles: Roles::default(),
        }
    }
}

/// Code as it stands.
pub(super) fn plain(code: &str) -> Vec<StyledLine> {
    let plain = |line: &str| {
        StyledLine::new(
            sanitize(line.trim_end_matches('\n'), 4).into_owned(),
            Role::CodeBlock,
        )
    };
    code.split_inclusive('\n').map(plain).collect()
}

/// Where the parser of one piece of code stands between two lines.
#[derive(Default)]
pub(super) struct Parser {
    state: Option<(ParseState, ScopeStack)>,
    /// The language is unknown, or its syntax failed: the rest is plain.
    plain: bool,
}

impl Parser {
    /// The next lines, styled. Whatever goes wrong leaves them plain.
    pub(super) fn parse(
        &mut self,
        syntaxes: &Syntaxes,
        language: &str,
        code: &str,
    ) -> Vec<StyledLine> {
        let lines = code.split_inclusive('\n').map(|line| {
            let clean = sanitize(line, 4);
            let styled = (!self.plain && clean.len() <= LINE_LIMIT)
                .then(|| self.parse_line(syntaxes, language, &clean));
            let plain =
                || StyledLine::new(clean.trim_end_matches('\n').to_owned(), Role::CodeBlock);
            styled.flatten().unwrap_or_else(plain)
        });
        lines.collect()
    }

    fn parse_line(
        &mut self,
        syntaxes: &Syntaxes,
        language: &str,
        line: &str,
    ) -> Option<StyledLine> {
        if self.state.is_none() {
            let syntax = find(&syntaxes.set, language);
            self.plain = syntax.is_none();
            self.state = Some((ParseState::new(syntax?), ScopeStack::new()));
        }
        let (state, stack) = self.state.as_mut()?;
        let parsed = catch_unwind(AssertUnwindSafe(|| state.parse_line(line, &syntaxes.set)));
        let Ok(Ok(operations)) = parsed else {
            tracing::debug!(
                language,
                "a syntax failed; the rest of the code stays plain"
            );
            self.plain = true;
            return None;
        };
        let mut styled = StyledLine::default();
        let mut from = 0;
        let text = line.trim_end_matches('\n');
        for (at, operation) in operations {
            let end = at.min(text.len());
            if end > from {
                styled.push(StyledSpan::new(
                    text.get(from..end)?.to_owned(),
                    syntaxes.roles.of(stack),
                ));
                from = end;
            }
            if stack.apply(&operation).is_err() {
                self.plain = true;
                return None;
            }
        }
        if text.len() > from {
            styled.push(StyledSpan::new(
                text.get(from..)?.to_owned(),
                syntaxes.roles.of(stack),
            ));
        }
        Some(styled)
    }
}

fn find<'a>(set: &'a SyntaxSet, language: &str) -> Option<&'a syntect::parsing::SyntaxReference> {
    let name = super::language_name(language)?;
    let extension = name.rsplit('.').next().unwrap_or(name);
    set.find_syntax_by_token(name)
        .or_else(|| set.find_syntax_by_extension(name))
        .or_else(|| set.find_syntax_by_token(extension))
}
