//! Damaged input at every place that reads what a peer wrote: the frame decoder, the header scan, `hello`,
//! and a server as a whole. The seeds are the frames of real connections in `tests/corpus`.
//!
//! `PROPTEST_CASES=100000 cargo nextest run -p bezel-rpc fuzz` looks for longer.

mod damage;
mod server;

use std::io::IoSlice;
use std::task::{Context as Poller, Waker};

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;

use crate::handshake::read_hello;
use crate::wire::{Frame, FrameDecoder, FrameEncoder, Header, Outbox, TransportError};
use damage::{CORPUS, damaged, frames_of, pieces};

/// A short run in the suite, a long one where it is asked for.
fn cases(few: u32) -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: if asked { default.cases } else { few },
        failure_persistence: None,
        ..default
    }
}

/// All frames of a stream that arrives in pieces, and how it ended.
fn decode<'b>(
    pieces: impl Iterator<Item = &'b [u8]>,
) -> (Vec<Frame>, Option<TransportError>, usize) {
    let mut decoder = FrameDecoder::new();
    let (mut frames, mut received) = (Vec::new(), Vec::new());
    for piece in pieces {
        received.extend_from_slice(piece);
        if decoder.missing(&received) > 0 {
            continue;
        }
        let mut buffer = Bytes::from(std::mem::take(&mut received));
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error), 0),
            }
        }
        received.extend_from_slice(&buffer);
    }
    (frames, None, received.len())
}

/// The bytes of the frames as a peer writes them.
fn encode(frames: &[Frame]) -> Vec<u8> {
    let outbox = Outbox::new();
    for frame in frames {
        outbox.send(frame.clone()).expect("it is open and small");
    }
    let (mut encoder, mut bytes) = (FrameEncoder::new(), Vec::new());
    let mut poller = Poller::from_waker(Waker::noop());
    while encoder.poll_take(&outbox, &mut poller).is_ready() || !encoder.is_empty() {
        let mut slices = [IoSlice::new(&[]); 4];
        let count = encoder.slices(&mut slices);
        let before = bytes.len();
        slices[..count]
            .iter()
            .for_each(|slice| bytes.extend_from_slice(slice));
        encoder.advance(bytes.len() - before);
    }
    bytes
}

fn is_sound(frame: &Frame) -> Result<(), TestCaseError> {
    prop_assert!(!frame.header.is_empty() && frame.header.len() <= 8 * 1024);
    prop_assert!(!frame.header.contains(&b'\n'));
    Ok(())
}

fn any_stream(bytes: &[u8], cuts: &[usize]) -> Result<(), TestCaseError> {
    let (whole, error, rest) = decode(std::iter::once(bytes));
    let (torn, same_error, same_rest) = decode(pieces(bytes, cuts).into_iter());
    prop_assert_eq!(&whole, &torn, "how bytes arrive makes no difference");
    prop_assert_eq!(
        error.map(|error| error.to_string()),
        same_error.map(|error| error.to_string())
    );
    prop_assert_eq!(rest, same_rest);
    for frame in &whole {
        is_sound(frame)?;
        any_header(&frame.header)?;
    }
    // What was understood is said again in the same way.
    let again = encode(&whole);
    // A message that holds a part is none that a peer would write, and large ones may be passed.
    let plain =
        |frame: &Frame| !frame.header.starts_with(b"{\"k\":\"part\"") && frame.len() < 8 * 1024;
    if whole.iter().all(plain) {
        prop_assert_eq!(decode(std::iter::once(&again[..])).0, whole);
    }
    any_message(bytes)
}

/// One message of a transport that tells messages apart.
fn any_message(bytes: &[u8]) -> Result<(), TestCaseError> {
    let mut decoder = FrameDecoder::new();
    if let Ok(Some(frame)) = decoder.message(Bytes::copy_from_slice(bytes)) {
        is_sound(&frame)?;
        prop_assert_eq!(frame.len(), bytes.len());
    }
    Ok(())
}

/// What the header scan reads is what any JSON reader reads, and what it refuses is refused for a reason.
fn any_header(bytes: &[u8]) -> Result<(), TestCaseError> {
    let json = serde_json::from_slice::<Value>(bytes);
    let Ok(header) = Header::parse(bytes) else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(bytes);
    prop_assert!(json.is_ok(), "not JSON, and accepted: {}", text);
    let json = json.unwrap_or_default();
    prop_assert_eq!(json["k"].as_str(), Some(header.kind.as_str()));
    for (key, read) in [
        ("n", header.route),
        ("d", header.deadline),
        ("w", header.credit),
        ("b", header.base),
        ("r", header.revision),
        ("l", header.lost),
        ("z", header.total),
        ("ref", header.reference),
    ] {
        prop_assert_eq!(json[key].as_u64(), read, "{} in {}", key, text);
    }
    prop_assert_eq!(json["i"].as_u64().unwrap_or(0), header.id);
    for (key, read) in [
        ("s", header.service),
        ("m", header.member),
        ("t", header.trace),
        ("ts", header.trace_state.as_deref()),
    ] {
        prop_assert_eq!(json[key].as_str(), read, "{} in {}", key, text);
    }
    let pairs = json["x"].as_array().map_or(0, Vec::len);
    prop_assert_eq!(pairs, header.targets.len());
    let again = header.encode();
    prop_assert_eq!(Header::parse(&again), Ok(header));
    Ok(())
}

/// A `hello` that is let through is one in the strict sense.
fn any_hello(header: &[u8], payload: &[u8]) -> Result<(), TestCaseError> {
    let frame = Frame {
        header: Bytes::copy_from_slice(header),
        payload: Bytes::copy_from_slice(payload),
    };
    match read_hello(&frame) {
        Ok(hello) => {
            prop_assert!(crate::strict::check(payload).is_ok());
            prop_assert_eq!(hello.protocol.major, crate::PROTOCOL.major);
            let json: Value = serde_json::from_slice(payload)
                .map_err(|error| TestCaseError::fail(format!("not JSON, and accepted: {error}")))?;
            let shown = hello.hello.credential.reveal();
            prop_assert_eq!(json["credential"].as_str(), shown);
        }
        Err(refusal) => {
            prop_assert!(!refusal.message.is_empty());
            let secret = serde_json::from_slice::<Value>(payload).ok();
            let secret = secret.and_then(|json| Some(json["credential"].as_str()?.to_owned()));
            let told =
                secret.is_some_and(|secret| secret.len() > 8 && refusal.message.contains(&secret));
            prop_assert!(
                !told,
                "the refusal tells the credential: {}",
                refusal.message
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn a_damaged_stream_is_cut_into_sound_frames_or_refused((bytes, cuts) in damaged()) {
        any_stream(&bytes, &cuts)?;
    }

    #[test]
    fn a_damaged_header_means_the_same_to_every_reader_or_is_refused((bytes, _) in damaged()) {
        for frame in frames_of(&bytes) {
            any_header(frame.0)?;
        }
    }

    #[test]
    fn a_damaged_hello_is_strict_or_refused((bytes, _) in damaged(), whole in any::<bool>()) {
        for (header, payload) in frames_of(&bytes) {
            any_hello(if whole { br#"{"k":"hello"}"# } else { header }, payload)?;
        }
    }
}

#[test]
fn every_frame_of_the_corpus_is_understood() {
    for (name, bytes) in CORPUS {
        let (frames, error, rest) = decode(std::iter::once(*bytes));
        assert!(
            error.is_none() && rest == 0,
            "{name}: {error:?}, {rest} bytes left"
        );
        assert!(frames.len() > 2, "{name}");
        for frame in frames {
            assert!(Header::parse(&frame.header).is_ok(), "{name}: {frame:?}");
            assert!(
                frame.payload.is_empty()
                    || crate::strict::check(&frame.payload).is_ok()
                    || name == &"parts"
            );
        }
        any_stream(bytes, &[1, 5, 9]).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_header_that_only_looks_like_json_is_refused() {
    for header in [
        r#"{"k":"ok","i":007}"#,
        r#"{"k":"ok","new":nul}"#,
        r#"{"k":"ok","new":+1}"#,
        r#"{"k":"ok","new":1.e}"#,
        r#"{"k":"ok","new":"\q"}"#,
        r#"{"k":"ok","new":[1,]}"#,
        r#"{"k":"ok",}"#,
        r#"{"k":"ok","new":truefalse}"#,
    ] {
        assert!(Header::parse(header.as_bytes()).is_err(), "{header}");
    }
    for header in [
        r#"{"k":"ok","new":-1.5e+3}"#,
        r#"{"k":"ok","new":null,"i":0}"#,
        r#"{"k":"ok","new":{"a":[true,false,{}]}}"#,
    ] {
        assert!(Header::parse(header.as_bytes()).is_ok(), "{header}");
    }
}
