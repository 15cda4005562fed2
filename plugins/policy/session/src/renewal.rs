//! When a worker gives way to another that starts with the environment and the configuration of now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bezel_api_session::{HostedSession, Lane, Retirement, SessionContext, Sessions};
use bezel_context::Context;
use bezel_session_types::SessionId;
use bezel_sessions_contract::{
    LaunchEnvironment, RenewError, RenewRequest, Renewal, SessionProcess, SessionProcessClient,
};
use bezel_tools_contract::BackgroundCommands;
use tokio::sync::watch;

use crate::PolicyConfig;

/// Provides the service. Without the grant to end the worker it answers that the worker stays.
pub(crate) fn offer(cx: &SessionContext, config: &PolicyConfig, attached: watch::Receiver<usize>) {
    let commands = cx.use_local_optional::<BackgroundCommands>();
    cx.provide(SessionProcessClient::new(Process {
        retirement: cx.retirement(),
        lane: cx.agent.main(),
        sessions: cx.session.clone(),
        is_child: cx.agent.identity().parent_id.is_some(),
        attached,
        commands: Box::new(move || {
            let commands = commands.as_ref().and_then(|commands| commands.get().ok());
            commands.map_or(0, |commands| commands.running())
        }),
        started: Started {
            environment: Arc::clone(cx.agent.environment()),
            variables: config.telling_variables.clone(),
            files: looked_at(&config.telling_files),
        },
    }));
}

struct Process {
    retirement: Option<Retirement>,
    lane: Lane,
    sessions: Sessions,
    is_child: bool,
    attached: watch::Receiver<usize>,
    /// How many commands run in the background.
    commands: Box<dyn Fn() -> usize + Send + Sync>,
    started: Started,
}

/// What this worker was started with, as far as it makes a difference.
struct Started {
    environment: Arc<BTreeMap<String, String>>,
    variables: BTreeSet<String>,
    files: Vec<(PathBuf, Option<Look>)>,
}

/// A file at one moment: when it was changed last, and its size in bytes.
type Look = (Option<SystemTime>, u64);

fn look(file: &Path) -> Option<Look> {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok(), metadata.len()))
}

fn looked_at(files: &[PathBuf]) -> Vec<(PathBuf, Option<Look>)> {
    files
        .iter()
        .map(|file| (file.clone(), look(file)))
        .collect()
}

impl Started {
    /// Whether a worker that starts now, from a shell with `environment`, would be another.
    fn differs(&self, environment: Option<&LaunchEnvironment>) -> bool {
        let another = |name: &String| {
            let offered = environment.and_then(|environment| environment.0.get(name));
            offered.is_some_and(|offered| {
                !offered.is_empty() && self.environment.get(name) != Some(offered)
            })
        };
        self.variables.iter().any(another)
            || self.files.iter().any(|(file, then)| look(file) != *then)
    }
}

impl Process {
    /// What would be lost with the process.
    fn holds(&self, alone: bool) -> Option<String> {
        let parts = parts_of(self.sessions.own(), &self.sessions.hosted().borrow());
        let active = self.sessions.active();
        if active.iter().any(|active| parts.contains(active)) {
            return Some(
                "a part of its work goes on in another session; interrupt it first, or wait".into(),
            );
        }
        if !self.lane.activity().borrow().is_idle() || !self.lane.queue().borrow().is_empty() {
            return Some("the agent works in it; interrupt it first, or wait".into());
        }
        match (self.commands)() {
            0 => {}
            1 => return Some("a command runs in the background; end it first".into()),
            count => {
                return Some(format!(
                    "{count} commands run in the background; end them first"
                ));
            }
        }
        if alone && *self.attached.borrow() > 1 {
            return Some("somebody else has the session open".into());
        }
        None
    }
}

/// Of the sessions of a process, those that are parts of the work of `own`: what goes with it.
fn parts_of(own: &SessionId, hosted: &[HostedSession]) -> BTreeSet<SessionId> {
    let parent_of = |id: &SessionId| {
        let found = hosted.iter().find(|session| session.session_id == *id);
        found.and_then(|session| session.parent_id.clone())
    };
    let is_part = |session: &&HostedSession| {
        std::iter::successors(session.parent_id.clone(), parent_of).any(|above| above == *own)
    };
    let parts = hosted.iter().filter(is_part);
    parts.map(|session| session.session_id.clone()).collect()
}

impl SessionProcess for Process {
    async fn renew(&self, _cx: &Context, request: RenewRequest) -> Result<Renewal, RenewError> {
        let Some(retirement) = &self.retirement else {
            return Ok(Renewal::Current);
        };
        // A child has no shell of its own: it gives way with its root.
        if self.is_child && !request.always {
            return Ok(Renewal::Current);
        }
        if !request.always && !self.started.differs(request.environment.as_ref()) {
            return Ok(Renewal::Current);
        }
        if let Some(reason) = self.holds(!request.always) {
            return Err(RenewError::Busy { reason });
        }
        retirement.retire("another one is to start with what holds now");
        Ok(Renewal::Ending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_sessions_work_are_what_it_began_and_what_that_began() {
        let session = |id: &str, parent: Option<&str>| HostedSession {
            session_id: SessionId::new(id),
            parent_id: parent.map(SessionId::new),
            number: 0,
        };
        let hosted = [
            session("root", None),
            session("child", Some("root")),
            session("sibling", Some("root")),
            session("grandchild", Some("child")),
        ];
        let parts = |own: &str| {
            let parts = parts_of(&SessionId::new(own), &hosted);
            parts.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(parts("root"), ["child", "grandchild", "sibling"]);
        assert_eq!(parts("child"), ["grandchild"]);
        assert_eq!(parts("grandchild"), [""; 0]);
    }
}
