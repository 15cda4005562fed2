//! Figures, and how they are written: JSON for machines, a Markdown table for people.

use std::borrow::Cow;
use std::fmt;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::peers::Peers;
use super::stats::median;

/// What a figure must reach.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Target {
    /// At most this many times the reference.
    AtMostTimes(f64),
    /// At least this many times the reference.
    AtLeastTimes(f64),
    /// At most this, in the figure's unit.
    AtMost(f64),
    /// Written down, not judged.
    Shown,
}

impl Target {
    /// Whether it is reached; `None` where there is nothing to judge by.
    fn met(self, ours: f64, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::AtMostTimes(limit) => ratio.map(|ratio| ratio <= limit),
            Self::AtLeastTimes(limit) => ratio.map(|ratio| ratio >= limit),
            Self::AtMost(limit) => Some(ours <= limit),
            Self::Shown => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMostTimes(limit) => write!(formatter, "≤ {limit} ×"),
            Self::AtLeastTimes(limit) => write!(formatter, "≥ {limit} ×"),
            Self::AtMost(limit) => write!(formatter, "≤ {limit}"),
            Self::Shown => write!(formatter, "–"),
        }
    }
}

/// A limit of this machine or a peer's own figure, measured in the same run.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    pub(super) name: String,
    /// In the figure's unit.
    pub(super) value: f64,
}

impl Reference {
    pub(super) fn new(name: impl Into<String>, value: f64) -> Self {
        Self {
            name: name.into(),
            value,
        }
    }
}

/// One measured figure.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) unit: Cow<'static, str>,
    pub(super) ours: f64,
    /// What it is compared with; empty for an absolute target.
    pub(super) reference: String,
    pub(super) limit_or_peer: Option<f64>,
    pub(super) ratio: Option<f64>,
    pub(super) target: String,
    /// `null` where the peer to judge by is not installed.
    pub(super) met: Option<bool>,
}

impl Figure {
    pub(super) fn new(
        name: impl Into<String>,
        unit: &'static str,
        ours: f64,
        reference: Option<Reference>,
        target: Target,
    ) -> Self {
        let ratio = reference
            .as_ref()
            .filter(|reference| reference.value > 0.0)
            .map(|reference| ours / reference.value);
        Self {
            name: name.into(),
            unit: unit.into(),
            ours,
            limit_or_peer: reference.as_ref().map(|reference| reference.value),
            reference: reference
                .map(|reference| reference.name)
                .unwrap_or_default(),
            ratio,
            target: target.to_string(),
            met: target.met(ours, ratio),
        }
    }

    /// Of values that were measured once a round, each beside its reference: the middle ratio counts.
    pub(super) fn of_rounds(
        name: String,
        unit: String,
        ours: &[f64],
        reference: Option<(&str, &[f64])>,
        target: Target,
    ) -> Self {
        let middle = median(ours);
        let ratio = reference.and_then(|(_, theirs)| {
            let ratios: Vec<f64> = ours
                .iter()
                .zip(theirs)
                .filter(|(_, theirs)| **theirs > 0.0)
                .map(|(ours, theirs)| ours / theirs)
                .collect();
            (!ratios.is_empty()).then(|| median(&ratios))
        });
        Self {
            name,
            unit: unit.into(),
            ours: middle,
            limit_or_peer: reference.map(|(_, theirs)| median(theirs)),
            reference: reference
                .map(|(name, _)| name.to_owned())
                .unwrap_or_default(),
            ratio,
            target: target.to_string(),
            met: target.met(middle, ratio),
        }
    }
}

/// One workload's part of the report.
#[derive(Debug, Serialize)]
struct Row {
    workload: &'static str,
    #[serde(flatten)]
    figure: Figure,
}

/// A workload that could not run, and why.
#[derive(Debug, Serialize)]
struct Failure {
    workload: &'static str,
    reason: String,
}

/// The machine, as far as a reader needs it to weigh the figures.
#[derive(Debug, Serialize)]
struct Machine {
    cores: usize,
    processor: String,
    kernel: String,
}

/// The whole run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    machine: Machine,
    rounds: usize,
    /// Peers that were measured, with their versions.
    peers: Vec<String>,
    absent_peers: Vec<String>,
    figures: Vec<Row>,
    failures: Vec<Failure>,
}

impl Report {
    pub(super) fn new(peers: &Peers, rounds: usize) -> Result<Self> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let processor = read("/proc/cpuinfo")
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .map_or_else(String::new, |line| {
                line.trim_start_matches([' ', '\t', ':']).to_owned()
            });
        Ok(Self {
            machine: Machine {
                cores: std::thread::available_parallelism()?.get(),
                processor,
                kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            },
            rounds,
            peers: peers.versions(),
            absent_peers: peers.absent(),
            figures: Vec::new(),
            failures: Vec::new(),
        })
    }

    pub(super) fn add(&mut self, workload: &'static str, figures: Vec<Figure>) {
        let rows = figures.into_iter().map(|figure| Row { workload, figure });
        self.figures.extend(rows);
    }

    pub(super) fn add_failure(&mut self, workload: &'static str, error: &anyhow::Error) {
        eprintln!("{workload}: {error:#}");
        self.failures.push(Failure {
            workload,
            reason: format!("{error:#}"),
        });
    }

    /// Names peers that a workload could not compare with.
    pub(super) fn add_absent(&mut self, names: Vec<String>) {
        let new = |name: &String| !self.absent_peers.contains(name);
        let names: Vec<String> = names.into_iter().filter(new).collect();
        self.absent_peers.extend(names);
    }

    /// Nothing missed its target and nothing failed. What could not be judged counts as neither.
    pub(super) fn all_met(&self) -> bool {
        self.failures.is_empty() && self.figures.iter().all(|row| row.figure.met != Some(false))
    }

    pub(super) fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    pub(super) fn to_markdown(&self) -> String {
        let mut text = String::from(
            "| Workload | Figure | Ours | Against | Ratio | Target | Met |\n|---|---|---|---|---|---|---|\n",
        );
        for Row { workload, figure } in &self.figures {
            let against = match figure.limit_or_peer {
                Some(value) => format!("{} {}", figure.reference, shown(value, &figure.unit)),
                None => "–".to_owned(),
            };
            let ratio = figure
                .ratio
                .map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
            let met = match figure.met {
                Some(true) => "yes",
                Some(false) => "**no**",
                None => "–",
            };
            text.push_str(&format!(
                "| {workload} | {} | {} | {against} | {ratio} | {} | {met} |\n",
                figure.name,
                shown(figure.ours, &figure.unit),
                figure.target,
            ));
        }
        for failure in &self.failures {
            let reason = failure.reason.replace('\n', " ");
            text.push_str(&format!(
                "\nCould not run `{}`: {reason}\n",
                failure.workload
            ));
        }
        if !self.absent_peers.is_empty() {
            text.push_str(&format!(
                "\nNot installed, so not compared with: {}.\n",
                self.absent_peers.join(", ")
            ));
        }
        text
    }
}

/// A value with three significant digits.
fn shown(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        large if large >= 100.0 => 0,
        medium if medium >= 10.0 => 1,
        small if small >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$} {unit}").trim_end().to_owned()
}
