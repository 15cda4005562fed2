//! How many wrong credentials are taken, from one place and from all.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use jiff::Timestamp;

/// Seconds until wrong attempts are forgotten.
const WINDOW: i64 = 60;
/// Wrong attempts from one place within that time.
const MOST_OF_ONE: u32 = 10;
/// Wrong attempts in all. Above what many people mistype, and far below what a guess needs.
const MOST: u32 = 300;
/// Places that are counted apart.
const MOST_PLACES: usize = 1024;

/// Counts wrong attempts.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    places: HashMap<Option<IpAddr>, Count>,
    all: Count,
}

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    wrong: u32,
    /// Seconds since the Unix epoch.
    since: i64,
}

impl Count {
    fn current(&self, now: i64) -> u32 {
        match now - self.since < WINDOW {
            true => self.wrong,
            false => 0,
        }
    }

    fn add(&mut self, now: i64) {
        let wrong = self.current(now);
        if wrong == 0 {
            self.since = now;
        }
        self.wrong = wrong + 1;
    }
}

impl Attempts {
    /// Whether another attempt is looked at.
    pub(crate) fn allows(&self, from: Option<IpAddr>, now: Timestamp) -> bool {
        let now = now.as_second();
        let of_one = self
            .places
            .get(&place(from))
            .map_or(0, |count| count.current(now));
        of_one < MOST_OF_ONE && self.all.current(now) < MOST
    }

    /// Counts a wrong one.
    pub(crate) fn wrong(&mut self, from: Option<IpAddr>, now: Timestamp) {
        let now = now.as_second();
        self.all.add(now);
        if self.places.len() >= MOST_PLACES {
            self.places.retain(|_, count| count.current(now) > 0);
        }
        if self.places.len() < MOST_PLACES || self.places.contains_key(&place(from)) {
            self.places.entry(place(from)).or_default().add(now);
        }
    }
}

/// Whoever has one IPv6 address has the whole network around it.
fn place(from: Option<IpAddr>) -> Option<IpAddr> {
    from.map(|address| match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            Ipv6Addr::from_bits(bits).into()
        }
        address => address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn one_place_is_stopped_and_others_are_not_until_the_minute_is_over() {
        let mut attempts = Attempts::default();
        let (bad, good) = ("192.0.2.1".parse().ok(), "192.0.2.2".parse().ok());
        for _ in 0..MOST_OF_ONE {
            assert!(attempts.allows(bad, at(100)));
            attempts.wrong(bad, at(100));
        }
        assert!(!attempts.allows(bad, at(159)));
        assert!(attempts.allows(good, at(159)) && attempts.allows(None, at(159)));
        assert!(attempts.allows(bad, at(160)));
    }

    #[test]
    fn addresses_of_one_network_are_one_place() {
        let mut attempts = Attempts::default();
        for host in 0..MOST_OF_ONE {
            attempts.wrong(format!("2001:db8::{host}").parse().ok(), at(0));
        }
        assert!(!attempts.allows("2001:db8::ffff".parse().ok(), at(1)));
        assert!(attempts.allows("2001:db8:0:1::1".parse().ok(), at(1)));
        assert_eq!(
            place("::ffff:192.0.2.1".parse().ok()),
            "192.0.2.1".parse().ok()
        );
    }

    #[test]
    fn many_places_together_are_stopped_and_take_no_more_memory() {
        let mut attempts = Attempts::default();
        for number in 0..MOST {
            attempts.wrong(Some(IpAddr::V4(number.into())), at(0));
        }
        assert!(!attempts.allows("198.51.100.1".parse().ok(), at(1)));
        for number in 0..5000 {
            attempts.wrong(Some(IpAddr::V4(number.into())), at(2));
        }
        assert!(attempts.places.len() <= MOST_PLACES);
        assert!(attempts.allows("198.51.100.1".parse().ok(), at(200)));
    }
}
