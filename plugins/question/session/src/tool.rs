//! The tool.

use std::path::Path;
use std::sync::Arc;

use bezel_api_session::DurableRequests;
use bezel_context::Context;
use bezel_question_contract::{QuestionDetails, QuestionRequest, QuestionResponse};
use bezel_session_types::{
    Access, ExecutionMode, Replay, Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec,
};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

const DESCRIPTION: &str = r#"
Ask users a question and wait for an answer.

- Ask only what you cannot find out yourself and what changes what you do next: a choice between ways that differ, a missing fact, leave to do something that cannot be undone.
- Ask one thing at a time. Give two to five options, the one that you advise first; the user can always write something else.
- A label is a few words; the description says what follows from the choice.
- The user may be away: the question waits. Where you can do other work first, do it first.
"#;

/// Asks, and says what was answered.
pub(crate) struct QuestionTool {
    spec: ToolSpec,
    requests: DurableRequests<QuestionRequest, QuestionResponse>,
}

impl QuestionTool {
    pub(crate) fn new(requests: DurableRequests<QuestionRequest, QuestionResponse>) -> Self {
        let text = |description: &str| json!({ "type": "string", "description": description });
        let option = json!({
            "type": "object",
            "properties": {
                "label": text("A few words."),
                "description": text("What follows from this choice. Leave it out where the label says it."),
            },
            "required": ["label"],
        });
        let parameters = json!({
            "type": "object",
            "properties": {
                "question": text("The question, in plain words. Markdown."),
                "options": {
                    "type": "array",
                    "description": "What can be chosen, in order.",
                    "items": option,
                },
            },
            "required": ["question"],
        });
        QuestionTool {
            spec: ToolSpec {
                label: "Question".into(),
                description: DESCRIPTION.trim().into(),
                parameters: Arc::new(parameters),
                output: None,
                execution_mode: ExecutionMode::Sequential,
                replay: Replay::Safe,
            },
            requests,
        }
    }
}

impl Tool for QuestionTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute(
        &self,
        cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let asked = QuestionRequest::deserialize(&*invocation.arguments).map_err(|error| {
                ToolError::failed(format!(
                    "The question cannot be asked: {error}. Call it again with a question and options."
                ))
            })?;
            if asked.options.is_empty() {
                return Ok(result(&asked, None, false, "No options provided".into()));
            }
            let id = &invocation.invocation_id;
            match self.requests.wait(&cx, id, &asked).await? {
                QuestionResponse::Cancelled => Ok(result(
                    &asked,
                    None,
                    false,
                    "User cancelled the question".into(),
                )),
                QuestionResponse::Custom { answer } => {
                    let text = format!("User wrote: {answer}");
                    Ok(result(&asked, Some(answer), true, text))
                }
                QuestionResponse::Selected { index } => {
                    let place = usize::try_from(index).unwrap_or(usize::MAX);
                    let Some(selected) = asked.options.get(place) else {
                        return Err(ToolError::failed(
                            "Question response selected an invalid option",
                        ));
                    };
                    let text = format!("User selected: {}. {}", place + 1, selected.label);
                    let answer = selected.label.clone();
                    Ok(result(&asked, Some(answer), false, text))
                }
            }
        })
    }

    fn accesses(&self, _arguments: &Value, _directory: &Path) -> Option<Vec<Access>> {
        Some(Vec::new())
    }
}

fn result(
    asked: &QuestionRequest,
    answer: Option<String>,
    was_custom: bool,
    text: String,
) -> ToolOutput {
    let details = QuestionDetails {
        question: asked.question.clone(),
        options: asked
            .options
            .iter()
            .map(|option| option.label.clone())
            .collect(),
        answer,
        was_custom,
    };
    ToolOutput::text(text)
        .with_details(serde_json::to_value(details).expect("the details have text keys"))
}
