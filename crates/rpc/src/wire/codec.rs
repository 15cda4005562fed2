//! Frames on a byte stream: a big-endian length, the header, a newline, the payload.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::task::{Context as Poller, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::frame::{Frame, TransportError};
use super::header::MOST_HEADER;
use super::outbox::{Drained, Outbox};
use super::parts::{Joiner, Splitter, is_part};
use super::passing::{Ahead, LARGE, may_pass};

/// A whole message: what `Limits::message` is by default, and what no peer may pass.
pub(super) const MOST_MESSAGE: usize = 16 * 1024 * 1024;
/// Payloads from this size on are written from where they are instead of being copied together.
const APART: usize = LARGE;
/// How much is prepared for one write.
const BATCH: usize = 256 * 1024;
/// Of large frames this much is made ready ahead of time: what comes after it can still be passed.
const LARGE_BATCH: usize = 64 * 1024;

/// Takes frames out of received bytes.
#[derive(Debug)]
pub struct FrameDecoder {
    joiner: Joiner,
    limit: usize,
}

impl Default for FrameDecoder {
    fn default() -> Self {
        FrameDecoder {
            joiner: Joiner::default(),
            limit: MOST_MESSAGE,
        }
    }
}

impl FrameDecoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on no message may be larger than this many bytes.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes.min(MOST_MESSAGE);
    }

    /// The next whole frame, cut off the front of `buffer` without copying; `None` when more bytes are needed.
    pub fn decode(&mut self, buffer: &mut Bytes) -> Result<Option<Frame>, TransportError> {
        loop {
            let Some(frame) = cut(buffer, self.limit)? else {
                return Ok(None);
            };
            if !is_part(&frame) {
                return Ok(Some(frame));
            }
            if let Some(message) = self.joiner.take(&frame, self.limit)? {
                return split_header(message).map(Some);
            }
        }
    }

    /// The frame that a whole message holds, where the transport itself tells messages apart; `None` when
    /// it was a part of a larger one. Nothing is copied.
    pub fn message(&mut self, message: Bytes) -> Result<Option<Frame>, TransportError> {
        if message.len() > self.limit {
            return Err(TransportError::FrameTooLarge {
                size: message.len(),
                limit: self.limit,
            });
        }
        let frame = split_header(message)?;
        if !is_part(&frame) {
            return Ok(Some(frame));
        }
        self.joiner
            .take(&frame, self.limit)?
            .map(split_header)
            .transpose()
    }

    /// How many bytes are still missing before [`FrameDecoder::decode`] has something to say.
    pub fn missing(&self, buffer: &[u8]) -> usize {
        match buffer.first_chunk() {
            Some(length) => match u32::from_be_bytes(*length) as usize {
                too_large if too_large > self.limit => 0,
                size => (4 + size).saturating_sub(buffer.len()),
            },
            None => 4 - buffer.len(),
        }
    }
}

fn cut(buffer: &mut Bytes, limit: usize) -> Result<Option<Frame>, TransportError> {
    let Some(length) = buffer.first_chunk() else {
        return Ok(None);
    };
    let size = u32::from_be_bytes(*length) as usize;
    if size > limit {
        return Err(TransportError::FrameTooLarge { size, limit });
    }
    if buffer.len() < 4 + size {
        return Ok(None);
    }
    let mut message = buffer.split_to(4 + size);
    message.advance(4);
    split_header(message).map(Some)
}

/// Parts header and payload at the first newline.
pub(super) fn split_header(message: Bytes) -> Result<Frame, TransportError> {
    let within = &message[..message.len().min(MOST_HEADER + 1)];
    match memchr::memchr(b'\n', within) {
        None | Some(0) => Err(TransportError::HeaderTooLarge { limit: MOST_HEADER }),
        Some(at) => Ok(Frame {
            header: message.slice(..at),
            payload: message.slice(at + 1..),
        }),
    }
}

/// Turns frames into bytes to write, in batches; large messages in parts, so that small ones pass them.
#[derive(Debug, Default)]
pub struct FrameEncoder {
    /// Small frames that come next.
    waiting: VecDeque<Frame>,
    /// Large ones, and small ones that stay behind them.
    large: VecDeque<(Ahead, Frame)>,
    splitter: Splitter,
    /// What is ready to be written, in order.
    ready: VecDeque<Bytes>,
    ready_bytes: usize,
    gather: BytesMut,
}

impl FrameEncoder {
    /// An encoder with nothing to write.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what waits in `outbox`, as far as it can be written soon: what is left there can still be passed
    /// by small frames, and counts against the queue's bound.
    pub fn poll_take(&mut self, outbox: &Outbox, poller: &mut Poller<'_>) -> Poll<Drained> {
        if !self.waiting.is_empty() || self.ready_bytes >= BATCH {
            return outbox.poll_overflow(poller).map(Drained::Overflow);
        }
        let room = match self.large.is_empty() && self.ready_bytes < LARGE_BATCH {
            true => LARGE_BATCH,
            false => 0,
        };
        if self.large.is_empty() && self.splitter.is_empty() {
            let lanes = (&mut self.waiting, &mut self.large);
            return outbox.poll_drain_lanes(lanes, room, poller);
        }
        let (mut small, mut large) = (VecDeque::new(), VecDeque::new());
        let drained = outbox.poll_drain_lanes((&mut small, &mut large), room, poller);
        for frame in small {
            let ahead = self.large.iter().map(|(ahead, _)| ahead);
            match may_pass(&frame, self.splitter.ahead().chain(ahead)) {
                true => self.waiting.push_back(frame),
                false => self.large.push_back((Ahead::of(&frame), frame)),
            }
        }
        self.large.append(&mut large);
        drained
    }

    /// Whether there is nothing left to write.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
            && self.large.is_empty()
            && self.ready.is_empty()
            && self.splitter.is_empty()
    }

    /// Fills `slices` with what to write next; answers how many it filled, 0 when there is nothing.
    pub fn slices<'s>(&'s mut self, slices: &mut [IoSlice<'s>]) -> usize {
        self.prepare();
        let count = slices.len().min(self.ready.len());
        for (slice, bytes) in slices.iter_mut().zip(&self.ready) {
            *slice = IoSlice::new(bytes);
        }
        count
    }

    /// Says how many bytes of the slices were written.
    pub fn advance(&mut self, mut written: usize) {
        self.ready_bytes -= written;
        while let Some(front) = self.ready.front_mut() {
            if front.len() > written {
                front.advance(written);
                break;
            }
            written -= front.len();
            self.ready.pop_front();
        }
        if self.is_empty() {
            // An idle connection holds no buffer.
            *self = FrameEncoder {
                splitter: std::mem::take(&mut self.splitter),
                ..FrameEncoder::default()
            };
        }
    }

    /// The next message, for a transport that tells messages apart by itself: a frame, or a part of one.
    pub fn message(&mut self) -> Option<Frame> {
        self.waiting.pop_front().or_else(|| self.piece())
    }

    /// The next of the large frames, or a part of one.
    fn piece(&mut self) -> Option<Frame> {
        while self.splitter.has_room()
            && let Some((_, frame)) = self.large.front()
            && self.splitter.lets_pass(frame)
            && let Some((ahead, frame)) = self.large.pop_front()
        {
            self.splitter.push(ahead, frame);
        }
        self.splitter.next()
    }

    fn prepare(&mut self) {
        loop {
            let prepared = self.ready_bytes + self.gather.len();
            let next = match self.waiting.is_empty() {
                false if prepared < BATCH => self.waiting.pop_front(),
                true if prepared < LARGE_BATCH => self.piece(),
                _ => None,
            };
            match next {
                Some(frame) => self.put(&frame),
                None => break,
            }
        }
        self.seal();
    }

    fn put(&mut self, frame: &Frame) {
        self.gather.reserve(
            4 + if frame.payload.len() < APART {
                frame.len()
            } else {
                frame.header.len() + 1
            },
        );
        self.gather
            .put_u32(u32::try_from(frame.len()).expect("a frame is below the message limit"));
        self.gather.put_slice(&frame.header);
        self.gather.put_u8(b'\n');
        if frame.payload.len() < APART {
            self.gather.put_slice(&frame.payload);
        } else {
            self.seal();
            self.ready_bytes += frame.payload.len();
            self.ready.push_back(frame.payload.clone());
        }
    }

    fn seal(&mut self) {
        if !self.gather.is_empty() {
            self.ready_bytes += self.gather.len();
            self.ready.push_back(self.gather.split().freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Header, Kind};
    use proptest::prelude::*;

    /// All frames, written `step` bytes at a time; `more` of them are queued between two writes.
    fn drain(frames: &[Frame], step: usize, more: usize) -> Vec<u8> {
        let (outbox, mut encoder) = (Outbox::bounded(usize::MAX), FrameEncoder::new());
        let mut frames = frames.iter();
        let mut poller = Poller::from_waker(std::task::Waker::noop());
        let mut out = Vec::new();
        loop {
            for frame in frames.by_ref().take(more) {
                outbox.send(frame.clone()).expect("open");
            }
            while encoder.poll_take(&outbox, &mut poller).is_ready() {}
            let mut slices = [IoSlice::new(&[]); 8];
            let count = encoder.slices(&mut slices);
            if count == 0 && frames.len() == 0 {
                assert!(encoder.is_empty() && outbox.waiting() == 0);
                return out;
            }
            let taken: Vec<u8> = slices[..count]
                .iter()
                .flat_map(|slice| slice.iter().copied())
                .take(step)
                .collect();
            let written = taken.len();
            out.extend(taken);
            encoder.advance(written);
        }
    }

    fn decode(bytes: &[u8], step: usize) -> Result<Vec<Frame>, TransportError> {
        let mut decoder = FrameDecoder::new();
        let mut received = Vec::new();
        let mut frames = Vec::new();
        for chunk in bytes.chunks(step) {
            received.extend_from_slice(chunk);
            if decoder.missing(&received) > 0 {
                continue;
            }
            let mut buffer = Bytes::from(std::mem::take(&mut received));
            while let Some(frame) = decoder.decode(&mut buffer)? {
                frames.push(frame);
            }
            received.extend_from_slice(&buffer);
        }
        Ok(frames)
    }

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let size =
            prop_oneof![4 => 0usize..300, 2 => 6_000usize..12_000, 1 => 60_000usize..400_000];
        let kind = prop::sample::select(vec![
            Kind::Call,
            Kind::Ok,
            Kind::Snapshot,
            Kind::State,
            Kind::Event,
            Kind::Credit,
            Kind::Attach,
        ]);
        prop::collection::vec((kind, 1u64..5, size), 0..12).prop_map(|all| {
            let frame = |(index, (kind, id, size)): (usize, (Kind, u64, usize))| Frame {
                header: Header {
                    revision: Some(index as u64),
                    ..Header::of(kind, id, None)
                }
                .encode(),
                payload: vec![b'a' + (index % 26) as u8; size].into(),
            };
            all.into_iter().enumerate().map(frame).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn frames_survive_any_cut_of_the_stream(frames in frames(), write in 1usize..200_000, more in 1usize..12, read in 1usize..100_000) {
            let bytes = drain(&frames, write.max(1000), more);
            let mut got = decode(&bytes, read.max(100)).expect("own frames");
            // Of one subscription or call, frames keep their order; and an answer never passes state.
            let id = |frame: &Frame| Header::parse(&frame.header).expect("own header").id;
            for which in 1..5 {
                let sent: Vec<_> = frames.iter().filter(|frame| id(frame) == which).collect();
                let came: Vec<_> = got.iter().filter(|frame| id(frame) == which).collect();
                prop_assert_eq!(sent, came);
            }
            let kind = |frame: &Frame| Header::parse(&frame.header).expect("own header").kind;
            let ordered = |all: &[Frame]| -> Vec<Frame> {
                all.iter().filter(|frame| matches!(kind(frame), Kind::Ok | Kind::Attach)).cloned().collect()
            };
            // An answer waits for a large frame of its own id, and others pass it then.
            let answered: Vec<_> = ordered(&frames).iter().map(id).collect();
            let waits = |frame: &Frame| frame.payload.len() >= LARGE && answered.contains(&id(frame));
            if !frames.iter().any(waits) {
                prop_assert_eq!(ordered(&frames), ordered(&got));
            }
            for (at, frame) in got.iter().enumerate().filter(|(_, frame)| kind(frame) == Kind::Ok) {
                let sent = frames.iter().position(|other| other == frame).expect("a sent frame");
                let before = |all: &[Frame]| all.iter().filter(|frame| matches!(kind(frame), Kind::State | Kind::Snapshot | Kind::Event)).count();
                prop_assert!(before(&got[..at]) >= before(&frames[..sent]));
            }
            let key = |frame: &Frame| frame.header.clone();
            got.sort_by_key(key);
            let mut sent = frames;
            sent.sort_by_key(key);
            prop_assert_eq!(sent, got);
        }

        #[test]
        fn hostile_bytes_are_refused_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), step in 1usize..50) {
            drop(decode(&bytes, step));
            let mut framed = u32::try_from(bytes.len()).expect("small").to_be_bytes().to_vec();
            framed.extend(&bytes);
            drop(decode(&framed, step));
            let mut part = br#"{"k":"part","i":1,"z":"#.to_vec();
            part.extend(&bytes);
            let mut framed = u32::try_from(part.len()).expect("small").to_be_bytes().to_vec();
            framed.extend(&part);
            drop(decode(&framed, step));
        }
    }

    #[test]
    fn a_small_call_passes_a_large_answer() {
        let large = Frame {
            header: Header::of(Kind::Ok, 1, None).encode(),
            payload: vec![b'x'; 4 << 20].into(),
        };
        let small = Frame {
            header: Header::of(Kind::Call, 2, None).encode(),
            payload: Bytes::from_static(b"{}"),
        };
        let bytes = drain(&[large, small.clone()], usize::MAX, 2);
        let first = decode(&bytes, bytes.len()).expect("own frames").remove(0);
        assert_eq!(first, small);
        let arrives = (0..bytes.len())
            .step_by(1024)
            .find(|end| !decode(&bytes[..*end], 1024).expect("own frames").is_empty());
        assert!(arrives.is_some_and(|end| end < 256 * 1024), "{arrives:?}");
    }

    #[test]
    fn lengths_beyond_the_limit_and_missing_headers_are_told_apart() {
        let too_large = u32::MAX.to_be_bytes();
        assert!(matches!(
            decode(&too_large, 4),
            Err(TransportError::FrameTooLarge { .. })
        ));
        let mut no_header = 9_000u32.to_be_bytes().to_vec();
        no_header.extend(vec![b'h'; 9_000]);
        assert!(matches!(
            decode(&no_header, 9_004),
            Err(TransportError::HeaderTooLarge { .. })
        ));
        assert!(matches!(
            decode(&[0, 0, 0, 0], 4),
            Err(TransportError::HeaderTooLarge { .. })
        ));
    }
}
