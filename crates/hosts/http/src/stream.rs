//! States and events as they come: a snapshot for one answer, or server-sent events for as long as it is read.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Display;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bezel_context::Context;
use bezel_rpc::{ErrorCode, Followed, Notice, Remote, RpcError, UnreadError};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream;

use crate::answer::{Problem, json, typed};
use crate::links::Lease;

/// A stream is never silent for longer.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);
/// A snapshot is there within this time, or there is an error instead.
const SNAPSHOT: Duration = Duration::from_secs(30);

/// Whether the request asks for a stream where there could be one value.
pub(crate) fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all("accept").iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next())
        .any(|range| range.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// One state as it is now.
pub(crate) async fn value(
    cx: &Context,
    remote: &Remote,
    service: &str,
    member: &str,
) -> Result<Response, Problem> {
    let (_, mut cells) = begin(cx, remote, service).await?;
    let (_, value) = cells
        .remove(member)
        .ok_or_else(|| forbidden(service, member))?;
    Ok(json(StatusCode::OK, value))
}

/// A state from now on: its value, then what changes.
pub(crate) async fn state(
    cx: &Context,
    remote: &Remote,
    lease: Lease,
    service: &str,
    member: &str,
) -> Result<Response, Problem> {
    let (followed, mut cells) = begin(cx, remote, service).await?;
    let (revision, value) = cells
        .remove(member)
        .ok_or_else(|| forbidden(service, member))?;
    let first = frame("value", Some(&revision), &value);
    Ok(Streaming::new(followed, lease, member, first).answer())
}

/// Events from now on. `resumed` says that the reader had a stream before: what it missed is not known.
pub(crate) async fn events(
    cx: &Context,
    remote: &Remote,
    lease: Lease,
    (service, member): (&str, &str),
    resumed: bool,
) -> Result<Response, Problem> {
    let (followed, _) = begin(cx, remote, service).await?;
    let mut first = frame("open", None, b"{}");
    if resumed {
        first.extend_from_slice(&frame("lost", None, br#"{"count":null}"#));
    }
    Ok(Streaming::new(followed, lease, member, first).answer())
}

/// Subscribes, and waits until nothing more can be missed.
async fn begin(
    cx: &Context,
    remote: &Remote,
    service: &str,
) -> Result<(Followed, HashMap<String, (u64, Bytes)>), Problem> {
    let cx = cx.with_timeout(SNAPSHOT);
    let mut followed = remote.follow_unread(&cx, service)?;
    match cx.run(followed.next()).await.map_err(RpcError::from)? {
        Some(Notice::Snapshot(cells)) => Ok((followed, cells)),
        Some(Notice::Closed(error)) => Err(error.into()),
        other => {
            let cause = format!("{service} began with {other:?}");
            Err(RpcError::internal("following a service", &cause).into())
        }
    }
}

fn forbidden(service: &str, member: &str) -> Problem {
    let text = format!("this client's credential does not allow {service}.{member}");
    RpcError::new(ErrorCode::NotAuthorized, text).into()
}

/// A stream that is being read.
struct Streaming {
    /// None once it was closed.
    followed: Option<Followed>,
    member: String,
    /// Sent before all else.
    first: Option<Bytes>,
    /// Of the last event.
    number: u64,
    _lease: Lease,
}

impl Streaming {
    fn new(followed: Followed, lease: Lease, member: &str, first: BytesMut) -> Self {
        Streaming {
            followed: Some(followed),
            member: member.to_owned(),
            first: Some(first.freeze()),
            number: 0,
            _lease: lease,
        }
    }

    /// The response: it asks for more only where the reader has taken what came.
    fn answer(self) -> Response {
        let pieces = stream::unfold(self, |mut streaming| async move {
            let piece = streaming.next().await?;
            Some((Ok::<_, Infallible>(piece), streaming))
        });
        typed(
            StatusCode::OK,
            "text/event-stream",
            Body::from_stream(pieces),
        )
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let silence = tokio::time::sleep(HEARTBEAT);
        tokio::pin!(silence);
        loop {
            let followed = self.followed.as_mut()?;
            let notice = tokio::select! {
                biased;
                notice = followed.next() => notice,
                () = &mut silence => return Some(Bytes::from_static(b":\n\n")),
            };
            if let Some(piece) = self.piece(notice) {
                return Some(piece);
            }
        }
    }

    /// What a notice is in the stream; nothing for one of another member.
    fn piece(&mut self, notice: Option<Notice>) -> Option<Bytes> {
        let piece = match notice {
            Some(Notice::State {
                member,
                base,
                revision,
                payload,
            }) if member == self.member => match base {
                None => frame("value", Some(&revision), &payload),
                Some(base) => {
                    let mut patch = BytesMut::with_capacity(payload.len() + 40);
                    patch.put_slice(format!("{{\"base\":{base},\"operations\":").as_bytes());
                    patch.put_slice(&payload);
                    patch.put_u8(b'}');
                    frame("patch", Some(&revision), &patch)
                }
            },
            Some(Notice::Event { member, payload }) if member == self.member => {
                self.number += 1;
                frame("event", Some(&self.number), &payload)
            }
            Some(Notice::Lost { member, count }) if member == self.member => {
                frame("lost", None, format!("{{\"count\":{count}}}").as_bytes())
            }
            Some(Notice::Closed(error)) => self.close(&error),
            None => {
                let text = "the stream has ended; ask again";
                self.close(&RpcError::new(ErrorCode::Disconnected, text).into())
            }
            Some(_) => return None,
        };
        Some(piece.freeze())
    }

    fn close(&mut self, error: &UnreadError) -> BytesMut {
        self.followed = None;
        failure(error)
    }
}

/// The last event of a stream: why it ends.
pub(crate) fn failure(error: &UnreadError) -> BytesMut {
    let data = serde_json::to_vec(error).unwrap_or_else(|error| {
        tracing::error!(%error, "an error has no JSON form");
        b"{}".to_vec()
    });
    frame("closed", None, &data)
}

/// One event of the stream. Its data is JSON, whose line breaks mean nothing.
pub(crate) fn frame(name: &str, id: Option<&dyn Display>, data: &[u8]) -> BytesMut {
    let mut out = BytesMut::with_capacity(data.len() + name.len() + 48);
    out.put_slice(b"event: ");
    out.put_slice(name.as_bytes());
    if let Some(id) = id {
        out.put_slice(format!("\nid: {id}").as_bytes());
    }
    for line in data.split(|byte| matches!(byte, b'\n' | b'\r')) {
        out.put_slice(b"\ndata: ");
        out.put_slice(line);
    }
    out.put_slice(b"\n\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_one_event_whatever_its_data_holds() {
        let text = |frame: BytesMut| String::from_utf8(frame.to_vec()).expect("text");
        assert_eq!(
            text(frame("value", Some(&7), b"{\"a\":1}")),
            "event: value\nid: 7\ndata: {\"a\":1}\n\n"
        );
        assert_eq!(
            text(frame("value", None, b"[1,\r\n\n2]")),
            "event: value\ndata: [1,\ndata: \ndata: \ndata: 2]\n\n"
        );
    }

    #[test]
    fn a_stream_is_asked_for_by_name() {
        let asked = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("accept", accept.parse().expect("a value"));
            wants_stream(&headers)
        };
        assert!(
            asked("text/event-stream") && asked("application/json;q=0.1, Text/Event-Stream;q=1")
        );
        assert!(!asked("*/*") && !asked("text/*") && !asked("application/json"));
    }
}
