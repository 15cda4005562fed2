//! The rows of an item: lines of its own, and runs of rows that a text lays out itself.

use std::time::Duration;

use bezel_presentation::StyledLine;

/// What stands left of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nothing.
    #[default]
    None,
    /// The bar beside what the person said.
    Bar,
    /// A tool call that waits.
    Waiting,
    /// A tool call that runs: a spinner.
    Running,
    /// A tool call that succeeded.
    Done,
    /// A tool call that failed.
    Failed,
    /// A tool call that was interrupted.
    Interrupted,
}

/// A row, ready to be drawn.
#[derive(Debug, PartialEq)]
pub(crate) struct Row<'a> {
    pub(crate) line: &'a StyledLine,
    pub(crate) mark: Mark,
    /// Columns right of the gutter where the line begins.
    pub(crate) indent: u16,
    /// Whether a click on it opens and closes the item.
    pub(crate) head: bool,
}

/// Rows in order.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    runs: Vec<Run>,
    lines: Vec<StyledLine>,
    count: usize,
    /// How long the call took, where its tool measured that.
    pub(crate) took: Option<Duration>,
}

#[derive(Debug)]
struct Run {
    first: usize,
    count: usize,
    mark: Mark,
    indent: u16,
    head: bool,
    source: Source,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    /// Lines from here on.
    Lines(usize),
    /// A text that lays itself out.
    Text(usize),
}

/// Rows of one source.
#[derive(Debug)]
pub(crate) struct RunOfRows {
    /// The number of its first row, and that behind its last.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The text that lays them out; `None` for lines of their own.
    pub(crate) text: Option<usize>,
    pub(crate) mark: Mark,
    pub(crate) indent: u16,
    pub(crate) head: bool,
    line: usize,
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn push(&mut self, line: StyledLine, mark: Mark) {
        self.push_run(line, mark, 0, false);
    }

    /// Adds the row that opens and closes the item.
    pub(crate) fn push_head(&mut self, line: StyledLine, mark: Mark) {
        self.push_run(line, mark, 0, true);
    }

    /// Adds a line `indent` columns right of the gutter.
    pub(crate) fn push_indented(&mut self, line: StyledLine, indent: u16) {
        self.push_run(line, Mark::None, indent, false);
    }

    /// Adds `count` rows of a text.
    pub(crate) fn push_text(&mut self, text: usize, count: usize, indent: u16) {
        let source = Source::Text(text);
        self.runs.push(Run {
            first: self.count,
            count,
            mark: Mark::None,
            indent,
            head: false,
            source,
        });
        self.count += count;
    }

    /// Notes that a text has another number of rows now.
    pub(crate) fn resize_text(&mut self, text: usize, count: usize) {
        let mut first = 0;
        for run in &mut self.runs {
            run.first = first;
            if matches!(run.source, Source::Text(known) if known == text) {
                run.count = count;
            }
            first += run.count;
        }
        self.count = first;
    }

    /// The run that a row belongs to.
    pub(crate) fn run(&self, index: usize) -> Option<RunOfRows> {
        let at = self
            .runs
            .partition_point(|run| run.first + run.count <= index);
        let run = self.runs.get(at)?;
        let (text, line) = match run.source {
            Source::Lines(line) => (None, line),
            Source::Text(text) => (Some(text), 0),
        };
        let (start, end) = (run.first, run.first + run.count);
        Some(RunOfRows {
            start,
            end,
            text,
            mark: run.mark,
            indent: run.indent,
            head: run.head,
            line,
        })
    }

    /// The lines of a run that has its own.
    pub(crate) fn lines(&self, run: &RunOfRows) -> &[StyledLine] {
        self.lines
            .get(run.line..run.line + (run.end - run.start))
            .unwrap_or_default()
    }

    fn push_run(&mut self, line: StyledLine, mark: Mark, indent: u16, head: bool) {
        let at = self.lines.len();
        self.lines.push(line);
        self.count += 1;
        if let Some(run) = self.runs.last_mut()
            && matches!(run.source, Source::Lines(_))
            && (run.mark, run.indent, run.head) == (mark, indent, head)
            && !head
        {
            run.count += 1;
            return;
        }
        let source = Source::Lines(at);
        self.runs.push(Run {
            first: self.count - 1,
            count: 1,
            mark,
            indent,
            head,
            source,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_when_a_text_among_them_grows() {
        let mut rows = Rows::default();
        rows.push_head("head".into(), Mark::Done);
        rows.push_text(0, 2, 0);
        rows.push("after".into(), Mark::None);
        rows.push("last".into(), Mark::None);
        let shown = |rows: &Rows| -> Vec<String> {
            let say = |index| {
                let run = rows.run(index).expect("a row");
                let row = index - run.start;
                run.text.map_or_else(
                    || rows.lines(&run)[row].to_text(),
                    |text| format!("{text}.{row}"),
                )
            };
            (0..rows.len()).map(say).collect()
        };
        assert_eq!(shown(&rows), ["head", "0.0", "0.1", "after", "last"]);
        rows.resize_text(0, 3);
        assert_eq!(shown(&rows), ["head", "0.0", "0.1", "0.2", "after", "last"]);
        rows.resize_text(0, 0);
        assert_eq!(shown(&rows), ["head", "after", "last"]);
        assert!(rows.run(3).is_none());
    }
}
