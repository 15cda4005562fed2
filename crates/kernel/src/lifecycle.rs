//! Starting and ending an ordered list of units.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::step::{self, BoxError, Failure, Phase};
use crate::{Scope, scope};

/// One thing to start.
pub struct Unit {
    /// Unique within the list.
    pub name: Arc<str>,
    /// Whether a failure of it fails the whole start.
    pub required: bool,
    /// Names of the units that must be active before this one, and without which it cannot be.
    pub needs: Vec<Arc<str>>,
    /// Registers what it has; effects start in activation.
    pub setup: Box<dyn FnOnce(Scope) -> BoxFuture<'static, Result<(), BoxError>> + Send>,
}

/// How long each step may take.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// One setup.
    pub setup: Duration,
    /// All activation callbacks of one unit.
    pub activation: Duration,
    /// One disposer.
    pub disposal: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Deadlines {
            setup: Duration::from_secs(10),
            activation: Duration::from_secs(10),
            disposal: Duration::from_secs(5),
        }
    }
}

/// An optional unit that is not there, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// The unit.
    pub unit: Arc<str>,
    /// What failed; names the chain where another unit's failure is the cause.
    pub reason: String,
}

/// Why nothing runs.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A required unit failed; everything was disposed.
    #[error("{failure}{}", also(.while_disposing))]
    Failed {
        /// What failed.
        failure: Failure,
        /// Disposers that failed during the rollback.
        while_disposing: Vec<Failure>,
    },
    /// A required unit needs one that is not there; everything was disposed.
    #[error("`{unit}` is required, but {reason}")]
    Unavailable {
        /// The required unit.
        unit: Arc<str>,
        /// Why it cannot be, naming the chain.
        reason: String,
        /// Disposers that failed during the rollback.
        while_disposing: Vec<Failure>,
    },
    /// Units need each other in a circle.
    #[error("units need each other in a circle: {}", .0.join(" → "))]
    Cycle(Vec<String>),
}

fn also(failures: &[Failure]) -> String {
    failures
        .iter()
        .map(|failure| format!("; while disposing: {failure}"))
        .collect()
}

/// Units that run. Ends only through [`Running::dispose`]; dropping it ends the tasks and nothing else.
#[derive(Debug)]
pub struct Running {
    active: Vec<Active>,
    unavailable: Vec<Unavailable>,
    deadlines: Deadlines,
}

#[derive(Debug)]
struct Active {
    name: Arc<str>,
    needs: Vec<Arc<str>>,
    scope: Scope,
}

/// Sets up and activates `units`. `before_activation` runs between the two phases.
pub async fn start(
    units: Vec<Unit>,
    deadlines: Deadlines,
    before_activation: impl FnOnce(&BTreeSet<Arc<str>>),
) -> Result<Running, StartError> {
    let order = activation_order(&units)?;
    let required: HashMap<Arc<str>, bool> = units
        .iter()
        .map(|unit| (Arc::clone(&unit.name), unit.required))
        .collect();
    let mut starting = Starting {
        running: Running {
            active: Vec::new(),
            unavailable: Vec::new(),
            deadlines,
        },
        required,
    };
    for unit in units {
        starting.set_up(unit).await?;
    }
    let positions: HashMap<&Arc<str>, usize> = order
        .iter()
        .enumerate()
        .map(|(position, name)| (name, position))
        .collect();
    starting
        .running
        .active
        .sort_by_key(|active| positions[&active.name]);
    before_activation(
        &starting
            .running
            .active
            .iter()
            .map(|active| Arc::clone(&active.name))
            .collect(),
    );
    for name in &order {
        starting.activate(name).await?;
    }
    Ok(starting.running)
}

struct Starting {
    running: Running,
    required: HashMap<Arc<str>, bool>,
}

impl Starting {
    async fn set_up(&mut self, unit: Unit) -> Result<(), StartError> {
        if let Some(reason) = self.lost_need(&unit.needs) {
            return self.lose(&unit.name, reason).await;
        }
        let scope = Scope::new(Arc::clone(&unit.name));
        let setup = unit.setup;
        let inner = scope.clone();
        let name = Arc::clone(&unit.name);
        self.running.active.push(Active {
            name: unit.name,
            needs: unit.needs,
            scope,
        });
        let deadline = self.running.deadlines.setup;
        match step::run(&name, Phase::Setup, deadline, || setup(inner)).await {
            Ok(()) => Ok(()),
            Err(failure) => self.fail(&name, failure).await,
        }
    }

    async fn activate(&mut self, name: &Arc<str>) -> Result<(), StartError> {
        let Some(active) = self
            .running
            .active
            .iter()
            .find(|active| active.name == *name)
        else {
            return Ok(());
        };
        let callbacks = active.scope.take_activations();
        let deadline = self.running.deadlines.activation;
        let all = || async {
            for callback in callbacks {
                callback().await?;
            }
            Ok(())
        };
        match step::run(name, Phase::Activation, deadline, all).await {
            Ok(()) => Ok(()),
            Err(failure) => self.fail(name, failure).await,
        }
    }

    fn lost_need(&self, needs: &[Arc<str>]) -> Option<String> {
        needs.iter().find_map(|need| {
            let lost = self
                .running
                .unavailable
                .iter()
                .find(|lost| lost.unit == *need)?;
            Some(format!(
                "it needs `{}`, which is unavailable: {}",
                lost.unit, lost.reason
            ))
        })
    }

    async fn fail(&mut self, name: &Arc<str>, failure: Failure) -> Result<(), StartError> {
        if self.required.get(name).copied().unwrap_or_default() {
            let while_disposing = self.running.dispose_all().await;
            return Err(StartError::Failed {
                failure,
                while_disposing,
            });
        }
        self.lose(name, failure.to_string()).await
    }

    /// Rolls `name` back, and what needs it, until nothing is left that needs something lost.
    async fn lose(&mut self, name: &Arc<str>, reason: String) -> Result<(), StartError> {
        let mut next = Some((Arc::clone(name), reason));
        while let Some((name, reason)) = next {
            if self.required.get(&name).copied().unwrap_or_default() {
                let while_disposing = self.running.dispose_all().await;
                return Err(StartError::Unavailable {
                    unit: name,
                    reason,
                    while_disposing,
                });
            }
            let failures = self.running.withdraw(&name, reason).await;
            for failure in failures {
                tracing::warn!(unit = %failure.unit, "{failure}");
            }
            next = self.running.active.iter().find_map(|active| {
                Some((Arc::clone(&active.name), self.lost_need(&active.needs)?))
            });
        }
        Ok(())
    }
}

impl Running {
    /// Names of the units that run, providers before their users.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.active.iter().map(|active| &active.name)
    }

    /// The units that are not there, and why.
    pub fn unavailable(&self) -> &[Unavailable] {
        &self.unavailable
    }

    /// Ends one unit and what needs it, users first. Returns what failed, and what ended with it.
    pub async fn remove(&mut self, name: &str) -> (Vec<Arc<str>>, Vec<Failure>) {
        let mut doomed: Vec<Arc<str>> = Vec::new();
        for active in &self.active {
            let falls =
                &*active.name == name || active.needs.iter().any(|need| doomed.contains(need));
            if falls {
                doomed.push(Arc::clone(&active.name));
            }
        }
        let mut failures = Vec::new();
        for gone in doomed.iter().rev() {
            let reason = if &**gone == name {
                "removed".to_owned()
            } else {
                format!("`{name}` was removed")
            };
            failures.extend(self.withdraw(gone, reason).await);
        }
        (doomed, failures)
    }

    /// Ends everything in reverse order of activation. Returns every failure.
    pub async fn dispose(mut self) -> Vec<Failure> {
        self.dispose_all().await
    }

    async fn withdraw(&mut self, name: &Arc<str>, reason: String) -> Vec<Failure> {
        self.unavailable.push(Unavailable {
            unit: Arc::clone(name),
            reason,
        });
        match self.active.iter().position(|active| active.name == *name) {
            None => Vec::new(),
            Some(position) => {
                let active = self.active.remove(position);
                end(&active, self.deadlines.disposal).await
            }
        }
    }

    async fn dispose_all(&mut self) -> Vec<Failure> {
        let mut failures = Vec::new();
        while let Some(active) = self.active.pop() {
            failures.extend(end(&active, self.deadlines.disposal).await);
        }
        failures
    }
}

async fn end(active: &Active, deadline: Duration) -> Vec<Failure> {
    let (disposals, tasks): (Vec<scope::Callback>, _) = active.scope.close();
    let mut failures = Vec::new();
    for disposal in disposals.into_iter().rev() {
        if let Err(failure) = step::run(&active.name, Phase::Disposal, deadline, disposal).await {
            failures.push(failure);
        }
    }
    // Tasks end last: a disposer may still need them. They get no grace, they were told by the disposers.
    drop(tasks);
    failures
}

fn activation_order(units: &[Unit]) -> Result<Vec<Arc<str>>, StartError> {
    let known: BTreeSet<&Arc<str>> = units.iter().map(|unit| &unit.name).collect();
    let mut order: Vec<Arc<str>> = Vec::with_capacity(units.len());
    let mut left: Vec<&Unit> = units.iter().collect();
    while !left.is_empty() {
        let ready = left.iter().position(|unit| {
            unit.needs
                .iter()
                .all(|need| !known.contains(need) || order.contains(need))
        });
        match ready {
            Some(position) => order.push(Arc::clone(&left.remove(position).name)),
            None => return Err(StartError::Cycle(circle(&left))),
        }
    }
    Ok(order)
}

/// Follows needs from the first unit left until a name comes again.
fn circle(left: &[&Unit]) -> Vec<String> {
    let mut path: Vec<&Arc<str>> = Vec::new();
    let mut current = &left[0].name;
    while !path.contains(&current) {
        path.push(current);
        let unit = left.iter().find(|unit| unit.name == *current);
        let next = unit.and_then(|unit| {
            unit.needs
                .iter()
                .find(|need| left.iter().any(|other| other.name == **need))
        });
        current = next.unwrap_or(current);
    }
    let start = path.iter().position(|name| *name == current).unwrap_or(0);
    path[start..]
        .iter()
        .map(|name| name.to_string())
        .chain([current.to_string()])
        .collect()
}
