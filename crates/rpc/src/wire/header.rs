//! A frame's header: written by hand, read by hand, never from payload content.
//!
//! It is one flat JSON object with short keys. Unknown keys are passed over; a known one twice is refused.

use std::borrow::Cow;

use bytes::Bytes;
use smallvec::SmallVec;

use super::scan::{Reader, number, text};

/// A header may be this long.
pub(crate) const MOST_HEADER: usize = 8 * 1024;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// What a frame is for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Kind::$name => $text,)* }
            }

            fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Kind::$name),)* _ => None }
            }

            #[cfg(test)]
            pub(crate) const ALL: &'static [Kind] = &[$(Kind::$name),*];
        }
    };
}

kinds! {
    Hello => "hello",
    Welcome => "welcome",
    Refuse => "refuse",
    Call => "call",
    Ok => "ok",
    Err => "err",
    Cancel => "cancel",
    Subscribe => "subscribe",
    Snapshot => "snapshot",
    State => "state",
    Event => "event",
    Unsubscribe => "unsubscribe",
    Closed => "closed",
    Credit => "credit",
    /// Gives back a reference.
    Release => "release",
    Services => "services",
    /// A worker's host is active: it can be attached to from now on.
    Active => "active",
    Attachment => "attachment",
    Attach => "attach",
    Detach => "detach",
    Ping => "ping",
    Pong => "pong",
    Goaway => "goaway",
    /// A piece of a larger message; put together again before anybody looks at it.
    Part => "part",
}

/// The parts of a header; which ones a frame has follows from its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header<'h> {
    /// `k`
    pub kind: Kind,
    /// `i`: of the call or the subscription, chosen by the side that began it.
    pub id: u64,
    /// `n`: the attachment's incarnation, chosen by the router and unique in its life, so that it
    /// names client and attachment at once. Absent on a connection's own frames.
    pub route: Option<u64>,
    /// `s`
    pub service: Option<&'h str>,
    /// `m`
    pub member: Option<&'h str>,
    /// `t`: W3C traceparent.
    pub trace: Option<&'h str>,
    /// `ts`: W3C tracestate.
    pub trace_state: Option<Cow<'h, str>>,
    /// `d`: milliseconds that the call may still take.
    pub deadline: Option<u64>,
    /// `w`: bytes by which a window widens.
    pub credit: Option<u64>,
    /// `b`: the revision that a patch applies to; absent for a whole value.
    pub base: Option<u64>,
    /// `r`
    pub revision: Option<u64>,
    /// `l`: how many events were dropped before this frame.
    pub lost: Option<u64>,
    /// `o`: the error is one that the contract declares.
    pub declared: bool,
    /// `x`: the subscriptions, as (route, id), that a worker's frame goes to beside its own.
    pub targets: SmallVec<[(u64, u64); 4]>,
    /// `z`: on the first part of a message, the whole message's bytes.
    pub total: Option<u64>,
    /// `ref`: a reference, the subject of a call or a release.
    pub reference: Option<u64>,
}

/// A header that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderError {
    #[error("a header is not a JSON object (at byte {0})")]
    Syntax(usize),
    #[error("a header has a key twice")]
    Duplicate,
    #[error("a header has no kind")]
    NoKind,
    #[error("a header's kind is not known")]
    UnknownKind,
    #[error("a header's value has the wrong type or range (at byte {0})")]
    Value(usize),
}

impl<'h> Header<'h> {
    pub(crate) fn new(kind: Kind) -> Self {
        Header {
            kind,
            id: 0,
            route: None,
            service: None,
            member: None,
            trace: None,
            trace_state: None,
            deadline: None,
            credit: None,
            base: None,
            revision: None,
            lost: None,
            declared: false,
            targets: SmallVec::new(),
            total: None,
            reference: None,
        }
    }

    pub(crate) fn of(kind: Kind, id: u64, route: Option<u64>) -> Self {
        Header {
            id,
            route,
            ..Header::new(kind)
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(160);
        out.extend_from_slice(b"{\"k\":\"");
        out.extend_from_slice(self.kind.as_str().as_bytes());
        out.push(b'"');
        if self.id != 0 {
            number(&mut out, b",\"i\":", self.id);
        }
        for (key, value) in [
            (&b",\"n\":"[..], self.route),
            (b",\"d\":", self.deadline),
            (b",\"w\":", self.credit),
            (b",\"b\":", self.base),
            (b",\"r\":", self.revision),
            (b",\"l\":", self.lost),
            (b",\"z\":", self.total),
            (b",\"ref\":", self.reference),
        ] {
            if let Some(value) = value {
                number(&mut out, key, value);
            }
        }
        for (key, value) in [
            (&b",\"s\":"[..], self.service),
            (b",\"m\":", self.member),
            (b",\"t\":", self.trace),
            (b",\"ts\":", self.trace_state.as_deref()),
        ] {
            if let Some(value) = value {
                out.extend_from_slice(key);
                text(&mut out, value);
            }
        }
        if self.declared {
            out.extend_from_slice(b",\"o\":true");
        }
        if !self.targets.is_empty() {
            out.extend_from_slice(b",\"x\":[");
            for (index, (route, id)) in self.targets.iter().enumerate() {
                number(&mut out, if index == 0 { b"[" } else { b",[" }, *route);
                number(&mut out, b",", *id);
                out.push(b']');
            }
            out.push(b']');
        }
        out.push(b'}');
        Bytes::from(out)
    }

    pub(crate) fn parse(bytes: &'h [u8]) -> Result<Self, HeaderError> {
        let mut reader = Reader { bytes, at: 0 };
        let mut header = Header::new(Kind::Hello);
        let mut seen: u32 = 0;
        reader.expect(b'{')?;
        if reader.next_is(b'}') {
            return Err(HeaderError::NoKind);
        }
        loop {
            let key = reader.string()?;
            reader.expect(b':')?;
            let bit = match &*key {
                "k" => 0,
                "i" => 1,
                "n" => 2,
                "s" => 3,
                "m" => 4,
                "t" => 5,
                "ts" => 6,
                "d" => 7,
                "w" => 8,
                "b" => 9,
                "r" => 10,
                "l" => 11,
                "o" => 12,
                "x" => 13,
                "ref" => 14,
                "z" => 15,
                _ => 31,
            };
            if bit < 31 {
                if seen & (1 << bit) != 0 {
                    return Err(HeaderError::Duplicate);
                }
                seen |= 1 << bit;
            }
            match bit {
                0 => header.kind = Kind::parse(reader.plain()?).ok_or(HeaderError::UnknownKind)?,
                1 => header.id = reader.number()?,
                2 => header.route = Some(reader.number()?),
                3 => header.service = Some(reader.plain()?),
                4 => header.member = Some(reader.plain()?),
                5 => header.trace = Some(reader.plain()?),
                6 => header.trace_state = Some(reader.string()?),
                7 => header.deadline = Some(reader.number()?),
                8 => header.credit = Some(reader.number()?),
                9 => header.base = Some(reader.number()?),
                10 => header.revision = Some(reader.number()?),
                11 => header.lost = Some(reader.number()?),
                12 => header.declared = reader.boolean()?,
                13 => header.targets = reader.pairs()?,
                14 => header.reference = Some(reader.number()?),
                15 => header.total = Some(reader.number()?),
                _ => reader.skip(0)?,
            }
            if reader.next_is(b',') {
                continue;
            }
            reader.expect(b'}')?;
            break;
        }
        reader.space();
        match (reader.at == bytes.len(), seen & 1) {
            (false, _) => Err(HeaderError::Syntax(reader.at)),
            (true, 0) => Err(HeaderError::NoKind),
            (true, _) => Ok(header),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers() -> impl Strategy<Value = Header<'static>> {
        let safe = 0..=(1u64 << 53);
        let name = prop::sample::select(vec!["models", "select", "session-directory", "a.b_c"]);
        (
            (
                prop::sample::select(Kind::ALL),
                safe.clone(),
                prop::option::of(safe.clone()),
                prop::option::of(name.clone()),
                prop::option::of(name),
                prop::option::of("[ -~]{0,40}".prop_map(Cow::Owned)),
            ),
            (
                prop::option::of(safe.clone()),
                prop::option::of(safe.clone()),
                prop::option::of(safe.clone()),
                any::<bool>(),
                prop::collection::vec((safe.clone(), safe), 0..6),
            ),
        )
            .prop_map(
                |(
                    (kind, id, route, service, member, trace_state),
                    (base, revision, lost, declared, targets),
                )| {
                    Header {
                        kind,
                        id,
                        route,
                        service,
                        member,
                        trace_state,
                        base,
                        revision,
                        lost,
                        declared,
                        targets: targets.into(),
                        ..Header::new(kind)
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn a_header_survives_its_bytes_and_they_are_json(header in headers()) {
            let bytes = header.encode();
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
            prop_assert!(!bytes.contains(&b'\n'));
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _read = Header::parse(&bytes);
        }

        #[test]
        fn a_damaged_header_is_refused_or_read_but_never_a_panic(header in headers(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = header.encode().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _read = Header::parse(&bytes);
            bytes.truncate(at);
            prop_assert!(Header::parse(&bytes).is_err());
        }
    }

    #[test]
    fn unknown_keys_are_passed_over_and_known_ones_stand_once() {
        let bytes = br#"{"k":"ok","new":{"a":[1,"x",null]},"i":7}"#;
        assert_eq!(Header::parse(bytes), Ok(Header::of(Kind::Ok, 7, None)));
        assert_eq!(
            Header::parse(br#"{"k":"ok","i":7,"i":8}"#),
            Err(HeaderError::Duplicate)
        );
        assert_eq!(Header::parse(br#"{"i":7}"#), Err(HeaderError::NoKind));
        assert_eq!(
            Header::parse(br#"{"k":"shout"}"#),
            Err(HeaderError::UnknownKind)
        );
        assert!(Header::parse(br#"{"k":"ok","i":-1}"#).is_err());
        assert!(Header::parse(br#"{"k":"ok","i":9007199254740993}"#).is_err());
        assert!(Header::parse(br#"{"k":"ok"} x"#).is_err());
    }
}
