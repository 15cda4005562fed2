//! What the program prints: figures with all their rounds, and what could not be measured.

use serde::Serialize;

/// What a figure must reach.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// At most this many times the reference.
    AtMostTimes(f64),
    /// At least this many times the reference.
    AtLeastTimes(f64),
    /// At most this, in the figure's unit.
    AtMost(f64),
    /// Written down, not judged.
    Shown,
}

/// A limit or a peer, measured in the same rounds.
#[derive(Debug, Serialize)]
pub struct Reference {
    pub name: &'static str,
    pub rounds: Vec<f64>,
}

#[derive(Debug, Serialize)]
pub struct Figure {
    name: String,
    unit: &'static str,
    /// One value a round.
    ours: Vec<f64>,
    reference: Option<Reference>,
    target: Target,
}

/// The document.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    figures: Vec<Figure>,
    /// Peers that are not here.
    absent: Vec<&'static str>,
}

impl Report {
    pub fn new(absent: Vec<&'static str>) -> Self {
        Report {
            figures: Vec::new(),
            absent,
        }
    }

    pub fn against(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        ours: Vec<f64>,
        reference: (&'static str, Vec<f64>),
        target: Target,
    ) {
        let (of, rounds) = reference;
        // A peer that is not here has no rounds, and leaves nothing to judge by.
        let reference = (!rounds.is_empty()).then_some(Reference { name: of, rounds });
        self.figures.push(Figure {
            name: name.into(),
            unit,
            ours,
            reference,
            target,
        });
    }

    pub fn alone(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        ours: Vec<f64>,
        target: Target,
    ) {
        self.figures.push(Figure {
            name: name.into(),
            unit,
            ours,
            reference: None,
            target,
        });
    }

    pub fn print(&self) -> anyhow::Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}
