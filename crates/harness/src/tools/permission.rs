//! Permission for a call as it will run: what hooks have to say of it, then who decides.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::call::ClearedCall;
use super::set::RegisteredTool;
use super::step::Refusal;
use crate::hooks::{Approval, Evaluation, HookFailure, PendingApproval};
use crate::run::Run;

impl Run {
    /// Asks for permission; without anybody who is asked there is.
    pub(super) async fn approve(
        &self,
        call: &mut ClearedCall,
        registered: &RegisteredTool,
    ) -> Result<(), Refusal> {
        let hooks = &self.lane.session.hooks;
        let approvals = hooks.approve_tool.registered();
        if approvals.is_empty() && hooks.evaluate_permission.registered().is_empty() {
            return Ok(());
        }
        let directory = &self.lane.session.directory;
        let arguments = &call.pending.arguments;
        let looks = AssertUnwindSafe(|| registered.tool.accesses(arguments, directory));
        let accesses = catch_unwind(looks).unwrap_or_else(|_| {
            // As one that does not say what it touches.
            self.report(HookFailure {
                registrant: Arc::clone(&registered.origin.registrant),
                hook: "accesses",
                message: format!("it panicked for a call of `{}`", call.pending.tool),
            });
            None
        });
        let mut pending = PendingApproval {
            accesses,
            call: call.pending.clone(),
            evaluation: Evaluation::Nothing,
        };
        // It is carried to where it runs: what it touches may come to be something else meanwhile.
        call.accesses = pending.accesses.as_deref().map(Arc::from);
        self.evaluate(&mut pending).await?;
        for approval in approvals {
            match approval.call(&self.cx, None, pending.clone()).await {
                Ok(Approval::Allow) => {}
                Ok(Approval::Deny { reason }) => return Err(Refusal::new("tool.denied", reason)),
                Ok(Approval::End { reason }) => {
                    return Err(Refusal {
                        ends: true,
                        ..Refusal::new("tool.denied", reason)
                    });
                }
                Err(failure) => {
                    let reason = self.blocked_by(failure, "approved");
                    return Err(Refusal::new("tool.denied", reason));
                }
            }
        }
        Ok(())
    }

    /// Asks those who have something to say of the call, in order. Each reads what the ones before it came to.
    async fn evaluate(&self, pending: &mut PendingApproval) -> Result<(), Refusal> {
        let session = &self.lane.session;
        let mut failed = false;
        for hook in session.hooks.evaluate_permission.registered() {
            let deadline = Some(session.config.hook_deadline);
            let said = hook.call(&self.cx, deadline, pending.clone()).await;
            let registrant = hook.registrant();
            match (said, &pending.evaluation) {
                (Ok(Evaluation::Deny { reason }), _) => {
                    let message = format!("Not run: `{registrant}` denies it: {reason}");
                    return Err(Refusal::new("tool.denied", message));
                }
                (Ok(Evaluation::Ask { reason }), Evaluation::Nothing | Evaluation::Allow) => {
                    let reason = format!("`{registrant}` asks for it: {reason}");
                    pending.evaluation = Evaluation::Ask { reason };
                }
                (Ok(Evaluation::Allow), Evaluation::Nothing) => {
                    pending.evaluation = Evaluation::Allow;
                }
                (Ok(_), _) => {}
                (Err(failure), _) => {
                    failed = true;
                    self.report(failure);
                }
            }
        }
        // Who failed might have denied it.
        if failed && pending.evaluation == Evaluation::Allow {
            pending.evaluation = Evaluation::Nothing;
        }
        match self.cx.is_cancelled() {
            true => Err(Refusal::new("tool.denied", "Not run: interrupted.".into())),
            false => Ok(()),
        }
    }
}
