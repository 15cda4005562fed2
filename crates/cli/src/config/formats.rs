//! Checks of text values, by the `format` that the schema names.

/// Why a text is not of its format: what it should be, and an example or a remedy.
pub(super) struct Mismatch {
    pub(super) expected: &'static str,
    pub(super) hint: String,
}

/// Checks `text` against a format of the schema. Formats that are not ours pass.
pub(super) fn check(format: &str, text: &str) -> Result<(), Mismatch> {
    let (fits, expected, hint): (bool, &'static str, &str) = match format {
        "model" => (
            text.parse::<bezel_session_types::ModelRef>().is_ok(),
            "a model name",
            "write PROVIDER::MODEL; `bezel models` lists what is configured",
        ),
        "text" => (!text.trim().is_empty(), "text", "it must not be blank"),
        "variable" => (
            is_variable(text),
            "the name of an environment variable",
            "letters, digits and `_` only: this is the variable's name, never the key itself",
        ),
        "http-url" => (
            is_http_url(text),
            "an http or https URL",
            "for example \"http://127.0.0.1:8080/v1\"",
        ),
        "header-name" => (
            is_header_name(text),
            "a header name",
            "letters, digits and `-` only",
        ),
        "agent" => (
            is_agent(text),
            "the name of an agent",
            "1 to 64 of a-z, 0-9 and `-`; `bezel agents` lists what there is",
        ),
        "action" => return action(text),
        "chord" => return chord(text),
        _ => (true, "", ""),
    };
    if fits {
        Ok(())
    } else {
        Err(Mismatch {
            expected,
            hint: hint.to_owned(),
        })
    }
}

/// What a permission rule is about. Names of built-in tools that mean one of the shared actions would never
/// match, and a rule that never matches protects nothing.
fn action(text: &str) -> Result<(), Mismatch> {
    let shared = match text {
        "bash" | "sh" | "command" => "shell",
        "write" | "apply_patch" | "patch" => "edit",
        "grep" | "glob" | "ls" | "list" | "search" => "read",
        "webfetch" | "websearch" | "fetch" => "web",
        _ if text.trim().is_empty() => "*",
        _ => return Ok(()),
    };
    Err(Mismatch {
        expected: "an action: read, edit, shell, web, external_directory or the name of another tool",
        hint: format!("what you mean is the action \"{shared}\""),
    })
}

fn is_agent(text: &str) -> bool {
    let fits =
        |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
    (1..=64).contains(&text.len()) && text.bytes().all(fits)
}

fn is_variable(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || character == '_')
}

fn is_http_url(text: &str) -> bool {
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.starts_with(['/', ':', '?', '#']) && !rest.is_empty())
        && !text.contains(char::is_whitespace)
}

fn is_header_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
}

/// As the terminal host reads chords.
fn chord(text: &str) -> Result<(), Mismatch> {
    match text.parse::<bezel_host_tui::Chord>() {
        Ok(_) => Ok(()),
        Err(error) => Err(Mismatch {
            expected: "a key chord",
            hint: error.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_takes_what_is_right_and_refuses_what_is_wrong() {
        let cases = [
            ("model", "local::qwen3:8b", "qwen3"),
            ("text", "x", "  "),
            ("action", "shell", "bash"),
            ("action", "my_tool", "apply_patch"),
            ("action", "*", ""),
            ("variable", "LOCAL_KEY", "sk-123-secret"),
            ("http-url", "http://127.0.0.1:8080/v1", "127.0.0.1:8080"),
            ("http-url", "https://models.example", "ftp://models.example"),
            ("header-name", "X-Team", "X Team"),
            ("chord", "ctrl+t", "contrl+t"),
            ("chord", "ctrl+x ctrl+s", "ctrl+"),
            ("chord", "shift+PageUp", "shift+pgupp"),
        ];
        for (format, right, wrong) in cases {
            assert!(check(format, right).is_ok(), "{format}: {right}");
            assert!(check(format, wrong).is_err(), "{format}: {wrong}");
        }
    }
}
