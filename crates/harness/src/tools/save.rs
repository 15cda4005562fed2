//! A whole output on its way into its file, and what the model reads in its place.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tokio::sync::oneshot;

use super::bound::{MAX_BYTES, MAX_LINES};

/// Room for the line between head and tail.
pub(super) const MARKER_BYTES: usize = 2048;
/// Bytes that are written and counted in one go: what was just written is counted out of the processor's cache.
const PIECE: usize = 256 * 1024;
/// Files from this size on have their blocks reserved before anything is written, which is cheaper than block by
/// block, and tells of a full disk at once.
#[cfg(target_os = "linux")]
const RESERVED: usize = 1024 * 1024;

/// All that a result said.
pub(super) struct Whole {
    /// Its text, and after it the structured data, where there is any.
    pub(super) said: String,
    /// How many bytes of it are the text.
    pub(super) text_bytes: usize,
    /// The model reads the text as it is, and is told of the rest alone.
    pub(super) text_stays: bool,
}

/// What the model reads once the whole went to its file, or could not.
pub(super) struct Left {
    pub(super) note: String,
    pub(super) is_lost: bool,
}

impl Whole {
    /// Writes all of it into a new file, off the runtime.
    pub(super) async fn save(self, path: PathBuf) -> Left {
        let (told, left) = oneshot::channel();
        let target = path.clone();
        drop(tokio::task::spawn_blocking(move || {
            let (newlines, saved) = self.write(&target);
            // Nobody waits where the session was closed meanwhile.
            told.send(self.left(newlines, &target, saved.err())).ok();
            // Only now: giving back a large text's memory takes a fifth of the time that writing it did.
            drop(self);
        }));
        left.await.unwrap_or_else(|_| Left {
            note: place(0, &path, Some(&io::Error::other("the writer ended"))),
            is_lost: true,
        })
    }

    /// Returns the line ends of the text too. What could not be written whole is not left behind.
    fn write(&self, path: &Path) -> (usize, io::Result<()>) {
        let (text, data) = self.said.as_bytes().split_at(self.text_bytes);
        let file = File::create(path);
        let is_made = file.is_ok();
        let mut file = file.and_then(|file| reserved(file, self.said.len()));
        let mut newlines = 0;
        for piece in text.chunks(PIECE) {
            file = file.and_then(|file| written(file, piece));
            newlines += line_ends(piece);
        }
        let saved = file.and_then(|file| written(file, data)).map(drop);
        if is_made && saved.is_err() {
            // The disk that it does not fit on gets its room back.
            std::fs::remove_file(path).ok();
        }
        (newlines, saved)
    }

    fn left(&self, newlines: usize, path: &Path, failure: Option<io::Error>) -> Left {
        let place = place(self.said.len(), path, failure.as_ref());
        let note = match self.text_stays {
            true => format!("[... The structured data was left out. {place} ...]"),
            false => shorten(&self.said[..self.text_bytes], newlines, &place),
        };
        Left {
            note,
            is_lost: failure.is_some(),
        }
    }
}

/// The file ends where it was written to, whatever is reserved behind that.
#[cfg(target_os = "linux")]
fn reserved(file: File, size: usize) -> io::Result<File> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;

    if size < RESERVED {
        return Ok(file);
    }
    match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, size as u64) {
        Err(full @ (Errno::NOSPC | Errno::DQUOT)) => Err(full.into()),
        // Not every file system can.
        Ok(()) | Err(_) => Ok(file),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserved(file: File, _size: usize) -> io::Result<File> {
    Ok(file)
}

fn written(mut file: File, piece: &[u8]) -> io::Result<File> {
    file.write_all(piece)?;
    Ok(file)
}

fn line_ends(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count()
}

/// Lines of a text, of one that does not end with a line end too.
pub(super) fn line_count(text: &str) -> usize {
    line_ends(text.as_bytes()) + usize::from(!text.ends_with('\n'))
}

/// Head and tail of `text`, which has so many line ends, with a line between them, within the limits altogether.
fn shorten(text: &str, newlines: usize, place: &str) -> String {
    let half_lines = (MAX_LINES - 4) / 2;
    let half_bytes = (MAX_BYTES - MARKER_BYTES) / 2;
    let head = head(text, half_lines, half_bytes);
    let tail = tail(&text[head.len()..], half_lines, half_bytes);
    let omitted = &text[head.len()..text.len() - tail.len()];
    let kept = line_ends(head.as_bytes()) + line_ends(tail.as_bytes());
    let lines = newlines - kept + usize::from(!omitted.ends_with('\n'));
    let bytes = omitted.len();
    let gap = if head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{gap}[... {bytes} bytes in {lines} lines left out. {place} ...]\n{tail}")
}

/// Where the whole is, of so many bytes, or why it is nowhere.
fn place(whole: usize, path: &Path, failure: Option<&io::Error>) -> String {
    match failure {
        None => format!(
            "The whole output ({whole} bytes) is in {}; read it in parts.",
            path.display()
        ),
        Some(error) => format!(
            "The whole output could not be saved to {}: {error}. It is lost: make room, then run a narrower command.",
            path.display()
        ),
    }
}

fn head(text: &str, lines: usize, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = &text[..end];
    match cut.match_indices('\n').nth(lines - 1) {
        Some((at, _)) => &cut[..=at],
        // Whole lines where there are any; a single endless line is cut within.
        None if end < text.len() => cut.rfind('\n').map_or(cut, |at| &cut[..=at]),
        None => cut,
    }
}

fn tail(text: &str, lines: usize, bytes: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let cut = &text[start..];
    let body = cut.strip_suffix('\n').unwrap_or(cut);
    match body.rmatch_indices('\n').nth(lines - 1) {
        Some((at, _)) => &cut[at + 1..],
        None if start > 0 => cut
            .find('\n')
            .filter(|at| at + 1 < cut.len())
            .map_or(cut, |at| &cut[at + 1..]),
        None => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(said: &str) -> Whole {
        Whole {
            said: said.into(),
            text_bytes: said.len(),
            text_stays: false,
        }
    }

    #[tokio::test]
    async fn a_text_of_many_pieces_is_saved_whole_and_its_lines_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("saved");
        let line = "A line, longer than the next, and with ä.\n\n";
        let said = line.repeat((RESERVED + 3 * PIECE) / line.len()) + "and an end";
        let left = whole(&said).save(path.clone()).await;
        assert!(!left.is_lost);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), said);
        let mark = left.note.find("[... ").unwrap();
        let (head, rest) = left.note.split_at(mark);
        let (marker, tail) = rest.split_once('\n').unwrap();
        let omitted = &said[head.len()..said.len() - tail.len()];
        let counted = format!(
            "[... {} bytes in {} lines left out.",
            omitted.len(),
            omitted.lines().count()
        );
        assert!(marker.starts_with(&counted), "{marker} for {counted}");
    }

    #[tokio::test]
    async fn a_text_that_cannot_be_saved_is_counted_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let left = whole(&"x\n".repeat(10_000))
            .save(folder.path().to_owned())
            .await;
        assert!(left.is_lost);
        let (head, _) = left.note.split_once("[... ").unwrap();
        let omitted = 10_000 - 2 * head.lines().count();
        let counted = format!("in {omitted} lines left out");
        assert!(left.note.contains(&counted), "{counted}");
    }
}
