//! File name patterns, looked up as a shell does.

use std::path::{Path, PathBuf};

use crate::pattern::matches_text;

/// Names that file name patterns may stand for; more are not judged one by one.
const MOST_NAMES: usize = 2_000;

/// The paths that a pattern of file names stands for; itself where it finds nothing.
pub(super) fn expanded(pattern: &str, from: &Path) -> Option<Vec<PathBuf>> {
    if pattern.contains(['[', '\\']) {
        return None;
    }
    let (mut found, parts) = match pattern.strip_prefix('/') {
        Some(rest) => (vec![PathBuf::from("/")], rest),
        None => (vec![PathBuf::new()], pattern),
    };
    for part in parts.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for base in &found {
            if !part.contains(['*', '?']) {
                next.push(base.join(part));
                continue;
            }
            let Ok(names) = std::fs::read_dir(from.join(base)) else {
                continue;
            };
            // Some shells find the directory above too.
            if part.starts_with('.') && matches_text(part, "..") {
                next.push(base.join(".."));
            }
            for entry in names {
                let name = entry.ok()?.file_name();
                let name = name.to_str()?;
                if name.starts_with('.') && !part.starts_with('.') {
                    continue;
                }
                if matches_text(part, name) {
                    next.push(base.join(name));
                }
                if next.len() > MOST_NAMES {
                    return None;
                }
            }
        }
        found = next;
    }
    found.retain(|path| from.join(path).symlink_metadata().is_ok());
    if found.is_empty() {
        found.push(pattern.into());
    }
    Some(found)
}
