//! The time of day, and how far other times are from it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// Tells the time of day. Tests have one that stands still. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Clock(Arc::new(Timestamp::now))
    }

    /// One that calls `now` for the time.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Clock(Arc::new(now))
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }

    /// How long ago an RFC 3339 time was; nothing where it lies ahead. `None` for what is no time.
    pub fn since(&self, at: &str) -> Option<Duration> {
        let at: Timestamp = at.parse().ok()?;
        Some(Duration::try_from(self.now().duration_since(at)).unwrap_or_default())
    }

    /// How long until an RFC 3339 time; nothing where it has passed. `None` for what is no time.
    pub fn until(&self, at: &str) -> Option<Duration> {
        let at: Timestamp = at.parse().ok()?;
        Some(Duration::try_from(at.duration_since(self.now())).unwrap_or_default())
    }
}

/// How long it is from one RFC 3339 time to another; nothing where they are the other way round.
pub fn between(from: &str, to: &str) -> Option<Duration> {
    let (from, to): (Timestamp, Timestamp) = (from.parse().ok()?, to.parse().ok()?);
    Some(Duration::try_from(to.duration_since(from)).unwrap_or_default())
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Clock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_from_each_other() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let clock = Clock::new(move || now);
        assert_eq!(
            clock.since("2026-03-01T11:59:30.5Z"),
            Some(Duration::from_millis(29_500))
        );
        assert_eq!(clock.since("2026-03-01T13:00:00Z"), Some(Duration::ZERO));
        assert_eq!(
            clock.until("2026-03-01T13:00:00+01:00"),
            Some(Duration::ZERO)
        );
        assert_eq!(
            clock.until("2026-03-01T12:01:00Z"),
            Some(Duration::from_secs(60))
        );
        assert_eq!(clock.since("yesterday"), None);
        assert_eq!(
            between("2026-03-01T12:00:00Z", "2026-03-01T12:00:02Z"),
            Some(Duration::from_secs(2))
        );
    }
}
