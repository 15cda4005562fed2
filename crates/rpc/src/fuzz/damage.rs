//! Streams of real frames, and what can happen to them.

use proptest::prelude::*;
use proptest::sample::Index;

macro_rules! corpus {
    ($($name:literal),* $(,)?) => {
        /// The bytes of real connections, by what they are.
        pub(super) const CORPUS: &[(&str, &[u8])] =
            &[$(($name, include_bytes!(concat!("../../tests/corpus/", $name, ".frames")))),*];
    };
}

corpus![
    "client-of-a-server",
    "server-to-a-client",
    "attached-client",
    "server-to-an-attached-client",
    "worker-of-a-server",
    "server-to-a-worker",
    "parts",
];

/// Pieces of JSON and of frames that readers trip over.
const TOKENS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"[[[[[[[[[[[[[[[[[[[[",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b",",
    b":",
    b"\n",
    b"\0",
    b"\xff",
    b"\xc3\x28",
    b"null",
    b"true",
    b"NaN",
    b"-1",
    b"007",
    b"1e400",
    b"9007199254740993",
    b"18446744073709551616",
    b"\"k\":\"part\"",
    b"\"k\":\"call\"",
    b"\"i\":1",
    b"\"n\":1",
    b"\"x\":[[1,2]]",
    b"\"z\":16777216",
    b"\"d\":0",
    b"\"w\":9007199254740992",
    b"\"ref\":1",
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x00\xff\xff\xff",
];

#[derive(Debug, Clone)]
enum Damage {
    Flip(Index, u8),
    Insert(Index, usize),
    Delete(Index, usize),
    Repeat(Index, usize),
    /// Takes some bytes of another stream.
    Graft(Index, usize, Index, usize),
    Cut(Index),
    /// Sets a frame's length to what the frame now has.
    Mend,
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    prop_oneof![
        3 => (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Flip(at, byte)),
        4 => (at(), 0..TOKENS.len()).prop_map(|(at, token)| Damage::Insert(at, token)),
        2 => (at(), 1usize..40).prop_map(|(at, count)| Damage::Delete(at, count)),
        1 => (at(), 1usize..200).prop_map(|(at, count)| Damage::Repeat(at, count)),
        2 => (at(), 0..CORPUS.len(), at(), 1usize..300)
            .prop_map(|(at, other, from, count)| Damage::Graft(at, other, from, count)),
        1 => at().prop_map(Damage::Cut),
        3 => Just(Damage::Mend),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
    match damage {
        Damage::Flip(at, with) => {
            let at = place(at, bytes);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= with;
            }
        }
        Damage::Insert(at, token) => {
            let at = place(at, bytes);
            bytes.splice(at..at, TOKENS[*token].iter().copied());
        }
        Damage::Delete(at, count) => {
            let at = place(at, bytes);
            bytes.drain(at..(at + count).min(bytes.len()));
        }
        Damage::Repeat(at, count) => {
            let at = place(at, bytes);
            let again = bytes[at..(at + count).min(bytes.len())].to_vec();
            bytes.splice(at..at, again);
        }
        Damage::Graft(at, other, from, count) => {
            let (at, other) = (place(at, bytes), CORPUS[*other].1);
            let from = from.index(other.len());
            let graft = &other[from..(from + count).min(other.len())];
            bytes.splice(at..at, graft.iter().copied());
        }
        Damage::Cut(at) => {
            let at = place(at, bytes);
            bytes.truncate(at);
        }
        Damage::Mend => mend(bytes),
    }
}

/// Corrects the length of every frame that begins where one is expected.
fn mend(bytes: &mut [u8]) {
    let starts: Vec<usize> = (0..bytes.len().saturating_sub(4))
        .filter(|at| bytes[at + 4..].starts_with(b"{\"k\""))
        .collect();
    let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
    for (start, end) in starts.iter().zip(ends) {
        let length = u32::try_from(end - start - 4).expect("a small stream");
        bytes[*start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// A stream of the corpus after some accidents, and where it is torn on its way.
pub(super) fn damaged() -> impl Strategy<Value = (Vec<u8>, Vec<usize>)> {
    let stream = prop_oneof![
        12 => (0..CORPUS.len()).prop_map(|which| CORPUS[which].1.to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ];
    let damages = prop::collection::vec(damage(), 0..8);
    let cuts = prop::collection::vec(1usize..200, 1..6);
    (stream, damages, cuts).prop_map(|(mut bytes, damages, cuts)| {
        for damage in &damages {
            apply(&mut bytes, damage);
        }
        (bytes, cuts)
    })
}

/// The stream in pieces whose lengths go round through `cuts`.
pub(super) fn pieces<'b>(mut bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let mut all = Vec::new();
    for cut in cuts.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at((*cut).min(bytes.len()));
        all.push(piece);
        bytes = rest;
    }
    all
}

/// Header and payload of whatever looks like a frame, without the decoder's judgement.
pub(super) fn frames_of(bytes: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut starts: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at..].starts_with(b"{\"k\""))
        .collect();
    starts.push(bytes.len() + 4);
    let frames = starts
        .windows(2)
        .map(|pair| &bytes[pair[0]..(pair[1].max(pair[0] + 4) - 4).min(bytes.len())]);
    frames
        .map(|frame| match frame.iter().position(|byte| *byte == b'\n') {
            Some(end) => (&frame[..end], &frame[end + 1..]),
            None => (frame, &frame[..0]),
        })
        .collect()
}
