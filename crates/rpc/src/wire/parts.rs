//! Large messages in parts: cut at one end, put together at the other, small messages in between.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::codec::MOST_MESSAGE;
use super::frame::{Frame, TransportError};
use super::header::{Header, Kind};

/// Messages beyond this size travel in parts of at most this size.
pub(super) const PART: usize = 64 * 1024;
/// Messages that may be in parts at once, per direction.
const MOST_PARTIAL: usize = 4;
/// What every part's header begins with; a peer writes it exactly so.
const MARK: &[u8] = b"{\"k\":\"part\"";

pub(super) fn is_part(frame: &Frame) -> bool {
    frame.header.starts_with(MARK)
}

/// Cuts large messages, and says what may pass them.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    last: u64,
    partial: VecDeque<Partial>,
}

#[derive(Debug)]
struct Partial {
    stream: u64,
    kind: Kind,
    id: u64,
    route: Option<u64>,
    /// Announced with the first part.
    total: Option<u64>,
    /// Header and newline, then the payload.
    rest: VecDeque<Bytes>,
}

impl Splitter {
    pub(super) fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }

    /// Whether `frame` may be sent, although messages are still in parts.
    ///
    /// One subscription's or call's frames keep their order, and an answer stays behind the state that
    /// its call changed.
    pub(super) fn lets_pass(&self, frame: &Frame) -> bool {
        if self.partial.is_empty() {
            return true;
        }
        if frame.len() > PART && self.partial.len() >= MOST_PARTIAL {
            return false;
        }
        let Ok(header) = Header::parse(&frame.header) else {
            return false;
        };
        let related = |partial: &Partial| (partial.route, partial.id) == (header.route, header.id);
        let carries_state =
            |partial: &Partial| matches!(partial.kind, Kind::Snapshot | Kind::State | Kind::Event);
        let ordinary = |partial: &Partial| {
            matches!(
                partial.kind,
                Kind::Call | Kind::Ok | Kind::Err | Kind::Snapshot | Kind::State | Kind::Event
            )
        };
        match header.kind {
            Kind::Ping | Kind::Pong => true,
            // Nothing passes a frame of the connection itself.
            _ if !self.partial.iter().all(ordinary) => false,
            Kind::Call | Kind::Cancel | Kind::Credit => !self.partial.iter().any(related),
            Kind::Ok | Kind::Err => !self
                .partial
                .iter()
                .any(|partial| related(partial) || carries_state(partial)),
            Kind::Snapshot | Kind::State | Kind::Event if header.targets.is_empty() => {
                !self.partial.iter().any(related)
            }
            _ => false,
        }
    }

    pub(super) fn push(&mut self, frame: Frame) {
        let (kind, id, route) = Header::parse(&frame.header)
            .map_or((Kind::State, 0, None), |header| {
                (header.kind, header.id, header.route)
            });
        self.last += 1;
        let mut head = BytesMut::from(&frame.header[..]);
        head.extend_from_slice(b"\n");
        let total = Some(frame.len() as u64);
        let rest = VecDeque::from([head.freeze(), frame.payload]);
        self.partial.push_back(Partial {
            stream: self.last,
            kind,
            id,
            route,
            total,
            rest,
        });
    }

    /// The next part, in turn among the messages.
    pub(super) fn next(&mut self) -> Option<Frame> {
        let mut partial = self.partial.pop_front()?;
        let front = partial.rest.front_mut()?;
        let end = boundary(front, PART - 256);
        let payload = front.split_to(end);
        if front.is_empty() {
            partial.rest.pop_front();
        }
        let header = Header {
            total: partial.total.take(),
            ..Header::of(Kind::Part, partial.stream, None)
        };
        if partial.rest.iter().any(|rest| !rest.is_empty()) {
            self.partial.push_back(partial);
        }
        Some(Frame {
            header: header.encode(),
            payload,
        })
    }
}

/// At most `most`, and not inside a character, so that a part is text where the whole is.
fn boundary(bytes: &[u8], most: usize) -> usize {
    if bytes.len() <= most {
        return bytes.len();
    }
    (most - 3..=most)
        .rev()
        .find(|at| bytes[*at] & 0xC0 != 0x80)
        .unwrap_or(most)
}

/// Puts parts together again.
#[derive(Debug, Default)]
pub(super) struct Joiner {
    partial: Vec<Joining>,
}

#[derive(Debug)]
struct Joining {
    stream: u64,
    total: usize,
    bytes: BytesMut,
}

impl Joiner {
    /// Takes one part; the message, if it was the last one.
    pub(super) fn take(&mut self, part: &Frame) -> Result<Option<Bytes>, TransportError> {
        let header = Header::parse(&part.header)
            .map_err(|_| TransportError::Framing("a part's header cannot be read"))?;
        let at = match (
            self.partial
                .iter()
                .position(|joining| joining.stream == header.id),
            header.total,
        ) {
            (Some(at), None) => at,
            (Some(_), Some(_)) => return Err(TransportError::Framing("a message began twice")),
            (None, None) => {
                return Err(TransportError::Framing(
                    "a part of a message that never began",
                ));
            }
            (None, Some(total)) => {
                let size = usize::try_from(total).unwrap_or(usize::MAX);
                if size > MOST_MESSAGE {
                    return Err(TransportError::FrameTooLarge {
                        size,
                        limit: MOST_MESSAGE,
                    });
                }
                if self.partial.len() >= MOST_PARTIAL {
                    return Err(TransportError::Framing(
                        "too many messages are in parts at once",
                    ));
                }
                self.partial.push(Joining {
                    stream: header.id,
                    total: size,
                    bytes: BytesMut::new(),
                });
                self.partial.len() - 1
            }
        };
        let joining = &mut self.partial[at];
        if joining.bytes.len() + part.payload.len() > joining.total || part.payload.is_empty() {
            return Err(TransportError::Framing(
                "the parts do not add up to the announced size",
            ));
        }
        joining.bytes.extend_from_slice(&part.payload);
        if joining.bytes.len() < joining.total {
            return Ok(None);
        }
        Ok(Some(self.partial.swap_remove(at).bytes.freeze()))
    }
}
