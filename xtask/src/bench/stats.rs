//! Samples and rounds.

use anyhow::Result;

/// The value at a fraction of the sorted samples, nearest rank; 0 of none.
pub(super) fn quantile(samples: &[f64], fraction: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    // Sample counts are far below where a rank would lose precision.
    let rank = (fraction * last as f64).round() as usize;
    sorted.get(rank.min(last)).copied().unwrap_or_default()
}

pub(super) fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// One side of a comparison: measures once.
pub(super) type Subject<'a, T> = Box<dyn FnMut() -> Result<T> + 'a>;

/// Measures every subject once a round, so that other load on the machine hits all alike; each
/// round starts with another one. Returns each subject's samples, in the subjects' order.
pub(super) fn interleave<T>(
    rounds: usize,
    mut subjects: Vec<Subject<'_, T>>,
) -> Result<Vec<Vec<T>>> {
    let count = subjects.len();
    let mut samples: Vec<Vec<T>> = (0..count).map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for step in 0..count {
            let index = (round + step) % count;
            if let (Some(subject), Some(taken)) = (subjects.get_mut(index), samples.get_mut(index))
            {
                taken.push(subject()?);
            }
        }
    }
    Ok(samples)
}
