//! Facet hooks as harness hooks.

use std::sync::Arc;

use bezel_api_session::backend::{AnyHook, HookGuard};
use bezel_api_session::{
    ApproveTool, BeforeTool, CompactionVerdict, Evaluation, NavigationVerdict, PendingCompaction,
    PendingNavigation, RequestDraft, RunEnding, RunPass, RunStart, ToolApproval, ToolCallView,
};
use bezel_harness::{
    Approval, EndingRun, Harness, HookError, PendingAnswer, PendingApproval, PendingCall,
    PendingRequest, RequestPatch, SettledCall, StartingPass, StartingRun, ToolPatch, ToolVerdict,
};
use bezel_session_types::ToolOutput;

/// Registers a facet's hook; dropping the guard takes it out.
pub(crate) fn register(harness: &Harness, plugin: &str, hook: AnyHook) -> HookGuard {
    let hooks = harness.hooks();
    match hook {
        AnyHook::BeforeTool(hook) => Box::new(hooks.before_tool(plugin, move |cx, call| {
            let verdict = hook(cx, view(&call));
            async move {
                Ok(match verdict.await.map_err(failed)? {
                    BeforeTool::Continue => ToolVerdict::Continue,
                    BeforeTool::Arguments(arguments) => ToolVerdict::Replace(arguments),
                    BeforeTool::Block(reason) => ToolVerdict::Block { reason },
                })
            }
        })),
        AnyHook::EvaluatePermission(hook) => Box::new(hooks.evaluate_permission(
            plugin,
            move |cx, call: PendingApproval| {
                let said = hook(cx, approval(call));
                async move {
                    use bezel_harness::Evaluation as Harness;
                    Ok(match said.await.map_err(failed)? {
                        Evaluation::Nothing => Harness::Nothing,
                        Evaluation::Allow => Harness::Allow,
                        Evaluation::Ask(reason) => Harness::Ask { reason },
                        Evaluation::Deny(reason) => Harness::Deny { reason },
                    })
                }
            },
        )),
        AnyHook::ApproveTool(hook) => Box::new(hooks.approve_tool(
            plugin,
            move |cx, call: PendingApproval| {
                let verdict = hook(cx, approval(call));
                async move {
                    Ok(match verdict.await.map_err(failed)? {
                        ApproveTool::Allow => Approval::Allow,
                        ApproveTool::Deny(reason) => Approval::Deny { reason },
                        ApproveTool::End(reason) => Approval::End { reason },
                    })
                }
            },
        )),
        AnyHook::ToolEnded(hook) => {
            Box::new(hooks.tool_ended(plugin, move |cx, call: PendingCall| {
                let ended = hook(cx, view(&call));
                async move { ended.await.map_err(failed) }
            }))
        }
        AnyHook::AfterTool(hook) => {
            Box::new(hooks.after_tool(plugin, move |cx, settled: SettledCall| {
                // A failed call has no output to change.
                let change = (!settled.result.is_error).then(|| {
                    let output = ToolOutput {
                        content: settled.result.content.clone(),
                        structured: settled.result.structured.clone(),
                        details: settled.result.details.clone(),
                        changes: Vec::new(),
                    };
                    hook(cx, view(&settled.call), output)
                });
                async move {
                    let Some(change) = change else {
                        return Ok(ToolPatch::default());
                    };
                    let ToolOutput {
                        content,
                        structured,
                        details,
                        ..
                    } = change.await.map_err(failed)?;
                    Ok(ToolPatch {
                        content: Some(content),
                        structured: Some(structured),
                        details: Some(details),
                        is_error: None,
                    })
                }
            }))
        }
        AnyHook::BeforeRequest(hook) => Box::new(hooks.before_request(
            plugin,
            move |cx, request: PendingRequest| {
                let change = hook(
                    cx,
                    RequestDraft {
                        step: request.step,
                        system: request.system.to_string(),
                        messages: request.messages.to_vec(),
                        options: request.options,
                        preview: request.preview,
                    },
                );
                async move {
                    let draft = change.await.map_err(failed)?;
                    Ok(RequestPatch {
                        system: Some(draft.system.into()),
                        messages: Some(draft.messages.into()),
                        options: Some(draft.options),
                    })
                }
            },
        )),
        AnyHook::AfterResponse(hook) => Box::new(hooks.after_response(
            plugin,
            move |cx, answer: PendingAnswer| {
                let change = hook(cx, Arc::unwrap_or_clone(answer.message));
                async move { change.await.map(Some).map_err(failed) }
            },
        )),
        AnyHook::BeforePass(hook) => {
            Box::new(hooks.before_pass(plugin, move |cx, pass: StartingPass| {
                let pass = RunPass {
                    operation: pass.operation_id,
                    resumed: pass.resumed,
                };
                let verdict = hook(cx, pass);
                async move { verdict.await.map_err(failed) }
            }))
        }
        AnyHook::BeforeRun(hook) => {
            Box::new(hooks.before_run(plugin, move |cx, start: StartingRun| {
                let operation = start.operation_id;
                let more = hook(cx, RunStart { operation });
                async move { more.await.map_err(failed) }
            }))
        }
        AnyHook::BeforeRunEnd(hook) => {
            Box::new(hooks.before_run_end(plugin, move |cx, ending: EndingRun| {
                let ending = RunEnding {
                    operation: ending.operation_id,
                    message: ending.message,
                };
                let more = hook(cx, ending);
                async move { more.await.map_err(failed) }
            }))
        }
        AnyHook::BeforeCompaction(hook) => Box::new(hooks.before_compaction(
            plugin,
            move |cx, pending: bezel_harness::PendingCompaction| {
                let pending = PendingCompaction {
                    operation: pending.operation_id,
                    reason: pending.reason,
                    messages: pending.messages,
                };
                let verdict = hook(cx, pending);
                async move {
                    use bezel_harness::CompactionVerdict as Harness;
                    Ok(match verdict.await.map_err(failed)? {
                        CompactionVerdict::Proceed => Harness::Proceed,
                        CompactionVerdict::Decline(reason) => Harness::Decline { reason },
                        CompactionVerdict::Supply(summary) => Harness::Supply { summary },
                    })
                }
            },
        )),
        AnyHook::BeforeNavigation(hook) => Box::new(hooks.before_navigation(
            plugin,
            move |cx, pending: bezel_harness::PendingNavigation| {
                let pending = PendingNavigation {
                    operation: pending.operation_id,
                    target: pending.target,
                    messages: pending.messages,
                };
                let verdict = hook(cx, pending);
                async move {
                    use bezel_harness::NavigationVerdict as Harness;
                    Ok(match verdict.await.map_err(failed)? {
                        NavigationVerdict::Proceed => Harness::Proceed,
                        NavigationVerdict::Decline(reason) => Harness::Decline { reason },
                        NavigationVerdict::Supply(summary) => Harness::Supply { summary },
                    })
                }
            },
        )),
    }
}

fn approval(pending: PendingApproval) -> ToolApproval {
    use bezel_harness::Evaluation as Harness;
    ToolApproval {
        invocation: pending.call.invocation_id,
        tool: pending.call.tool,
        arguments: pending.call.arguments,
        accesses: pending.accesses,
        evaluation: match pending.evaluation {
            Harness::Nothing => Evaluation::Nothing,
            Harness::Allow => Evaluation::Allow,
            Harness::Ask { reason } => Evaluation::Ask(reason),
            Harness::Deny { reason } => Evaluation::Deny(reason),
        },
    }
}

fn view(call: &PendingCall) -> ToolCallView {
    ToolCallView {
        invocation: call.invocation_id.clone(),
        tool: Arc::clone(&call.tool),
        arguments: Arc::clone(&call.arguments),
        replay: call.replay,
    }
}

fn failed(error: bezel_api_session::FacetError) -> HookError {
    HookError::new(error.to_string())
}
