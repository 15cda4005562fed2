//! How workers are started, stopped and kept.

use std::time::Duration;

use bezel_plugin::{Draft, DraftError, Names, PluginId, Problem};

/// How workers are started, stopped and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerPolicy {
    /// From the launch to the worker's connection; one that takes longer is killed.
    pub start_timeout: Duration,
    /// From the request to stop to the kill.
    pub stop_grace: Duration,
    /// How long a worker that runs without a connection is waited for when somebody needs it. After
    /// that it is stopped and another one launched.
    pub reconnect_timeout: Duration,
    /// What becomes of a session whose worker died.
    pub restart: Restart,
    /// When what ran at a crash goes on.
    pub resume: Resume,
}

/// When what ran at a crash goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// When somebody opens the session.
    OnOpen,
    /// At once, and when the server starts: without the variables of anybody's shell, which the server does
    /// not keep.
    AtOnce,
}

/// What becomes of a session whose worker died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// It gets a new worker as soon as somebody attaches to it or starts it.
    OnDemand,
    /// It stays without one until the server itself is started again.
    Never,
}

impl Default for WorkerPolicy {
    fn default() -> Self {
        WorkerPolicy {
            start_timeout: Duration::from_secs(20),
            stop_grace: Duration::from_secs(5),
            reconnect_timeout: Duration::from_secs(10),
            restart: Restart::OnDemand,
            resume: Resume::OnOpen,
        }
    }
}

/// The worker policy under construction.
pub struct WorkerPolicyDraft(Names<WorkerPolicy>);

const NAME: &str = "workers";

impl WorkerPolicyDraft {
    /// Sets the policy.
    pub fn set(&mut self, policy: WorkerPolicy) {
        self.0.set(NAME, policy);
    }

    /// Sets the policy in the place of another plugin's on purpose.
    pub fn replace(&mut self, policy: WorkerPolicy) {
        self.0.replace(NAME, policy);
    }
}

impl Draft for WorkerPolicyDraft {
    type Output = WorkerPolicy;

    fn new() -> Self {
        WorkerPolicyDraft(Names::new("policy"))
    }

    fn begin(&mut self, plugin: &PluginId, registration: u64) {
        self.0.begin(plugin, registration);
    }

    fn finish(self, problems: &mut Vec<Problem>) -> Result<WorkerPolicy, DraftError> {
        let set = self.0.finish(problems).next_back();
        let Some((_, named)) = set else {
            return Ok(WorkerPolicy::default());
        };
        let policy = named.value;
        if policy.start_timeout.is_zero() {
            let message = "a start timeout of zero kills every worker; give it some seconds".into();
            return Err(DraftError {
                plugin: named.plugin,
                message,
            });
        }
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(
        policies: &[(&str, WorkerPolicy)],
    ) -> (Result<WorkerPolicy, DraftError>, Vec<Problem>) {
        let mut draft = WorkerPolicyDraft::new();
        for (index, (plugin, policy)) in policies.iter().enumerate() {
            draft.begin(&PluginId::new(*plugin), index as u64);
            draft.set(*policy);
        }
        let mut problems = Vec::new();
        (draft.finish(&mut problems), problems)
    }

    #[test]
    fn the_earlier_of_two_policies_stays_and_a_start_timeout_of_zero_is_refused() {
        let quick = WorkerPolicy {
            stop_grace: Duration::from_millis(1),
            ..WorkerPolicy::default()
        };
        let (kept, problems) = finish(&[("a", quick), ("b", WorkerPolicy::default())]);
        assert_eq!((kept, problems.len()), (Ok(quick), 1));
        assert_eq!(finish(&[]).0, Ok(WorkerPolicy::default()));
        let zero = WorkerPolicy {
            start_timeout: Duration::ZERO,
            ..WorkerPolicy::default()
        };
        assert_eq!(
            finish(&[("a", zero)]).0.unwrap_err().plugin,
            PluginId::new("a")
        );
    }
}
