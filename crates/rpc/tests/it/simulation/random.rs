//! Random numbers that are the same for one seed on every machine and in every version of every crate.

use std::sync::{Arc, Mutex};
use std::time::Duration;

/// SplitMix64. Clones draw from one sequence.
#[derive(Clone)]
pub struct Random(Arc<Mutex<u64>>);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(Arc::new(Mutex::new(seed)))
    }

    pub fn next(&self) -> u64 {
        let mut state = self.0.lock().expect("lock");
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not 0.
    pub fn below(&self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in `times`.
    pub fn one_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn milliseconds(&self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }

    /// A sequence of its own, for a part of the world whose number of draws is its own matter.
    pub fn fork(&self) -> Self {
        Random::new(self.next())
    }
}
