//! Facet hooks as harness hooks.

use std::sync::Arc;

use bezel_api_session::backend::{AnyHook, HookGuard};
use bezel_api_session::{ApproveTool, BeforeTool, RequestDraft, ToolCallView};
use bezel_harness::{
    Approval, Harness, HookError, PendingAnswer, PendingCall, PendingRequest, RequestPatch,
    SettledCall, ToolPatch, ToolVerdict,
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
        AnyHook::ApproveTool(hook) => Box::new(hooks.approve_tool(plugin, move |cx, call| {
            let verdict = hook(cx, view(&call));
            async move {
                Ok(match verdict.await.map_err(failed)? {
                    ApproveTool::Allow => Approval::Allow,
                    ApproveTool::Deny(reason) => Approval::Deny { reason },
                })
            }
        })),
        AnyHook::AfterTool(hook) => {
            Box::new(hooks.after_tool(plugin, move |cx, settled: SettledCall| {
                // A failed call has no output to change.
                let change = (!settled.result.is_error).then(|| {
                    let output = ToolOutput {
                        content: settled.result.content.clone(),
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
                        content, details, ..
                    } = change.await.map_err(failed)?;
                    Ok(ToolPatch {
                        content: Some(content),
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
                        system: request.system.to_string(),
                        messages: request.messages.to_vec(),
                        options: request.options,
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
    }
}

fn view(call: &PendingCall) -> ToolCallView {
    ToolCallView {
        invocation: call.invocation_id.clone(),
        tool: Arc::clone(&call.tool),
        arguments: Arc::clone(&call.arguments),
    }
}

fn failed(error: bezel_api_session::FacetError) -> HookError {
    HookError::new(error.to_string())
}
