//! Finds the places of a patch's chunks in a file and makes the new text.

use crate::edit::explain::plain_punctuation;
use crate::text::Ending;

use super::parse::{Chunk, ChunkLine};

/// How closely a chunk matched. Higher levels are tried only when the lower ones find nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fuzz {
    /// Character for character.
    #[default]
    Exact,
    /// Whitespace at line ends apart.
    TrailingSpace,
    /// Indentation apart.
    Indentation,
    /// Typographic quotes, dashes and spaces apart.
    Punctuation,
}

const LEVELS: [Fuzz; 4] = [
    Fuzz::Exact,
    Fuzz::TrailingSpace,
    Fuzz::Indentation,
    Fuzz::Punctuation,
];

impl Fuzz {
    fn plain(self, line: &str) -> String {
        match self {
            Fuzz::Exact => line.into(),
            Fuzz::TrailingSpace => line.trim_end().into(),
            Fuzz::Indentation => line.trim().into(),
            Fuzz::Punctuation => plain_punctuation(line),
        }
    }

    /// For the model, when it is not exact.
    pub(crate) fn note(self) -> Option<&'static str> {
        match self {
            Fuzz::Exact => None,
            Fuzz::TrailingSpace => Some("ignoring spaces at line ends"),
            Fuzz::Indentation => Some("ignoring indentation"),
            Fuzz::Punctuation => Some("ignoring typographic quotes, dashes and spaces"),
        }
    }
}

/// A text made by chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patched {
    pub(crate) text: String,
    /// The loosest match that was needed.
    pub(crate) fuzz: Fuzz,
}

/// Why a chunk has no place. `chunk` counts from 0; lines from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Misplaced {
    /// An anchor is not in the file.
    NoAnchor { chunk: usize, anchor: String },
    /// Its lines are not in the file.
    NotFound { chunk: usize },
    /// Its lines are in the file, but only before an earlier chunk's place, or overlapping it.
    OutOfOrder { chunk: usize },
    /// Its lines are in several places.
    Ambiguous { chunk: usize, lines: Vec<u64> },
}

/// Applies all chunks to `text`. Unchanged lines, line endings and the state of the final newline are kept,
/// also where a chunk matched loosely.
pub(crate) fn apply(text: &str, chunks: &[Chunk]) -> Result<Patched, Misplaced> {
    let file: Vec<Line<'_>> = text.split_inclusive('\n').map(Line::of).collect();
    let mut candidates: Vec<Candidates> = Vec::with_capacity(chunks.len());
    let mut cursor = 0;
    for (index, chunk) in chunks.iter().enumerate() {
        let found = Candidates::find(&file, chunk, index, cursor)?;
        cursor = found.starts[0] + found.length;
        candidates.push(found);
    }
    let starts = choose(&candidates)?;
    let fuzz = candidates
        .iter()
        .map(|candidates| candidates.fuzz)
        .max()
        .unwrap_or(Fuzz::Exact);
    Ok(Patched {
        text: assemble(text, &file, chunks, &candidates, &starts),
        fuzz,
    })
}

/// The lines that a chunk expects in the file.
pub(crate) fn expected(chunk: &Chunk) -> Vec<&str> {
    let lines = chunk.lines.iter().filter_map(|line| match line {
        ChunkLine::Context(text) | ChunkLine::Remove(text) => Some(text.as_str()),
        ChunkLine::Add(_) => None,
    });
    lines.collect()
}

#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    text: &'a str,
    ending: Option<Ending>,
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Self {
        if let Some(text) = line.strip_suffix("\r\n") {
            return Line {
                text,
                ending: Some(Ending::CrLf),
            };
        }
        match line.strip_suffix('\n') {
            Some(text) => Line {
                text,
                ending: Some(Ending::Lf),
            },
            None => Line {
                text: line,
                ending: None,
            },
        }
    }
}

/// Where one chunk could go.
#[derive(Debug)]
struct Candidates {
    /// Indices of first lines, ascending, at least one; none overlaps the first places of the chunks before.
    starts: Vec<usize>,
    /// Lines that the chunk covers in the file.
    length: usize,
    /// Blank context lines at the chunk's end that the file does not have.
    dropped: usize,
    fuzz: Fuzz,
}

impl Candidates {
    fn find(
        file: &[Line<'_>],
        chunk: &Chunk,
        index: usize,
        cursor: usize,
    ) -> Result<Self, Misplaced> {
        let anchors = anchored(file, &chunk.anchors, index)?;
        let expected = expected(chunk);
        if expected.is_empty() {
            let mut starts = match anchors {
                Some(anchors) if !chunk.at_end => anchors.iter().map(|anchor| anchor + 1).collect(),
                _ => vec![file.len()],
            };
            starts.retain(|start| *start >= cursor);
            if starts.is_empty() {
                return Err(Misplaced::OutOfOrder { chunk: index });
            }
            return Ok(Candidates {
                starts,
                length: 0,
                dropped: 0,
                fuzz: Fuzz::Exact,
            });
        }
        let blank_tail = match chunk.lines.last() {
            Some(ChunkLine::Context(text)) if text.trim().is_empty() && expected.len() > 1 => 1,
            _ => 0,
        };
        let mut elsewhere = false;
        for dropped in 0..=blank_tail {
            let expected = &expected[..expected.len() - dropped];
            for fuzz in LEVELS {
                let mut starts = matches(file, expected, fuzz, chunk.at_end);
                elsewhere |= !starts.is_empty();
                starts.retain(|start| *start >= cursor);
                if let Some(anchors) = &anchors {
                    starts = first_after_each(anchors, &starts);
                }
                if !starts.is_empty() {
                    return Ok(Candidates {
                        starts,
                        length: expected.len(),
                        dropped,
                        fuzz,
                    });
                }
            }
        }
        Err(if elsewhere {
            Misplaced::OutOfOrder { chunk: index }
        } else {
            Misplaced::NotFound { chunk: index }
        })
    }
}

fn matches(file: &[Line<'_>], expected: &[&str], fuzz: Fuzz, at_end: bool) -> Vec<usize> {
    let file: Vec<String> = file.iter().map(|line| fuzz.plain(line.text)).collect();
    let expected: Vec<String> = expected.iter().map(|line| fuzz.plain(line)).collect();
    let all = file.windows(expected.len()).enumerate();
    let fits = |at: usize| !at_end || at + expected.len() == file.len();
    all.filter(|(at, window)| fits(*at) && *window == expected)
        .map(|(at, _)| at)
        .collect()
}

/// Lines at which the chain of anchors can end; `None` without anchors.
fn anchored(
    file: &[Line<'_>],
    anchors: &[String],
    chunk: usize,
) -> Result<Option<Vec<usize>>, Misplaced> {
    let mut reached: Option<Vec<usize>> = None;
    for anchor in anchors {
        let found = anchor_lines(file, anchor);
        let found = match reached {
            None => found,
            Some(before) => first_after_each(&before, &found),
        };
        if found.is_empty() {
            return Err(Misplaced::NoAnchor {
                chunk,
                anchor: anchor.clone(),
            });
        }
        reached = Some(found);
    }
    Ok(reached)
}

fn anchor_lines(file: &[Line<'_>], anchor: &str) -> Vec<usize> {
    for fuzz in LEVELS {
        let found = matches(file, &[anchor], fuzz, false);
        if !found.is_empty() {
            return found;
        }
    }
    let part = anchor.trim();
    let lines = file.iter().enumerate();
    lines
        .filter(|(_, line)| line.text.contains(part))
        .map(|(at, _)| at)
        .collect()
}

/// For each anchor the first of `starts` that is not before it, each once.
fn first_after_each(anchors: &[usize], starts: &[usize]) -> Vec<usize> {
    let mut first: Vec<usize> = anchors
        .iter()
        .filter_map(|anchor| starts.iter().copied().find(|start| start >= anchor))
        .collect();
    first.sort_unstable();
    first.dedup();
    first
}

/// The only way to place all chunks in order without overlap: each at its first candidate, unless a later
/// one would do as well.
fn choose(candidates: &[Candidates]) -> Result<Vec<usize>, Misplaced> {
    let mut limit = usize::MAX;
    for (chunk, candidate) in candidates.iter().enumerate().rev() {
        let fits = |start: &usize| start.saturating_add(candidate.length) <= limit;
        let possible: Vec<usize> = candidate.starts.iter().copied().filter(fits).collect();
        if possible.len() > 1 {
            let lines = possible.iter().map(|start| *start as u64 + 1).collect();
            return Err(Misplaced::Ambiguous { chunk, lines });
        }
        limit = candidate.starts[0];
    }
    Ok(candidates
        .iter()
        .map(|candidate| candidate.starts[0])
        .collect())
}

fn assemble(
    text: &str,
    file: &[Line<'_>],
    chunks: &[Chunk],
    candidates: &[Candidates],
    starts: &[usize],
) -> String {
    let usual = Ending::of(text.as_bytes()).unwrap_or(Ending::Lf);
    let mut lines: Vec<Line<'_>> = Vec::with_capacity(file.len());
    let mut at = 0;
    for ((chunk, candidate), start) in chunks.iter().zip(candidates).zip(starts) {
        lines.extend_from_slice(&file[at..*start]);
        at = *start;
        let end = start + candidate.length;
        let used = chunk.lines.len() - candidate.dropped;
        let mut ending = usual;
        for line in &chunk.lines[..used] {
            match line {
                ChunkLine::Add(text) => lines.push(Line {
                    text,
                    ending: Some(ending),
                }),
                ChunkLine::Context(_) => {
                    lines.push(file[at]);
                    at += 1;
                }
                ChunkLine::Remove(_) => {
                    ending = file[at].ending.unwrap_or(usual);
                    at += 1;
                }
            }
        }
        at = end;
    }
    lines.extend_from_slice(&file[at..]);
    let final_newline = file.last().is_none_or(|line| line.ending.is_some());
    let count = lines.len();
    let mut result = String::with_capacity(text.len());
    for (index, line) in lines.into_iter().enumerate() {
        result.push_str(line.text);
        if index + 1 < count || final_newline {
            result.push_str(match line.ending.unwrap_or(usual) {
                Ending::Lf => "\n",
                Ending::CrLf => "\r\n",
            });
        }
    }
    result
}

#[cfg(test)]
mod tests;
