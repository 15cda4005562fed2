//! Large messages in parts: cut at one end, put together at the other, small messages in between.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::frame::{Frame, TransportError};
use super::header::{Header, Kind};
use super::passing::{Ahead, LARGE, may_pass};

/// A part is at most this large.
const PART: usize = 64 * 1024;
/// Larger messages travel in parts: a body of 64 KiB still goes whole, with the words around it.
const WHOLE: usize = PART + LARGE;
/// Room that is made ahead for a message in parts; a larger one grows as it comes.
const AHEAD: usize = 1024 * 1024;
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
    ahead: Ahead,
    rest: Rest,
}

#[derive(Debug)]
enum Rest {
    Whole(Frame),
    Parts {
        stream: u64,
        /// Announced with the first part.
        total: Option<u64>,
        /// Header and newline, then the payload.
        rest: VecDeque<Bytes>,
    },
}

impl Splitter {
    pub(super) fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }

    /// Whether another message may join those that are being sent.
    pub(super) fn has_room(&self) -> bool {
        self.partial.len() < MOST_PARTIAL
    }

    /// What is being sent.
    pub(super) fn ahead(&self) -> impl Iterator<Item = &Ahead> + Clone {
        self.partial.iter().map(|partial| &partial.ahead)
    }

    /// Whether `frame` may be sent, although messages are still in parts.
    pub(super) fn lets_pass(&self, frame: &Frame) -> bool {
        may_pass(frame, self.ahead())
    }

    pub(super) fn push(&mut self, ahead: Ahead, frame: Frame) {
        let rest = match frame.len() <= WHOLE {
            true => Rest::Whole(frame),
            false => {
                self.last += 1;
                let mut head = BytesMut::from(&frame.header[..]);
                head.extend_from_slice(b"\n");
                Rest::Parts {
                    stream: self.last,
                    total: Some(frame.len() as u64),
                    rest: VecDeque::from([head.freeze(), frame.payload]),
                }
            }
        };
        self.partial.push_back(Partial { ahead, rest });
    }

    /// The next whole message or part, in turn among the messages.
    pub(super) fn next(&mut self) -> Option<Frame> {
        let partial = self.partial.pop_front()?;
        let (stream, mut total, mut rest) = match partial.rest {
            Rest::Whole(frame) => return Some(frame),
            Rest::Parts {
                stream,
                total,
                rest,
            } => (stream, total, rest),
        };
        let front = rest.front_mut()?;
        let end = boundary(front, PART - 256);
        let payload = front.split_to(end);
        if front.is_empty() {
            rest.pop_front();
        }
        let header = Header {
            total: total.take(),
            ..Header::of(Kind::Part, stream, None)
        };
        if rest.iter().any(|rest| !rest.is_empty()) {
            self.partial.push_back(Partial {
                ahead: partial.ahead,
                rest: Rest::Parts {
                    stream,
                    total,
                    rest,
                },
            });
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
    pub(super) fn take(
        &mut self,
        part: &Frame,
        limit: usize,
    ) -> Result<Option<Bytes>, TransportError> {
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
                if size > limit {
                    return Err(TransportError::FrameTooLarge { size, limit });
                }
                if self.partial.len() >= MOST_PARTIAL {
                    return Err(TransportError::Framing(
                        "too many messages are in parts at once",
                    ));
                }
                self.partial.push(Joining {
                    stream: header.id,
                    total: size,
                    bytes: BytesMut::with_capacity(size.min(AHEAD)),
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
