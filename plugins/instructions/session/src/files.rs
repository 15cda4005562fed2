//! Finding and reading instruction files.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of one file that go into the prompt; what is more is left out with a note.
const LIMIT: usize = 64 * 1024;

/// File names, by precedence within one directory.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// An instruction file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where.
    pub(crate) path: PathBuf,
    text: String,
}

impl Found {
    /// The file as a section of the prompt.
    pub(crate) fn section(&self) -> String {
        format!(
            "Instructions from {}:\n\n{}",
            self.path.display(),
            self.text
        )
    }
}

/// The person's own file, then those from the file system's root down to `directory`. A file that says the
/// same as another of its directory, or is a link to it, counts once. One that cannot be read is logged.
pub(crate) fn read(directory: &Path, user_file: Option<&Path>) -> Vec<Found> {
    let mut found: Vec<Found> = user_file.and_then(read_one).into_iter().collect();
    let ancestors: Vec<&Path> = directory.ancestors().collect();
    for ancestor in ancestors.into_iter().rev() {
        let before = found.len();
        for name in NAMES {
            let Some(file) = read_one(&ancestor.join(name)) else {
                continue;
            };
            if !found[before..].iter().any(|other| other.text == file.text) {
                found.push(file);
            }
        }
    }
    found
}

fn read_one(path: &Path) -> Option<Found> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "instructions could not be read");
            return None;
        }
    };
    let mut text = String::from_utf8_lossy(&bytes).trim().to_owned();
    if text.len() > LIMIT {
        text.truncate(text.floor_char_boundary(LIMIT));
        text.push_str("\n\n(The rest of this file is left out: it is longer than 64 KiB.)");
    }
    (!text.is_empty()).then(|| Found {
        path: path.to_owned(),
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_nearer_to_the_directory_come_later_and_duplicates_count_once() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(root.path().join("AGENTS.md"), "outer").unwrap();
        fs::write(root.path().join("CLAUDE.md"), "outer\n").unwrap();
        fs::write(inner.join("CLAUDE.md"), "inner").unwrap();
        fs::write(root.path().join("own.md"), "mine").unwrap();
        let found = read(&inner, Some(&root.path().join("own.md")));
        let ours: Vec<&str> = found
            .iter()
            .filter(|file| file.path.starts_with(root.path()))
            .map(|file| file.text.as_str())
            .collect();
        assert_eq!(ours, ["mine", "outer", "inner"]);
        assert!(
            found
                .last()
                .unwrap()
                .section()
                .contains("CLAUDE.md:\n\ninner")
        );
    }

    #[test]
    fn a_huge_file_is_cut_with_a_note_and_invalid_text_is_kept_readable() {
        let root = tempfile::tempdir().unwrap();
        let mut bytes = vec![b'x'; LIMIT + 10];
        bytes[0] = 0xff;
        fs::write(root.path().join("AGENTS.md"), bytes).unwrap();
        let found = read(root.path(), None);
        let text = &found.last().unwrap().text;
        assert!(
            text.contains("left out") && text.len() < LIMIT + 200 && text.starts_with('\u{fffd}')
        );
    }
}
