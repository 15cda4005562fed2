//! What clients see and change of the permissions.

use std::sync::Arc;

use bezel_api_session::{Gathered, PromptDraft, SubmitError};
use bezel_context::Context;
use bezel_permissions_contract::{
    PendingAsk, PermissionMode, Permissions, PermissionsClient, PermissionsError, PermissionsState,
    Reply, ReplyError, Rule,
};
use bezel_plugin::Contribution;
use bezel_rpc::{CallError, State, StateCell};
use bezel_session_types::{InvocationId, SubmitOutcome};
use bezel_sessions_contract::SessionRecordClient;

use crate::approver::Approver;

pub(crate) struct PermissionsService {
    pub(crate) approver: Arc<Approver>,
    pub(crate) cell: StateCell<PermissionsState>,
    /// What this session and those that it began ask.
    pub(crate) of_all: Gathered<PendingAsk, PermissionsClient>,
    pub(crate) record: SessionRecordClient,
    /// What the model reads of the mode.
    pub(crate) prompt: Arc<Contribution<PromptDraft>>,
}

impl Permissions for PermissionsService {
    fn state(&self) -> State<PermissionsState> {
        self.cell.state()
    }

    fn asks(&self) -> State<Vec<PendingAsk>> {
        self.of_all.state()
    }

    async fn set_mode(&self, cx: &Context, mode: PermissionMode) -> Result<(), PermissionsError> {
        let recorded = self.record.switch_permission_mode(cx, mode).await;
        recorded.map_err(|error| PermissionsError::Record {
            message: error.to_string(),
        })?;
        self.cell.update(cx, |state| state.mode = mode);
        self.prompt.changed();
        self.approver.reconsider().await;
        // No session does more unasked than the one that began it: the record of each is narrowed already, and
        // those that are hosted are told.
        for child in self.of_all.clients() {
            let wider = |error: &dyn std::fmt::Display| PermissionsError::Record {
                message: format!("a subagent may be in a wider mode still: {error}"),
            };
            let state = child
                .state()
                .ready(cx)
                .await
                .map_err(|error| wider(&error))?;
            if state.mode > mode {
                child
                    .set_mode(cx, mode)
                    .await
                    .map_err(|error| wider(&error))?;
            }
        }
        Ok(())
    }

    async fn reply(
        &self,
        cx: &Context,
        id: InvocationId,
        reply: Reply,
    ) -> Result<SubmitOutcome, ReplyError> {
        if let Some(child) = self.of_all.whose(|ask| ask.id == id) {
            let replied = child.reply(cx, id, reply).await;
            return replied.map_err(|error| match error {
                CallError::Service(error) => error,
                CallError::Rpc(error) => ReplyError::Storage {
                    message: error.to_string(),
                },
            });
        }
        let requests = self.approver.requests();
        if matches!(reply, Reply::Session | Reply::Always) {
            let pending = requests.pending().get();
            match pending.iter().find(|pending| pending.id == id) {
                None => return Ok(SubmitOutcome::NotPending),
                Some(asked) if asked.request.covers.is_empty() => return Err(ReplyError::OnlyOnce),
                Some(_) => {}
            }
        }
        let submitted = requests.submit(cx, &id, &reply).await;
        submitted.map_err(|error| match error {
            SubmitError::Invalid(message) => ReplyError::Invalid { message },
            SubmitError::Cancelled | SubmitError::Storage(_) => ReplyError::Storage {
                message: error.to_string(),
            },
        })
    }

    async fn revoke(&self, _cx: &Context, rule: Rule) -> Result<bool, PermissionsError> {
        let revoked = self.approver.revoke(rule).await;
        revoked.map_err(|error| PermissionsError::Approvals {
            message: error.to_string(),
        })
    }
}
