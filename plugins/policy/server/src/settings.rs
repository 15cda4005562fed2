//! The plugin's configuration.

use std::time::Duration;

use bezel_api_server::{Restart, Resume, WorkerPolicy};
use serde::Deserialize;

/// The plugin's configuration. What is absent is as the host has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Seconds from a worker's launch to its connection.
    pub start_timeout_seconds: Option<u64>,
    /// Seconds from the request to stop to the kill.
    pub stop_grace_seconds: Option<u64>,
    /// Seconds that a worker without a connection is waited for when somebody needs it.
    pub reconnect_timeout_seconds: Option<u64>,
    /// Whether a session whose worker died gets another one.
    pub restart: Option<RestartSetting>,
    /// When what ran at a crash goes on.
    pub resume: Option<ResumeSetting>,
}

/// When what ran at a crash goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResumeSetting {
    /// When somebody opens the session.
    Open,
    /// At once, and when the server starts.
    AtOnce,
}

/// Whether a session whose worker died gets another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestartSetting {
    /// When somebody needs it.
    OnDemand,
    /// Not before the server starts again.
    Never,
}

impl Settings {
    /// The worker policy that the settings ask for.
    pub fn workers(&self) -> WorkerPolicy {
        let default = WorkerPolicy::default();
        let or = |seconds: Option<u64>, default| seconds.map_or(default, Duration::from_secs);
        WorkerPolicy {
            start_timeout: or(self.start_timeout_seconds, default.start_timeout),
            stop_grace: or(self.stop_grace_seconds, default.stop_grace),
            reconnect_timeout: or(self.reconnect_timeout_seconds, default.reconnect_timeout),
            restart: match self.restart {
                Some(RestartSetting::Never) => Restart::Never,
                Some(RestartSetting::OnDemand) => Restart::OnDemand,
                None => default.restart,
            },
            resume: match self.resume {
                Some(ResumeSetting::Open) => Resume::OnOpen,
                Some(ResumeSetting::AtOnce) => Resume::AtOnce,
                None => default.resume,
            },
        }
    }
}
