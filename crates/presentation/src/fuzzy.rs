//! Fuzzy search: items ranked by how well they match, with the letters that did.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// An item that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranked {
    /// Its position among the items.
    pub index: usize,
    /// How well it matches; higher is better.
    pub score: u32,
    /// Which of its characters matched: char positions, ascending. Graphemes count by their first char.
    pub positions: Vec<u32>,
}

/// What the items are; it decides which beginnings of words count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// Names and sentences.
    #[default]
    Text,
    /// Paths: a match in the last part is worth more.
    Path,
}

/// A reusable searcher; holds about 100 KiB of scratch space once used.
#[derive(Debug, Default)]
pub struct Fuzzy {
    kind: Kind,
    matcher: Option<Box<Matcher>>,
}

impl Fuzzy {
    /// A searcher for items of this kind.
    pub fn new(kind: Kind) -> Self {
        Fuzzy {
            kind,
            matcher: None,
        }
    }

    /// The items that match every word of `query`, best first, ties in their own order. Words may begin
    /// with `^`, end with `$`, be negated with `!` or exact with `'`. Upper case letters match only
    /// themselves. An empty query matches everything, in order.
    pub fn rank<'a>(
        &mut self,
        query: &str,
        items: impl IntoIterator<Item = &'a str>,
    ) -> Vec<Ranked> {
        if query.trim().is_empty() {
            let all = items.into_iter().enumerate();
            return all
                .map(|(index, _)| Ranked {
                    index,
                    score: 0,
                    positions: Vec::new(),
                })
                .collect();
        }
        let matcher = self.matcher.get_or_insert_with(|| {
            let config = match self.kind {
                Kind::Text => Config::DEFAULT,
                Kind::Path => Config::DEFAULT.match_paths(),
            };
            Box::new(Matcher::new(config))
        });
        let pattern = Pattern::parse(query, CaseMatching::Smart, Normalization::Smart);
        let mut buffer = Vec::new();
        let mut ranked = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            let mut positions = Vec::new();
            let haystack = Utf32Str::new(item, &mut buffer);
            if let Some(score) = pattern.indices(haystack, matcher, &mut positions) {
                positions.sort_unstable();
                positions.dedup();
                ranked.push(Ranked {
                    index,
                    score,
                    positions,
                });
            }
        }
        ranked.sort_by(|left, right| {
            right
                .score
                .cmp(&left.score)
                .then(left.index.cmp(&right.index))
        });
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_matches_come_first_and_show_their_letters() {
        let items = ["gpt-5 mini", "claude sonnet", "gemini pro", "sonar large"];
        let mut fuzzy = Fuzzy::new(Kind::Text);
        let ranked = fuzzy.rank("son", items);
        let names: Vec<&str> = ranked.iter().map(|ranked| items[ranked.index]).collect();
        assert_eq!(names, ["claude sonnet", "sonar large"]);
        assert_eq!(ranked[0].positions, [7, 8, 9]);
        assert!(fuzzy.rank("zzz", items).is_empty());
        assert_eq!(fuzzy.rank("  ", items).len(), 4);
    }

    #[test]
    fn in_paths_the_file_name_counts_more() {
        let items = ["main/readme.txt", "src/main.rs"];
        let ranked = Fuzzy::new(Kind::Path).rank("main.rs", items);
        assert_eq!(items[ranked[0].index], "src/main.rs");
    }
}
