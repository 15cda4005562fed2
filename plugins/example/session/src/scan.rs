//! One scan: reads every file of the tree and tells what it finds.

use std::sync::Arc;

use bezel_example_contract::{
    Place, ProjectTree, ScanProgress, ScanReport, Todo, TodoEvent, TodoList, TreeError,
};
use bezel_rpc::{Context, EventSource, JobError, StateCell};

const MOST_TODOS: usize = 1000;
const MOST_CHARACTERS: usize = 200;

/// What a scan reads and whom it tells.
pub(crate) struct Scanning {
    pub(crate) tree: Arc<ProjectTree>,
    pub(crate) words: Vec<String>,
    pub(crate) found: StateCell<TodoList>,
    pub(crate) events: EventSource<TodoEvent>,
}

impl Scanning {
    /// The whole work. A cancelled job drops it between two files: the state then stays as it was.
    pub(crate) async fn run(
        self,
        cx: Context,
        progress: StateCell<ScanProgress>,
    ) -> Result<ScanReport, JobError> {
        let tree = Arc::clone(&self.tree);
        let files = blocking(move || tree.files()).await?;
        progress.update(&cx, |progress| progress.files = count(files.len()));
        let mut todos = Vec::new();
        for path in &files {
            let (tree, name) = (Arc::clone(&self.tree), path.clone());
            // What cannot be read, or is no text, has no comments.
            let text = blocking(move || Ok(tree.text(&name).unwrap_or_default())).await?;
            let room = MOST_TODOS - todos.len();
            for todo in comments(path, &text, &self.words).take(room) {
                self.events
                    .emit(&cx, TodoEvent::Found { todo: todo.clone() });
                todos.push(todo);
            }
            progress.update(&cx, |progress| {
                progress.read += 1;
                progress.found = count(todos.len());
            });
        }
        let report = ScanReport {
            files: count(files.len()),
            found: count(todos.len()),
        };
        let files = report.files;
        self.found.set(&cx, TodoList { todos, files });
        let found = report.found;
        self.events.emit(&cx, TodoEvent::Complete { found });
        Ok(report)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TreeError> + Send + 'static,
) -> Result<T, JobError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| JobError::failed(error.to_string()))?
        .map_err(|error| JobError::failed(error.to_string()))
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// The comments of one file: a mark of a comment, then one of the words, then what is left to do.
pub(crate) fn comments<'t>(
    path: &'t str,
    text: &'t str,
    words: &'t [String],
) -> impl Iterator<Item = Todo> + 't {
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let (_, comment) = ["//", "#", "--", "/*", "<!--"]
            .iter()
            .filter_map(|mark| line.split_once(mark))
            .min_by_key(|(before, _)| before.len())?;
        let comment = comment
            .trim_start_matches(['/', '!', '*', '-', '#'])
            .trim_start();
        let word = words.iter().find(|word| {
            let rest = comment.strip_prefix(word.as_str());
            rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        })?;
        let rest = comment[word.len()..].trim_start_matches(':').trim();
        Some(Todo {
            place: Place {
                path: path.to_owned(),
                line: number,
            },
            word: word.clone(),
            text: rest.chars().take(MOST_CHARACTERS).collect(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(u32, String, String)> {
        let words = ["TODO".to_owned(), "FIXME".to_owned()];
        comments("a", text, &words)
            .map(|todo| (todo.place.line, todo.word, todo.text))
            .collect()
    }

    #[test]
    fn a_comment_that_begins_with_a_word_is_found_in_many_languages() {
        let text =
            "let a = 1; // TODO: one\n# FIXME two\n-- TODO three\n<!-- TODO four\n///  TODO\n";
        let lines: Vec<_> = found(text)
            .into_iter()
            .map(|(line, _, text)| (line, text))
            .collect();
        let expected = [(1, "one"), (2, "two"), (3, "three"), (4, "four"), (5, "")];
        assert_eq!(lines, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn a_word_outside_a_comment_or_inside_another_word_is_not() {
        assert_eq!(found("TODO\n// TODOS\n// about TODO\nlet TODO = 1;\n"), []);
    }
}
