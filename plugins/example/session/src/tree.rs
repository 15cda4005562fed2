//! The project's files on disk.

use std::fs;
use std::io;
use std::path::Path;

use bezel_example_contract::{ProjectTree, TreeError};
use ignore::WalkBuilder;

/// Of a larger project, whichever files are found first.
const MOST_FILES: usize = 20_000;
/// Larger files are hardly written by hand.
const MOST_BYTES: u64 = 1024 * 1024;

/// The files below `directory`, without what ignore files exclude and what is hidden.
pub fn project_tree(directory: &Path) -> ProjectTree {
    let (listed, read) = (directory.to_owned(), directory.to_owned());
    ProjectTree::new(
        directory.to_owned(),
        move || list(&listed),
        move |path| text(&read, path),
    )
}

fn list(directory: &Path) -> Result<Vec<String>, TreeError> {
    fs::read_dir(directory).map_err(|error| unreadable(".", &error))?;
    let walk = WalkBuilder::new(directory).require_git(false).build();
    let mut files: Vec<String> = walk
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .filter_map(|entry| {
            let path = entry.path().strip_prefix(directory).ok()?;
            Some(path.to_str()?.replace(std::path::MAIN_SEPARATOR, "/"))
        })
        .take(MOST_FILES)
        .collect();
    files.sort_unstable();
    Ok(files)
}

fn text(directory: &Path, path: &str) -> Result<String, TreeError> {
    let whole = directory.join(path);
    let size = fs::metadata(&whole)
        .map_err(|error| unreadable(path, &error))?
        .len();
    if size > MOST_BYTES {
        let reason = format!("it has {size} bytes, more than {MOST_BYTES}");
        return Err(unreadable(path, &io::Error::other(reason)));
    }
    fs::read_to_string(&whole).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &str, error: &io::Error) -> TreeError {
    TreeError {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}
