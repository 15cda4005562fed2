//! W3C trace context: the only part of a context that crosses a wire.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Of 2^63 traces, how many are recorded; the default is all.
static RECORDED: AtomicU64 = AtomicU64::new(ALL);
/// Whether a trace that came from elsewhere is decided anew here.
static DECIDES_ANEW: AtomicBool = AtomicBool::new(false);
const ALL: u64 = 1 << 63;

/// Which traces are recorded. Decided where a trace begins, and carried with it as its sampled flag.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The share of traces, from 0 for none to 1 for all.
    pub ratio: f64,
    /// Whether the flag that comes with a trace counts. Otherwise each process decides by the trace's id.
    pub follows_parent: bool,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            ratio: 1.0,
            follows_parent: true,
        }
    }
}

impl Sampling {
    /// Lets this decide for the whole process from now on.
    pub fn install(self) {
        // A float's cast saturates; a ratio that is no number records nothing.
        let recorded = (self.ratio.clamp(0.0, 1.0) * ALL as f64) as u64;
        RECORDED.store(recorded, Ordering::Relaxed);
        DECIDES_ANEW.store(!self.follows_parent, Ordering::Relaxed);
    }
}

/// A `traceparent` with its optional `tracestate`, as <https://www.w3.org/TR/trace-context/> has it.
#[derive(Clone, PartialEq, Eq)]
pub struct TraceCarrier {
    trace_id: u128,
    span_id: u64,
    flags: u8,
    /// A trace has begun, and no span of it yet.
    unopened: bool,
    state: Option<Box<str>>,
}

/// A carrier that does not follow the standard. The receiver starts a root instead of failing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceError;

impl fmt::Display for TraceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a W3C traceparent")
    }
}

impl std::error::Error for TraceError {}

impl TraceCarrier {
    /// A new trace with a first span.
    pub fn root() -> Self {
        let trace_id = nonzero_u128();
        TraceCarrier {
            trace_id,
            span_id: nonzero_u64(),
            flags: u8::from(recorded(trace_id)),
            unopened: true,
            state: None,
        }
    }

    /// A new span in the same trace.
    pub fn child(&self) -> Self {
        let flags = if DECIDES_ANEW.load(Ordering::Relaxed) {
            self.flags & !1 | u8::from(recorded(self.trace_id))
        } else {
            self.flags
        };
        TraceCarrier {
            span_id: nonzero_u64(),
            flags,
            unopened: false,
            ..self.clone()
        }
    }

    /// Whether spans of this trace are recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// The trace's id, the same in every process it passes.
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// The current span's id.
    pub fn span_id(&self) -> u64 {
        self.span_id
    }

    /// The span that is the parent of a child made now; none at a trace's beginning.
    pub fn open_span(&self) -> Option<u64> {
        (!self.unopened).then_some(self.span_id)
    }

    /// Reads `traceparent` (version 00, or a later one read as 00) and keeps `tracestate` as it is.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Result<Self, TraceError> {
        let bytes = traceparent.as_bytes();
        let dashes = [2, 35, 52];
        if bytes.len() < 55 || dashes.iter().any(|at| bytes[*at] != b'-') || !traceparent.is_ascii()
        {
            return Err(TraceError);
        }
        let version = hex(&traceparent[0..2])?;
        if version == 255 || (version == 0 && bytes.len() != 55) {
            return Err(TraceError);
        }
        let trace_id = hex(&traceparent[3..35])?;
        let span_id = u64::try_from(hex(&traceparent[36..52])?).map_err(|_| TraceError)?;
        let flags = u8::try_from(hex(&traceparent[53..55])?).map_err(|_| TraceError)?;
        if trace_id == 0 || span_id == 0 {
            return Err(TraceError);
        }
        let state = tracestate
            .filter(|text| !text.is_empty() && text.len() <= 512)
            .map(Box::from);
        Ok(TraceCarrier {
            trace_id,
            span_id,
            flags,
            unopened: false,
            state,
        })
    }

    /// The header value.
    pub fn traceparent(&self) -> String {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        // On the way of every frame, where a formatter would be seen.
        let mut text = String::with_capacity(55);
        text.push_str("00");
        for bytes in [
            &self.trace_id.to_be_bytes()[..],
            &self.span_id.to_be_bytes(),
            &[self.flags],
        ] {
            text.push('-');
            for byte in bytes {
                text.push(char::from(HEX[usize::from(byte >> 4)]));
                text.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
        text
    }

    /// The vendor part, passed on unread.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

impl fmt::Debug for TraceCarrier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.traceparent())
    }
}

/// As a pair of `traceparent` and `tracestate`.
impl Serialize for TraceCarrier {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.traceparent(), self.tracestate()).serialize(serializer)
    }
}

/// What is malformed degrades to a root, as on the wire: it never makes unreadable what it lies in.
impl<'de> Deserialize<'de> for TraceCarrier {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (parent, state) = <(String, Option<String>)>::deserialize(deserializer)?;
        Ok(TraceCarrier::parse(&parent, state.as_deref())
            .unwrap_or_else(|TraceError| TraceCarrier::root()))
    }
}

/// By the id alone, so that every process decides alike.
fn recorded(trace_id: u128) -> bool {
    // The lower 63 bits are the random ones in every version of the standard.
    (trace_id as u64 >> 1) < RECORDED.load(Ordering::Relaxed)
}

fn hex(text: &str) -> Result<u128, TraceError> {
    text.bytes().try_fold(0, |number, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return Err(TraceError),
        };
        Ok(number << 4 | u128::from(digit))
    })
}

fn nonzero_u128() -> u128 {
    loop {
        let id = rand::random::<u128>();
        if id != 0 {
            return id;
        }
    }
}

fn nonzero_u64() -> u64 {
    loop {
        let id = rand::random::<u64>();
        if id != 0 {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_carrier_survives_its_text_form() {
        let root = TraceCarrier::root();
        let child = root.child();
        assert_eq!(
            TraceCarrier::parse(&child.traceparent(), None),
            Ok(child.clone())
        );
        assert_eq!(child.trace_id(), root.trace_id());
        assert_ne!(child.span_id(), root.span_id());
        assert!(root.is_sampled());
        assert_eq!(root.open_span(), None);
        assert_eq!(child.open_span(), Some(child.span_id()));
    }

    #[test]
    fn a_stored_carrier_keeps_its_state_and_a_malformed_one_is_a_root() {
        let text = "00-0000000000000000000000000000000a-000000000000000b-00";
        let carrier = TraceCarrier::parse(text, Some("vendor=1")).unwrap();
        let stored = serde_json::to_value(&carrier).unwrap();
        let read: TraceCarrier = serde_json::from_value(stored).unwrap();
        assert_eq!(read, carrier);
        assert_eq!(read.child().tracestate(), Some("vendor=1"));
        assert!(!read.child().is_sampled());
        let read: TraceCarrier = serde_json::from_value(serde_json::json!(["?", null])).unwrap();
        assert_ne!(read.trace_id(), 0);
    }

    #[test]
    fn malformed_carriers_are_refused() {
        for text in [
            "",
            "00-00000000000000000000000000000000-0000000000000001-01",
            "00-0000000000000000000000000000000g-0000000000000001-01",
            "ff-0000000000000000000000000000000a-0000000000000001-01",
            "00-0000000000000000000000000000000a-0000000000000001-01-more",
            "00-0000000000000000000000000000000é-000000000000001-01xx",
        ] {
            assert_eq!(TraceCarrier::parse(text, None), Err(TraceError), "{text}");
        }
    }
}
