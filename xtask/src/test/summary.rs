//! The closing table: every group with its result and its time, nothing left out.

use std::fmt;
use std::time::Duration;

use super::{Entry, Outcome};

/// What happened, and whether a group that could not run counts as a failure.
pub(super) struct Summary {
    pub(super) entries: Vec<Entry>,
    /// `CI=true`: what cannot run has failed.
    pub(super) strict: bool,
}

impl Summary {
    fn failed(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Passed => false,
            Outcome::Failed(_) | Outcome::NotRun(_) => true,
            Outcome::Unavailable(_) => self.strict,
        }
    }

    /// Whether the command exits with 0.
    pub(super) fn succeeded(&self) -> bool {
        !self.entries.iter().any(|entry| self.failed(&entry.outcome))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        for entry in &self.entries {
            let (word, reason) = match &entry.outcome {
                Outcome::Passed => ("passed", String::new()),
                Outcome::Failed(reason) => ("FAILED", reason.clone()),
                Outcome::Unavailable(reason) => ("CANNOT RUN", reason.clone()),
                Outcome::NotRun(need) => ("NOT RUN", format!("`{need}` did not pass")),
            };
            match (&entry.outcome, self.failed(&entry.outcome)) {
                (Outcome::Passed, _) => passed += 1,
                (_, true) => failed += 1,
                (_, false) => skipped += 1,
            }
            let took = shown(entry.took);
            let line = format!("{:<10} {word:<10} {took:>8}  {reason}", entry.name);
            writeln!(formatter, "{}", line.trim_end())?;
        }
        let total = self.entries.iter().map(|entry| entry.took).sum();
        writeln!(formatter, "{:<10} {:<10} {:>8}", "total", "", shown(total))?;
        write!(formatter, "groups: {passed} passed, {failed} failed")?;
        match skipped {
            0 => writeln!(formatter),
            _ => writeln!(formatter, ", {skipped} skipped"),
        }
    }
}

/// `7.3 s`, or `2 m 05 s`.
fn shown(took: Duration) -> String {
    match took.as_secs() {
        seconds if seconds < 60 => format!("{:.1} s", took.as_secs_f64()),
        seconds => format!("{} m {:02} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests;
