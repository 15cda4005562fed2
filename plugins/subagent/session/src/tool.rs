//! The tool, and the children that its calls wait for.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_agents_contract::{AgentCatalogue, AgentSummary};
use bezel_api_session::{Lane, LaneError, Local, SessionContext, Sessions, SessionsError, ToCome};
use bezel_context::{Context, Spawner};
use bezel_session_types::{
    Access, CommandId, Delivery, EntryId, ExecutionMode, InvocationId, ModelRef, OperationId,
    Replay, RunOutcome, SessionId, Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec,
    UserMessage,
};
use bezel_sessions_contract::{CreateChild, SessionSummary};
use bezel_subagent_contract::{SubagentDetails, SubagentStatus, TOOL};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::SubagentConfig;
use crate::arguments::{Arguments, parameters};
use crate::background;
use crate::follow::Shown;

const DESCRIPTION: &str = r#"
Have a part of the work done by a subagent: a session of its own with an empty conversation, the same directory and no more rights than you.

- For work that can be told in one prompt and whose way does not matter, only its result: looking for something in many files, checking an idea, a change apart from yours. It saves your context.
- It sees nothing of this conversation, and you see nothing of its way: say all it must know, and what it is to answer with.
- Several calls in one step run side by side. Do not give two of them the same files to change.
- Look yourself where you know the file: a subagent costs more than a read.
- Its answer comes to you and not to the person: say what matters of it. `session_id` goes on with a subagent that has ended.
"#;

/// The name under which a call notes its child.
const CHILD: &str = "child";
/// Attempts to find a child's host again that went away while the call waited.
const ATTEMPTS: usize = 3;

/// The children of one session.
pub(crate) struct Subagents {
    pub(crate) sessions: Sessions,
    lane: Lane,
    spawner: Spawner,
    config: SubagentConfig,
    catalogue: Option<Local<AgentCatalogue>>,
    turns: Arc<Semaphore>,
    // A plain mutex: held to look up or change, never across an await.
    awaited: Mutex<HashMap<InvocationId, (OperationId, SessionId)>>,
    /// Calls of an earlier process whose child is not there again yet.
    // The same.
    returning: Mutex<HashMap<InvocationId, ToCome>>,
}

/// A child and what it was asked to do.
pub(crate) struct Asked {
    pub(crate) invocation: InvocationId,
    pub(crate) child: SessionId,
    /// The operation that does it; none where a result of an earlier version does not say.
    pub(crate) operation: Option<OperationId>,
    /// What the prompt is, or will be, in the child's conversation; unknown where a result says what was asked.
    pub(crate) prompt: Option<EntryId>,
}

impl Subagents {
    pub(crate) fn new(cx: &SessionContext, config: SubagentConfig) -> Self {
        let begun = cx.agent.begun_before().into_iter();
        let own = begun.filter(|call| call.tool == TOOL);
        let returning = own.map(|call| (call.invocation_id, cx.session.taking_up()));
        Subagents {
            sessions: cx.session.clone(),
            lane: cx.agent.main(),
            spawner: cx.spawner().clone(),
            turns: Arc::new(Semaphore::new(config.max_running.max(1))),
            config,
            catalogue: cx.use_local_optional::<AgentCatalogue>(),
            awaited: Mutex::default(),
            returning: Mutex::new(returning.collect()),
        }
    }

    /// Whether an earlier process had begun this call.
    fn is_replay(&self, invocation: &InvocationId) -> bool {
        self.returning().contains_key(invocation)
    }

    /// The call's child is there again, or there will be none: the session's opening does not wait for it any more.
    pub(crate) fn is_back(&self, invocation: &InvocationId) {
        let back = self.returning().remove(invocation);
        drop(back);
    }

    /// The same of all calls.
    pub(crate) fn are_back(&self) {
        let back = std::mem::take(&mut *self.returning());
        drop(back);
    }

    fn returning(&self) -> MutexGuard<'_, HashMap<InvocationId, ToCome>> {
        self.returning
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn awaited(&self) -> MutexGuard<'_, HashMap<InvocationId, (OperationId, SessionId)>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the children that calls of this operation wait for: somebody has ended the operation.
    pub(crate) async fn end_all(&self, cx: &Context, operation: &OperationId) {
        let children: Vec<SessionId> = {
            let mut awaited = self.awaited();
            let ended = awaited.extract_if(|_, (of, _)| of == operation);
            ended.map(|(_, (_, child))| child).collect()
        };
        for child in children {
            if let Err(error) = self.sessions.interrupt(cx, &child).await {
                tracing::warn!(session = %child, %error, "a subagent could not be ended with its parent");
            }
        }
    }

    /// The agents that may work on a part; none where there is no catalogue, or not yet.
    fn agents(&self) -> Vec<AgentSummary> {
        let catalogue = self.catalogue.as_ref().and_then(|local| local.get().ok());
        let all = catalogue.map(|catalogue| catalogue.list());
        let mut agents = all.unwrap_or_default();
        agents.retain(|agent| agent.mode.is_subagent());
        agents
    }

    /// The model that a named agent works with, where its definition says one.
    fn model_of(&self, agent: &str) -> Result<Option<ModelRef>, ToolError> {
        if self.catalogue.is_none() {
            // What there is the child's own host says.
            return Ok(None);
        }
        let agents = self.agents();
        match agents.iter().find(|known| known.name == agent) {
            Some(known) => Ok(known.model.clone()),
            None => {
                let names: Vec<&str> = agents.iter().map(|known| known.name.as_str()).collect();
                Err(ToolError::failed(format!(
                    "The subagent was not begun: there is no agent `{agent}` for a part of the work; there are: {}. Leave `agent` out for one like you.",
                    match names.is_empty() {
                        true => "none".into(),
                        false => names.join(", "),
                    }
                )))
            }
        }
    }

    /// Refuses where this session is as deep as children may be.
    async fn check_depth(&self, cx: &Context) -> Result<(), ToolError> {
        if self.config.max_depth == 1 {
            // Only a session that a person began has the tool then.
            return Ok(());
        }
        let tree = self.sessions.tree(cx).await.map_err(not_begun)?;
        let parent_of = |id: &SessionId| -> Option<SessionId> {
            let found = tree.iter().find(|session| session.session_id == *id);
            found.and_then(|session: &SessionSummary| session.parent_id.clone())
        };
        let depth = std::iter::successors(parent_of(self.sessions.own()), parent_of).count();
        match depth < self.config.max_depth {
            true => Ok(()),
            false => Err(ToolError::failed(format!(
                "The subagent was not begun: subagents may be {} deep, and you are one at that depth. Do the work yourself.",
                self.config.max_depth
            ))),
        }
    }

    /// The child of this call: the one that it began in an earlier process, the one that is to go on, or a new
    /// one, whose id is noted before it is there.
    async fn child(
        &self,
        cx: &Context,
        invocation: &ToolInvocation,
        arguments: &Arguments,
    ) -> Result<SessionId, ToolError> {
        let id = &invocation.invocation_id;
        if let Some(continued) = &arguments.session_id {
            let own = self
                .sessions
                .children(cx, self.sessions.own())
                .await
                .map_err(not_begun)?;
            if !own.iter().any(|child| child.session_id == *continued) {
                let known: Vec<&str> = own.iter().map(|child| child.session_id.as_str()).collect();
                return Err(ToolError::failed(format!(
                    "The subagent does not go on: {continued} is none of yours; yours are: {}. Leave `session_id` out to begin another.",
                    match known.is_empty() {
                        true => "none".into(),
                        false => known.join(", "),
                    }
                )));
            }
            return Ok(continued.clone());
        }
        let noted = invocation.host.memo(CHILD).map_err(not_begun)?;
        let child = match noted.as_ref().and_then(Value::as_str) {
            Some(noted) => SessionId::new(noted),
            None => {
                let child = SessionId::generate();
                let note = Value::from(child.as_str());
                invocation
                    .host
                    .set_memo(CHILD, Some(&note))
                    .map_err(not_begun)?;
                child
            }
        };
        let agent = arguments.agent.clone().filter(|agent| !agent.is_empty());
        let model = match (arguments.model()?, &agent) {
            (None, Some(agent)) => self.model_of(agent)?,
            (model, Some(agent)) => {
                self.model_of(agent)?;
                model
            }
            (model, None) => model,
        };
        let options = CreateChild {
            parent_id: self.sessions.own().clone(),
            session_id: Some(child.clone()),
            title: Some(title(&arguments.description)).filter(|title| !title.is_empty()),
            agent,
            model,
            directory: None,
            permission_mode: None,
        };
        self.sessions.create(cx, options).await.map_err(not_begun)?;
        tracing::debug!(invocation = %id, session = %child, "a subagent is there");
        Ok(child)
    }

    async fn ask(
        &self,
        cx: &Context,
        invocation: &InvocationId,
        child: &SessionId,
        prompt: &str,
    ) -> Result<Asked, ToolError> {
        let command = command(invocation);
        let message = UserMessage::text(prompt);
        let admitted = self
            .sessions
            .prompt(cx, child, command, message, Delivery::Queue)
            .await
            .map_err(|error| failed(child, &format!("it did not take its prompt: {error}")))?;
        self.is_back(invocation);
        Ok(Asked {
            invocation: invocation.clone(),
            child: child.clone(),
            operation: Some(admitted.operation_id),
            prompt: admitted.message_id,
        })
    }

    /// Waits for the end of what a child was asked to do; none where nobody remembers how it ended.
    pub(crate) async fn ended(
        &self,
        cx: &Context,
        asked: &Asked,
    ) -> Result<Option<RunOutcome>, SessionsError> {
        let Some(operation) = &asked.operation else {
            // Taken up, it goes on with what the end of its process cut off.
            self.sessions.lane(cx, &asked.child).await?;
            self.sessions.wait(cx, &asked.child).await?;
            return Ok(None);
        };
        let (mut attempts, mut waited) = (0, false);
        loop {
            let outcome = self.sessions.outcome(cx, &asked.child, operation).await;
            attempts += 1;
            match outcome {
                Ok(ended) => return Ok(Some(ended.outcome)),
                // It ended so long ago that the child does not remember it, or the child does not run yet what the
                // end of its process cut off.
                Err(SessionsError::Lane(LaneError::UnknownOperation(_))) if waited => {
                    return Ok(None);
                }
                Err(SessionsError::Lane(LaneError::UnknownOperation(_))) => {
                    self.sessions.wait(cx, &asked.child).await?;
                    waited = true;
                }
                // Its host went away meanwhile: it is taken up again.
                Err(SessionsError::Lane(_)) if attempts < ATTEMPTS && !cx.is_cancelled() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What a child that has ended comes to, for the model.
    pub(crate) async fn report(
        &self,
        cx: &Context,
        child: &SessionId,
        outcome: Option<&RunOutcome>,
    ) -> (SubagentStatus, String) {
        let text = match self.sessions.final_text(cx, child).await {
            Ok(text) => text.unwrap_or_else(|| "(it answered without text)".into()),
            Err(error) => format!("(its answer could not be read: {error})"),
        };
        match outcome {
            Some(RunOutcome::Completed) | None => (
                SubagentStatus::Completed,
                format!("{text}\n\nsession_id: {child}"),
            ),
            Some(RunOutcome::Aborted) => (
                SubagentStatus::Interrupted,
                format!(
                    "The subagent was ended by somebody before it was done. Its last words: {text}\n\nsession_id: {child}"
                ),
            ),
            Some(RunOutcome::Failed { message, .. }) => (
                SubagentStatus::Failed,
                format!("The subagent could not go on: {message}\n\nsession_id: {child}"),
            ),
        }
    }
}

/// The id of the message that a call gives its child: sent again after a crash, it is the same one.
fn command(invocation: &InvocationId) -> CommandId {
    CommandId::new(format!("subagent:{invocation}"))
}

fn not_begun(error: impl std::fmt::Display) -> ToolError {
    ToolError::failed(format!("The subagent was not begun: {error}"))
}

fn failed(child: &SessionId, what: &str) -> ToolError {
    ToolError::Failed {
        message: format!("The subagent failed: {what}\n\nsession_id: {child}"),
        details: json!({ "session_id": child }),
    }
}

/// Ended with its parent: what can go on has a name all the same.
fn interrupted(shown: &mut Shown, how_far: &str) -> ToolError {
    shown.details.status = SubagentStatus::Interrupted;
    let child = &shown.details.session_id;
    ToolError::Failed {
        message: format!(
            "The subagent was interrupted with you: {how_far}.\n\nsession_id: {child}"
        ),
        details: details(&shown.details),
    }
}

fn details(details: &SubagentDetails) -> Value {
    serde_json::to_value(details).expect("the details have text keys")
}

fn description(agents: &[AgentSummary]) -> String {
    let mut text = DESCRIPTION.trim().to_owned();
    if !agents.is_empty() {
        text.push_str("\n\nAgents:");
    }
    for agent in agents {
        text.push_str(&format!("\n- {}: {}", agent.name, agent.description));
    }
    text
}

/// One line for lists.
fn title(description: &str) -> String {
    let words: Vec<&str> = description.split_whitespace().collect();
    words.join(" ").chars().take(120).collect()
}

/// Begins children and waits for them.
pub(crate) struct SubagentTool {
    spec: ToolSpec,
    subagents: Arc<Subagents>,
}

impl SubagentTool {
    pub(crate) fn new(subagents: Arc<Subagents>) -> Self {
        SubagentTool {
            spec: ToolSpec {
                label: "Subagent".into(),
                description: description(&subagents.agents()).into(),
                parameters: Arc::new(parameters()),
                output: None,
                execution_mode: ExecutionMode::Parallel,
                replay: Replay::Safe,
            },
            subagents,
        }
    }

    async fn run(&self, cx: &Context, invocation: ToolInvocation) -> Result<ToolOutput, ToolError> {
        let arguments = Arguments::of(&invocation.arguments)?;
        let subagents = &self.subagents;
        subagents.check_depth(cx).await?;
        let child = subagents.child(cx, &invocation, &arguments).await?;
        let mut shown = Shown::new(
            SubagentDetails {
                session_id: child.clone(),
                description: title(&arguments.description),
                agent: arguments.agent.clone(),
                status: SubagentStatus::Waiting,
                background: arguments.background(),
                operation_id: None,
                tool_calls: 0,
                last_tool: None,
            },
            Arc::clone(&invocation.host),
        );
        shown.show();
        let id = &invocation.invocation_id;
        if arguments.background() {
            let asked = subagents.ask(cx, id, &child, &arguments.prompt).await?;
            shown.details.operation_id.clone_from(&asked.operation);
            background::wait_for(
                Arc::clone(subagents),
                subagents.lane.clone(),
                asked,
                &subagents.spawner,
            );
            shown.status(SubagentStatus::Running);
            let text = format!(
                "The subagent works in the background. A message says when it has ended; go on with other work, or end your turn.\n\nsession_id: {child}"
            );
            return Ok(output(text, &shown.details));
        }
        // Until the operation's end is known, so that whoever ends it ends the child too.
        let awaited = (invocation.operation_id.clone(), child.clone());
        subagents.awaited().insert(id.clone(), awaited);
        let ended = self
            .foreground(cx, &invocation, &child, &arguments, &mut shown)
            .await;
        if !cx.is_cancelled() {
            subagents.awaited().remove(id);
        }
        ended
    }

    async fn foreground(
        &self,
        cx: &Context,
        invocation: &ToolInvocation,
        child: &SessionId,
        arguments: &Arguments,
        shown: &mut Shown,
    ) -> Result<ToolOutput, ToolError> {
        let subagents = &self.subagents;
        let is_replay = subagents.is_replay(&invocation.invocation_id);
        if subagents.turns.available_permits() == 0 {
            // Nobody asks anything in a child that waits for its turn.
            subagents.is_back(&invocation.invocation_id);
        }
        let turn = cx.run(subagents.turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(interrupted(shown, "it had not begun"));
        };
        let id = &invocation.invocation_id;
        let asked = subagents.ask(cx, id, child, &arguments.prompt).await?;
        shown.details.operation_id.clone_from(&asked.operation);
        // Before what is there already is counted: nothing falls between the two.
        let events = subagents.sessions.events(child);
        if is_replay && let Some(prompt) = asked.prompt.clone() {
            let sessions = &subagents.sessions;
            let counted = shown.count_since(cx, sessions, child, prompt).await;
            if let Err(error) = counted {
                // A child that had not begun has not made a call either.
                tracing::debug!(session = %child, %error, "what a subagent did before is not counted");
            }
        }
        shown.status(SubagentStatus::Running);
        let ended = match events {
            Some(events) => tokio::select! {
                ended = subagents.ended(cx, &asked) => ended,
                () = shown.follow(events) => unreachable!("it has no end"),
            },
            None => subagents.ended(cx, &asked).await,
        };
        let outcome = match ended {
            Ok(outcome) => outcome,
            Err(_) if cx.is_cancelled() => {
                return Err(interrupted(
                    shown,
                    "what it has done so far is in its session",
                ));
            }
            Err(error) => return Err(failed(child, &error.to_string())),
        };
        let (status, text) = subagents.report(cx, child, outcome.as_ref()).await;
        shown.details.status = status;
        match status {
            SubagentStatus::Completed => Ok(output(text, &shown.details)),
            _ => Err(ToolError::Failed {
                message: text,
                details: details(&shown.details),
            }),
        }
    }
}

fn output(text: String, shown: &SubagentDetails) -> ToolOutput {
    ToolOutput::text(text).with_details(details(shown))
}

impl Tool for SubagentTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute(
        &self,
        cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let id = invocation.invocation_id.clone();
            let ran = self.run(&cx, invocation).await;
            self.subagents.is_back(&id);
            ran
        })
    }

    fn accesses(&self, _arguments: &Value, _directory: &Path) -> Option<Vec<Access>> {
        // What the child does is judged there.
        Some(Vec::new())
    }
}
