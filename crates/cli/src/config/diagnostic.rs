//! What is wrong with a configuration, and how it is shown.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Everything that is wrong with a configuration; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<Diagnostic>);

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// Where.
    pub place: Place,
}

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a file.
    Text(Excerpt),
    /// In what has no lines: a flag, an environment variable, a file that could not be read.
    Named(String),
}

/// A line of a file with a part marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// Which file.
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// How many characters are marked; at least 1.
    pub width: usize,
    /// The line's text.
    pub text: String,
}

impl Excerpt {
    /// The line of `text` in which the byte range `span` begins.
    pub fn new(file: &Path, text: &str, span: Range<usize>) -> Self {
        let start = floor_boundary(text, span.start);
        let end = floor_boundary(text, span.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = text[line_start..line_end].trim_end_matches('\r');
        let marked = &text[start..end.min(line_start + line.len()).max(start)];
        Excerpt {
            file: file.to_owned(),
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            width: marked.chars().count().max(1),
            text: line.to_owned(),
        }
    }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "error: {}", self.message)?;
        match &self.place {
            Place::Named(name) => {
                write!(formatter, "  --> {name}")?;
                if let Some(hint) = &self.hint {
                    write!(formatter, "\n   = {hint}")?;
                }
                Ok(())
            }
            Place::Text(excerpt) => excerpt.show(formatter, self.hint.as_deref()),
        }
    }
}

impl Excerpt {
    /// Puts stars in place of the marked text.
    pub fn mask(&mut self) {
        let (before, after) = (self.column - 1, self.column - 1 + self.width);
        let masked = self.text.chars().enumerate();
        self.text = masked
            .map(|(at, character)| {
                if (before..after).contains(&at) {
                    '*'
                } else {
                    character
                }
            })
            .collect();
    }

    fn show(&self, formatter: &mut fmt::Formatter<'_>, hint: Option<&str>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        // Tabs would move the marks away from what they mark.
        let text = self.text.replace('\t', " ");
        let marks = format!("{}{}", " ".repeat(self.column - 1), "^".repeat(self.width));
        writeln!(
            formatter,
            "{margin}--> {}:{}:{}",
            self.file.display(),
            self.line,
            self.column
        )?;
        writeln!(formatter, "{margin} |")?;
        writeln!(formatter, "{number} | {text}")?;
        write!(formatter, "{margin} | {marks}")?;
        match hint {
            Some(hint) => write!(formatter, " {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n\n")?;
            }
            write!(formatter, "{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// The candidate that `word` is most likely a slip of.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
