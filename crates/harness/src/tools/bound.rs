//! The one place that bounds what a tool returns.

use std::path::{Path, PathBuf};

use bezel_session_types::{ResultContent, ToolResultMessage};
use serde_json::Value;

use super::output::pretty;

/// Lines of text that the model may read of one result.
pub(crate) const MAX_LINES: usize = 2_000;
/// Bytes of text that the model may read of one result.
pub(crate) const MAX_BYTES: usize = 50 * 1024;
/// Bytes of one picture, decoded.
const MAX_IMAGE: usize = 5 * 1024 * 1024;
/// Bytes of details for renderers, as JSON.
const MAX_DETAILS: usize = 1024 * 1024;
/// Room for the line between head and tail.
const MARKER_BYTES: usize = 2048;

/// Bounds a result. Whole text that does not fit goes to a new file that `new_file` names; the
/// result says which. Structured data goes there with it, after the text, and leaves the result; it does so too
/// where it has more bytes than text may have. A result within the limits passes unchanged, so bounding twice is
/// bounding once.
pub(crate) async fn bound(result: &mut ToolResultMessage, new_file: impl FnOnce() -> PathBuf) {
    bound_details(&mut result.details);
    if let Some(size) = result.content.iter().find_map(oversized_image) {
        result
            .content
            .retain(|part| oversized_image(part).is_none());
        result.is_error = true;
        result.content.push(ResultContent::text(format!(
            "A picture of {} MiB was left out: the limit is {} MiB. Ask for a smaller one.",
            size.div_ceil(1024 * 1024),
            MAX_IMAGE / 1024 / 1024
        )));
    }
    if result.is_error {
        result.structured = None;
    }
    let structured_fits = |data: &Value| json_size(data, MAX_BYTES).is_some();
    let text_fits = fits(&result.content, MAX_BYTES, MAX_LINES);
    if text_fits && result.structured.as_ref().is_none_or(structured_fits) {
        return;
    }
    // Where only the data is too large, the text stays as it is.
    let stays = fits(&result.content, MAX_BYTES - MARKER_BYTES, MAX_LINES - 4);
    let mut whole = match stays {
        true => take_text(&mut result.content.clone()),
        false => take_text(&mut result.content),
    };
    let text_bytes = whole.len();
    if let Some(structured) = result.structured.take() {
        let structured = pretty(&structured);
        // What the model reads may be the data itself.
        if structured != whole {
            whole.push_str("\n\n");
            whole.push_str(&structured);
        }
    }
    let path = new_file();
    let (whole, saved) = save(whole, &path).await;
    if saved.is_err() {
        result.is_error = true;
    }
    let failure = saved.as_ref().err();
    if stays {
        let place = place(whole.len(), &path, failure);
        let note = format!("[... The structured data was left out. {place} ...]");
        result.content.push(ResultContent::text(note));
        return;
    }
    let text = &whole[..text_bytes.min(whole.len())];
    let shortened = shorten(text, whole.len(), &path, failure);
    result.content.insert(0, ResultContent::text(shortened));
}

/// The texts of a result in one, a line apart. The first one's memory is gone on with: a result is mostly one
/// text, which may be large.
fn take_text(content: &mut Vec<ResultContent>) -> String {
    let is_text = |part: &mut ResultContent| matches!(part, ResultContent::Text { .. });
    let texts = content.extract_if(.., is_text);
    let texts = texts.filter_map(|part| match part {
        ResultContent::Text { text } => Some(text),
        ResultContent::Image(_) => None,
    });
    let joined = texts.reduce(|mut whole, text| {
        whole.push('\n');
        whole.push_str(&text);
        whole
    });
    joined.unwrap_or_default()
}

fn fits(content: &[ResultContent], max_bytes: usize, max_lines: usize) -> bool {
    let texts = || {
        content.iter().filter_map(|part| match part {
            ResultContent::Text { text } => Some(text),
            ResultContent::Image(_) => None,
        })
    };
    // Lines are counted only where there are few bytes to look at.
    texts().map(String::len).sum::<usize>() <= max_bytes
        && texts().map(|text| line_count(text)).sum::<usize>() <= max_lines
}

/// Bytes of `value` as JSON, as far as they are not more than `limit`.
fn json_size(value: &Value, limit: usize) -> Option<usize> {
    /// Counts what is written, and refuses what is too much.
    struct Count {
        written: usize,
        limit: usize,
    }

    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.written += bytes.len();
            match self.written <= self.limit {
                true => Ok(bytes.len()),
                false => Err(std::io::ErrorKind::FileTooLarge.into()),
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count { written: 0, limit };
    let written = serde_json::to_writer(&mut count, value);
    written.is_ok().then_some(count.written)
}

fn line_count(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() + usize::from(!text.ends_with('\n'))
}

fn oversized_image(part: &ResultContent) -> Option<usize> {
    match part {
        ResultContent::Image(image) => {
            Some(image.data.len() / 4 * 3).filter(|size| *size > MAX_IMAGE)
        }
        ResultContent::Text { .. } => None,
    }
}

fn bound_details(details: &mut Value) {
    if !details.is_null() {
        let size = serde_json::to_string(details).map_or(usize::MAX, |text| text.len());
        if size > MAX_DETAILS {
            *details = serde_json::json!({ "omitted": true, "bytes": size });
        }
    }
}

async fn save(whole: String, path: &Path) -> (String, std::io::Result<()>) {
    let target = path.to_owned();
    let written = tokio::task::spawn_blocking(move || {
        let written = std::fs::write(&target, &whole);
        (whole, written)
    });
    match written.await {
        Ok(written) => written,
        Err(error) => (String::new(), Err(std::io::Error::other(error))),
    }
}

/// Head and tail of `text` with a line between them, within the limits altogether; `whole` is how many bytes were
/// saved.
fn shorten(text: &str, whole: usize, path: &Path, failure: Option<&std::io::Error>) -> String {
    let half_lines = (MAX_LINES - 4) / 2;
    let half_bytes = (MAX_BYTES - MARKER_BYTES) / 2;
    let head = head(text, half_lines, half_bytes);
    let tail = tail(&text[head.len()..], half_lines, half_bytes);
    let omitted = text.len() - head.len() - tail.len();
    let lines = line_count(&text[head.len()..head.len() + omitted]);
    let place = place(whole, path, failure);
    let gap = if head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{gap}[... {omitted} bytes in {lines} lines left out. {place} ...]\n{tail}")
}

/// Where the whole is, of so many bytes, or why it is nowhere.
fn place(whole: usize, path: &Path, failure: Option<&std::io::Error>) -> String {
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
