//! Text that a tool wrote, in as many lines as a card has room for.

use bezel_presentation::StyledLine;
use bezel_presentation::text::{Role, sanitize};
use bezel_presentation::wrap::{truncate, wrap_hard};

/// Which part of a long text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it, long lines broken.
    All,
    /// The last lines, cut at the edge.
    Tail(usize),
}

/// The lines of a text.
pub(crate) fn lines(text: &str, role: Role, width: u16, part: Part) -> Vec<StyledLine> {
    let width = usize::from(width);
    let text = text.trim_end();
    if text.is_empty() {
        return Vec::new();
    }
    let all: Vec<&str> = text.lines().map(last_state).collect();
    let line = |line: &&str| StyledLine::new(sanitize(line, 4).into_owned(), role);
    match part {
        Part::All => all
            .iter()
            .flat_map(|text| wrap_hard(&line(text), width))
            .collect(),
        Part::Tail(limit) => {
            let hidden = all.len().saturating_sub(limit);
            // A note in place of one line would save nothing.
            let hidden = if hidden == 1 { 0 } else { hidden };
            let mut shown: Vec<StyledLine> =
                (hidden > 0).then(|| more(hidden)).into_iter().collect();
            shown.extend(
                all[hidden..]
                    .iter()
                    .map(|text| truncate(&line(text), width)),
            );
            shown
        }
    }
}

/// How many lines a text has.
pub(crate) fn count(text: &str) -> usize {
    text.trim_end().lines().count()
}

/// How many lines are not shown.
pub(crate) fn more(lines: usize) -> StyledLine {
    StyledLine::new(
        format!(
            "… {}",
            bezel_presentation::format::count(lines, "more line", "more lines")
        ),
        Role::Faint,
    )
}

/// What a terminal shows in the end of a line that was written over: progress bars do that.
fn last_state(line: &str) -> &str {
    let line = line.trim_end_matches('\r');
    line.rsplit('\r').next().unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, part: Part) -> Vec<String> {
        lines(text, Role::Muted, 10, part)
            .iter()
            .map(StyledLine::to_text)
            .collect()
    }

    #[test]
    fn long_text_shows_what_fits_and_counts_the_rest() {
        let text = "one\ntwo\nthree\nfour is a long line\n\n";
        assert_eq!(
            shown(text, Part::Tail(2)),
            ["… 2 more lines", "three", "four is a…"]
        );
        assert_eq!(
            shown(text, Part::All),
            ["one", "two", "three", "four is a ", "long line"]
        );
        assert!(shown("\n \n", Part::All).is_empty());
        assert_eq!(shown("a\nb\nc", Part::Tail(2)), ["a", "b", "c"]);
    }

    #[test]
    fn a_progress_bar_shows_its_last_state() {
        assert_eq!(
            shown(" 10%\r 50%\r100%\r\ndone", Part::All),
            ["100%", "done"]
        );
    }
}
