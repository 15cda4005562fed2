//! What was worked out for a card, kept for its next frame.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Cards that are remembered; more are hardly ever in sight.
const LIMIT: usize = 48;

/// Values by a fingerprint of what they were made of; the one that was used longest ago goes first.
#[derive(Debug)]
pub(crate) struct Memo<T> {
    // A plain mutex: held to look up or to put in.
    values: Mutex<VecDeque<(u64, Arc<T>)>>,
}

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Memo {
            values: Mutex::default(),
        }
    }
}

impl<T> Memo<T> {
    /// The value for a fingerprint, made where it is not known.
    pub(crate) fn get(&self, fingerprint: u64, make: impl FnOnce() -> T) -> Arc<T> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = values.iter().position(|(known, _)| *known == fingerprint)
            && let Some(known) = values.remove(at)
        {
            let value = Arc::clone(&known.1);
            values.push_back(known);
            return value;
        }
        let value = Arc::new(make());
        if values.len() == LIMIT {
            values.pop_front();
        }
        values.push_back((fingerprint, Arc::clone(&value)));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_lately_is_not_made_again() {
        let memo = Memo::default();
        let mut made = Vec::new();
        for key in [1, 2, 1] {
            memo.get(key, || made.push(key));
        }
        for key in 10..10 + LIMIT as u64 - 1 {
            memo.get(key, || ());
        }
        memo.get(1, || made.push(1));
        memo.get(2, || made.push(2));
        assert_eq!(made, [1, 2, 2]);
    }
}
