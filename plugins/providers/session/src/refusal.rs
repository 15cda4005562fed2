//! What providers say when they refuse, and what it means.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

/// What a provider says went wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Its words, cut to a length that a person reads.
    pub(crate) message: String,
    /// Its names for the error: type, code, status, reason; in lower case, joined by spaces.
    pub(crate) codes: String,
    /// How long it asks to wait, where the body says so.
    pub(crate) retry_after: Option<Duration>,
}

/// What a refusal comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Key,
    Forbidden,
    Credit,
    UnknownModel,
    NoSuchPath,
    ContextOverflow,
    RateLimited,
    Overloaded,
    Refused,
}

const MAX_MESSAGE: usize = 600;

/// What is told of a body that is a page for people.
pub(crate) const WEB_PAGE: &str = "a web page instead of JSON";

/// The error objects of all providers at once: `{ error: { … } }`, `[{ error: … }]`, `{ error: TEXT }`,
/// `{ message }`, `{ detail }`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Fields {
    message: Option<Value>,
    detail: Option<Value>,
    #[serde(rename = "type")]
    kind: Option<Value>,
    code: Option<Value>,
    status: Option<Value>,
    details: Option<Vec<Value>>,
    error: Option<Value>,
}

/// Reads an error body, whoever wrote it.
pub(crate) fn read(body: &str) -> Report {
    match serde_json::from_str::<Value>(body) {
        Ok(value) => from_value(value),
        Err(_) => Report {
            message: plain(body),
            ..Report::default()
        },
    }
}

/// Reads an error object.
pub(crate) fn from_value(value: Value) -> Report {
    let value = match value {
        Value::Array(mut list) if !list.is_empty() => list.swap_remove(0),
        value => value,
    };
    if let Value::String(text) = value {
        return Report {
            message: shortened(&text),
            ..Report::default()
        };
    }
    let fields: Fields = serde_json::from_value(value).unwrap_or_default();
    if let Some(inner) = fields.error {
        return from_value(inner);
    }
    let names = [&fields.kind, &fields.code, &fields.status]
        .into_iter()
        .flatten()
        .filter_map(word);
    let details = fields.details.unwrap_or_default();
    let reasons = details
        .iter()
        .filter_map(|detail| detail["reason"].as_str().map(Into::into));
    let codes: Vec<String> = names.chain(reasons).collect();
    let message = [&fields.message, &fields.detail]
        .into_iter()
        .flatten()
        .find_map(word)
        .unwrap_or_default();
    Report {
        message: shortened(&message),
        codes: codes.join(" ").to_lowercase(),
        retry_after: details
            .iter()
            .find_map(|detail| seconds(detail["retryDelay"].as_str()?.strip_suffix('s')?)),
    }
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// The text of a body that is not JSON: a proxy's page, mostly.
fn plain(body: &str) -> String {
    if body.trim_start().starts_with('<') {
        WEB_PAGE.into()
    } else {
        shortened(body)
    }
}

fn shortened(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    if text.chars().count() <= MAX_MESSAGE {
        return text.into();
    }
    text.chars().take(MAX_MESSAGE).chain(['…']).collect()
}

/// What a refusal means. Inside a stream there is no status, and the provider's names decide.
pub(crate) fn classify(status: Option<StatusCode>, report: &Report) -> Reason {
    let message = report.message.to_lowercase();
    let said = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let named = |codes: &[&str]| codes.iter().any(|code| report.codes.contains(code));
    let number = status.map(|status| status.as_u16());
    let server_error = number.is_some_and(|number| number >= 500);
    if !server_error
        && (number == Some(413) || is_overflow(&message) || named(&["context_length_exceeded"]))
    {
        return Reason::ContextOverflow;
    }
    if number == Some(402)
        || named(&["insufficient_quota", "billing"])
        || said(&["insufficient balance", "credit balance"])
    {
        return Reason::Credit;
    }
    match number {
        Some(401) => return Reason::Key,
        Some(403) => return Reason::Forbidden,
        Some(429) => return Reason::RateLimited,
        Some(408 | 409 | 425 | 500..) => return Reason::Overloaded,
        _ => {}
    }
    if named(&[
        "api_key_invalid",
        "invalid_api_key",
        "authentication_error",
        "unauthenticated",
    ]) {
        return Reason::Key;
    }
    if named(&["permission"]) {
        return Reason::Forbidden;
    }
    let model_is_missing = named(&["model_not_found", "model_not_available"])
        || said(&[
            "model not exist",
            "not a valid model",
            "model is not",
            "invalid model",
        ])
        || (message.contains("model")
            && said(&[
                "not found",
                "does not exist",
                "not supported",
                "unknown model",
            ]));
    if model_is_missing || (number == Some(404) && message.contains("model")) {
        return Reason::UnknownModel;
    }
    if number == Some(404) || number == Some(405) {
        return Reason::NoSuchPath;
    }
    if named(&["rate_limit", "resource_exhausted", "too_many_requests"]) {
        return Reason::RateLimited;
    }
    let server_side = report
        .codes
        .split(' ')
        .any(|code| matches!(code, "500" | "502" | "503" | "504" | "529"));
    if server_side
        || named(&[
            "overloaded",
            "unavailable",
            "server_error",
            "api_error",
            "internal",
            "timeout",
        ])
    {
        return Reason::Overloaded;
    }
    Reason::Refused
}

/// The words of each provider for a conversation that is too long.
fn is_overflow(message: &str) -> bool {
    const WORDS: [&str; 16] = [
        "prompt is too long",                   // Anthropic
        "input is too long",                    // Bedrock
        "exceeds the context window",           // OpenAI Responses
        "maximum context length",               // OpenAI chat, vLLM, OpenRouter
        "exceeds the maximum number of tokens", // Gemini
        "maximum prompt length",                // xAI
        "reduce the length of the messages",    // Groq
        "exceeds the available context size",   // llama.cpp
        "greater than the context length",      // LM Studio
        "exceeds maximum context length",       // Ollama
        "context window exceeds limit",         // MiniMax
        "exceeded model token limit",           // Moonshot
        "too large for model with",             // Mistral
        "context length exceeded",
        "context_length_exceeded",
        "input length and `max_tokens` exceed context limit", // Anthropic
    ];
    WORDS.iter().any(|words| message.contains(words))
}

/// How long the provider asks to wait: `retry-after-ms`, `retry-after` in seconds or as a date, or what its
/// body says.
pub(crate) fn retry_after(headers: &HeaderMap, report: &Report) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let milliseconds = text("retry-after-ms")
        .and_then(seconds)
        .map(|wait| wait / 1000);
    let header = || {
        let value = text("retry-after")?;
        seconds(value).or_else(|| until(value))
    };
    milliseconds.or_else(header).or(report.retry_after)
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.trim().parse().ok()?).ok()
}

/// Time left until an HTTP date; zero when it has passed.
fn until(date: &str) -> Option<Duration> {
    let at = jiff::fmt::rfc2822::parse(date.trim()).ok()?.timestamp();
    let left = at.duration_since(jiff::Timestamp::now());
    Some(Duration::try_from(left).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reason(status: u16, body: &str) -> Reason {
        classify(Some(StatusCode::from_u16(status).unwrap()), &read(body))
    }

    #[test]
    fn each_providers_words_are_understood() {
        for (status, body, expected) in [
            (
                401,
                r#"{"error":{"message":"Incorrect API key","code":"invalid_api_key"}}"#,
                Reason::Key,
            ),
            (
                400,
                r#"[{"error":{"message":"API key not valid","details":[{"reason":"API_KEY_INVALID"}]}}]"#,
                Reason::Key,
            ),
            (
                403,
                r#"{"type":"error","error":{"type":"permission_error","message":"no"}}"#,
                Reason::Forbidden,
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}"#,
                Reason::Credit,
            ),
            (
                402,
                r#"{"error":{"message":"Insufficient Balance"}}"#,
                Reason::Credit,
            ),
            (
                400,
                r#"{"error":{"message":"Model Not Exist","type":"invalid_request_error"}}"#,
                Reason::UnknownModel,
            ),
            (
                400,
                r#"{"error":{"message":"x/y is not a valid model ID","code":400}}"#,
                Reason::UnknownModel,
            ),
            (
                404,
                r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}"#,
                Reason::UnknownModel,
            ),
            (404, r#"{"detail":"Not Found"}"#, Reason::NoSuchPath),
            (404, "<html>nginx</html>", Reason::NoSuchPath),
            (
                400,
                r#"{"error":{"message":"prompt is too long: 2 tokens > 1 maximum"}}"#,
                Reason::ContextOverflow,
            ),
            (
                413,
                r#"{"error":{"type":"request_too_large","message":"Request too large"}}"#,
                Reason::ContextOverflow,
            ),
            (
                400,
                r#"{"error":"the request exceeds the available context size"}"#,
                Reason::ContextOverflow,
            ),
            (
                429,
                r#"{"error":{"message":"slow down","type":"requests"}}"#,
                Reason::RateLimited,
            ),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Reason::Overloaded,
            ),
            (503, "upstream connect error", Reason::Overloaded),
            (
                400,
                r#"{"error":{"message":"temperature must be a number"}}"#,
                Reason::Refused,
            ),
            (422, "", Reason::Refused),
        ] {
            assert_eq!(reason(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn a_failure_inside_a_stream_is_understood_by_its_name() {
        for (body, expected) in [
            (
                r#"{"type":"overloaded_error","message":"Overloaded"}"#,
                Reason::Overloaded,
            ),
            (
                r#"{"code":503,"status":"UNAVAILABLE","message":"try later"}"#,
                Reason::Overloaded,
            ),
            (
                r#"{"code":"rate_limit_exceeded","message":"Rate limit reached"}"#,
                Reason::RateLimited,
            ),
            (
                r#"{"code":429,"status":"RESOURCE_EXHAUSTED","message":"quota"}"#,
                Reason::RateLimited,
            ),
            (
                r#"{"code":"context_length_exceeded","message":"too much"}"#,
                Reason::ContextOverflow,
            ),
            (
                r#"{"type":"invalid_request_error","message":"bad"}"#,
                Reason::Refused,
            ),
        ] {
            assert_eq!(classify(None, &read(body)), expected, "{body}");
        }
    }

    #[test]
    fn the_wait_is_read_from_wherever_it_stands() {
        let wait = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            retry_after(&headers, &Report::default())
        };
        assert_eq!(wait("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(
            wait("retry-after-ms", "1500"),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(
            wait("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"),
            Some(Duration::ZERO)
        );
        let far = wait("retry-after", "Tue, 01 Jan 2999 00:00:00 GMT").unwrap();
        assert!(far > Duration::from_secs(1_000_000), "{far:?}");
        assert_eq!(wait("retry-after", "soon"), None);
        let report = read(r#"{"error":{"message":"quota","details":[{"retryDelay":"17s"}]}}"#);
        assert_eq!(
            retry_after(&HeaderMap::new(), &report),
            Some(Duration::from_secs(17))
        );
    }

    #[test]
    fn a_web_page_is_not_quoted() {
        assert_eq!(
            read("<!DOCTYPE html><p>x").message,
            "a web page instead of JSON"
        );
        assert_eq!(
            read(&"x".repeat(5_000)).message.chars().count(),
            MAX_MESSAGE + 1
        );
    }

    proptest! {
        #[test]
        fn any_body_is_read(status in 100_u16..600, body in ".{0,200}", json in "\\{\"error\":[a-z0-9\"{}\\[\\]:,]{0,40}\\}") {
            let status = StatusCode::from_u16(status).unwrap();
            for body in [&body, &json] {
                classify(Some(status), &read(body));
            }
        }
    }
}
