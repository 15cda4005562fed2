//! Frames on a byte stream: a big-endian length, the header, a newline, the payload.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::frame::{Frame, TransportError};
use super::header::MOST_HEADER;
use super::parts::{Joiner, PART, Splitter, is_part};

/// A whole message: what `Limits::message` is by default, and what no peer may pass.
pub(super) const MOST_MESSAGE: usize = 16 * 1024 * 1024;
/// Payloads from this size on are written from where they are instead of being copied together.
const APART: usize = 8 * 1024;
/// How much is prepared for one write.
const BATCH: usize = 256 * 1024;

/// Takes frames out of received bytes.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    joiner: Joiner,
}

impl FrameDecoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next whole frame, cut off the front of `buffer` without copying; `None` when more bytes are needed.
    pub fn decode(&mut self, buffer: &mut Bytes) -> Result<Option<Frame>, TransportError> {
        loop {
            let Some(frame) = cut(buffer)? else {
                return Ok(None);
            };
            if !is_part(&frame) {
                return Ok(Some(frame));
            }
            if let Some(message) = self.joiner.take(&frame)? {
                return split_header(message).map(Some);
            }
        }
    }

    /// How many bytes are still missing before [`FrameDecoder::decode`] has something to say.
    pub fn missing(buffer: &[u8]) -> usize {
        match buffer.first_chunk() {
            Some(length) => match u32::from_be_bytes(*length) as usize {
                too_large if too_large > MOST_MESSAGE => 0,
                size => (4 + size).saturating_sub(buffer.len()),
            },
            None => 4 - buffer.len(),
        }
    }
}

fn cut(buffer: &mut Bytes) -> Result<Option<Frame>, TransportError> {
    let Some(length) = buffer.first_chunk() else {
        return Ok(None);
    };
    let size = u32::from_be_bytes(*length) as usize;
    if size > MOST_MESSAGE {
        return Err(TransportError::FrameTooLarge {
            size,
            limit: MOST_MESSAGE,
        });
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
    match within.iter().position(|byte| *byte == b'\n') {
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
    waiting: VecDeque<Frame>,
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

    /// Where frames to write are put, at the back.
    pub fn waiting(&mut self) -> &mut VecDeque<Frame> {
        &mut self.waiting
    }

    /// Whether more frames should be taken from a queue: so few are left that a small one may still
    /// pass a large one, and so few that the queue's own bound is what counts.
    pub fn has_room(&self) -> bool {
        self.waiting.is_empty() && self.ready_bytes < BATCH
    }

    /// Whether there is nothing left to write.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.ready.is_empty() && self.splitter.is_empty()
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

    fn prepare(&mut self) {
        while self.ready_bytes + self.gather.len() < BATCH {
            let next = match self.waiting.front() {
                Some(frame) if self.splitter.lets_pass(frame) => self.waiting.pop_front(),
                _ => None,
            };
            match next {
                Some(frame) if frame.len() > PART => self.splitter.push(frame),
                Some(frame) => self.put(&frame),
                None => match self.splitter.next() {
                    Some(part) => self.put(&part),
                    None => break,
                },
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

    /// Everything that the encoder has to say, written `step` bytes at a time.
    fn drain(encoder: &mut FrameEncoder, step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        loop {
            let mut slices = [IoSlice::new(&[]); 8];
            let count = encoder.slices(&mut slices);
            if count == 0 {
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
            if FrameDecoder::missing(&received) > 0 {
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
        fn frames_survive_any_cut_of_the_stream(frames in frames(), write in 1usize..200_000, read in 1usize..100_000) {
            let mut encoder = FrameEncoder::new();
            encoder.waiting().extend(frames.clone());
            let bytes = drain(&mut encoder, write.max(1000));
            prop_assert!(encoder.is_empty());
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
            if !frames.iter().any(|frame| kind(frame) == Kind::Ok && frame.len() > PART) {
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
        let mut encoder = FrameEncoder::new();
        encoder.waiting().extend([large.clone(), small.clone()]);
        let bytes = drain(&mut encoder, usize::MAX);
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
