//! The word that somebody meant.

/// How like two words are from which one is taken for a slip of the other.
const NEAR: f64 = 0.8;

/// The one of these names that is nearest to what was given, where one is near.
pub(crate) fn nearest<'a>(names: impl Iterator<Item = &'a str>, given: &str) -> Option<&'a str> {
    let scored = names.map(|name| (strsim::jaro_winkler(name, given), name));
    let near = scored.filter(|(score, _)| *score > NEAR);
    let nearest = near.max_by(|one, other| one.0.total_cmp(&other.0));
    nearest.map(|(_, name)| name)
}
