//! Which frames may pass which: small ones do not wait for large ones that have nothing to do with them.

use super::frame::Frame;
use super::header::{Header, Kind};

/// From this size on a payload is large: small frames may pass it.
pub(super) const LARGE: usize = 8 * 1024;

/// What is known of a frame that others may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ahead {
    kind: Kind,
    id: u64,
    route: Option<u64>,
    /// It goes to more than the one subscription.
    many: bool,
}

impl Ahead {
    pub(super) fn of(frame: &Frame) -> Self {
        match Header::parse(&frame.header) {
            Ok(header) => Ahead {
                kind: header.kind,
                id: header.id,
                route: header.route,
                many: !header.targets.is_empty(),
            },
            // Nothing passes what cannot be read.
            Err(_) => Ahead {
                kind: Kind::Hello,
                id: 0,
                route: None,
                many: false,
            },
        }
    }

    fn carries_state(&self) -> bool {
        matches!(self.kind, Kind::Snapshot | Kind::State | Kind::Event)
    }

    fn is_ordinary(&self) -> bool {
        self.carries_state() || matches!(self.kind, Kind::Call | Kind::Ok | Kind::Err)
    }

    fn is_of(&self, header: &Header<'_>) -> bool {
        (self.route, self.id) == (header.route, header.id) || self.many && self.carries_state()
    }
}

/// Whether `frame` may be sent before those that are `ahead` of it.
///
/// One subscription's or call's frames keep their order, and an answer stays behind the state that its call
/// changed.
pub(super) fn may_pass<'a>(
    frame: &Frame,
    mut ahead: impl Iterator<Item = &'a Ahead> + Clone,
) -> bool {
    if ahead.clone().next().is_none() {
        return true;
    }
    let Ok(header) = Header::parse(&frame.header) else {
        return false;
    };
    let is_of = |other: &Ahead| other.is_of(&header);
    match header.kind {
        Kind::Ping | Kind::Pong => true,
        // Nothing else passes a frame of the connection itself.
        _ if !ahead.clone().all(Ahead::is_ordinary) => false,
        Kind::Call | Kind::Cancel | Kind::Credit => !ahead.any(is_of),
        Kind::Ok | Kind::Err => !ahead.any(|other| other.is_of(&header) || other.carries_state()),
        Kind::Snapshot | Kind::State | Kind::Event if header.targets.is_empty() => {
            !ahead.any(is_of)
        }
        _ => false,
    }
}
