//! The one place that bounds what a tool returns.

use std::path::PathBuf;

use bezel_session_types::{ResultContent, ToolResultMessage};
use serde_json::Value;

use super::output::pretty;
use super::save::{MARKER_BYTES, Whole, line_count};

/// Lines of text that the model may read of one result.
pub(crate) const MAX_LINES: usize = 2_000;
/// Bytes of text that the model may read of one result.
pub(crate) const MAX_BYTES: usize = 50 * 1024;
/// Bytes of one picture, decoded.
const MAX_IMAGE: usize = 5 * 1024 * 1024;
/// Bytes of details for renderers, as JSON.
const MAX_DETAILS: usize = 1024 * 1024;

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
    let whole = Whole {
        said: whole,
        text_bytes,
        text_stays: stays,
    };
    let left = whole.save(new_file()).await;
    result.is_error |= left.is_lost;
    let note = ResultContent::text(left.note);
    match stays {
        true => result.content.push(note),
        false => result.content.insert(0, note),
    }
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
