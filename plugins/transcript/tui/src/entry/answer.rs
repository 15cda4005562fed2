//! What the model says: text as Markdown, reasoning dim and short.

use bezel_presentation::highlight::Highlighter;
use bezel_presentation::markdown::MarkdownText;
use bezel_presentation::text::{Role, sanitize};
use bezel_presentation::wrap::{truncate, wrap};
use bezel_presentation::{StyledLine, StyledSpan};
use bezel_transcript_contract::Part;

use super::rows::{Mark, Rows};

/// Rows of reasoning that are shown while it comes in.
const THINKING_ROWS: usize = 4;

/// Bytes of reasoning that can fill these rows on any screen.
const THINKING_TAIL: usize = 4096;

/// The texts of an answer, by place of their part.
#[derive(Default)]
pub(super) struct Answer {
    texts: Vec<MarkdownText>,
}

impl Answer {
    pub(super) fn build(
        &mut self,
        parts: &[Part],
        done: bool,
        error: Option<&str>,
        open: bool,
        width: usize,
        highlighter: &Highlighter,
    ) -> Rows {
        let mut rows = Rows::default();
        self.texts.resize_with(parts.len(), MarkdownText::new);
        for (place, part) in parts.iter().enumerate() {
            let last = place + 1 == parts.len();
            match part {
                Part::Text { text } if text.trim().is_empty() => {}
                Part::Text { text } => {
                    space(&mut rows);
                    self.texts[place].set(text.trim_start_matches('\n'));
                    let count = self.texts[place].lines(width, highlighter).len();
                    rows.push_text(place, count, 0);
                }
                Part::Thinking { text } if text.trim().is_empty() => {}
                Part::Thinking { text } => {
                    space(&mut rows);
                    thinking(text, last && !done, open, width, &mut rows);
                }
            }
        }
        if let Some(error) = error {
            space(&mut rows);
            push_error(error, width, &mut rows);
        }
        rows
    }

    /// Takes in what highlighting has got to.
    pub(super) fn refresh(&mut self, width: usize, highlighter: &Highlighter, rows: &mut Rows) {
        for (place, text) in self
            .texts
            .iter_mut()
            .enumerate()
            .filter(|(_, text)| !text.source().is_empty())
        {
            let count = text.lines(width, highlighter).len();
            rows.resize_text(place, count);
        }
    }

    pub(super) fn lines(
        &mut self,
        part: usize,
        width: usize,
        highlighter: &Highlighter,
    ) -> &[StyledLine] {
        self.texts
            .get_mut(part)
            .map_or(&[], |text| text.lines(width, highlighter))
    }
}

fn space(rows: &mut Rows) {
    if rows.len() > 0 {
        rows.push(StyledLine::default(), Mark::None);
    }
}

fn thinking(text: &str, streaming: bool, open: bool, width: usize, rows: &mut Rows) {
    let text = sanitize(text.trim(), 4);
    let head = |words: &str| {
        let mut line = StyledLine::new("✻ ", Role::Faint);
        line.push(StyledSpan::new(words.to_owned(), Role::Thinking));
        line
    };
    if !open && !streaming {
        let gist = text
            .lines()
            .map(|line| line.trim_matches(['*', '#', ' ']))
            .find(|line| !line.is_empty())
            // One line is no place for Markdown's signs.
            .map(|line| line.replace("**", "").replace('`', ""));
        let mut line = head("Thought");
        if let Some(gist) = gist {
            line.push(StyledSpan::new(format!(" · {gist}"), Role::Faint));
        }
        return rows.push_head(truncate(&line, width), Mark::None);
    }
    rows.push_head(
        head(if streaming { "Thinking…" } else { "Thought" }),
        Mark::None,
    );
    let shown = if open {
        &*text
    } else {
        &text[text.ceil_char_boundary(text.len().saturating_sub(THINKING_TAIL))..]
    };
    let lines = shown.lines().flat_map(|line| {
        wrap(
            &StyledLine::new(line.to_owned(), Role::Thinking),
            width.saturating_sub(2),
        )
    });
    let lines: Vec<StyledLine> = lines.collect();
    let from = if open {
        0
    } else {
        lines.len().saturating_sub(THINKING_ROWS)
    };
    for line in lines.into_iter().skip(from) {
        rows.push_indented(line, 2);
    }
}

/// Whether somebody stopped it, which is no failure.
fn push_error(error: &str, width: usize, rows: &mut Rows) {
    let text = sanitize(error.trim(), 4).replace('\n', " ");
    let interrupted = text.to_ascii_lowercase().starts_with("interrupted") || text == "cancelled";
    let (sign, role) = if interrupted {
        ("⊘ ", Role::Muted)
    } else {
        ("✗ ", Role::Error)
    };
    let lines = wrap(&StyledLine::new(text, role), width.saturating_sub(2));
    for (position, line) in lines.into_iter().enumerate() {
        if position == 0 {
            let mut first = StyledLine::new(sign, role);
            line.spans.into_iter().for_each(|span| first.push(span));
            rows.push(first, Mark::None);
        } else {
            rows.push_indented(line, 2);
        }
    }
}
