//! W3C trace context: the only part of a context that crosses a wire.

use std::fmt;

/// A `traceparent` with its optional `tracestate`, as <https://www.w3.org/TR/trace-context/> has it.
#[derive(Clone, PartialEq, Eq)]
pub struct TraceCarrier {
    trace_id: u128,
    span_id: u64,
    flags: u8,
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
        TraceCarrier {
            trace_id: nonzero_u128(),
            span_id: nonzero_u64(),
            flags: 1,
            state: None,
        }
    }

    /// A new span in the same trace.
    pub fn child(&self) -> Self {
        TraceCarrier {
            span_id: nonzero_u64(),
            ..self.clone()
        }
    }

    /// The trace's id, the same in every process it passes.
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// The current span's id.
    pub fn span_id(&self) -> u64 {
        self.span_id
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
            state,
        })
    }

    /// The header value.
    pub fn traceparent(&self) -> String {
        format!(
            "00-{:032x}-{:016x}-{:02x}",
            self.trace_id, self.span_id, self.flags
        )
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

fn hex(text: &str) -> Result<u128, TraceError> {
    if text
        .bytes()
        .any(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    {
        return Err(TraceError);
    }
    u128::from_str_radix(text, 16).map_err(|_| TraceError)
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
