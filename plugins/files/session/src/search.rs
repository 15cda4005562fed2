//! A listing that is kept and refreshed, and searched while a person types.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bezel_context::{Context, Spawner};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::listing::{Listing, MOST_ENTRIES};
use crate::ranking::{Match, rank};

/// A listing older than this is refreshed, beside the search that finds it so.
const FRESH: Duration = Duration::from_secs(2);

/// Why a search gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileSearchError {
    /// The directory cannot be listed.
    #[error("could not list the files of {directory}: {reason}. Check that the directory exists and is readable", directory = directory.display())]
    Unreadable {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The caller no longer wants it, or the session ends.
    #[error("the search was cancelled")]
    Cancelled,
}

/// Fuzzy search by path below one directory. Cheap to clone; clones share the listing.
#[derive(Debug, Clone)]
pub struct FileSearch {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    spawner: Spawner,
    // A plain mutex: held for one look or change, never across an await.
    state: Mutex<State>,
    /// Grows with every walk that has ended.
    walks: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    latest: Option<Latest>,
    walking: bool,
}

#[derive(Debug, Clone)]
struct Latest {
    listing: Result<Arc<Listing>, FileSearchError>,
    at: Instant,
}

impl FileSearch {
    /// Nothing is read before the first search. Walks are tasks of `spawner`'s scope and end with it.
    pub fn new(directory: impl Into<PathBuf>, spawner: Spawner) -> Self {
        let inner = Inner {
            directory: directory.into(),
            spawner,
            state: Mutex::default(),
            walks: watch::Sender::new(0),
        };
        FileSearch {
            inner: Arc::new(inner),
        }
    }

    /// The directory that is searched.
    pub fn directory(&self) -> &Path {
        &self.inner.directory
    }

    /// The best `limit` files and directories for `query`, best first; for an empty query, those nearest to the
    /// directory. The first search waits for the listing; later ones take the latest and have an old one refreshed.
    pub async fn search(
        &self,
        cx: &Context,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Match>, FileSearchError> {
        let listing = self.listing(cx).await?;
        let wanted = Arc::new(AtomicBool::new(true));
        let _unwanted = ClearOnDrop(Arc::clone(&wanted));
        let (cx_inside, query) = (cx.clone(), query.to_owned());
        let ranking = tokio::task::spawn_blocking(move || {
            let stopped = || cx_inside.is_cancelled() || !wanted.load(Ordering::Relaxed);
            rank(&listing, &query, limit, stopped)
        });
        match cx.run(ranking).await {
            Ok(Ok(Some(matches))) => Ok(matches),
            Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            _ => Err(FileSearchError::Cancelled),
        }
    }

    async fn listing(&self, cx: &Context) -> Result<Arc<Listing>, FileSearchError> {
        let mut walks = self.inner.walks.subscribe();
        loop {
            let latest = self.inner.lock().latest.clone();
            if latest
                .as_ref()
                .is_none_or(|latest| latest.at.elapsed() > FRESH)
            {
                self.inner.start_walk();
            }
            match latest {
                Some(Latest {
                    listing: Ok(listing),
                    ..
                }) => return Ok(listing),
                Some(Latest {
                    listing: Err(error),
                    at,
                }) if at.elapsed() <= FRESH => return Err(error),
                _ => {}
            }
            let walked = cx.run(walks.changed()).await;
            walked
                .map_err(|_| FileSearchError::Cancelled)?
                .map_err(|_| FileSearchError::Cancelled)?;
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a walk unless one runs. However it ends, also when it cannot start, `walks` grows.
    fn start_walk(self: &Arc<Self>) {
        if std::mem::replace(&mut self.lock().walking, true) {
            return;
        }
        let walk = Walk {
            inner: Arc::clone(self),
            stop: Arc::default(),
            result: None,
        };
        let _detached = self.spawner.spawn("file listing", walk.run());
    }
}

/// A walk in progress.
struct Walk {
    inner: Arc<Inner>,
    stop: Arc<AtomicBool>,
    result: Option<Result<Arc<Listing>, FileSearchError>>,
}

impl Walk {
    async fn run(mut self) {
        let (directory, stop) = (self.inner.directory.clone(), Arc::clone(&self.stop));
        let walked =
            tokio::task::spawn_blocking(move || Listing::read(&directory, MOST_ENTRIES, &stop))
                .await;
        self.result = match walked {
            Ok(Ok(listing)) => Some(Ok(Arc::new(listing))),
            Ok(Err(error)) => {
                let directory = self.inner.directory.clone();
                Some(Err(FileSearchError::Unreadable {
                    directory,
                    reason: error.to_string(),
                }))
            }
            Err(error) => {
                tracing::warn!(%error, directory = %self.inner.directory.display(), "a file listing failed");
                None
            }
        };
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let mut state = self.inner.lock();
        state.walking = false;
        let ended = || Err(FileSearchError::Cancelled);
        let listing = self.result.take().unwrap_or_else(ended);
        // A listing that is there is better than none.
        if listing.is_ok()
            || state
                .latest
                .as_ref()
                .is_none_or(|latest| latest.listing.is_err())
        {
            state.latest = Some(Latest {
                listing,
                at: Instant::now(),
            });
        }
        drop(state);
        self.inner.walks.send_modify(|walks| *walks += 1);
    }
}

struct ClearOnDrop(Arc<AtomicBool>);

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use bezel_context::TaskScope;

    use super::*;

    fn project() -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("temporary directory");
        for name in [
            "src/parser/mod.rs",
            "src/parser.rs",
            "src/main.rs",
            "docs/parsing.md",
            "Cargo.toml",
            "grüße.txt",
        ] {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("directories");
            std::fs::write(path, "").expect("file");
        }
        directory
    }

    async fn paths(search: &FileSearch, query: &str, limit: usize) -> Vec<String> {
        let found = search
            .search(&Context::background(), query, limit)
            .await
            .expect("a search");
        found.into_iter().map(|found| found.path).collect()
    }

    #[tokio::test]
    async fn the_best_match_comes_first_with_the_characters_that_fit() {
        let (directory, scope) = (project(), TaskScope::new());
        let search = FileSearch::new(directory.path(), scope.spawner());
        assert_eq!(
            paths(&search, "parser", 2).await,
            ["src/parser", "src/parser.rs"]
        );
        assert_eq!(paths(&search, "srcmain", 9).await, ["src/main.rs"]);
        assert_eq!(paths(&search, "./src mod", 9).await, ["src/parser/mod.rs"]);
        assert_eq!(
            paths(&search, "Parser", 9).await,
            Vec::<String>::new(),
            "upper case counts"
        );
        assert_eq!(
            paths(&search, "!^$", 9).await,
            Vec::<String>::new(),
            "no character is special"
        );
        let found = search
            .search(&Context::background(), "rüß", 1)
            .await
            .expect("a search");
        assert_eq!(
            (found[0].path.as_str(), found[0].indices.as_slice()),
            ("grüße.txt", [1, 2, 3].as_slice())
        );
        let found = search
            .search(&Context::background(), "src/parser", 1)
            .await
            .expect("a search");
        assert!(found[0].is_dir && found[0].score > 0);
    }

    #[tokio::test]
    async fn an_empty_query_gives_what_is_nearest() {
        let (directory, scope) = (project(), TaskScope::new());
        let search = FileSearch::new(directory.path(), scope.spawner());
        assert_eq!(
            paths(&search, "", 5).await,
            ["docs", "src", "Cargo.toml", "grüße.txt", "src/parser"]
        );
        assert!(paths(&search, "", 0).await.is_empty());
    }

    #[tokio::test]
    async fn an_old_listing_answers_at_once_and_is_refreshed_beside() {
        let (directory, scope) = (project(), TaskScope::new());
        let search = FileSearch::new(directory.path(), scope.spawner());
        let mut walks = search.inner.walks.subscribe();
        assert!(paths(&search, "newcomer", 9).await.is_empty());
        walks.mark_unchanged();
        std::fs::write(directory.path().join("newcomer"), "").expect("file");
        tokio::time::pause();
        tokio::time::advance(FRESH / 2).await;
        assert!(paths(&search, "newcomer", 9).await.is_empty());
        assert!(
            !walks.has_changed().expect("open") && !search.inner.lock().walking,
            "a fresh listing is kept"
        );
        tokio::time::advance(FRESH).await;
        assert!(
            paths(&search, "newcomer", 9).await.is_empty(),
            "the old listing answers"
        );
        walks.changed().await.expect("a walk");
        assert_eq!(paths(&search, "newcomer", 9).await, ["newcomer"]);
    }

    #[tokio::test]
    async fn many_searches_at_once_share_one_walk() {
        let (directory, scope) = (project(), TaskScope::new());
        let search = FileSearch::new(directory.path(), scope.spawner());
        let cx = Context::background();
        let (one, two, three) = tokio::join!(
            search.search(&cx, "m", 9),
            search.search(&cx, "ma", 9),
            search.search(&cx, "mai", 9),
        );
        assert!(one.is_ok() && two.is_ok() && three.is_ok());
        assert_eq!(*search.inner.walks.borrow(), 1);
    }

    #[tokio::test]
    async fn a_directory_that_cannot_be_listed_is_said_and_tried_again() {
        let (directory, scope) = (project(), TaskScope::new());
        let missing = directory.path().join("missing");
        let search = FileSearch::new(&missing, scope.spawner());
        let error = search
            .search(&Context::background(), "x", 9)
            .await
            .expect_err("it is missing");
        assert!(
            error.to_string().contains("missing: No such file"),
            "{error}"
        );
        std::fs::create_dir(&missing).expect("directory");
        std::fs::write(missing.join("x"), "").expect("file");
        tokio::time::pause();
        tokio::time::advance(FRESH * 2).await;
        assert_eq!(paths(&search, "x", 9).await, ["x"]);
    }

    #[tokio::test]
    async fn a_cancelled_search_and_one_after_the_session_end() {
        let (directory, scope) = (project(), TaskScope::new());
        let search = FileSearch::new(directory.path(), scope.spawner());
        let (cx, cancel) = Context::background().with_cancel();
        cancel.cancel();
        assert_eq!(
            search.search(&cx, "x", 9).await,
            Err(FileSearchError::Cancelled)
        );
        drop(scope);
        let late = FileSearch::new(directory.path(), TaskScope::new().spawner());
        assert_eq!(
            late.search(&Context::background(), "x", 9).await,
            Err(FileSearchError::Cancelled)
        );
    }
}
