//! What clients see and change of the permissions.

use std::sync::Arc;

use bezel_api_session::{PromptDraft, SubmitError};
use bezel_context::Context;
use bezel_permissions_contract::{
    PendingAsk, PermissionMode, Permissions, PermissionsError, PermissionsState, Reply, ReplyError,
    Rule,
};
use bezel_plugin::Contribution;
use bezel_rpc::{State, StateCell};
use bezel_session_types::{InvocationId, SubmitOutcome};
use bezel_sessions_contract::SessionRecordClient;

use crate::approver::Approver;

pub(crate) struct PermissionsService {
    pub(crate) approver: Arc<Approver>,
    pub(crate) cell: StateCell<PermissionsState>,
    pub(crate) record: SessionRecordClient,
    /// What the model reads of the mode.
    pub(crate) prompt: Contribution<PromptDraft>,
}

impl Permissions for PermissionsService {
    fn state(&self) -> State<PermissionsState> {
        self.cell.state()
    }

    fn asks(&self) -> State<Vec<PendingAsk>> {
        self.approver.requests().pending()
    }

    async fn set_mode(&self, cx: &Context, mode: PermissionMode) -> Result<(), PermissionsError> {
        let recorded = self.record.switch_permission_mode(cx, mode).await;
        recorded.map_err(|error| PermissionsError::Record {
            message: error.to_string(),
        })?;
        self.cell.update(cx, |state| state.mode = mode);
        self.prompt.changed();
        self.approver.reconsider().await;
        Ok(())
    }

    async fn reply(
        &self,
        cx: &Context,
        id: InvocationId,
        reply: Reply,
    ) -> Result<SubmitOutcome, ReplyError> {
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
