//! The output of one command: all of it in a file once it is long, a part of it for the model.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::plain_text::plain_text;
use crate::bound::{MAX_BYTES, MAX_LINES, NOTES_BYTES, NOTES_LINES, count, size};

/// Output up to this size stays in memory; the largest that a model is shown fits.
pub(crate) const MEMORY_BYTES: usize = 64 * 1024;
/// Most output that is saved. A command that writes more is ended: it runs away, and would fill the disk.
pub(crate) const SAVED_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Kept from the start, and thrice as much from the end, when the output cannot be saved.
const LOST_HEAD: usize = 16 * 1024;
const LOST_TAIL: usize = 48 * 1024;
/// Shown from the start and from the end when it is too long.
const HEAD_BYTES: usize = (MAX_BYTES - NOTES_BYTES) / 3;
const TAIL_BYTES: usize = MAX_BYTES - NOTES_BYTES - HEAD_BYTES;
const SHOWN_LINES: usize = MAX_LINES - NOTES_LINES;
const HEAD_LINES: usize = SHOWN_LINES / 3;
const TAIL_LINES: usize = SHOWN_LINES - HEAD_LINES;

/// Takes output in and gives parts of it out. One writer; readers at any time.
#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    /// Bytes after which it is too much.
    limit: u64,
    total: AtomicU64,
    // A plain mutex: held to copy at most 64 KiB of memory, never across an await or a disk write.
    kept: Mutex<Kept>,
}

/// Why output is not in its file.
struct Unsaved(String);

#[derive(Debug)]
enum Kept {
    Memory(Vec<u8>),
    Saved(Arc<File>),
    /// The disk was full, or the like.
    Lost {
        head: Vec<u8>,
        tail: Vec<u8>,
        reason: String,
    },
}

/// The output passed [`SAVED_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMuch;

/// A part of the output for the model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Excerpt {
    /// Plain text within the bounds of a result.
    pub(crate) text: String,
    /// Where the whole output is, when the text leaves something out.
    pub(crate) saved: Option<PathBuf>,
}

impl Spool {
    /// Empty; `path` is where the output goes when it becomes long. Nothing is made there before.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self::with_limit(path, SAVED_BYTES)
    }

    pub(crate) fn with_limit(path: PathBuf, limit: u64) -> Self {
        Spool {
            path,
            limit,
            total: AtomicU64::new(0),
            kept: Mutex::new(Kept::Memory(Vec::new())),
        }
    }

    /// Bytes so far.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Acquire)
    }

    /// True once output goes to the disk, where taking it in may block.
    pub(crate) fn blocks(&self) -> bool {
        match &*self.lock() {
            Kept::Memory(memory) => memory.len() >= MEMORY_BYTES,
            Kept::Saved(_) => true,
            Kept::Lost { .. } => false,
        }
    }

    /// Where the output is being saved, if it is.
    pub(crate) fn saved(&self) -> Option<&Path> {
        matches!(&*self.lock(), Kept::Saved(_)).then_some(&*self.path)
    }

    /// Takes more in. What was taken counts even when it is too much.
    pub(crate) fn push(&self, bytes: &[u8]) -> Result<(), TooMuch> {
        let file = self.take_in(bytes);
        if let Some(file) = file
            && let Err(error) = (&*file).write_all(bytes)
        {
            self.give_up_saving(&file, bytes, &error);
        }
        let total = self.total.fetch_add(bytes.len() as u64, Ordering::AcqRel) + bytes.len() as u64;
        if total > self.limit {
            Err(TooMuch)
        } else {
            Ok(())
        }
    }

    /// Keeps the bytes in memory, or says into which file they go.
    fn take_in(&self, bytes: &[u8]) -> Option<Arc<File>> {
        let mut kept = self.lock();
        match &mut *kept {
            Kept::Memory(memory) if memory.len() + bytes.len() <= MEMORY_BYTES => {
                memory.extend_from_slice(bytes)
            }
            Kept::Memory(memory) => {
                let memory = std::mem::take(memory);
                *kept = self.save(memory);
                drop(kept);
                return self.take_in(bytes);
            }
            Kept::Saved(file) => return Some(Arc::clone(file)),
            Kept::Lost { tail, .. } => keep_tail(tail, bytes),
        }
        None
    }

    fn save(&self, memory: Vec<u8>) -> Kept {
        match create(&self.path).and_then(|file| (&file).write_all(&memory).map(|()| file)) {
            Ok(file) => Kept::Saved(Arc::new(file)),
            Err(error) => {
                remove(&self.path);
                lost(memory, &error)
            }
        }
    }

    /// Frees the disk again: a session that cannot write its own records is worse off than one without this output.
    fn give_up_saving(&self, file: &File, bytes: &[u8], error: &io::Error) {
        let length = self.total();
        let mut head = vec![0; LOST_HEAD];
        let mut tail = vec![0; LOST_TAIL];
        let read = file
            .read_exact_at(&mut head, 0)
            .and_then(|()| file.read_exact_at(&mut tail, length.saturating_sub(LOST_TAIL as u64)));
        if let Err(error) = read {
            tracing::debug!(%error, "the saved part of an output could not be read back");
        }
        keep_tail(&mut tail, bytes);
        remove(&self.path);
        *self.lock() = Kept::Lost {
            head,
            tail,
            reason: error.to_string(),
        };
    }

    /// The bytes from `from` up to `to`, as far as they are kept.
    pub(crate) fn slice(&self, from: u64, to: u64) -> Vec<u8> {
        let file = match &*self.lock() {
            Kept::Memory(memory) => {
                let range = index(from).min(memory.len())..index(to).min(memory.len());
                return memory.get(range).unwrap_or_default().to_vec();
            }
            Kept::Lost { head, tail, .. } => {
                let start = self.total().saturating_sub(tail.len() as u64);
                let (part, start) = if from < start && from < head.len() as u64 {
                    (head, 0)
                } else {
                    (tail, start)
                };
                let end = index(to.saturating_sub(start)).min(part.len());
                return part
                    .get(index(from.saturating_sub(start))..end)
                    .unwrap_or_default()
                    .to_vec();
            }
            Kept::Saved(file) => Arc::clone(file),
        };
        let mut bytes = vec![0; index(to.min(self.total()).saturating_sub(from))];
        if let Err(error) = file.read_exact_at(&mut bytes, from) {
            tracing::warn!(%error, path = %self.path.display(), "a saved output could not be read back");
            bytes.clear();
        }
        bytes
    }

    /// The output from `from` to its present end, as a model is shown it. What is left out is saved.
    pub(crate) fn excerpt(&self, from: u64) -> Excerpt {
        let total = self.total();
        let length = total.saturating_sub(from);
        if length <= MEMORY_BYTES as u64 {
            let text = plain_text(&self.slice(from, total));
            if text.len() <= HEAD_BYTES + TAIL_BYTES
                && text.lines().count() <= HEAD_LINES + TAIL_LINES
            {
                return Excerpt { text, saved: None };
            }
        }
        let saved = self.save_now();
        // Escape sequences and the like take room that the text does not.
        let head = plain_text(&self.slice(from, (from + 2 * HEAD_BYTES as u64).min(total)));
        let tail =
            plain_text(&self.slice(from.max(total.saturating_sub(2 * TAIL_BYTES as u64)), total));
        let head = first_lines(&head, HEAD_LINES, HEAD_BYTES);
        let tail = last_lines(&tail, TAIL_LINES, TAIL_BYTES);
        let gap = match &saved {
            Ok(path) => format!(
                "[… {} of output in all; the middle is left out here. The whole is in {}: search it with grep or read a range of it.]",
                size(length),
                path.display()
            ),
            Err(Unsaved(reason)) => format!(
                "[… {} of output in all; the middle is lost, because it could not be saved: {reason}.]",
                size(length)
            ),
        };
        Excerpt {
            text: format!("{head}\n{gap}\n{tail}"),
            saved: saved.ok(),
        }
    }

    /// Saves what is still only in memory, because it is not shown whole.
    fn save_now(&self) -> Result<PathBuf, Unsaved> {
        let mut kept = self.lock();
        if let Kept::Memory(memory) = &mut *kept {
            let memory = std::mem::take(memory);
            *kept = self.save(memory);
        }
        match &*kept {
            Kept::Lost { reason, .. } => Err(Unsaved(reason.clone())),
            _ => Ok(self.path.clone()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn create(path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "a half-saved output could not be removed");
    }
}

fn lost(memory: Vec<u8>, error: &io::Error) -> Kept {
    let head = memory[..memory.len().min(LOST_HEAD)].to_vec();
    Kept::Lost {
        head,
        tail: memory,
        reason: error.to_string(),
    }
}

/// Appends, and drops from the front in large steps so that each byte is moved about once.
fn keep_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    tail.extend_from_slice(&bytes[bytes.len().saturating_sub(LOST_TAIL)..]);
    if tail.len() > 2 * LOST_TAIL {
        tail.drain(..tail.len() - LOST_TAIL);
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

fn first_lines(text: &str, lines: usize, bytes: usize) -> &str {
    let end = memchr::memchr_iter(b'\n', text.as_bytes())
        .nth(lines - 1)
        .map_or(text.len(), |at| at + 1);
    let text = &text[..end];
    if text.len() <= bytes {
        return text.trim_end_matches('\n');
    }
    let text = &text[..text.floor_char_boundary(bytes)];
    // Whole lines, unless that would leave out much of a long one.
    match text.rfind('\n') {
        Some(at) if at >= bytes / 2 => &text[..at],
        _ => text,
    }
}

fn last_lines(text: &str, lines: usize, bytes: usize) -> &str {
    let text = text.trim_end_matches('\n');
    let start = memchr::memrchr_iter(b'\n', text.as_bytes())
        .nth(lines - 1)
        .map_or(0, |at| at + 1);
    let text = &text[start..];
    if text.len() <= bytes {
        return text;
    }
    let text = &text[text.ceil_char_boundary(text.len() - bytes)..];
    match text.find('\n') {
        Some(at) if at < bytes / 2 => &text[at + 1..],
        _ => text,
    }
}

/// How much there was, for a person.
pub(crate) fn skipped(bytes: u64) -> String {
    format!("[… {} bytes skipped …]\n", count(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbered lines of 8 bytes each.
    fn lines(count: usize) -> Vec<u8> {
        (0..count)
            .flat_map(|line| format!("{line:>7}\n").into_bytes())
            .collect()
    }

    #[test]
    fn a_disk_that_fills_up_later_leaves_head_and_tail_and_no_file() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("saved");
        let spool = Spool::new(path.clone());
        let written = lines(20_000);
        for part in written.chunks(10_000) {
            spool.push(part).expect("not too much");
        }
        // From here on writing fails, as on a full disk.
        *spool.lock() = Kept::Saved(Arc::new(File::open(&path).expect("saved")));
        let more = lines(1_000);
        for part in more.chunks(3_000) {
            spool.push(part).expect("not too much");
        }
        assert!(!path.exists(), "a full disk is not kept full");
        assert_eq!(spool.total(), 21_000 * 8);
        let excerpt = spool.excerpt(0);
        assert_eq!(excerpt.saved, None);
        assert!(
            excerpt.text.starts_with("      0\n      1\n"),
            "{}",
            excerpt.text
        );
        assert!(
            excerpt
                .text
                .contains("the middle is lost, because it could not be saved")
        );
        let end = "  19999\n      0\n      1\n";
        assert!(
            excerpt.text.contains(end),
            "the tail goes on across the failure"
        );
        assert!(excerpt.text.ends_with("    998\n    999"));
    }

    #[test]
    fn every_range_reads_back_in_memory_and_from_disk() {
        let directory = tempfile::tempdir().expect("temporary directory");
        for count in [100, 9_000] {
            let spool = Spool::new(directory.path().join(count.to_string()));
            let written = lines(count);
            spool.push(&written).expect("not too much");
            assert_eq!(spool.saved().is_some(), count > 8_192);
            let total = written.len() as u64;
            for (from, to) in [
                (0, total),
                (5, 17),
                (total - 9, total),
                (total - 3, total + 100),
                (total, total),
            ] {
                let expected = &written[index(from)..index(to.min(total))];
                assert_eq!(spool.slice(from, to), expected, "{from}..{to} of {total}");
            }
        }
    }

    #[test]
    fn more_than_the_limit_is_too_much() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let spool = Spool::with_limit(directory.path().join("saved"), 10);
        assert_eq!(spool.push(b"0123456789"), Ok(()));
        assert_eq!(spool.push(b"x"), Err(TooMuch));
    }
}
