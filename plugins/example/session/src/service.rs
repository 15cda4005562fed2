//! The service: what it holds, and what peers may ask of it.

use std::sync::{Arc, Mutex, PoisonError};

use bezel_context::Spawner;
use bezel_example_contract::{
    Excerpt, ExcerptError, Place, ProjectTree, Scan, ScanClient, ScanProgress, ScanRefused,
    ScanReport, TodoEvent, TodoList, Todos,
};
use bezel_rpc::{Completion, Context, EventSource, Events, Job, JobError, State, StateCell};

use crate::scan::Scanning;

const WORDS: [&str; 3] = ["TODO", "FIXME", "XXX"];
const MOST_AROUND: u32 = 20;

/// What is left to do in one project.
pub struct TodoService {
    tree: Arc<ProjectTree>,
    spawner: Spawner,
    found: StateCell<TodoList>,
    events: EventSource<TodoEvent>,
    // A plain mutex: held to look or replace, never across an await.
    newest: Mutex<Option<RunningScan>>,
}

/// A scan as its owner and its callers hold it.
#[derive(Clone)]
struct RunningScan(Job<ScanProgress, ScanReport>);

impl TodoService {
    /// Over a tree. Scans run on `spawner`'s scope and end with it.
    pub fn new(tree: Arc<ProjectTree>, spawner: Spawner) -> Self {
        TodoService {
            tree,
            spawner,
            found: StateCell::new(TodoList::default()),
            events: EventSource::new(),
            newest: Mutex::default(),
        }
    }

    fn newest_scan(&self) -> std::sync::MutexGuard<'_, Option<RunningScan>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Todos for TodoService {
    fn found(&self) -> State<TodoList> {
        self.found.state()
    }

    fn events(&self) -> Events<TodoEvent> {
        self.events.events()
    }

    async fn excerpt(
        &self,
        _cx: &Context,
        place: Place,
        around: Option<u32>,
    ) -> Result<Excerpt, ExcerptError> {
        // The facade is narrow: the tree reads any file, a peer only lines around what was found.
        if !self
            .found
            .get()
            .todos
            .iter()
            .any(|todo| todo.place == place)
        {
            return Err(ExcerptError::UnknownPlace { place });
        }
        let (tree, path) = (Arc::clone(&self.tree), place.path.clone());
        let read = tokio::task::spawn_blocking(move || tree.text(&path)).await;
        let unreadable = |reason: String| ExcerptError::Unreadable {
            path: place.path.clone(),
            reason,
        };
        let text = read
            .map_err(|error| unreadable(error.to_string()))?
            .map_err(|error| unreadable(error.reason))?;
        let around = around.unwrap_or(3).min(MOST_AROUND);
        let first = place.line.saturating_sub(around).max(1);
        let lines = text
            .lines()
            .zip(1..)
            .filter(|(_, number)| (first..=place.line.saturating_add(around)).contains(number))
            .map(|(line, _)| line.to_owned());
        Ok(Excerpt {
            first,
            lines: lines.collect(),
        })
    }

    async fn scan(
        &self,
        _cx: &Context,
        words: Option<Vec<String>>,
    ) -> Result<ScanClient, ScanRefused> {
        let words = words.unwrap_or_else(|| WORDS.map(str::to_owned).to_vec());
        let fits = |word: &&String| {
            !(2..=20).contains(&word.len()) || !word.chars().all(char::is_alphanumeric)
        };
        if let Some(word) = words.iter().find(fits) {
            return Err(ScanRefused::NoWord { word: word.clone() });
        }
        let scanning = Scanning {
            tree: Arc::clone(&self.tree),
            words,
            found: self.found.clone(),
            events: self.events.clone(),
        };
        let job = Job::start(
            &self.spawner,
            "scan",
            ScanProgress::default(),
            |cx, progress| scanning.run(cx, progress),
        );
        let scan = RunningScan(job);
        if let Some(earlier) = self.newest_scan().replace(scan.clone()) {
            earlier.0.cancel();
        }
        Ok(ScanClient::new(scan))
    }

    async fn newest(&self, _cx: &Context) -> Option<ScanClient> {
        self.newest_scan().clone().map(ScanClient::new)
    }
}

impl Scan for RunningScan {
    fn progress(&self) -> State<ScanProgress> {
        self.0.progress()
    }

    async fn wait(&self, _cx: &Context) -> Result<ScanReport, JobError> {
        self.0.wait().await
    }

    async fn cancel(&self, _cx: &Context) {
        self.0.cancel();
    }

    fn completion(&self) -> Option<Completion> {
        Some(self.0.completion())
    }
}
