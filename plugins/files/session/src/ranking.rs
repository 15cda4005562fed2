//! The best entries of a listing for what a person typed.

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use crate::listing::Listing;

/// Entries scored between two looks at whether the search is still wanted.
const CHUNK: usize = 4_096;

/// A found file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Relative to the searched directory, with `/` between its parts and none at its end.
    pub path: String,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// How well it fits; higher is better. 0 for an empty query.
    pub score: u32,
    /// Which characters of `path` fit the query, ascending, counted in characters.
    pub indices: Vec<u32>,
}

/// The best `limit` entries, best first; `None` when `stopped` says so on the way. Upper case in the query
/// counts, lower case fits both; spaces separate parts that must all fit.
pub(crate) fn rank(
    listing: &Listing,
    query: &str,
    limit: usize,
    stopped: impl Fn() -> bool,
) -> Option<Vec<Match>> {
    let query = query.trim().trim_start_matches("./");
    if query.is_empty() {
        return Some(first(listing, limit));
    }
    let pattern = Pattern::new(
        query,
        CaseMatching::Smart,
        Normalization::Smart,
        AtomKind::Fuzzy,
    );
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let mut characters = Vec::new();
    let mut scored: Vec<(u32, usize)> = Vec::new();
    for index in 0..listing.len() {
        if index % CHUNK == 0 && stopped() {
            return None;
        }
        let haystack = Utf32Str::new(listing.entry(index).path, &mut characters);
        if let Some(score) = pattern.score(haystack, &mut matcher) {
            scored.push((score, index));
        }
    }
    // Equal scores: the shorter path, then the order of the listing.
    best(&mut scored, limit, |(score, index)| {
        (
            std::cmp::Reverse(*score),
            listing.entry(*index).path.len(),
            *index,
        )
    });
    let matches = scored.into_iter().map(|(score, index)| {
        let entry = listing.entry(index);
        let mut indices = Vec::new();
        pattern.indices(
            Utf32Str::new(entry.path, &mut characters),
            &mut matcher,
            &mut indices,
        );
        indices.sort_unstable();
        indices.dedup();
        Match {
            path: entry.path.into(),
            is_dir: entry.is_dir,
            score,
            indices,
        }
    });
    Some(matches.collect())
}

/// What is nearest to the directory, directories first.
fn first(listing: &Listing, limit: usize) -> Vec<Match> {
    let mut indices: Vec<usize> = (0..listing.len()).collect();
    best(&mut indices, limit, |index| {
        let entry = listing.entry(*index);
        (entry.path.matches('/').count(), !entry.is_dir, *index)
    });
    let entries = indices.into_iter().map(|index| listing.entry(index));
    entries
        .map(|entry| Match {
            path: entry.path.into(),
            is_dir: entry.is_dir,
            score: 0,
            indices: Vec::new(),
        })
        .collect()
}

/// Leaves the `limit` least items, sorted.
fn best<T, K: Ord>(items: &mut Vec<T>, limit: usize, key: impl Fn(&T) -> K) {
    if limit == 0 {
        items.clear();
    } else if items.len() > limit {
        items.select_nth_unstable_by_key(limit - 1, &key);
        items.truncate(limit);
    }
    items.sort_unstable_by_key(key);
}
