//! Whether this process exports its spans, and its last batch at the end.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bezel_telemetry::{Process, Reading, Settings, Telemetry};

/// A process has one export at most, from when its log starts to its very end.
static RUNNING: OnceLock<Telemetry> = OnceLock::new();

/// How the names of the standard's variables begin.
const PREFIX: &str = "OTEL_";

/// What this process's own variables ask for.
pub fn of_process(process: Process) -> Reading {
    Settings::from_variables(process, |name| std::env::var(name).ok())
}

/// What a session's variables ask for. The shell that started the session decides, like with everything
/// else of the session; where it has none of the standard's variables, those that the server was started
/// with hold. The two are never mixed: keys of the one must not go to the collector of the other.
pub fn of_session(environment: Option<&BTreeMap<String, String>>) -> Reading {
    match environment.filter(|environment| environment.keys().any(|name| name.starts_with(PREFIX)))
    {
        Some(environment) => {
            Settings::from_variables(Process::Worker, |name| environment.get(name).cloned())
        }
        None => of_process(Process::Worker),
    }
}

/// Starts the export that is asked for; a second one in one process is not started.
pub fn start(settings: Settings) -> &'static Telemetry {
    RUNNING.get_or_init(|| bezel_telemetry::start(settings))
}

/// Sends the last batch, where there is an export. Waits a second at most.
pub fn finish() {
    if let Some(telemetry) = RUNNING.get() {
        telemetry.finish();
    }
}
