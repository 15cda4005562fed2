//! Other programs' JSON lines, read one by one. A line that cannot be read is counted and never fatal.

use std::io::{self, BufRead, Read};

use bezel_session_types::{ImageContent, ModelRef, StopReason, Usage};
use serde_json::Value;

/// Bytes of one line that are read; a longer one is left out.
const LONGEST: u64 = 256 << 20;

/// One line.
pub(super) enum Line {
    Object(Value),
    /// Not JSON, or no object.
    Unreadable,
}

/// The lines of a file. Empty ones are skipped.
pub(super) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Lines {
            input,
            buffer: Vec::new(),
        }
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            self.buffer.clear();
            let read = (&mut self.input)
                .take(LONGEST)
                .read_until(b'\n', &mut self.buffer)?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 == LONGEST && self.buffer.last() != Some(&b'\n') {
                self.skip_line()?;
                return Ok(Some(Line::Unreadable));
            }
            if self.buffer.trim_ascii().is_empty() {
                continue;
            }
            let line = match serde_json::from_slice(&self.buffer) {
                Ok(value @ Value::Object(_)) => Line::Object(value),
                _ => Line::Unreadable,
            };
            return Ok(Some(line));
        }
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let available = self.input.fill_buf()?;
            let (used, done) = match available.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (available.len(), available.is_empty()),
            };
            self.input.consume(used);
            if done {
                return Ok(());
            }
        }
    }
}

/// A text member; empty where there is none.
pub(super) fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value
        .get(member)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A true flag.
pub(super) fn flag(value: &Value, member: &str) -> bool {
    value
        .get(member)
        .and_then(Value::as_bool)
        .unwrap_or_default()
}

/// The elements of a list member; none where there is no list.
pub(super) fn list<'v>(value: &'v Value, member: &str) -> &'v [Value] {
    value
        .get(member)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Milliseconds since 1970 of an RFC 3339 time.
pub(super) fn time(value: &Value) -> Option<i64> {
    let timestamp: jiff::Timestamp = text(value, "timestamp").parse().ok()?;
    Some(timestamp.as_millisecond())
}

pub(super) fn count(value: &Value, member: &str) -> u64 {
    value
        .get(member)
        .and_then(Value::as_u64)
        .unwrap_or_default()
}

/// A picture, where it is one that models take and its data looks like Base64.
pub(super) fn image(media_type: &str, data: &str) -> Option<ImageContent> {
    let known = matches!(
        media_type,
        "image/png" | "image/jpeg" | "image/gif" | "image/webp"
    );
    let encoded = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let usable =
        known && !data.is_empty() && data.len().is_multiple_of(4) && data.bytes().all(encoded);
    usable.then(|| ImageContent {
        media_type: media_type.into(),
        data: data.into(),
    })
}

/// A model as Bezel names them. One without a name is nobody's.
pub(super) fn model(provider: &str, model_id: &str) -> ModelRef {
    let or_unknown = |text: &str| match text {
        "" => "unknown".to_owned(),
        text => text.to_owned(),
    };
    ModelRef {
        provider: or_unknown(provider),
        model_id: or_unknown(model_id),
    }
}

/// What an answer took, by the names that its writer has for fresh input, output and the cache.
pub(super) fn usage(value: &Value, names: [&str; 4]) -> Usage {
    Usage {
        input: count(value, names[0]),
        output: count(value, names[1]),
        cache_read: count(value, names[2]),
        cache_write: count(value, names[3]),
        reasoning: 0,
    }
}

/// Why an answer ended, as far as its writer says so.
pub(super) fn stop_reason(said: &str, calls: bool) -> StopReason {
    match said {
        "length" | "max_tokens" => StopReason::Length,
        "refusal" => StopReason::Refusal,
        "error" => StopReason::Error,
        "aborted" => StopReason::Aborted,
        _ if calls => StopReason::ToolUse,
        _ => StopReason::Stop,
    }
}
