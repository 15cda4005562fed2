//! Arguments of a call, complete or still being written.

use std::borrow::Cow;

use bezel_api_tui::ToolCard;
use serde_json::Value;

/// A text argument. Of arguments that are still being written, what is there of it so far.
pub(crate) fn text<'a>(card: &ToolCard<'a>, name: &str) -> Option<Cow<'a, str>> {
    match card.arguments {
        Value::Object(fields) => fields.get(name)?.as_str().map(Cow::Borrowed),
        Value::String(unfinished) => unfinished_text(unfinished, name).map(Cow::Owned),
        _ => None,
    }
}

/// The string of a top-level field in the beginning of a JSON object.
fn unfinished_text(json: &str, name: &str) -> Option<String> {
    let mut rest = json.trim_start().strip_prefix('{')?;
    loop {
        rest = rest.trim_start().trim_start_matches(',').trim_start();
        let (key, after) = string(rest)?;
        let value = after?.trim_start().strip_prefix(':')?.trim_start();
        if key == name {
            return string(value).map(|(text, _)| text);
        }
        rest = skip(value)?;
    }
}

/// A JSON string, perhaps cut off, and what follows it if it is whole.
fn string(json: &str) -> Option<(String, Option<&str>)> {
    let body = json.strip_prefix('"')?;
    let mut text = String::new();
    let mut letters = body.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((text, Some(&body[at + 1..]))),
            '\\' => match letters.next().map(|(_, letter)| letter) {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some('b' | 'f') => {}
                Some('u') => {
                    let digits: String =
                        letters.by_ref().take(4).map(|(_, letter)| letter).collect();
                    let code = u32::from_str_radix(&digits, 16).ok();
                    // Halves of a pair are rare in names and commands, and are whole in the end.
                    text.extend(code.and_then(char::from_u32));
                }
                Some(letter) => text.push(letter),
                None => break,
            },
            letter => text.push(letter),
        }
    }
    Some((text, None))
}

/// What follows a JSON value, if it is whole.
fn skip(json: &str) -> Option<&str> {
    if json.starts_with('"') {
        return string(json)?.1;
    }
    let mut depth = 0_usize;
    let mut rest = json;
    while let Some(letter) = rest.chars().next() {
        match letter {
            '"' => {
                rest = string(rest)?.1?;
                continue;
            }
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => return Some(rest),
            _ => {}
        }
        rest = &rest[letter.len_utf8()..];
        if depth == 0 && matches!(letter, '}' | ']') {
            return Some(rest);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_as_far_as_it_is_written() {
        let read = |json: &str| unfinished_text(json, "path");
        assert_eq!(read(r#"{"path": "src/ma"#).as_deref(), Some("src/ma"));
        assert_eq!(
            read(r#"{"content":"{\"path\":1}","path":"a\"b\\c\u0041"}"#).as_deref(),
            Some("a\"b\\cA")
        );
        assert_eq!(
            read(r#"{"edits":[{"path":"no"},"]"],"n":12,"path":"yes"}"#).as_deref(),
            Some("yes")
        );
        assert_eq!(read(r#"{"other":"#), None);
        assert_eq!(read(r#"{"pa"#), None);
        assert_eq!(read(""), None);
        assert_eq!(read(r#"{"path": 5}"#), None);
    }
}
