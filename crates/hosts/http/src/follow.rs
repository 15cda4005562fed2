//! One session's life as server-sent events: resumed at a cursor, and without the session's process.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bezel_context::Context;
use bezel_rpc::{CallError, Remote};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{SessionCursor, SessionDirectoryClient, SessionError, SessionNews};
use bytes::Bytes;
use futures::stream;
use serde::Serialize;
use serde_json::json;

use crate::answer::{Problem, typed};
use crate::links::Lease;
use crate::stream::{HEARTBEAT, failure, frame};

/// Facts that are asked for at once, and so wait for a slow reader at most.
const PAGE: u32 = 200;

type Asked = Pin<Box<dyn Future<Output = Result<SessionNews, CallError<SessionError>>> + Send>>;

/// Where a reader wants to go on: what it read last, else what its address says.
pub(crate) fn cursor(headers: &HeaderMap, query: Option<&str>) -> Option<String> {
    let read = headers.get("last-event-id");
    let read = read.map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
    let named = || {
        let pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
        let mut after = pairs.filter(|(name, _)| *name == "after");
        after.next().map(|(_, value)| value.to_owned())
    };
    read.filter(|id| !id.is_empty()).or_else(named)
}

/// What happens in a session after `after`, until it is deleted or can be read no more.
pub(crate) async fn session(
    cx: &Context,
    remote: &Remote,
    lease: Lease,
    session_id: &str,
    after: Option<String>,
) -> Result<Response, Problem> {
    let directory: SessionDirectoryClient = remote.use_service();
    let session_id = SessionId::new(session_id);
    // Whether it may be read at all is answered before there is a stream.
    directory.get(cx, session_id.clone()).await?;
    let following = Following {
        directory,
        session_id,
        cx: Context::background().with_trace(cx.trace().clone()),
        // Not the cursor: the next answer says where it stands.
        known: after.as_deref().and_then(SessionCursor::read),
        after,
        asked: None,
        pieces: VecDeque::from([frame("open", None, b"{}").freeze()]),
        is_level: false,
        has_ended: false,
        _lease: lease,
    };
    let pieces = stream::unfold(following, |mut following| async move {
        let piece = following.next().await?;
        Some((Ok::<_, Infallible>(piece), following))
    });
    let body = Body::from_stream(pieces);
    Ok(typed(StatusCode::OK, "text/event-stream", body))
}

/// A stream that is being read.
struct Following {
    directory: SessionDirectoryClient,
    session_id: SessionId,
    cx: Context,
    after: Option<String>,
    known: Option<SessionCursor>,
    /// What is waited for.
    asked: Option<Asked>,
    /// To be sent before more is asked for.
    pieces: VecDeque<Bytes>,
    /// The reader was told once that it has all there is.
    is_level: bool,
    has_ended: bool,
    _lease: Lease,
}

impl Following {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Some(piece);
            }
            if self.has_ended {
                return None;
            }
            let mut asked = self.asked.take().unwrap_or_else(|| self.ask());
            match tokio::time::timeout(HEARTBEAT, &mut asked).await {
                Ok(Ok(news)) => self.take(news),
                // It was within reach when the stream began: it was deleted between two pages.
                Ok(Err(CallError::Service(SessionError::NotAuthorized { .. }))) => {
                    let at = self.known.take().unwrap_or_default();
                    self.end(&at);
                }
                Ok(Err(error)) => {
                    self.has_ended = true;
                    let problem = Problem::from(error);
                    self.pieces.push_back(failure(problem.error()).freeze());
                }
                Err(_) => {
                    self.asked = Some(asked);
                    return Some(Bytes::from_static(b":\n\n"));
                }
            }
        }
    }

    /// Dropping it ends the wait.
    fn ask(&self) -> Asked {
        let (directory, cx) = (self.directory.clone(), self.cx.clone());
        let (session_id, after) = (self.session_id.clone(), self.after.clone());
        Box::pin(async move { directory.follow(&cx, session_id, after, PAGE).await })
    }

    fn take(&mut self, news: SessionNews) {
        let next = SessionCursor::read(&news.next).unwrap_or_default();
        let mut at = self.known.take().unwrap_or_else(|| next.clone());
        if let Some(snapshot) = &news.snapshot {
            let name = match self.after {
                None => "snapshot",
                Some(_) => "gap",
            };
            at = next.clone();
            self.push(name, &at, snapshot);
        }
        if let Some(session) = &news.session {
            at.record.clone_from(&next.record);
            self.push("session", &at, session);
        }
        for fact in &news.facts {
            at.seq = fact.seq;
            self.push("fact", &at, fact);
        }
        let is_level = news.facts.len() < PAGE as usize;
        if news.deleted {
            self.end(&at);
        } else if is_level && !std::mem::replace(&mut self.is_level, true) {
            self.push("synced", &at, &json!({}));
        }
        self.after = Some(news.next);
        self.known = Some(next);
    }

    fn end(&mut self, at: &SessionCursor) {
        self.has_ended = true;
        self.push("deleted", at, &json!({}));
    }

    fn push(&mut self, name: &str, at: &SessionCursor, data: &impl Serialize) {
        let piece = match serde_json::to_vec(data) {
            Ok(data) => frame(name, Some(at), &data),
            Err(error) => {
                tracing::error!(%error, name, "an event has no JSON form");
                frame(name, Some(at), b"{}")
            }
        };
        self.pieces.push_back(piece.freeze());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_last_goes_before_what_the_address_says() {
        let read = |header: Option<&str>, query: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(id) = header {
                headers.insert("last-event-id", id.parse().expect("a value"));
            }
            cursor(&headers, query)
        };
        assert_eq!(read(None, None), None);
        assert_eq!(
            read(None, Some("x=1&after=7.a&after=8")).as_deref(),
            Some("7.a")
        );
        assert_eq!(read(Some("9"), Some("after=7")).as_deref(), Some("9"));
        assert_eq!(read(Some(""), Some("after=7")).as_deref(), Some("7"));
    }
}
