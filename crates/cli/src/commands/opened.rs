//! A session that a command opens for a while: selected, and its process started where it does not run.

use std::time::Duration;

use anyhow::anyhow;
use bezel_context::{Cancelled, Context};
use bezel_rpc::{AttachedRemote, AttachmentState, Link};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{LaunchEnvironment, SessionManagementClient};

use super::session::failed;
use crate::failure::{Failure, Outcome};

/// How long a session's process may take to start and to show what is asked of it.
const OPENING: Duration = Duration::from_secs(45);

/// An open session.
pub(super) struct Opened {
    /// Its services.
    pub(super) services: AttachedRemote,
    session: SessionId,
}

/// Opens a session. `environment` is what its process starts with; empty for one of another machine.
pub(super) async fn open(
    cx: &Context,
    link: &Link,
    environment: LaunchEnvironment,
    session: &SessionId,
) -> Outcome<Opened> {
    let management: SessionManagementClient = link.server().use_service();
    let attached = management.attach(cx, session.clone(), Some(environment));
    attached.await.map_err(failed)?;
    let opened = Opened {
        services: link.attached(),
        session: session.clone(),
    };
    let settled = |state: &AttachmentState| !matches!(state, AttachmentState::Attaching { .. });
    let waiting = cx.with_timeout(OPENING);
    match opened
        .services
        .attachment()
        .wait_for(&waiting, settled)
        .await
    {
        Ok(state) if state.is_attached() => Ok(opened),
        Ok(_) => Err(opened.lost()),
        Err(_) => Err(opened.late()),
    }
}

impl Opened {
    /// What the session shows: waits for `value`, as long as the session's process is there.
    pub(super) async fn shown<T>(
        &self,
        cx: &Context,
        value: impl Future<Output = Result<T, Cancelled>>,
    ) -> Outcome<T> {
        let waiting = cx.with_timeout(OPENING);
        let attachment = self.services.attachment();
        let gone = |state: &AttachmentState| !state.is_attached();
        tokio::select! {
            biased;
            shown = waiting.run(value) => shown.and_then(|shown| shown).map_err(|_| self.late()),
            _ = attachment.wait_for(cx, gone) => Err(self.lost()),
        }
    }

    fn lost(&self) -> Failure {
        Failure::failed(anyhow!(
            "the process of session {} has ended; try it again",
            self.session
        ))
    }

    fn late(&self) -> Failure {
        Failure::failed(anyhow!(
            "session {} did not show what was asked of it within {} seconds; `bezel server logs` may say why",
            self.session,
            OPENING.as_secs()
        ))
    }
}
