//! What was sampled: quantiles, and one answer of a measuring process.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The figures of one measurement, by name.
pub type Answer = BTreeMap<String, f64>;

pub fn answer<const N: usize>(figures: [(&str, f64); N]) -> Answer {
    figures
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The value at a fraction of the samples, nearest rank; 0 of none.
pub fn quantile(samples: &mut [f64], fraction: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let last = samples.len().saturating_sub(1);
    let rank = (fraction * last as f64).round() as usize;
    samples.get(rank).copied().unwrap_or_default()
}

pub fn microseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// The latencies, in microseconds, of calls that were made one after another.
pub fn latencies(mut samples: Vec<f64>) -> Answer {
    answer([
        ("p50", quantile(&mut samples, 0.5)),
        ("p99", quantile(&mut samples, 0.99)),
    ])
}

/// How many calls a second.
pub fn rate(calls: usize, taken: Duration) -> Answer {
    answer([("rate", calls as f64 / taken.as_secs_f64())])
}

/// What a caller is asked to do, as every stack's caller understands it: `SIZE IN_FLIGHT COUNT`.
#[derive(Debug, Clone, Copy)]
pub struct Calls {
    /// Bytes of what is sent, and of what comes back.
    pub size: usize,
    pub in_flight: usize,
    pub count: usize,
}

impl Calls {
    pub fn parse(line: &str) -> anyhow::Result<Self> {
        let mut numbers = line.split_whitespace().map(str::parse);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(size), Some(in_flight), Some(count)) => Ok(Calls {
                size: size?,
                in_flight: in_flight?,
                count: count?,
            }),
            _ => anyhow::bail!("`{line}` is not SIZE IN_FLIGHT COUNT"),
        }
    }
}

impl std::fmt::Display for Calls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {} {}", self.size, self.in_flight, self.count)
    }
}
