//! Decides about calls: judges them, and waits for a person where that says so.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_api_session::{ApproveTool, DurableRequests, Evaluation, ToolApproval, WaitError};
use bezel_context::Context;
use bezel_permissions_contract::{
    AgentLimits, Ask, Asked, MayRead, PermissionMode, PermissionsState, Reply, Rule,
};
use bezel_rpc::StateCell;
use bezel_session_types::{Access, InvocationId, SubmitOutcome};
use serde_json::Value;

use crate::approvals::{Approvals, ApprovalsError};
use crate::judge::{EXTERNAL, Judge, Standing, Verdict};

/// Characters of one text in the arguments that a person is shown.
const MOST_TEXT: usize = 20_000;

/// The decisions of one session.
pub(crate) struct Approver {
    judge: Arc<Judge>,
    limits: AgentLimits,
    cell: StateCell<PermissionsState>,
    requests: DurableRequests<Ask, Reply>,
    session: Approvals,
    project: Option<Approvals>,
    // A plain mutex: held to look up or note a call, never across an await.
    waiting: Mutex<HashMap<InvocationId, Call>>,
}

/// A call as it is judged.
#[derive(Debug, Clone)]
struct Call {
    tool: Arc<str>,
    accesses: Option<Vec<Access>>,
    /// What other plugins have to say of it.
    evaluation: Evaluation,
}

/// A call that waits, until this is dropped.
struct Waits<'a>(&'a Approver, &'a InvocationId);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting().remove(self.1);
    }
}

impl Approver {
    pub(crate) fn new(
        judge: Judge,
        limits: AgentLimits,
        cell: StateCell<PermissionsState>,
        requests: DurableRequests<Ask, Reply>,
        session: Approvals,
        project: Option<Approvals>,
    ) -> Self {
        Approver {
            judge: Arc::new(judge),
            limits,
            cell,
            requests,
            session,
            project,
            waiting: Mutex::default(),
        }
    }

    /// What waits for a reply.
    pub(crate) fn requests(&self) -> &DurableRequests<Ask, Reply> {
        &self.requests
    }

    /// Whether a call may run.
    pub(crate) async fn approve(&self, cx: &Context, approval: ToolApproval) -> ApproveTool {
        let call = Call {
            tool: Arc::clone(&approval.tool),
            accesses: approval.accesses,
            evaluation: approval.evaluation,
        };
        let mut verdict = self.judge(&call).await;
        if matches!(verdict, Verdict::Ask { .. }) {
            // Another session of the project may have been told meanwhile.
            self.reload().await;
            verdict = self.judge(&call).await;
        }
        let (asked, covers, leads) = match verdict {
            Verdict::Allow => return ApproveTool::Allow,
            Verdict::Deny(reason) => return ApproveTool::Deny(reason),
            Verdict::Ask {
                asked,
                covers,
                leads,
                ..
            } => (asked, covers, leads),
        };
        let ask = Ask {
            tool: approval.tool.to_string(),
            arguments: shortened(&approval.arguments),
            asked,
            covers,
        };
        let ask = self.asked_before(&approval.invocation, ask);
        self.waiting()
            .insert(approval.invocation.clone(), call.clone());
        let waits = Waits(self, &approval.invocation);
        let reply = self.requests.wait(cx, &approval.invocation, &ask).await;
        drop(waits);
        match reply {
            Ok(reply @ Reply::Reject { .. }) => self.settle(ask, reply).await,
            // While it waited, a file may have become a link to another.
            Ok(reply) => match self.judge(&call).await {
                Verdict::Deny(reason) => ApproveTool::Deny(reason),
                Verdict::Ask {
                    asked: now,
                    leads: lead_now,
                    ..
                } if !is_asked(&ask, &now) || !lead_now.iter().all(|path| leads.contains(path)) => {
                    ApproveTool::Deny(changed(&ask))
                }
                Verdict::Ask { .. } | Verdict::Allow => self.settle(ask, reply).await,
            },
            Err(WaitError::Refused(_)) => ApproveTool::Deny(changed(&ask)),
            Err(error) => ApproveTool::Deny(format!("Not run: it could not be asked for: {error}")),
        }
    }

    /// What a person was shown of this call before a crash, where that says all that has to be said now.
    fn asked_before(&self, id: &InvocationId, ask: Ask) -> Ask {
        let pending = self.requests.pending().get();
        let before = pending.iter().find(|pending| pending.id == *id);
        let before = before.map(|pending| &pending.request);
        let says_all = |before: &&Ask| {
            before.tool == ask.tool
                && before.arguments == ask.arguments
                && is_asked(before, &ask.asked)
        };
        match before.filter(says_all) {
            Some(before) => before.clone(),
            None => ask,
        }
    }

    async fn settle(&self, ask: Ask, reply: Reply) -> ApproveTool {
        match reply {
            Reply::Once => ApproveTool::Allow,
            Reply::Session => {
                let session = Some(self.session.clone());
                self.keep(session, ask.covers, |state| &mut state.session)
                    .await;
                ApproveTool::Allow
            }
            Reply::Always => {
                let project = self.project.clone();
                self.keep(project, ask.covers, |state| &mut state.project)
                    .await;
                ApproveTool::Allow
            }
            Reply::Reject { message: None } => {
                self.reject_the_others().await;
                ApproveTool::End(format!(
                    "Not run: the person declined `{}` and ended the turn.",
                    ask.tool
                ))
            }
            Reply::Reject {
                message: Some(message),
            } => ApproveTool::Deny(format!(
                "Not run: the person declined `{}` and says: {message}",
                ask.tool
            )),
        }
    }

    /// Approves what an ask covers from now on, and lets run what waits and is covered now.
    async fn keep(
        &self,
        approvals: Option<Approvals>,
        rules: Vec<Rule>,
        list: fn(&mut PermissionsState) -> &mut Vec<Rule>,
    ) {
        let added = rules.clone();
        let kept = match approvals {
            Some(approvals) => blocking(move || approvals.add(&added)).await,
            None => Ok(Vec::new()),
        };
        self.cell
            .update(&Context::background(), |state| match kept {
                Ok(kept) if !kept.is_empty() => *list(state) = kept,
                Ok(_) => extend(list(state), rules),
                Err(error) => {
                    // It holds here, and is said to hold no further.
                    extend(list(state), rules);
                    state.problem = Some(error.to_string());
                }
            });
        self.reconsider().await;
    }

    /// Lets run what waits and need not be asked for any more.
    pub(crate) async fn reconsider(&self) {
        let waiting: Vec<_> = {
            let waiting = self.waiting();
            let copy = |(id, call): (&InvocationId, &Call)| (id.clone(), call.clone());
            waiting.iter().map(copy).collect()
        };
        for (id, call) in waiting {
            if self.judge(&call).await == Verdict::Allow {
                self.answer(&id, &Reply::Once).await;
            }
        }
    }

    async fn reject_the_others(&self) {
        for pending in self.requests.pending().get().iter() {
            self.answer(&pending.id, &Reply::Reject { message: None })
                .await;
        }
    }

    async fn answer(&self, id: &InvocationId, reply: &Reply) {
        match self
            .requests
            .submit(&Context::background(), id, reply)
            .await
        {
            // A person was faster.
            Ok(SubmitOutcome::Accepted | SubmitOutcome::NotPending) => {}
            Err(error) => {
                tracing::warn!(%id, %error, "an ask that is decided could not be answered")
            }
        }
    }

    /// Reads what was approved before, and elsewhere.
    pub(crate) async fn reload(&self) {
        let (session, project) = (self.session.clone(), self.project.clone());
        self.note(blocking(move || load(&session, project.as_ref())).await);
    }

    /// The same before anybody can call: two small files, read at once so that the worker's start waits for nobody.
    pub(crate) fn begin(&self) {
        self.note(load(&self.session, self.project.as_ref()));
    }

    fn note(&self, read: Result<Loaded, ApprovalsError>) {
        self.cell
            .update(&Context::background(), |state| match read {
                Ok((session, project)) => {
                    state.session = session;
                    if let Some(project) = project {
                        state.project = project;
                    }
                    state.problem = None;
                }
                Err(error) => state.problem = Some(error.to_string()),
            });
    }

    /// Takes an approval back. Says whether there was one.
    pub(crate) async fn revoke(&self, rule: Rule) -> Result<bool, ApprovalsError> {
        let state = self.cell.get();
        let had = state.session.contains(&rule) || state.project.contains(&rule);
        let (session, project) = (self.session.clone(), self.project.clone());
        blocking({
            let rule = rule.clone();
            move || {
                session.remove(&rule)?;
                project.map_or(Ok(Vec::new()), |project| project.remove(&rule))
            }
        })
        .await?;
        self.cell.update(&Context::background(), |state| {
            state.session.retain(|other| *other != rule);
            state.project.retain(|other| *other != rule);
        });
        Ok(had)
    }

    /// What a search of a directory may look into, as it stands now.
    pub(crate) fn may_search(&self, directory: &Path) -> Arc<MayRead> {
        let (state, limits) = (self.cell.get(), self.limits.get());
        let judge = self.judge.limited(&limits.layers);
        let approved = judge.rules(state.session.iter().chain(&state.project).cloned());
        let mode = limits
            .mode
            .map_or(state.mode, |limit| state.mode.min(limit));
        let root = judge.resolve(directory);
        Arc::new(move |file| {
            let standing = Standing {
                mode,
                approved: &approved,
            };
            judge.searches(standing, &root, file)
        })
    }

    async fn judge(&self, call: &Call) -> Verdict {
        let (judge, call) = (Arc::clone(&self.judge), call.clone());
        let state = self.cell.get();
        // Read where they are set: what is judged after a change is judged by it.
        let limits = self.limits.get();
        let mode: PermissionMode = limits
            .mode
            .map_or(state.mode, |limit| state.mode.min(limit));
        let approved: Vec<Rule> = state
            .session
            .iter()
            .chain(&state.project)
            .cloned()
            .collect();
        // It asks the file system, which may be far away.
        let judged = tokio::task::spawn_blocking(move || {
            let approved = judge.rules(approved);
            let judge = judge.limited(&limits.layers);
            let standing = Standing {
                mode,
                approved: &approved,
            };
            let verdict = judge.judge(standing, &call.tool, call.accesses.as_deref());
            verdict.heeding(&call.tool, &call.evaluation)
        });
        judged.await.unwrap_or_else(|_| {
            Verdict::Deny("Not run: it could not be judged whether it may run.".to_owned())
        })
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<InvocationId, Call>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an ask says all of this: the same of the same, and outside of the project the same place.
fn is_asked(ask: &Ask, asked: &[Asked]) -> bool {
    asked.iter().all(|asked| {
        ask.asked.iter().any(|other| {
            (&other.action, &other.resource) == (&asked.action, &asked.resource)
                && (asked.action != EXTERNAL || other.reason == asked.reason)
        })
    })
}

/// What the model reads where what was asked for is not what would happen.
fn changed(ask: &Ask) -> String {
    format!(
        "Not run: what `{}` touches has changed since it was asked for. Call it again.",
        ask.tool
    )
}

/// What was approved for the session, and for the project where that is kept.
type Loaded = (Vec<Rule>, Option<Vec<Rule>>);

fn load(session: &Approvals, project: Option<&Approvals>) -> Result<Loaded, ApprovalsError> {
    let project = project.map(Approvals::load).transpose()?;
    Ok((session.load()?, project))
}

fn extend(list: &mut Vec<Rule>, rules: Vec<Rule>) {
    for rule in rules {
        if !list.contains(&rule) {
            list.push(rule);
        }
    }
}

/// Runs what waits for files on a thread that may wait.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApprovalsError> + Send + 'static,
) -> Result<T, ApprovalsError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(ApprovalsError::Stopped),
    }
}

/// Arguments with their long texts cut.
fn shortened(arguments: &Value) -> Value {
    match arguments {
        Value::String(text) => match text.char_indices().nth(MOST_TEXT) {
            Some((at, _)) => Value::String(format!("{}…", &text[..at])),
            None => arguments.clone(),
        },
        Value::Array(items) => items.iter().map(shortened).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), shortened(value)))
            .collect(),
        other => other.clone(),
    }
}
