//! What a request says beside its path: who asks, for how long, under which trace, with which arguments.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use bezel_context::{Context, TraceCarrier};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;

use crate::answer::Problem;

/// Milliseconds that a request may take.
pub(crate) const TIMEOUT: &str = "bezel-timeout";
/// The longest of those: a day.
pub(crate) const MOST_TIMEOUT: u64 = 24 * 60 * 60 * 1000;
/// A body at most, as a message of the wire.
pub(crate) const MOST_BODY: usize = 16 * 1024 * 1024;
/// The body of somebody who has no token yet.
pub(crate) const MOST_PAIRING: usize = 4 * 1024;
/// From the head to the end of the body.
const BODY_TIME: Duration = Duration::from_secs(30);
/// A credential at most.
const MOST_TOKEN: usize = 1024;

/// The bearer token. A cookie is never looked at.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let missing = || {
        Problem::unauthenticated(
            "show a token: Authorization: Bearer TOKEN; POST /v1/pair gives one for a code of `bezel access pair`",
        )
    };
    let mut shown = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (shown.next(), shown.next()) else {
        return Err(missing());
    };
    let (scheme, token) = value
        .to_str()
        .ok()
        .and_then(|value| value.split_once(' '))
        .ok_or_else(missing)?;
    let token = token.trim();
    match scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= MOST_TOKEN {
        true => Ok(token),
        false => Err(missing()),
    }
}

/// The request's context: its trace, and its deadline where it has one.
pub(crate) fn context(headers: &HeaderMap) -> Result<Context, Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let cx = Context::background();
    // One that cannot be read is as good as none, as on the wire.
    let cx = match text("traceparent").map(|parent| TraceCarrier::parse(parent, text("tracestate")))
    {
        Some(Ok(trace)) => cx.with_trace(trace),
        Some(Err(_)) | None => cx,
    };
    let Some(timeout) = headers.get(TIMEOUT) else {
        return Ok(cx);
    };
    let milliseconds = timeout
        .to_str()
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse::<u64>().ok())
        .filter(|milliseconds| (1..=MOST_TIMEOUT).contains(milliseconds));
    match milliseconds {
        Some(milliseconds) => Ok(cx.with_timeout(Duration::from_millis(milliseconds))),
        None => Err(Problem::bad_request(format!(
            "Bezel-Timeout is a number of milliseconds from 1 to {MOST_TIMEOUT}"
        ))),
    }
}

/// The arguments as they came; nothing where there is no body.
pub(crate) async fn arguments(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Bytes, Problem> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(Problem::too_large(limit));
    }
    let read = tokio::time::timeout(BODY_TIME, gather(body, limit));
    let body = read.await.map_err(|_| Problem::too_slow())??;
    if body.is_empty() {
        return Ok(body);
    }
    if !is_json(headers) {
        return Err(Problem::media_type());
    }
    // A list would do for a structure, by position, to whoever reads it.
    match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => Ok(body),
        _ => Err(Problem::no_object()),
    }
}

async fn gather(body: Body, limit: usize) -> Result<Bytes, Problem> {
    let mut pieces = body.into_data_stream();
    let mut whole = BytesMut::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| {
            tracing::debug!(%error, "a body broke off");
            Problem::bad_request("the body broke off")
        })?;
        if whole.len() + piece.len() > limit {
            return Err(Problem::too_large(limit));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(named), None) = (types.next(), types.next()) else {
        return false;
    };
    let Ok(named) = named.to_str() else {
        return false;
    };
    let mut parts = named.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    essence.eq_ignore_ascii_case("application/json")
        && parts.all(|parameter| match parameter.split_once('=') {
            Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
                value.trim_matches('"').eq_ignore_ascii_case("utf-8")
            }
            _ => true,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(*name, value.parse().expect("a value"));
        }
        headers
    }

    #[test]
    fn one_bearer_token_is_taken_and_no_other_way_to_show_one() {
        for value in ["Bearer t", "bearer t", "BEARER  t "] {
            assert_eq!(
                bearer(&headers(&[("authorization", value)])).ok(),
                Some("t")
            );
        }
        let long = format!("Bearer {}", "x".repeat(MOST_TOKEN + 1));
        for wrong in [
            &[][..],
            &[("authorization", "t")],
            &[("authorization", "Bearer ")],
            &[("authorization", "Basic dDp0")],
            &[("authorization", &long)],
            &[("authorization", "Bearer t"), ("authorization", "Bearer t")],
            &[("cookie", "token=t")],
        ] {
            let problem = bearer(&headers(wrong)).expect_err("refused");
            assert_eq!(problem.status, 401, "{wrong:?}");
        }
    }

    #[test]
    fn a_deadline_is_a_whole_number_of_milliseconds_and_a_broken_trace_is_none() {
        let cx = context(&headers(&[("bezel-timeout", "60000")])).expect("a context");
        let left = cx.remaining().expect("a deadline");
        assert!(left <= Duration::from_secs(60) && left > Duration::from_secs(50));
        for wrong in [
            "",
            "0",
            "-1",
            "1.5",
            "1s",
            "86400001",
            "99999999999999999999",
            "+1",
        ] {
            let problem = context(&headers(&[("bezel-timeout", wrong)])).expect_err("refused");
            assert_eq!(problem.status, 400, "{wrong}");
        }
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let cx = context(&headers(&[("traceparent", parent)])).expect("a context");
        assert_eq!(
            cx.trace().trace_id(),
            0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c
        );
        let broken = context(&headers(&[("traceparent", "00-nonsense")]));
        assert!(broken.expect("a context").remaining().is_none());
    }

    #[test]
    fn arguments_are_json_in_utf_8_by_their_type() {
        for right in [
            "application/json",
            "Application/JSON; charset=UTF-8",
            "application/json;charset=\"utf-8\"",
        ] {
            assert!(is_json(&headers(&[("content-type", right)])), "{right}");
        }
        for wrong in [
            "text/plain",
            "application/json-patch+json",
            "application/json; charset=latin1",
            "",
        ] {
            assert!(!is_json(&headers(&[("content-type", wrong)])), "{wrong}");
        }
        let twice = [
            ("content-type", "application/json"),
            ("content-type", "text/plain"),
        ];
        assert!(!is_json(&headers(&twice)) && !is_json(&headers(&[])));
    }
}
